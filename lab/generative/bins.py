"""Records in public bins, and counts of boxes of bins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.quantise import STEPS, Quantiser
from sfumato.shared.errors import ConfigError

MOST_CELLS: Final = 1 << 20
"""Cells of a table over all columns: 8 MiB of counts."""
_MOST_BINS: Final = 1 << 12
_PLACES: Final = 2 * STEPS + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Bins:
    """Bins of equal width in a public box; the bin of a value depends on that value alone.

    Parameters
    ----------
    lower, upper
        Shape ``(d,)``, the public bounds, data units; values beyond them are in the last bins.
    n_bins
        Bins of each column. A column of numbered levels 0 to B - 1 has the bounds 0 and B - 1 and
        B bins.

    Raises
    ------
    ConfigError
        A number of bins is out of range, or there is not one for each column.
    """

    lower: Floats
    upper: Floats
    n_bins: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.n_bins) != len(self.lower) or not all(
            1 <= b <= _MOST_BINS for b in self.n_bins
        ):
            raise ConfigError(
                f"must be {len(self.lower)} numbers from 1 to {_MOST_BINS}",
                field="n_bins",
                fix="state one for each column, such as 16",
            )
        _ = self._quantiser

    @cached_property
    def _quantiser(self) -> Quantiser:
        return Quantiser.from_bounds(self.lower, self.upper)

    @property
    def n_dimensions(self) -> int:
        """The number of columns d."""
        return len(self.n_bins)

    def find(self, records: NDArray[np.floating]) -> Integers:
        """Find the bins of the records that lack no value: shape ``(n, d)``."""
        steps, is_whole = self._quantiser.quantise(records)
        places = steps[is_whole].astype(np.int64) + STEPS
        found: Integers = places * np.array(self.n_bins) // _PLACES
        return found

    def place(self, bins: Integers, rng: np.random.Generator) -> Floats:
        """Place records in bins, evenly: shape ``(n, d)``, data units."""
        shares = (bins + rng.random(bins.shape)) / np.array(self.n_bins)
        placed: Floats = self.lower + shares * (self.upper - self.lower)
        return placed

    def count_cells(self, bins: Integers) -> Integers:
        """Count the records of each cell: shape ``n_bins``.

        Raises
        ------
        ConfigError
            There are more cells than a table can hold.
        """
        self.require_table()
        cells = np.ravel_multi_index(tuple(bins.T), self.n_bins)
        counts = np.bincount(cells, minlength=math.prod(self.n_bins))
        return counts.reshape(self.n_bins).astype(np.int64)

    def require_table(self) -> None:
        """Refuse more cells than a table can hold with a ``ConfigError``."""
        n_cells = math.prod(self.n_bins)
        if n_cells > MOST_CELLS:
            size = f"2^{math.log2(n_cells):.0f}"
            raise ConfigError(
                f"make {size} cells over {self.n_dimensions} columns, and a table has at most "
                f"{MOST_CELLS}",
                field="n_bins",
                fix="use fewer bins or columns, or a method without a table of all columns",
            )


def draw_boxes(n_bins: tuple[int, ...], n_boxes: int, rng: np.random.Generator) -> Integers:
    """Draw boxes over one to all columns: shape ``(q, d, 2)``, first bin and one past the last."""
    d = len(n_bins)
    boxes = np.tile([[0, b] for b in n_bins], (n_boxes, 1, 1)).astype(np.int64)
    for box in boxes:
        for i in rng.choice(d, size=rng.integers(1, d + 1), replace=False):
            low, high = np.sort(rng.integers(0, n_bins[i], size=2))
            box[i] = low, high + 1
    return boxes


def count_boxes(table: NDArray[Any], boxes: Integers) -> NDArray[Any]:
    """Return the sum of a table over boxes: shape ``(q,)``; exact for integers.

    Parameters
    ----------
    table
        One axis for each column.
    boxes
        Shape ``(q, d, 2)``.
    """
    d = table.ndim
    sums = np.pad(table, [(1, 0)] * d)
    for axis in range(d):
        np.cumsum(sums, axis=axis, out=sums)
    found = np.zeros(len(boxes), dtype=table.dtype)
    for corner in np.ndindex(*(2,) * d):
        sign = -1 if (d - sum(corner)) % 2 else 1
        found += sign * sums[tuple(boxes[:, i, side] for i, side in enumerate(corner))]
    return found
