"""Marginal histograms: the statistic that shows where the values of each dimension lie."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.encoder import DimensionEncoding, RecordEncoder
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.records import Columns, Records, list_parts
from sfumato.shared.core.statistics.interface import CountingStatistic
from sfumato.shared.errors import PlanError

if TYPE_CHECKING:
    from sfumato.shared.core.engines import SketchEngine

MOST_BINS_LOG2 = 12
_WORD = 16
_BEYOND = 3
"""Bins after the inner ones of a number: below, above, missing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HistogramStatistic(CountingStatistic):
    """Counts of each dimension's bins, dimension by dimension.

    A number has ``2^b + 3`` bins: ``2^b`` inner ones of equal width on the scale of the dimension,
    then below the box, above it, and missing. With ``t = 32767 (T(x) - centre) / half_width`` and
    ``u = round(t)`` the inner bin is ``(u + 32768) >> (16 - b)``. A categorical dimension has a bin
    a level, then missing. Every record adds 1 to exactly one bin of each dimension, so none is
    unsketchable. Missing values are counted as such, never imputed.

    Parameters
    ----------
    quantiser
        One interval a dimension, on its scale: of ``RecordEncoder.transform_bounds``.
    bins_log2
        b of each dimension, 1 to 12; 0 for a categorical one.
    encoder
        Scales and levels of the dimensions; None if all are linear.
    dimensions
        The public dimensions that the sketch carries, ascending; None if it carries all.

    Raises
    ------
    PlanError
        The parts do not fit each other.
    """

    bins_log2: tuple[int, ...]
    dimensions: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        d = self.n_dimensions
        if len(self.encodings) != d or len(self.bins_log2) != d:
            raise PlanError(
                f"must have one entry for each of the {d} dimensions", field="statistic.bins_log2"
            )
        for index, (encoding, bits) in enumerate(zip(self.encodings, self.bins_log2, strict=True)):
            if encoding.n_levels is not None and bits != 0:
                raise PlanError(
                    "must be 0, because the dimension has levels",
                    field=f"statistic.bins_log2[{index}]",
                    fix="set it to 0: each level is a bin",
                )
            if encoding.n_levels is None and not 1 <= bits <= MOST_BINS_LOG2:
                raise PlanError(
                    f"must be 1 to {MOST_BINS_LOG2}",
                    field=f"statistic.bins_log2[{index}]",
                    fix="use 8; 10 with 1000 records times epsilon or more",
                )
        carried = self.carried
        if not carried or list(carried) != sorted(set(carried) & set(range(d))):
            raise PlanError(
                f"must be ascending numbers from 0 to {d - 1}", field="statistic.dimensions"
            )

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d of a record."""
        return self.quantiser.n_dimensions

    @cached_property
    def encodings(self) -> tuple[DimensionEncoding, ...]:
        """The rule of each dimension."""
        encoder = self.encoder or RecordEncoder.linear(self.n_dimensions)
        return encoder.dimensions

    @property
    def carried(self) -> tuple[int, ...]:
        """The dimensions that the sketch carries."""
        return tuple(range(self.n_dimensions)) if self.dimensions is None else self.dimensions

    def count_bins(self, dimension: int) -> int:
        """Return the number of bins of a dimension, with those beyond the box and the missing."""
        n_levels = self.encodings[dimension].n_levels
        if n_levels is not None:
            return n_levels + 1
        return (1 << self.bins_log2[dimension]) + _BEYOND

    def arrange_bins(self, dimension: int) -> tuple[int, ...]:
        """Return the bins of a dimension in the order in which they lie on a circle.

        A number's go round by value: the inner ones, above, missing, below. So the places next to
        the lowest and the highest inner bins are those below and above the box.
        """
        n = self.count_bins(dimension)
        if self.encodings[dimension].n_levels is not None:
            return tuple(range(n))
        return (*range(n - _BEYOND), n - 2, n - 1, n - 3)

    @cached_property
    def bins(self) -> dict[int, slice]:
        """The place of each carried dimension's bins among the coordinates."""
        places, start = {}, 0
        for dimension in self.carried:
            stop = start + self.count_bins(dimension)
            places[dimension] = slice(start, stop)
            start = stop
        return places

    @property
    def n_coordinates(self) -> int:
        """Bins of all carried dimensions."""
        return sum(self.count_bins(dimension) for dimension in self.carried)

    @cached_property
    def identity(self) -> bytes:
        """SHA-256 of all that decides the bin of a value."""
        box = self.quantiser.centre.tolist(), self.quantiser.half_width.tolist()
        rule = ("histogram", *box, self.bins_log2, self.encodings, self.carried)
        return hashlib.sha256(repr(rule).encode()).digest()

    @property
    def n_counted(self) -> int:
        """A record is in one bin of each carried dimension."""
        return len(self.carried)

    def find_bins(self, column: NDArray[np.floating], dimension: int) -> Integers:
        """Return the bin of each value of a dimension: the definition in NumPy.

        Parameters
        ----------
        column
            Shape ``(n,)``, float32 or float64, data units.
        dimension
            Its number.

        Returns
        -------
        NDArray
            Shape ``(n,)``, from 0 to ``count_bins(dimension) - 1``.
        """
        encoding, missing = self.encodings[dimension], self.count_bins(dimension) - 1
        x = encoding.transform(column).astype(np.float64)
        present = np.isfinite(x)
        if encoding.n_levels is not None:
            return np.where(present, x, missing).astype(np.int64)
        bits = self.bins_log2[dimension]
        scale = STEPS / self.quantiser.half_width[dimension]
        with np.errstate(over="ignore", invalid="ignore"):
            t = (x - self.quantiser.centre[dimension]) * scale
        inner = np.rint(np.clip(np.where(present, t, 0.0), -STEPS, STEPS)).astype(np.int64)
        bins: Integers = (inner + (STEPS + 1)) >> (_WORD - bits)
        bins[t < -STEPS] = 1 << bits
        bins[t > STEPS] = (1 << bits) + 1
        bins[~present] = missing
        return bins

    def compute_edges(self, dimension: int) -> Floats:
        """Return the edges of the inner bins of a number: shape ``(2^b + 1,)``, on its scale.

        The outer edges are the box. An inner edge lies between the quantisation steps that it
        parts.
        """
        bits = self.bins_log2[dimension]
        t = np.arange((1 << bits) + 1) * float(1 << (_WORD - bits)) - (STEPS + 1.5)
        t = np.clip(t, -STEPS, STEPS)
        step = self.quantiser.half_width[dimension] / STEPS
        edges: Floats = self.quantiser.centre[dimension] + t * step
        return edges

    def add_records(
        self, records: Records, *, first_record: int, sums: Integers, engine: SketchEngine
    ) -> int:
        """Count each record in a bin of each carried dimension; see ``Statistic``."""
        del first_record  # every record is counted alike
        return engine.add(records, self, sums=sums)

    def sum_records(self, records: Records, sums: Integers) -> int:
        """Count each record; see ``PlainStatistic``."""
        for part in list_parts(records, self.n_dimensions):
            columns = part.columns if isinstance(part, Columns) else part.T
            for dimension, place in self.bins.items():
                bins = self.find_bins(columns[dimension], dimension)
                sums[place] += np.bincount(bins, minlength=self.count_bins(dimension))
        return 0
