"""Counts of the cells of a grid: the statistic for clusters in few dimensions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Bools, Integers
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.records import Records
from sfumato.shared.core.statistics.interface import CountingStatistic
from sfumato.shared.errors import PlanError

MOST_GRID_DIMENSIONS = 4
MOST_CELLS = 1 << 18


@dataclass(frozen=True, kw_only=True, eq=False)
class GridStatistic(CountingStatistic):
    """Counts of records in the joint cells of all coordinates, then of unsketchable records.

    With quantised coordinates u the cell of coordinate i is ``((u_i + 32767) m_i) div 65535``, from
    0 to ``m_i - 1``. Cells are numbered row by row: the last coordinate varies fastest. Values
    outside the box count in the outermost cells. Every record adds 1 to exactly one number: a
    record with a missing value to the last one.

    Parameters
    ----------
    quantiser, encoder
        As of ``PlainStatistic``.
    cells
        m_i of each coordinate: 1 to 4 of them, with a product of at most 2^18.

    Raises
    ------
    PlanError
        Too many coordinates or cells, or not one number of cells a coordinate.
    """

    cells: tuple[int, ...]

    def __post_init__(self) -> None:
        d = self.quantiser.n_dimensions
        if d > MOST_GRID_DIMENSIONS:
            raise PlanError(
                f"must have at most {MOST_GRID_DIMENSIONS} coordinates and has {d}",
                field="dimensions",
                fix="use the statistic 'fourier'; each level of a category is a coordinate",
            )
        if len(self.cells) != d or min(self.cells) < 1:
            raise PlanError(
                f"must be one positive number for each of the {d} coordinates",
                field="statistic.cells",
            )
        if math.prod(self.cells) > MOST_CELLS:
            raise PlanError(
                f"must have a product of at most {MOST_CELLS}",
                field="statistic.cells",
                fix="use fewer cells: empty ones cost noise",
            )

    @property
    def n_cells(self) -> int:
        """The number of cells, without the place of unsketchable records."""
        return math.prod(self.cells)

    @property
    def n_coordinates(self) -> int:
        """Cells, and the place of unsketchable records."""
        return self.n_cells + 1

    @cached_property
    def identity(self) -> bytes:
        """SHA-256 of all that decides the cell of a record."""
        box = self.quantiser.centre.tolist(), self.quantiser.half_width.tolist()
        encodings = self.encoder.dimensions if self.encoder else None
        return hashlib.sha256(repr(("grid", *box, self.cells, encodings)).encode()).digest()

    def find_cells(self, steps: NDArray[np.int16], sketchable: Bools) -> Integers:
        """Return the cell of each quantised record: the definition in NumPy.

        Parameters
        ----------
        steps, sketchable
            Shape ``(n, d)`` and ``(n,)``, of ``Quantiser.quantise``.

        Returns
        -------
        NDArray
            Shape ``(n,)``, from 0 to ``n_cells``.
        """
        place = locate_cells(steps, self.cells)
        place[~sketchable] = self.n_cells
        return place

    def sum_records(self, records: Records, sums: Integers) -> int:
        """Count each record; see ``PlainStatistic``."""
        for steps, present in self.quantiser.quantise_parts(records):
            cells = self.find_cells(steps, np.logical_and.reduce(present, axis=1))
            sums += np.bincount(cells, minlength=self.n_coordinates)
        return 0


def locate_cells(steps: NDArray[np.int16], cells: Sequence[int]) -> Integers:
    """Return the cell of each quantised record, shape ``(n, d)``, in a grid of any dimension."""
    place = np.zeros(len(steps), dtype=np.int64)
    for i, m in enumerate(cells):
        place = place * m + (steps[:, i].astype(np.int64) + STEPS) * m // (2 * STEPS + 1)
    return place
