"""Simulated years without a change: the errors of all windows, with the radii of K-norm noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.null_law import draw_unit_noise
from sfumato.learning.insight.selection import SelectionMean
from sfumato.shared.plan import SketchPlan

__all__ = ["MOST_NUMBERS", "FullSimulator", "Simulator"]

_POOL: Final = 20_000
"""Projected noises of single sketches, from which simulated windows choose."""
MOST_NUMBERS: Final = 4_000_000
"""Largest number of float64 values drawn at a time, 32 MB."""
_ENERGY_DRAWS: Final = 4000


class FullSimulator:
    """Draws the errors of all windows, in the eigenbasis of one record's covariance.

    Noise with a radius is Gaussian noise with a variance of its own in each sketch, up to moments
    of higher order; its law is then the same in every basis.
    """

    def __init__(
        self, model: StudyModel, windows: Sequence[SelectionMean], rng: np.random.Generator
    ) -> None:
        self._windows, self._rng = windows, rng
        plan, m = model.plan, model.plan.n_frequencies
        self._variance = plan.released_variance
        self._n_coordinates = 2 * m
        n_draws = max(100, min(_ENERGY_DRAWS, MOST_NUMBERS // (2 * plan.frequencies_per_sketch)))
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


class Simulator:
    """Draws the errors of all windows in projected coordinates."""

    def __init__(
        self,
        model: StudyModel,
        windows: Sequence[SelectionMean],
        projection: Floats,
        rng: np.random.Generator,
    ) -> None:
        self._windows, self._rng = windows, rng
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
    step = max(1, MOST_NUMBERS // projection.shape[1])
    parts = [
        draw_unit_noise(plan, min(step, _POOL - start), rng) @ projection.T
        for start in range(0, _POOL, step)
    ]
    return np.concatenate(parts)


def _compress(root: Floats) -> Floats:
    """Return a factor of the same covariance with no more columns than rows."""
    return np.asarray(np.linalg.qr(root.T, mode="r")).T
