"""Stretches of a column's values that a noised histogram tells apart, and places among them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.calibration.steps import count_multiples
from sfumato.learning.estimate.histogram import Marginal

__all__ = ["Cells", "Part", "list_cells"]

Floats = NDArray[np.float64]
_MOST_CELLS: Final = 512
_ROUND: Final = 1e-9
_EXACT: Final = 1e-15


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """The values below a place: all of the first cells, and a part of the next.

    ``is_cut`` where the histogram does not tell how many records of that cell lie below.
    """

    cell: int
    share: float
    is_cut: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Stretches of values that a histogram tells apart, ascending, in data units.

    Parameters
    ----------
    first, last
        The first and the last value of each, or its edges where values have no step: ``(J,)``.
    step
        Distance of neighbouring values; 0 without one.
    counts, noise
        Records of each, and the variance of the noise of that: shape ``(J,)``.
    n_hidden
        Standard deviation of the noise among values that are no multiples of the step: as many
        records may be there, and in no cell.
    """

    first: Floats
    last: Floats
    step: float
    counts: Floats
    noise: Floats
    n_hidden: float = 0.0

    @property
    def n_cells(self) -> int:
        """J."""
        return len(self.first)

    @property
    def middles(self) -> Floats:
        """The middle of each cell: shape ``(J,)``."""
        return (self.first + self.last) / 2.0

    @property
    def widths(self) -> Floats:
        """How far apart the values of each cell may lie: shape ``(J,)``."""
        return self.last - self.first

    @property
    def borders(self) -> Floats:
        """Places between neighbouring cells: shape ``(J - 1,)``."""
        return (self.last[:-1] + self.first[1:]) / 2.0

    @property
    def whole(self) -> tuple[Part, Part]:
        """The two places between which all values are."""
        last = Part(cell=self.n_cells - 1, share=1.0, is_cut=False)
        return Part(cell=0, share=0.0, is_cut=False), last

    def find_part(self, place: float, *, includes: bool) -> Part:
        """Find the values below a place, or with ``includes`` those at it too."""
        low, high = float(self.first[0]), float(self.last[-1])
        if place < low or (place == low and not includes):
            return Part(cell=0, share=0.0, is_cut=False)
        if place > high or (place == high and includes):
            return Part(cell=self.n_cells - 1, share=1.0, is_cut=False)
        if self.step > 0.0:
            return self._find_values(place, includes=includes)
        side = "right" if includes else "left"
        cell = max(0, int(np.searchsorted(self.first, place, side)) - 1)  # type: ignore[call-overload]
        width = float(self.widths[cell])
        share = min(1.0, (place - float(self.first[cell])) / width) if width > 0.0 else 1.0
        # A value that is commoner than others may stand at the place itself.
        return Part(cell=cell, share=share, is_cut=share < 1.0)

    def _find_values(self, place: float, *, includes: bool) -> Part:
        number = place / self.step
        leeway = max(_ROUND, _EXACT * abs(number))
        whole = math.floor(number + leeway) if includes else math.ceil(number - leeway) - 1
        last_value = whole * self.step
        half = self.step / 2.0
        cell = int(np.searchsorted(self.first, last_value + half, side="right")) - 1
        if cell < 0:
            return Part(cell=0, share=0.0, is_cut=False)
        most = max(1, round(float(self.widths[cell]) / self.step) + 1)
        below = round((last_value - float(self.first[cell])) / self.step) + 1
        share = min(1.0, max(0.0, below / most))
        return Part(cell=cell, share=share, is_cut=share < 1.0)


def list_cells(found: Marginal, step: float, bounds: tuple[float, float]) -> Cells:
    """Return the cells of a histogram, for values that are multiples of a step; 0 for any values.

    Parameters
    ----------
    bounds
        Those of the column in the plan, data units. Records beyond them, and beyond those of the
        histogram, stand on them.
    """
    edges = found.data_edges
    lower, upper = max(bounds[0], float(edges[0])), min(bounds[1], float(edges[-1]))
    if not lower < upper:
        lower, upper = float(edges[0]), float(edges[-1])
    middles = (edges[1:] + edges[:-1]) / 2.0
    is_below, is_above = middles <= lower, middles >= upper
    is_inside = ~(is_below | is_above)
    variance = found.noise.variance
    first = np.clip(edges[:-1], lower, upper)[is_inside]
    last = np.clip(edges[1:], lower, upper)[is_inside]
    counts = found.bins[is_inside]
    noise = np.full(len(counts), variance)
    n_hidden = 0.0
    beyond = (
        (found.below + float(np.sum(found.bins[is_below])), 1 + int(np.sum(is_below))),
        (found.above + float(np.sum(found.bins[is_above])), 1 + int(np.sum(is_above))),
    )
    if step > 0.0 and len(counts):
        starts, n_values = count_multiples(np.append(first, last[-1]), step)
        kept = np.flatnonzero(n_values)
        if len(kept) >= 2:
            first, last = starts[kept], starts[kept] + (n_values[kept] - 1.0) * step
            n_hidden = math.sqrt(variance * (len(counts) - len(kept)))
            counts, noise = counts[kept], noise[kept]
        else:
            step = 0.0
    merged = max(1, -(-len(counts) // _MOST_CELLS))
    begins = np.arange(0, len(counts), merged)
    ends = np.minimum(begins + merged, len(counts)) - 1
    columns = [
        first[begins],
        last[ends],
        np.add.reduceat(counts, begins) if len(begins) else counts,
        np.add.reduceat(noise, begins) if len(begins) else noise,
    ]
    for place, (count, n_bins), at in ((lower, beyond[0], 0), (upper, beyond[1], -1)):
        columns = _stand_on(columns, place, count, n_bins * variance, at, step)
    return Cells(
        first=columns[0],
        last=columns[1],
        step=step,
        counts=columns[2],
        noise=columns[3],
        n_hidden=n_hidden,
    )


def _stand_on(
    columns: list[Floats], bound: float, count: float, variance: float, at: int, step: float
) -> list[Floats]:
    """Add the records that stand on a bound: to the cell of that value, or as one of their own."""
    first, last, counts, noise = columns
    if step > 0.0 and len(first) and abs(first[at] - bound) <= step / 2.0 >= last[at] - first[at]:
        counts, noise = counts.copy(), noise.copy()
        counts[at] += count
        noise[at] += variance
        return [first, last, counts, noise]
    place = 0 if at == 0 else len(first)
    added = ((first, bound), (last, bound), (counts, count), (noise, variance))
    return [np.insert(values, place, value) for values, value in added]
