"""Windows of a study in the coordinates of its statistics, and simulated years of them.

In the p = k (d + 2) coordinates ``J Sw^-1 s``, in a basis in which T_moved is a weighted sum of
squares, a window is p numbers, and a simulated year is cheap: see
:mod:`sfumato.learning.insight.years`.
Where the directed statistics cannot be trusted, see
:func:`sfumato.learning.insight.statistics.trusts_directions`, the coordinates are all features, and
the statistic is T_all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from sfumato.learning.insight.comparison import N_DRAWS, require_disjoint, require_filled
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import Errors, Selection, SelectionMean, average
from sfumato.learning.insight.statistics import PRIOR, Statistics, compute_sigma, trusts_directions
from sfumato.learning.insight.weeks import place_stretches, subtract_weeks
from sfumato.learning.insight.years import MOST_NUMBERS, FullSimulator, Simulator
from sfumato.shared.errors import DecodingError

__all__ = ["Contrasts", "Timeline", "follow"]

_YEARS_AT_A_TIME: Final = 100
_LEAST_WINDOWS: Final = 2
_NOTHING: Final = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Contrasts:
    """Differences between weighted means of windows.

    Parameters
    ----------
    weights
        One contrast a row: shape ``(R, T)``, each summing to 0.
    spreads
        Variance of each contrast, in that of a typical window: shape ``(R,)``.
    """

    weights: Floats
    spreads: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """Windows in order, in the coordinates of the statistics that count.

    Parameters
    ----------
    model
        Model of the study: fitted to all windows together.
    windows
        At least two, disjoint.
    phases
        The place of each in the week, of :func:`sfumato.learning.insight.weeks.find_phases`, if
        windows are compared by weekday.
    """

    model: StudyModel
    windows: tuple[SelectionMean, ...]
    phases: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.windows) < _LEAST_WINDOWS:
            raise DecodingError(
                f"must be at least 2 and are {len(self.windows)}",
                field="windows",
                fix="wait for another window",
            )

    def cut(self, first: int, stop: int) -> Timeline:
        """Return a stretch of the windows."""
        return self.choose(range(first, stop))

    def choose(self, places: Sequence[int]) -> Timeline:
        """Return some of the windows."""
        return Timeline(
            model=self.model,
            windows=tuple(self.windows[i] for i in places),
            phases=None if self.phases is None else tuple(self.phases[i] for i in places),
        )

    def find_borrowed(self, begins: Sequence[int], stretches: Sequence[int]) -> list[bool]:
        """Return whether each window but the first has no other of its weekday in its stretch.

        Then it is compared by the pattern of an earlier stretch. A window that begins a stretch is
        compared with that itself.
        """
        n = len(self.windows)
        if self.phases is None:
            return [False] * (n - 1)
        stretch = place_stretches(n, stretches).tolist()
        counts = Counter(zip(stretch, self.phases, strict=True))
        return [
            stretch[begins[t - 1]] == stretch[t] and counts[stretch[t], self.phases[t]] == 1
            for t in range(1, n)
        ]

    @cached_property
    def _typical_errors(self) -> Errors:
        every = [window.errors for window in self.windows]
        return Errors(
            noise=np.mean([errors.noise for errors in every], axis=0),
            sampling=np.mean([errors.sampling for errors in every], axis=0),
            counting=np.mean([errors.counting for errors in every], axis=0),
            factors=(),
            gaussian=np.zeros(every[0].noise.size),
        )

    @cached_property
    def _typical(self) -> Statistics:
        sigma = compute_sigma(self.model, self._typical_errors)
        return Statistics(model=self.model, sigma=sigma)

    @cached_property
    def _basis(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of H: shapes ``(p,)`` and ``(p, p)``."""
        values, vectors = np.linalg.eigh(self._typical.information)
        return np.maximum(values, 0.0), vectors

    @cached_property
    def projection(self) -> Floats:
        """From features to the directed coordinates: shape ``(p, 2 m)``."""
        projection: Floats = self._basis[1].T @ self._typical.projection
        return projection

    @cached_property
    def _covariance(self) -> Floats:
        """The covariance of the directed coordinates of a typical window: shape ``(p, p)``."""
        covariance: Floats = self.projection @ self._typical.sigma @ self.projection.T
        return covariance

    @cached_property
    def is_directed(self) -> bool:
        """Whether the statistics are T_moved and T_single; otherwise it is T_all alone.

        Judged for the longest contrast, in which the most directions count.
        """
        if self.model.is_fitted:
            return True
        values, _ = self._basis
        emphasis = 1.0 / (values + float(np.min(self.splits.spreads)) / PRIOR**2)
        block_of = np.tile(self.model.plan.blocks.block_of, 2)
        errors = self._typical_errors
        other = self.projection**2 @ errors.noise[block_of]
        for block, variance in enumerate(errors.counting.tolist()):
            own = np.where(block_of == block, self.model.features, 0.0)
            other += variance * (self.projection @ own) ** 2
        covariance = self._covariance
        return trusts_directions(
            self.model,
            sampling=float(emphasis @ (np.diag(covariance) - other)),
            deviation=math.sqrt(2.0 * float(emphasis @ covariance**2 @ emphasis)),
        )

    @cached_property
    def coordinates(self) -> Floats:
        """The windows: shape ``(T, p)``, or ``(T, 2 m)`` where T_all counts."""
        features = np.array([window.features for window in self.windows])
        return features @ self.projection.T if self.is_directed else features

    @cached_property
    def _energies(self) -> Floats:
        """The trace of each window's covariance: shape ``(T,)``."""
        block_of = np.tile(self.model.plan.blocks.block_of, 2)
        variances, squares = np.diag(self.model.covariance), self.model.features**2
        return np.array(
            [
                np.sum(
                    each.errors.noise[block_of]
                    + each.errors.sampling[block_of] * variances
                    + each.errors.counting[block_of] * squares
                )
                for each in self.windows
            ]
        )

    @cached_property
    def spreads(self) -> Floats:
        """Variance of each window, in that of a typical one: shape ``(T,)``."""
        spreads: Floats = self._energies / np.mean(self._energies)
        return spreads

    def contrast(self, begins: Sequence[int], stretches: Sequence[int] = ()) -> Contrasts:
        """Each window but the first against those before it, from the window that begins them.

        Where windows are compared by weekday, without the pattern of a week; ``stretches`` are the
        first windows after the changes beside which it is the same.
        """
        weights = np.tril(np.tile(1.0 / self.spreads, (len(self.windows), 1)), -1)[1:]
        weights[np.arange(len(self.windows)) < np.array(begins)[:, None]] = 0.0
        weights /= -np.sum(weights, axis=1, keepdims=True)
        weights[:, 1:] += np.eye(len(self.windows) - 1)
        if self.phases is not None:
            stretch = place_stretches(len(self.windows), stretches)
            is_within = stretch[1:] == stretch[np.array(begins)]
            is_own = is_within & ~np.array(self.find_borrowed(begins, stretches))
            weights = np.where(
                is_own[:, None],
                weights @ subtract_weeks(self.phases, self.spreads, stretches),
                weights @ subtract_weeks(self.phases, self.spreads, stretches, borrows=True),
            )
            # A window that alone differs has a part in its own effect: as if it had none.
            own = np.diagonal(weights, 1)
            weights /= np.where(is_within & (own > _NOTHING), own, 1.0)[:, None]
        return self._measure_contrasts(weights)

    @cached_property
    def splits(self) -> Contrasts:
        """All windows from each but the first on against all before."""
        weights = np.tile(1.0 / self.spreads, (len(self.windows), 1))
        before, after = np.tril(weights, -1)[1:], np.triu(weights)[1:]
        before /= np.sum(before, axis=1, keepdims=True)
        after /= np.sum(after, axis=1, keepdims=True)
        return self._measure_contrasts(after - before)

    @cached_property
    def weekly_splits(self) -> Contrasts:
        """As :attr:`splits`, by weekday where windows are compared so."""
        if self.phases is None:
            return self.splits
        kept = subtract_weeks(self.phases, self.spreads)
        return self._measure_contrasts(self.splits.weights @ kept)

    def contrast_stretches(self, ends: Sequence[int], *, by_weekday: bool = False) -> Contrasts:
        """Each stretch but the first against the one before; stretches end where the next begins.

        ``ends`` are the first window of each stretch, and the number of windows.
        """
        means = np.zeros((len(ends) - 1, len(self.windows)))
        for row, (first, stop) in enumerate(pairwise(ends)):
            shares = 1.0 / self.spreads[first:stop]
            means[row, first:stop] = shares / np.sum(shares)
        steps = np.diff(means, axis=0)
        if by_weekday and self.phases is not None:
            steps = steps @ subtract_weeks(self.phases, self.spreads, ends[:-1], borrows=True)
        return self._measure_contrasts(steps)

    def _measure_contrasts(self, weights: Floats) -> Contrasts:
        # One that the pattern of a week explains whole is 0, up to rounding.
        return Contrasts(weights=weights, spreads=np.maximum(_NOTHING, weights**2 @ self.spreads))

    def measure(self, coordinates: Floats, contrasts: Contrasts) -> Floats:
        """Compute the statistics of contrasts of windows of shape ``(..., T, p)``.

        T_moved and T_single, shape ``(..., 2, R)``; or T_all, shape ``(..., 1, R)``. With a
        covariance c times that of a typical window, T_moved is
        ``sum_i d_i^2 / (c (h_i + c / s^2))``.
        """
        differences = np.matmul(contrasts.weights, coordinates)
        if not self.is_directed:
            energies: Floats = np.einsum("...rp,...rp->...r", differences, differences)
            return energies[..., None, :]
        values, vectors = self._basis
        c = contrasts.spreads[:, None]
        moved: Floats = np.einsum(
            "...rp,rp->...r", differences**2, 1.0 / (c * (values + c / PRIOR**2))
        )
        single = np.empty_like(moved)
        for r, spread in enumerate(contrasts.spreads.tolist()):
            gain = vectors / (values + spread / PRIOR**2)
            errors = np.sqrt(spread * np.einsum("pi,pi->p", gain @ self._covariance, gain))
            scores = differences[..., r, :] @ (gain / errors[:, None]).T
            single[..., r] = np.max(np.abs(scores), axis=-1)
        return np.stack([moved, single], axis=-2)

    def measure_sizes(self, contrasts: Contrasts) -> Floats:
        """Compute the equivalent common shift of each contrast: shape ``(R,)``."""
        features = np.array([window.features for window in self.windows])
        differences = contrasts.weights @ features
        excess = np.sum(differences**2, axis=1) - contrasts.weights**2 @ self._energies
        sizes: Floats = np.sqrt(np.maximum(0.0, excess) / self.model.energy_per_shift)
        return sizes

    def simulate(
        self, contrasts: Contrasts, *, rng: np.random.Generator, n_years: int = N_DRAWS
    ) -> Floats:
        """Draw the statistics of contrasts in years without a change.

        Shape ``(n_years, 2, R)``, or ``(n_years, 1, R)`` where T_all counts.
        """
        simulator = (
            Simulator(self.model, self.windows, self.projection, rng)
            if self.is_directed
            else FullSimulator(self.model, self.windows, rng)
        )
        fitting = MOST_NUMBERS // self.coordinates.size
        step = max(1, min(_YEARS_AT_A_TIME, fitting))
        parts = [
            self.measure(simulator.draw(min(step, n_years - start)), contrasts)
            for start in range(0, n_years, step)
        ]
        return np.concatenate(parts)


def follow(model: StudyModel, selections: Sequence[Selection]) -> Timeline:
    """Average the windows of a study, in order.

    To follow a study after an accepted change, leave out the windows before it.

    Raises
    ------
    WrongStatisticError, DecodingError
        As in :func:`sfumato.learning.insight.comparison.compare`; or there are fewer than two
        windows.
    """
    for i, selection in enumerate(selections):
        require_filled(selection)
        for earlier in selections[:i]:
            require_disjoint(earlier, selection)
    return Timeline(model=model, windows=tuple(average(model.plan, each) for each in selections))
