"""Histograms and grids in a plan: counts, of which every record adds 1 to some."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core import FrequencyBlocks, GridStatistic, HistogramStatistic
from sfumato.shared.plan.dimensions import MOST_LEVELS, MOST_ONE_HOT, RecordSpace, require
from sfumato.shared.plan.statistics.interface import SINGLE_BLOCK, StatisticPart
from sfumato.shared.privacy.mechanisms.bins import BinCircle

MOST_BINS = 1 << 21
"""Coordinates of all dimensions together."""
MOST_REPORTED_LOG2 = 10
"""The largest b with reports: the arc has many bins then, and the server's work grows with them."""


@dataclass(frozen=True, kw_only=True)
class HistogramPart(StatisticPart):
    """A histogram of each dimension by itself.

    Parameters
    ----------
    kind
        ``histogram``.
    bins_log2
        b of each dimension, 1 to 12: ``2^b`` bins of equal width on its scale; 0 with levels, each
        of which is a bin.
    dimensions_per_sketch
        A divisor of d: dimensions that one sketch carries, and has noise for. Below d all
        dimensions must have the same number of bins.
    """

    kind: Literal["histogram"] = "histogram"
    bins_log2: tuple[int, ...]
    dimensions_per_sketch: int

    def require_valid(self, space: RecordSpace) -> None:
        """Check the chosen fields; raise ``PlanError`` where one breaks its rule."""
        space.require_valid(has_scale=False, most_levels=MOST_LEVELS)
        whole = self.build_whole(space)  # checks the bins
        require(
            whole.n_coordinates <= MOST_BINS,
            "bins_log2",
            f"give {whole.n_coordinates} bins; at most {MOST_BINS} are allowed",
            "use fewer dimensions or bins",
        )
        d, q = space.n_dimensions, self.dimensions_per_sketch
        require(
            1 <= q <= d and d % q == 0,
            "dimensions_per_sketch",
            f"must be a divisor of the number of dimensions ({d}) and is {q}",
            "choose a divisor, or leave it out to carry every dimension",
        )
        require(
            q == d or len({whole.count_bins(i) for i in range(d)}) == 1,
            "dimensions_per_sketch",
            "must be left out where dimensions differ in their number of bins",
            "give all the same bins_log2, and ask for categories in another study",
        )

    def require_reportable(self, space: RecordSpace) -> None:
        """Check that one law serves all dimensions; raise ``PlanError`` otherwise."""
        whole, d = self.build_whole(space), space.n_dimensions
        kinds = {(whole.count_bins(i), whole.encodings[i].n_levels is not None) for i in range(d)}
        require(
            len(kinds) == 1,
            "bins_log2",
            "must be the same for all dimensions with phase reports, all numbers or all levels: "
            "they share one law",
            "ask for categories in another study",
        )
        require(
            max(self.bins_log2) <= MOST_REPORTED_LOG2,
            "bins_log2",
            f"must be at most {MOST_REPORTED_LOG2} with phase reports, which blur more bins",
            "use 8",
        )

    def arrange_bins(self, space: RecordSpace) -> tuple[BinCircle, bool]:
        """Return the circle of the bins, and whether neighbours on it hold neighbouring values."""
        whole = self.build_whole(space)
        return BinCircle(order=whole.arrange_bins(0)), whole.encodings[0].n_levels is None

    def get_blocks(self, space: RecordSpace) -> FrequencyBlocks:
        """Return the blocks of dimensions."""
        return replace(
            SINGLE_BLOCK,
            n_frequencies=space.n_dimensions,
            frequencies_per_sketch=self.dimensions_per_sketch,
        )

    def build_whole(self, space: RecordSpace) -> HistogramStatistic:
        """Return the histograms of all dimensions."""
        return HistogramStatistic(
            quantiser=space.column_quantiser, bins_log2=self.bins_log2, encoder=space.encoder
        )

    def find_places(self, space: RecordSpace) -> Integers:
        """Return the bins of each block's dimensions."""
        bins = self.build_whole(space).bins
        places = [
            np.concatenate([np.arange(bins[i].start, bins[i].stop) for i in members])
            for members in self.get_blocks(space).members.tolist()
        ]
        return np.array(places, dtype=np.int64)

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> HistogramStatistic:
        """Return the statistic of one window: its block of dimensions."""
        carried = self.get_blocks(space).members[block].tolist()
        return HistogramStatistic(
            quantiser=space.column_quantiser,
            bins_log2=self.bins_log2,
            encoder=space.encoder,
            dimensions=tuple(carried),
        )

    def list_needed(self, space: RecordSpace) -> tuple[int, ...]:
        """Return none: what is missing is counted too."""
        return ()

    def find_counted(self, space: RecordSpace, *, block: int) -> tuple[slice, ...]:
        """Return the bins of each dimension that the block carries."""
        return tuple(self.build(space, stream_id=b"", block=block).bins.values())

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds."""
        return "counts of the records in the bins of each dimension"


@dataclass(frozen=True, kw_only=True)
class GridPart(StatisticPart):
    """A joint histogram over all axes.

    Parameters
    ----------
    kind
        ``grid``.
    cells
        Cells along each axis, at most 4 axes and 2^18 cells; an axis is a number or a level.
    """

    kind: Literal["grid"] = "grid"
    cells: tuple[int, ...]

    def require_valid(self, space: RecordSpace) -> None:
        """Check the chosen fields; raise ``PlanError`` where one breaks its rule."""
        space.require_valid(has_scale=False, most_levels=MOST_ONE_HOT)
        self.build(space, stream_id=b"", block=0)  # checks the cells

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> GridStatistic:
        """Return the statistic; it is the same in every window."""
        return GridStatistic(quantiser=space.quantiser, cells=self.cells, encoder=space.encoder)

    def list_needed(self, space: RecordSpace) -> tuple[int, ...]:
        """Return none: what is missing is counted too."""
        return ()

    def find_counted(self, space: RecordSpace, *, block: int) -> tuple[slice, ...]:
        """Return all cells."""
        return (slice(0, self.build(space, stream_id=b"", block=0).n_coordinates),)

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds."""
        return "counts of the records in the cells of a grid"
