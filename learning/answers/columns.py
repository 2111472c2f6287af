"""Columns that questions are about: the coordinate of one, its step, its distribution if known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.answers.cells import Part, list_cells
from sfumato.learning.answers.densities import (
    Transform,
    clip_interval,
    compute_all_quantiles,
    compute_distribution,
    pool,
)
from sfumato.learning.answers.distribution import Distribution, combine
from sfumato.learning.calibration.steps import choose_step
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.estimate.histogram import Marginal
from sfumato.shared.core.logarithm import compress, expand
from sfumato.shared.plan import SketchPlan

__all__ = ["AskedColumn", "Ends", "make_column"]

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
    parts
        The same in the column's distribution; nothing without one.
    """

    places: Floats
    parts: tuple[Part, ...] = ()


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
    cut
        The bounds of the plan, data units, beyond which that histogram goes on.
    """

    name: str
    axis: int
    posterior: Posterior
    scale: float
    resolution: float | None
    step: float | None
    distribution: Distribution | None
    cut: tuple[float, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether it is known how records lie below what the sketch blurs."""
        return self.distribution is not None or self.step is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """The box, on the scale of the coordinate."""
        return float(self.posterior.lower[self.axis]), float(self.posterior.upper[self.axis])

    @property
    def data_bounds(self) -> tuple[float, float]:
        """The box, in data units."""
        lower, upper = self.bounds
        return self.show(lower), self.show(upper)

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
        # A range between two values holds none, and one outside the box hardly any.
        if low > upper or high < lower or (self.step and low >= high):
            return None
        width, least = min(high, upper) - max(low, lower), _NARROW * self.scale
        return None if width >= least else (least, max(0.0, width))

    def find_ends(self, low: float, high: float) -> Ends | None:
        """Find a range, both ends included, in the densities; None where it can hold no record.

        Where the distribution is known, a place is where as many records lie below it.
        """
        n_draws = self.posterior.n_draws
        if self.distribution is None:
            low, high = self._widen(low, high)
            if low > high:
                return None
            own = clip_interval(self.posterior, self.axis, low, high)
            places = np.repeat([[own.low], [own.high]], n_draws, axis=1)
            return None if own.is_empty else Ends(places=places)
        cells = self.distribution.cells
        parts = cells.find_part(low, includes=False), cells.find_part(high, includes=True)
        heights = np.array([self.distribution.find_heights(part) for part in parts])
        return Ends(places=self._find_places(heights), parts=parts)

    def show_quantile(self, place: float) -> float:
        """Return the value, in data units, that a quantile of the densities stands for."""
        value = self.show(place)
        if not self.step:
            return value
        return math.ceil(value / self.step - 0.5 - _ROUND) * self.step

    def make_transform(self) -> Transform | None:
        """Return the function from the coordinate to values; None where both are the same.

        Where the distribution is known, a value is that below which as many records lie; where a
        step is, the nearest one with it.
        """
        resolution, distribution, step = self.resolution, self.distribution, self.step

        def show(places: Floats) -> Floats:
            values = places if resolution is None else expand(places, resolution)
            return np.round(values / step) * step if step else values

        if distribution is None:
            return show if step or resolution is not None else None
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
        if self.step:
            lower, upper = self.data_bounds
            reach = 2.0 * self.step
            if low >= lower - reach:
                low = (math.ceil(min(low, upper + reach) / self.step - _ROUND) - 0.5) * self.step
            if high <= upper + reach:
                high = (math.floor(max(high, lower - reach) / self.step + _ROUND) + 0.5) * self.step
        return self.place(low), self.place(high)


def make_column(
    plan: SketchPlan,
    posterior: Posterior,
    number: int,
    axis: int,
    *,
    step: float | None,
    histogram: Marginal | None,
) -> AskedColumn:
    """Make a column of a plan in densities.

    Parameters
    ----------
    number, axis
        Numbers of the dimension, and of its coordinate.
    step
        The step of its values, where the plan states none.
    histogram
        Its noised histogram of the same records, if there is one.
    """
    dimension, scale = plan.dimensions[number], float(plan.scale[axis])
    resolution = plan.axes[axis].resolution
    step = step if dimension.step is None else dimension.step
    distribution: Distribution | None = None
    cut: tuple[float, ...] = ()
    if histogram is not None:
        cut = _find_cut(histogram, dimension.bounds)
        cells = list_cells(histogram, choose_step(histogram, step), dimension.bounds)
        distribution = combine(
            cells, histogram.n_present, posterior, axis, scale=scale, resolution=resolution
        )
    return AskedColumn(
        name=dimension.name,
        axis=axis,
        posterior=posterior,
        scale=scale,
        resolution=resolution,
        step=step,
        distribution=distribution,
        cut=cut,
    )


def _find_cut(histogram: Marginal, bounds: tuple[float, float]) -> tuple[float, ...]:
    """Find the bounds of a plan that lie a bin or more inside of a histogram."""
    edges = histogram.data_edges
    inner = zip(bounds, (edges[1] <= bounds[0], edges[-2] >= bounds[1]), strict=True)
    return tuple(bound for bound, is_cut in inner if is_cut)
