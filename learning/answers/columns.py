"""The columns that questions are about: their coordinates, steps, and distributions if known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.answers.densities import (
    Transform,
    clip_interval,
    compute_all_quantiles,
    compute_distribution,
    pool,
)
from sfumato.learning.answers.distribution import Distribution, Part
from sfumato.learning.decoding.density import Posterior
from sfumato.shared.core.logarithm import compress, expand

__all__ = ["AskedColumn", "Ends"]

Floats = NDArray[np.float64]
_NARROW: Final = 0.5
_BEYOND: Final = 3.0
"""How far beyond the box a place is searched that the densities have there, in its widths."""
_NONE: Final = 1e-9
_N_POINTS: Final = 1024
_ROUND: Final = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Ends:
    """A range of a column, as places in the densities.

    Parameters
    ----------
    places
        Lower and upper end under each draw: shape ``(2, n)``, infinite at a bound of the box.
    low, high
        The same in the column's distribution; None without one.
    """

    places: Floats
    low: Part | None = None
    high: Part | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedColumn:
    """A column of numbers in the densities.

    Parameters
    ----------
    name, axis
        Its name, and the coordinate that it is.
    posterior
        The densities.
    scale, resolution
        The plan's scale of the coordinate, and r of its logarithm; None for none.
    step
        Distance of neighbouring values, none of which is far commoner than those beside it; 0 for
        values without a step, None where nobody has said.
    distribution
        The distribution of its values, where a histogram of the same records is known.
    """

    name: str
    axis: int
    posterior: Posterior
    scale: float
    resolution: float | None
    step: float | None
    distribution: Distribution | None

    @property
    def is_known(self) -> bool:
        """Whether it is known how records lie below what the sketch blurs."""
        return self.distribution is not None or self.step is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """The box, on the scale of the coordinate."""
        return float(self.posterior.lower[self.axis]), float(self.posterior.upper[self.axis])

    def place(self, value: float) -> float:
        """Return a value in data units on the scale of the coordinate; infinite ones stay so."""
        if self.resolution is None or math.isinf(value):
            return value
        return float(compress(np.array(value), self.resolution))

    def show(self, place: float) -> float:
        """Return a place on the scale of the coordinate in data units."""
        if self.resolution is None:
            return place
        return float(expand(np.array(place), self.resolution))

    def measure_lack(self, low: float, high: float) -> tuple[float, float] | None:
        """Return what the width of a range must be and is, where the sketch blurs it; else None."""
        if self.distribution is not None:
            return None
        (low, high), (lower, upper) = self._widen(low, high), self.bounds
        if low > upper or high < lower:
            return None
        width, least = min(high, upper) - max(low, lower), _NARROW * self.scale
        return None if width >= least else (least, max(0.0, width))

    def find_ends(self, low: float, high: float) -> Ends | None:
        """Find a range, both ends included, in the densities; None where it can hold no record.

        Where the distribution is known, a place is where as many records lie below it.
        """
        n_draws = self.posterior.n_draws
        if self.distribution is None:
            own = clip_interval(self.posterior, self.axis, *self._widen(low, high))
            places = np.repeat([[own.low], [own.high]], n_draws, axis=1)
            return None if own.is_empty else Ends(places=places)
        parts = [
            self.distribution.cells.find_part(low, includes=False),
            self.distribution.cells.find_part(high, includes=True),
        ]
        heights = np.array([self.distribution.find_heights(part) for part in parts])
        return Ends(places=self._find_places(heights), low=parts[0], high=parts[1])

    def show_quantile(self, place: float) -> float:
        """Return the value, in data units, that a quantile of the densities stands for."""
        value = self.show(place)
        if not self.step:
            return value
        return math.ceil(value / self.step - 0.5 - _ROUND) * self.step

    def make_transform(self) -> Transform | None:
        """Return the function from the coordinate to values; None where both are the same.

        Where the distribution is known, a value is that below which as many records lie.
        """
        resolution, distribution = self.resolution, self.distribution
        if distribution is None:
            return None if resolution is None else lambda places: expand(places, resolution)
        points = np.linspace(*self.bounds, _N_POINTS)
        heights, _ = pool(self.posterior, compute_distribution(self.posterior, self.axis, points))
        values = distribution.find_values(heights)
        return lambda places: np.interp(places, points, values)

    def _find_places(self, heights: Floats) -> Floats:
        """Return the places under which some shares of each draw lie: shapes ``(2, n)``."""
        inside = np.clip(heights, _NONE, 1.0 - _NONE)
        found = compute_all_quantiles(self.posterior, self.axis, inside.T, reach=_BEYOND).T
        found = np.where(heights <= _NONE, -np.inf, found)
        places: Floats = np.where(heights >= 1.0 - _NONE, np.inf, found)
        return np.array([places[0], np.maximum(places[0], places[1])])

    def _widen(self, low: float, high: float) -> tuple[float, float]:
        """Return the places half a step outside of the outermost values in a range."""
        if self.step and not math.isinf(low):
            low = (math.ceil(low / self.step - _ROUND) - 0.5) * self.step
        if self.step and not math.isinf(high):
            high = (math.floor(high / self.step + _ROUND) + 0.5) * self.step
        return self.place(low), self.place(high)
