"""Analyses: request, read, list, cancel, and their inputs for a worker."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sfumato.aggregator.answers.kind import Inputs, Kind, Part
from sfumato.aggregator.answers.registry import KINDS
from sfumato.aggregator.answers.timeline import join_windows
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.campaigns.store import find_sketch_study
from sfumato.aggregator.resources.jobs.record import AnalysisRecord
from sfumato.aggregator.resources.jobs.service.requests import RequestService, require_one_cluster
from sfumato.aggregator.resources.jobs.service.sources import (
    MOST_DEVICES,
    MOST_SKETCHES,
    load_side,
)
from sfumato.aggregator.resources.parts import Parts
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.sketches.record import DeviceSums
from sfumato.aggregator.resources.sketches.store.cells import find_slots
from sfumato.aggregator.resources.sketches.store.device_sums import sum_devices
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.snapshots.service.snapshots import Frozen, SnapshotService, is_of
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import list_accepted
from sfumato.learning.insight.history import History
from sfumato.learning.insight.spread import measure_spread
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import (
    ConfigError,
    DecodingError,
    NotFoundError,
    StoreError,
    WrongStatisticError,
)
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.analyses import AnalysisRequest, TimelineRequest

_DOMAIN = "sfumato/v1/analysis"


@dataclass(frozen=True, kw_only=True, eq=False)
class AnalysisWork:
    """The inputs of an analysis, and its computation."""

    kind: Kind[Any]
    request: Any
    inputs: Inputs

    def solve(self, *, progress: Callable[[float], None], cancelled: Callable[[], bool]) -> Any:
        """Compute the answer; raises as the kind does."""
        return self.kind.compute(self.inputs, self.request, progress=progress, cancelled=cancelled)

    def describe(self, answer: Any, *, seconds: float) -> dict[str, Any]:
        """Return the answer as a document."""
        return asdict(self.kind.describe(self.inputs, self.request, answer))

    async def complete(self, store: Store, answer: Any) -> Any:
        """Return the answer as it is."""
        return answer

    async def store(self, transaction: Transaction, answer: Any) -> None:
        """Store nothing more."""


class TimelineWork(AnalysisWork):
    """A timeline, which also looks in which devices its newest changes are."""

    async def complete(self, store: Store, answer: History) -> History:
        """Return the answer with the devices of its newest changes, where they can be told."""
        plan, parts = self.inputs.plan, self.inputs.parts
        snapshots = [part.snapshot for part in parts if part.snapshot is not None]
        is_hidden = plan.sum_release is not None or plan.is_split
        if is_hidden or max(each.n_devices for each in snapshots) > MOST_DEVICES:
            return answer
        until = max(each.created for each in snapshots)
        spreads = {}
        for window, sides in answer.newest.items():
            if sum(parts[i].n_sketches for side in sides for i in side) > MOST_SKETCHES:
                continue
            async with store.begin() as transaction:
                before, after = [
                    await load_side(
                        transaction,
                        snapshots[0].study_id,
                        plan,
                        join_windows(self.inputs, side),
                        received_until=until,
                    )
                    for side in sides
                ]
            pairs = [(before[name], after[name]) for name in sorted(before.keys() & after.keys())]
            devices = [(a, b) for a, b in pairs if a is not None and b is not None]
            spreads[window] = await asyncio.to_thread(
                measure_spread,
                answer.model,
                devices,
                n_unread=len(pairs) - len(devices),
                n_alone=len(before.keys() ^ after.keys()),
            )
        known = {window: each for window, each in spreads.items() if each is not None}
        return replace(answer, spreads=known)


class AnalysisService(RequestService[AnalysisRecord]):
    """Requests for analyses."""

    def __init__(self, parts: Parts, snapshots: SnapshotService) -> None:
        super().__init__(parts, snapshots, AnalysisRecord)

    async def create(
        self, study_id: bytes, request: AnalysisRequest
    ) -> tuple[AnalysisRecord, bool]:
        """Freeze the selections of an analysis and queue it; return whether it was queued now.

        The same request on the same sketches returns the same analysis; a failed or cancelled one
        is queued again.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        ConfigError
            A selection does not suit the study, or two share sketches.
        WrongStatisticError, DecodingError
            The analysis cannot be computed from these sketches.
        """
        kind = KINDS[request.kind]
        require_one_cluster(request.n_clusters)
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            slots = await find_slots(transaction, study_id)
            if isinstance(request, TimelineRequest) and request.accepted_slots is None:
                # Frozen like the sums: what is accepted later changes no analysis that was asked.
                accepted = await list_accepted(transaction, study_id)
                request = replace(
                    request, accepted_slots=sorted(each["first_slot"] for each in accepted)
                )
        plan = await self._plans.get(study)
        await self._require_sketches(study_id, plan)
        if kind.needs_devices and plan.sum_release is not None:
            raise DecodingError(
                "cannot look at single devices: with a secure sum no server has the sums of one",
                field="kind",
                fix="see `sfumato batch suspects` for parts that differ from the rest",
            )
        selections = kind.select(plan, request, slots)
        unshared = kind.find_shared(request)
        frozen = await self._snapshots.freeze(study_id, selections, unshared=unshared)
        look_id = getattr(request, "look", None)
        look = await self._find_look(look_id)
        if look is not None and look_id is not None:
            windows = plan.window, look.window
            frozen = await self._freeze_look(windows, bytes.fromhex(look_id), frozen, unshared)
        inputs = Inputs(plan=plan, parts=_name(kind, plan, request, frozen), look_plan=look)
        # In a thread: frequencies of a plan are many.
        await asyncio.to_thread(kind.require, inputs, request)
        record = AnalysisRecord(
            analysis_id=compute_analysis_id(study, kind, request, frozen),
            study_id=study_id,
            kind=request.kind,
            version=kind.version,
            request=asdict(request),
            inputs=[_to_document(each) for each in frozen],
            created=self._clock.now(),
        )
        return await self._queue(record)

    async def _require_sketches(self, study_id: bytes, plan: SketchPlan) -> None:
        try:
            _ = plan.fourier
        except WrongStatisticError as error:
            if plan.campaign is None:
                raise
            async with self._store.begin() as transaction:
                sketch = await find_sketch_study(transaction, study_id, plan.campaign)
            fix = "wait for the sketch phase of its campaign"
            if sketch is not None:
                fix = f"use the sketch of its campaign: {sketch.name} ({sketch.study_id.hex()})"
            raise WrongStatisticError(error.rule, field=error.field, fix=fix) from error

    async def prepare(self, analysis: AnalysisRecord) -> AnalysisWork:
        """Load the inputs of an analysis, for a worker.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            Its study or a snapshot is gone.
        DecodingError
            Its algorithm has another version here.
        """
        kind = KINDS.get(analysis.kind)
        if kind is None or kind.version != analysis.version:
            raise DecodingError(
                f"must be {analysis.kind} in version {analysis.version}, which this worker lacks",
                field="kind",
                fix="request the analysis again",
            )
        request = structure(kind.request, analysis.request)
        async with self._store.begin() as transaction:
            study = await require_study(transaction, analysis.study_id)
            frozen = await _read_inputs(transaction, analysis.inputs)
        plan = await self._plans.get(study)
        look = await self._find_look(getattr(request, "look", None))
        inputs = Inputs(plan=plan, parts=_name(kind, plan, request, frozen), look_plan=look)
        if kind.needs_devices:
            inputs = replace(inputs, devices=await self._sum_devices(study, inputs))
        work = TimelineWork if analysis.kind == "timeline" else AnalysisWork
        return work(kind=kind, request=request, inputs=inputs)

    async def _find_look(self, look_id: str | None) -> SketchPlan | None:
        """Return the plan of the second look that a request names."""
        if look_id is None:
            return None
        async with self._store.begin() as transaction:
            study = await require_study(transaction, bytes.fromhex(look_id))
        return await self._plans.get(study)

    async def _freeze_look(
        self,
        windows: tuple[WindowRule, WindowRule],
        look_id: bytes,
        frozen: Sequence[Frozen],
        unshared: Selection | None,
    ) -> Sequence[Frozen]:
        """Freeze the same slots and labels of a second look."""
        rules = {(each.kind, each.origin, each.length_s) for each in windows}
        selections = [each.selection for each in frozen]
        slots = {slot for each in selections for slot in (each.first_slot, each.last_slot)}
        if len(rules) > 1 and slots != {None}:
            raise ConfigError(
                "must have the windows of this study, or its slots are other times",
                field="look",
                fix="plan the look with same_records (--same-records), or select by labels alone",
            )
        looks = await self._snapshots.freeze(look_id, selections, unshared=unshared)
        return [replace(each, look=look.snapshot) for each, look in zip(frozen, looks, strict=True)]

    async def _sum_devices(self, study: StudyRecord, inputs: Inputs) -> Sequence[DeviceSums]:
        """Add the sketches of each device up, and check that they are those of the snapshot.

        Raises
        ------
        StoreError
            A device was excluded since, or a sketch came that is dated before the snapshot.
        """
        (part,) = inputs.parts
        assert part.snapshot is not None
        async with self._store.begin() as transaction:
            sums, members = await sum_devices(
                transaction,
                study.study_id,
                part.selection,
                layout=Layout.of(inputs.plan),
                received_until=part.snapshot.created,
            )
        if not is_of(part.snapshot, study, members=members):
            raise StoreError(
                "has changed since the request: a device was excluded, or a sketch came late",
                field="selection",
                fix="request the analysis again",
            )
        return sums


async def _read_inputs(
    transaction: Transaction, inputs: Sequence[Mapping[str, Any]]
) -> Sequence[Frozen]:
    names = [each.get(name) for each in inputs for name in ("snapshot_id", "look_id")]
    wanted = [bytes.fromhex(each) for each in names if each]
    known = await transaction.get_many(SnapshotRecord, wanted)
    if set(wanted) - known.keys():
        raise NotFoundError("is gone", field="snapshot", fix="request the analysis again")
    return [
        Frozen(
            selection=Selection(**each["selection"]),
            n_sketches=each["n_sketches"],
            snapshot=known[bytes.fromhex(each["snapshot_id"])] if each["snapshot_id"] else None,
            doubt=each["doubt"],
            look=known[bytes.fromhex(each["look_id"])] if each.get("look_id") else None,
        )
        for each in inputs
    ]


def _to_document(frozen: Frozen) -> dict[str, Any]:
    return {
        "selection": asdict(frozen.selection),
        "n_sketches": frozen.n_sketches,
        "snapshot_id": None if frozen.snapshot is None else frozen.snapshot.snapshot_id.hex(),
        "doubt": frozen.doubt,
        "look_id": None if frozen.look is None else frozen.look.snapshot_id.hex(),
    }


def _name(
    kind: Kind[Any], plan: SketchPlan, request: Any, frozen: Sequence[Frozen]
) -> Sequence[Part]:
    names = kind.name_parts(plan, request, [each.selection for each in frozen])
    return [Part(name=name, **vars(each)) for name, each in zip(names, frozen, strict=True)]


def compute_analysis_id(
    study: StudyRecord, kind: Kind[Any], request: AnalysisRequest, frozen: Sequence[Frozen]
) -> bytes:
    """Return the identity of an analysis: the SHA-256 of all inputs of its result."""
    asked = asdict(request)
    looks = [each.look.digest for each in frozen if each.look is not None]
    if not looks:
        asked.pop("look", None)
    content = [
        _DOMAIN,
        study.study_id,
        kind.version,
        asked,
        [
            [
                asdict(each.selection),
                each.n_sketches,
                None if each.snapshot is None else each.snapshot.digest,
            ]
            for each in frozen
        ],
        *looks,
    ]
    return hashlib.sha256(encode_deterministic(content)).digest()
