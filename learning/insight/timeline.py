"""Windows of a study in the coordinates of its statistics, and simulated years of them.

In the p = k (d + 2) coordinates ``J Sw^-1 s``, in a basis in which T_moved is a weighted sum of
squares, a window is p numbers, and a simulated year is cheap. The simulated years have the radii of
K-norm noise. Where the directed statistics cannot be trusted, see
:func:`sfumato.learning.insight.statistics.trusts_directions`, the coordinates are all features, and
the statistic is T_all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from sfumato.learning.insight.comparison import N_DRAWS, require_disjoint, require_filled
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.null_law import draw_unit_noise
from sfumato.learning.insight.selection import Errors, Selection, SelectionMean, average
from sfumato.learning.insight.statistics import PRIOR, Statistics, compute_sigma, trusts_directions
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan

__all__ = ["Contrasts", "Timeline", "follow"]

_POOL: Final = 20_000
"""Projected noises of single sketches, from which simulated windows choose."""
_YEARS_AT_A_TIME: Final = 100
_MOST_NUMBERS: Final = 4_000_000
"""Largest number of float64 values drawn at a time, 32 MB."""
_ENERGY_DRAWS: Final = 4000
_LEAST_WINDOWS: Final = 2


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
    """

    model: StudyModel
    windows: tuple[SelectionMean, ...]

    def __post_init__(self) -> None:
        if len(self.windows) < _LEAST_WINDOWS:
            raise DecodingError(
                f"must be at least 2 and are {len(self.windows)}",
                field="windows",
                fix="wait for another window",
            )

    def cut(self, first: int, stop: int) -> Timeline:
        """Return a stretch of the windows."""
        return Timeline(model=self.model, windows=self.windows[first:stop])

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

    @cached_property
    def prefixes(self) -> Contrasts:
        """Each window but the first against all before: independent where nothing changes."""
        return self.contrast([0] * (len(self.windows) - 1))

    def contrast(self, begins: Sequence[int]) -> Contrasts:
        """Each window but the first against those before it, from the window that begins them."""
        weights = np.tril(np.tile(1.0 / self.spreads, (len(self.windows), 1)), -1)[1:]
        weights[np.arange(len(self.windows)) < np.array(begins)[:, None]] = 0.0
        weights /= -np.sum(weights, axis=1, keepdims=True)
        weights[:, 1:] += np.eye(len(self.windows) - 1)
        return self._measure_contrasts(weights)

    @cached_property
    def splits(self) -> Contrasts:
        """All windows from each but the first on against all before."""
        weights = np.tile(1.0 / self.spreads, (len(self.windows), 1))
        before, after = np.tril(weights, -1)[1:], np.triu(weights)[1:]
        before /= np.sum(before, axis=1, keepdims=True)
        after /= np.sum(after, axis=1, keepdims=True)
        return self._measure_contrasts(after - before)

    def contrast_stretches(self, ends: Sequence[int]) -> Contrasts:
        """Each stretch but the first against the one before; stretches end where the next begins.

        ``ends`` are the first window of each stretch, and the number of windows.
        """
        means = np.zeros((len(ends) - 1, len(self.windows)))
        for row, (first, stop) in enumerate(pairwise(ends)):
            shares = 1.0 / self.spreads[first:stop]
            means[row, first:stop] = shares / np.sum(shares)
        return self._measure_contrasts(np.diff(means, axis=0))

    def _measure_contrasts(self, weights: Floats) -> Contrasts:
        return Contrasts(weights=weights, spreads=weights**2 @ self.spreads)

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
            _Simulator(self, self.projection, rng)
            if self.is_directed
            else _FullSimulator(self, rng)
        )
        fitting = _MOST_NUMBERS // self.coordinates.size
        step = max(1, min(_YEARS_AT_A_TIME, fitting))
        parts = [
            self.measure(simulator.draw(min(step, n_years - start)), contrasts)
            for start in range(0, n_years, step)
        ]
        return np.concatenate(parts)


class _FullSimulator:
    """Draws the errors of all windows, in the eigenbasis of one record's covariance.

    Noise with a radius is Gaussian noise with a variance of its own in each sketch, up to moments
    of higher order; its law is then the same in every basis.
    """

    def __init__(self, timeline: Timeline, rng: np.random.Generator) -> None:
        self._windows, self._rng = timeline.windows, rng
        model = timeline.model
        plan, m = model.plan, model.plan.n_frequencies
        self._variance = plan.released_variance
        self._n_coordinates = 2 * m
        n_draws = max(100, min(_ENERGY_DRAWS, _MOST_NUMBERS // (2 * plan.frequencies_per_sketch)))
        unit = draw_unit_noise(plan, n_draws, rng)
        # Relative variance of the energy of one sketch's noise, beyond that of Gaussian noise.
        energies = np.mean(unit**2, axis=1)
        self._excess = max(0.0, float(np.var(energies)) - 2.0 / unit.shape[1])
        self._blocks = []
        for members in plan.blocks.members:
            places = np.concatenate([members, m + members])
            values, vectors = np.linalg.eigh(model.covariance[np.ix_(places, places)])
            self._blocks.append((places, np.maximum(values, 0.0), model.features[places] @ vectors))

    def draw(self, n_years: int) -> Floats:
        """Draw some years: shape ``(n_years, T, 2 m)``."""
        rng = self._rng
        drawn = rng.standard_normal((n_years, len(self._windows), self._n_coordinates))
        for t, window in enumerate(self._windows):
            errors = window.errors
            for b, (places, values, phi) in enumerate(self._blocks):
                noise = np.full(n_years, float(errors.gaussian[b]))
                for factor in errors.factors[b].tolist():
                    noise += factor**2 * self._variance * self._draw_radii(n_years)
                own = drawn[:, t, places]
                own *= np.sqrt(noise[:, None] + errors.sampling[b] * values)
                if errors.counting[b]:
                    relative = math.sqrt(errors.counting[b]) * rng.standard_normal(n_years)
                    own += relative[:, None] * phi
                drawn[:, t, places] = own
        return drawn

    def _draw_radii(self, n: int) -> Floats:
        """Draw variances of the noise of single sketches, of mean 1."""
        if not self._excess:
            return np.ones(n)
        return self._rng.gamma(1.0 / self._excess, self._excess, n)


class _Simulator:
    """Draws the errors of all windows in projected coordinates."""

    def __init__(self, timeline: Timeline, projection: Floats, rng: np.random.Generator) -> None:
        self._windows, self._rng = timeline.windows, rng
        model = timeline.model
        plan, m = model.plan, model.plan.n_frequencies
        self._deviation = math.sqrt(plan.released_variance)
        self._n_coordinates = len(projection)
        self._roots: list[Floats] = []
        self._pools: list[Floats] = []
        self._noises: list[Floats] = []
        self._counts: list[Floats] = []
        for members in plan.blocks.members:
            places = np.concatenate([members, m + members])
            own = projection[:, places]
            # The covariance has no entries between blocks, and so has its factor.
            self._roots.append(_compress(own @ model.factor[np.ix_(places, places)]))
            self._pools.append(_draw_projected(plan, own, rng))
            self._noises.append(_compress(own))
            self._counts.append(own @ model.features[places])

    def draw(self, n_years: int) -> Floats:
        """Draw some years: shape ``(n_years, T, p)``."""
        rng, drawn = self._rng, np.zeros((n_years, len(self._windows), self._n_coordinates))
        for t, window in enumerate(self._windows):
            errors, own = window.errors, drawn[:, t]
            for b, root in enumerate(self._roots):
                chance = rng.standard_normal((n_years, root.shape[1]))
                own += math.sqrt(errors.sampling[b]) * chance @ root.T
                for factor in errors.factors[b].tolist():
                    chosen = rng.integers(_POOL, size=n_years)
                    own += factor * self._deviation * self._pools[b][chosen]
                if errors.gaussian[b]:
                    chance = rng.standard_normal((n_years, self._noises[b].shape[1]))
                    own += math.sqrt(errors.gaussian[b]) * chance @ self._noises[b].T
                if errors.counting[b]:
                    relative = math.sqrt(errors.counting[b]) * rng.standard_normal(n_years)
                    own += relative[:, None] * self._counts[b]
        return drawn


def _draw_projected(plan: SketchPlan, projection: Floats, rng: np.random.Generator) -> Floats:
    """Draw the projected noise of single sketches: shape ``(_POOL, p)``, a part at a time."""
    step = max(1, _MOST_NUMBERS // projection.shape[1])
    parts = [
        draw_unit_noise(plan, min(step, _POOL - start), rng) @ projection.T
        for start in range(0, _POOL, step)
    ]
    return np.concatenate(parts)


def _compress(root: Floats) -> Floats:
    """Return a factor of the same covariance with no more columns than rows."""
    return np.asarray(np.linalg.qr(root.T, mode="r")).T


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
