"""The clusters of given centres in a plan: a second look at records."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core import ClustersStatistic, FrequencyBlocks
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.core.statistics.clusters import Norm, Units
from sfumato.shared.plan.dimensions import MOST_ONE_HOT, RecordSpace, require
from sfumato.shared.plan.statistics.interface import SINGLE_BLOCK, StatisticPart
from sfumato.shared.structure import declared, member

MOST_COORDINATES = 1 << 21
Rows = tuple[tuple[int, ...], ...]


@declared
class ClustersPart(StatisticPart):
    """Counts, squared distances and residuals of the records nearest to each published centre.

    All coordinates are steps of the quantiser, from -32767 to 32767, of the axes of the columns: a
    number has one, a category one a level.
    """

    kind: Literal["clusters"] = member("`clusters`.", default="clusters")
    assigned: tuple[str, ...] = member("The columns by which a record finds its centre.")
    summed: tuple[str, ...] = member("The columns that are summed.", default=())
    centres: Rows = member("The k centres, in the assigned columns.", ((-9000,), (9000,)))
    weights: tuple[int, ...] = member(
        "The weight of a squared step on each assigned axis; all together below 2^31.", (1,)
    )
    cap: int = member(
        "A squared distance, with these weights, from which on records count alike.", 10**9
    )
    origins: Rows = member("For each centre, the point that residuals are taken from.", default=())
    radii: Rows = member(
        "For each centre and summed axis, the residual that counts as one unit of `residual`.",
        default=(),
    )
    units: Units = member("What a record adds at most to each kind of sum.")
    candidates: tuple[Rows, ...] = member(
        "Further sets of k centres, of which only the squared distance is summed.", default=()
    )
    clusters_per_sketch: int = member(
        "A divisor of k: the clusters that one sketch carries, and has noise for."
    )
    result: bytes = member(
        "SHA-256 of the published result that the centres come from; empty for none.", default=b""
    )
    norm: Norm = member(
        "The norm in which residuals are clipped, that of the noise. Derived.", default="l1"
    )

    @property
    def count_unit(self) -> int:
        """The number that a record adds to the count of its cluster."""
        return self.units.count

    def derive(self, space: RecordSpace, *, norm: str) -> ClustersPart:
        """Return the part with the norm of the noise."""
        return replace(self, norm="l2" if norm == "l2-squared" else "l1")

    def require_valid(self, space: RecordSpace) -> None:
        """Check the chosen fields; raise ``PlanError`` where one breaks its rule."""
        space.require_valid(has_scale=False, most_levels=MOST_ONE_HOT)
        names = [each.name for each in space.dimensions]
        for field in ("assigned", "summed"):
            stated = list(getattr(self, field))
            require(
                stated == [name for name in names if name in stated],
                f"statistic.{field}",
                "must be names of columns, in the order of the columns",
            )
        unused = set(names) - {*self.assigned, *self.summed}
        require(
            not unused,
            "dimensions",
            f"must be assigned or summed, and {', '.join(sorted(unused))} is neither",
            "leave the column out",
        )
        require(
            len(self.result) in (0, SEED_BYTES), "statistic.result", "must be 32 bytes, or empty"
        )
        k, r = len(self.centres), self.clusters_per_sketch
        require(
            k > 0 and 1 <= r <= k and k % r == 0,
            "statistic.clusters_per_sketch",
            f"must be a divisor of the number of centres ({k}) and is {r}",
            "use the number of centres, so that a sketch carries all",
        )
        require(
            bool(self.units.total) or not self.candidates,
            "statistic.candidates",
            "must be left out where units.total is 0: nothing of them is summed",
        )
        whole = self.build_whole(space)  # checks the numbers
        require(
            (self.units.presence > 0) == bool(whole.optional),
            "statistic.units.presence",
            "must be positive exactly where a summed column can be missing",
            "give the column a public value for missing ones, or count those that are there",
        )
        require(
            whole.n_coordinates <= MOST_COORDINATES,
            "statistic.centres",
            f"give {whole.n_coordinates} sums; at most {MOST_COORDINATES} are allowed",
            "use fewer clusters or columns",
        )

    def list_needed(self, space: RecordSpace) -> tuple[int, ...]:
        """Return the numbers of the assigned columns."""
        return tuple(i for i, each in enumerate(space.dimensions) if each.name in self.assigned)

    @cached_property
    def blocks(self) -> FrequencyBlocks:
        """The blocks of clusters, of which a sketch carries one; by default one block has all."""
        k, r = len(self.centres), self.clusters_per_sketch
        if r == k:
            return SINGLE_BLOCK
        return replace(SINGLE_BLOCK, n_frequencies=k, frequencies_per_sketch=r)

    def get_blocks(self, space: RecordSpace) -> FrequencyBlocks:
        """Return the blocks of clusters."""
        return self.blocks

    def build_whole(self, space: RecordSpace) -> ClustersStatistic:
        """Return the statistic of all clusters."""
        owners = [space.dimensions[axis.dimension] for axis in space.axes]
        summed = tuple(i for i, each in enumerate(owners) if each.name in self.summed)
        k, d, e = len(self.centres), sum(each.name in self.assigned for each in owners), len(summed)
        return ClustersStatistic(
            quantiser=space.quantiser,
            assigned=tuple(i for i, each in enumerate(owners) if each.name in self.assigned),
            summed=summed,
            optional=tuple(
                i
                for i in summed
                if owners[i].name not in self.assigned and owners[i].missing is None
            ),
            centres=_to_array("centres", self.centres, (k, d)),
            weights=_to_array("weights", self.weights, (d,)),
            cap=self.cap,
            origins=_to_array("origins", self.origins, (k, e)),
            radii=_to_array("radii", self.radii, (k, e)),
            units=self.units,
            norm=self.norm,
            candidates=_to_array("candidates", self.candidates, (len(self.candidates), k, d)),
            encoder=space.encoder,
        )

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> ClustersStatistic:
        """Return the statistic of one window: its block of clusters."""
        whole = self.build_whole(space)
        if self.blocks.n_blocks == 1:
            return whole
        return replace(whole, carried=tuple(self.blocks.members[block].tolist()))

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds."""
        return "numbers, spreads and sums of the records nearest to each published centre"


def _to_array(field: str, values: tuple[object, ...], shape: tuple[int, ...]) -> Integers:
    size = int(np.prod(shape))
    try:
        array = np.array(values if size else (), dtype=np.int64).reshape(shape)
    except (ValueError, OverflowError):
        array = None
    require(
        array is not None,
        f"statistic.{field}",
        f"must have {' times '.join(map(str, shape))} integers",
        "make the plan with `sfumato plan look`",
    )
    assert array is not None
    return array
