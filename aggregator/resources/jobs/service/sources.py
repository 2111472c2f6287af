"""The sums of single devices, or of parts of a secure sum, behind a snapshot.

A decode looks at what it owes to any one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Final

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.batches.store.batches import sum_batches
from sfumato.aggregator.resources.sketches.store.device_sums import sum_devices
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.snapshots.service.snapshots import is_of, split_batches
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.influence import LEAST_SOURCES, add_influence, rank_sources
from sfumato.shared.plan import SketchPlan

MOST_DEVICES: Final = 2_000
MOST_SKETCHES: Final = 50_000
"""The worker reads all of them. In a larger fleet no honest share of one device decides much."""
_UNKNOWN: Final = (
    "one device may have decided any cluster: the secure sum has too few parts to tell"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sources:
    """The sums of all devices of a snapshot, or of parts of its windows.

    Parameters
    ----------
    kind
        ``device`` or ``part``.
    totals
        Their sums; none where they cannot be told apart.
    """

    kind: str
    totals: Sequence[Totals]

    def measure_influence(
        self,
        plan: SketchPlan,
        solution: Solution,
        *,
        whole: Totals,
        seed: int,
        cancelled: Callable[[], bool],
    ) -> Solution:
        """Return the answer with the influence of one of them, and the verdict that follows.

        Raises
        ------
        DecodingCancelledError
            ``cancelled`` returned true.
        """
        verdict = solution.verdict
        if self.totals:
            return add_influence(
                plan,
                solution,
                self.totals,
                whole=whole,
                kind=self.kind,
                seed=seed,
                cancelled=cancelled,
            )
        if verdict is None:
            return solution
        return replace(
            solution, verdict=replace(verdict, sentence=f"{verdict.sentence}; {_UNKNOWN}")
        )


async def load_sources(
    transaction: Transaction, study: StudyRecord, plan: SketchPlan, snapshot: SnapshotRecord
) -> Sources | None:
    """Load the sums of the sources of a snapshot.

    Returns
    -------
    Sources or None
        None where they are too few or too many to look at, or no longer those of the snapshot.
    """
    if plan.kind != "fourier":
        return None
    if plan.sum_release is not None:
        return Sources(kind="part", totals=await _sum_parts(transaction, plan, snapshot))
    if not LEAST_SOURCES["device"] <= snapshot.n_devices <= MOST_DEVICES:
        return None
    if snapshot.n_sketches > MOST_SKETCHES:
        return None
    sums, members = await sum_devices(
        transaction,
        study.study_id,
        Selection(**snapshot.selection),
        layout=Layout.of(plan),
        received_until=snapshot.created,
    )
    if not is_of(snapshot, study, members=members) or any(each.n_dropped for each in sums):
        return None
    return Sources(kind="device", totals=[each.totals for each in sums])


async def load_side(
    transaction: Transaction,
    study_id: bytes,
    plan: SketchPlan,
    selections: Sequence[Selection],
    *,
    received_until: float,
) -> Mapping[bytes, Totals | None]:
    """Load the sums of each device over selections; None where a payload is no longer kept."""
    held: dict[bytes, Totals | None] = {}
    for selection in selections:
        sums, _ = await sum_devices(
            transaction,
            study_id,
            selection,
            layout=Layout.of(plan),
            received_until=received_until,
        )
        for each in sums:
            name = each.device.device_id
            found = None if each.n_dropped else each.totals
            if name in held:
                before = held[name]
                found = None if before is None or found is None else before + found
            held[name] = found
    return held


async def _sum_parts(
    transaction: Transaction, plan: SketchPlan, snapshot: SnapshotRecord
) -> Sequence[Totals]:
    """Return the sums of parts: of those that differ most in each window, and so on.

    A device is in another part of each window, so that one that lies in all of them is in the part
    that differs most, wherever that is.
    """
    windows: dict[tuple[int, str, int], list[Totals]] = defaultdict(list)
    batch_ids = split_batches(snapshot.batches)
    for batch, totals in await sum_batches(transaction, batch_ids, layout=Layout.of(plan)):
        windows[batch.slot, repr(sorted(batch.labels.items())), batch.number].append(totals)
    n_parts = min(map(len, windows.values()), default=0)
    if n_parts < LEAST_SOURCES["part"]:
        return []
    ordered = [
        [parts[i] for i in rank_sources(plan, reduce(add, parts), parts)]
        for parts in windows.values()
    ]
    return [reduce(add, [parts[i] for parts in ordered]) for i in range(n_parts)]
