"""Batches for analysts and operators: list, describe, open early, admit, set aside, suspect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.service.suspects import Suspicion, find_suspects
from sfumato.aggregator.resources.batches.store.batches import (
    count_in,
    count_out,
    list_acknowledged,
    lock_cells,
    void_batch,
)
from sfumato.aggregator.resources.batches.store.reports import count_reports
from sfumato.aggregator.resources.devices.store import find_by_ordinals
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR, AuditAction
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import BatchTooSmallError, NotFoundError, StoreError
from sfumato.shared.plan import SketchPlan


@dataclass(frozen=True, kw_only=True)
class BatchDetails:
    """A batch, and the numbers of its reports by state."""

    batch: BatchRecord
    reports: Mapping[str, int]


class BatchService(Service):
    """Lists batches, and does what an operator decides about them."""

    async def list_page(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[BatchRecord]:
        """Return the batches of a study, the newest first.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        """
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return await transaction.list_page(
                BatchRecord, study_id=study_id, after=after, limit=limit
            )

    async def get(self, study_id: bytes, batch_id: bytes) -> BatchDetails:
        """Return a batch.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such batch in the study, or it was withdrawn.
        """
        async with self._store.begin() as transaction:
            batch = await _require_batch(transaction, study_id, batch_id)
            return await _describe(transaction, batch)

    async def open(
        self, study_id: bytes, batch_id: bytes, *, actor: str = LOCAL_ACTOR
    ) -> BatchDetails:
        """Close a batch before its time, so that a worker opens its total now.

        Later reports of its slot join the next batch. One that closed already stays as it is.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such batch in the study, or it was withdrawn.
        BatchTooSmallError
            It has fewer reports than the plan allows to open.
        StoreError
            It is void.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            batch = await _require_batch(transaction, study_id, batch_id, lock=True)
            if batch.state == "void":
                raise StoreError(
                    "is void: its reports were dropped unread",
                    field="batch",
                    fix="nothing can be done for this one; see `sfumato batch list`",
                )
            if batch.state == "open" and batch.n_reports < batch.least_reports:
                raise BatchTooSmallError(
                    f"has {batch.n_reports} report(s), and the plan's least_reports is "
                    f"{batch.least_reports}",
                    field="batch",
                    fix="wait for more reports",
                )
            if batch.state == "open" and not batch.is_asked:
                await transaction.change(BatchRecord, batch_id, is_asked=True, next_at=now)
                await _note(transaction, "batch.open", batch, now, actor)
            return await _describe(transaction, await _reread(transaction, batch))

    async def admit(
        self, study_id: bytes, batch_id: bytes, *, reason: str, actor: str = LOCAL_ACTOR
    ) -> BatchDetails:
        """Count the total of a batch that was flagged or set aside.

        Raises
        ------
        NotFoundError, StudyWithdrawnError, StoreError
            There is no such batch, or its total may not be used yet.
        """
        return await self._place(study_id, batch_id, counts=True, reason=reason, actor=actor)

    async def set_aside(
        self, study_id: bytes, batch_id: bytes, *, reason: str, actor: str = LOCAL_ACTOR
    ) -> BatchDetails:
        """Take the total of a batch out of every sum, exactly; snapshots with it say so.

        Raises as :meth:`admit`.
        """
        return await self._place(study_id, batch_id, counts=False, reason=reason, actor=actor)

    async def give_up(
        self, study_id: bytes, batch_id: bytes, *, reason: str, actor: str = LOCAL_ACTOR
    ) -> BatchDetails:
        """Give up a batch that is not in the sums yet: its payloads, or its total, are dropped.

        For a helper that is gone for good. The reports are lost; later ones of the slot form the
        next batch. A batch that was given up stays so.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such batch in the study, or it was withdrawn.
        StoreError
            Its total is acknowledged.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            batch = await _require_batch(transaction, study_id, batch_id, lock=True)
            if batch.state == "acknowledged":
                raise StoreError(
                    "is opened, and the helper has its total",
                    field="batch",
                    fix="to take it out of the sums, use `sfumato batch set-aside`",
                )
            if batch.state != "void":
                await void_batch(transaction, batch_id, reason=reason)
                await _note(transaction, "batch.give-up", batch, now, actor, reason=reason)
            return await _describe(transaction, await _reread(transaction, batch))

    async def _place(
        self, study_id: bytes, batch_id: bytes, *, counts: bool, reason: str, actor: str
    ) -> BatchDetails:
        now = self._clock.now()
        _, plan = await self._get_plan(study_id)
        layout = Layout.of(plan)
        async with self._store.begin(write=True) as transaction:
            await lock_cells(transaction, study_id)
            batch = await _require_batch(transaction, study_id, batch_id, lock=True)
            if batch.standing is None:
                raise StoreError(
                    f"must be acknowledged, and is {batch.state}",
                    field="batch",
                    fix="wait until its total is opened",
                )
            wanted = "counted" if counts else "set-aside"
            if batch.standing != wanted:
                if counts:
                    await count_in(transaction, batch, layout=layout)
                elif batch.standing == "counted":
                    await count_out(transaction, batch, layout=layout)
                await transaction.change(BatchRecord, batch_id, standing=wanted, reason=reason)
                action: AuditAction = "batch.admit" if counts else "batch.set-aside"
                await _note(transaction, action, batch, now, actor, reason=reason)
            return await _describe(transaction, await _reread(transaction, batch))

    async def find_suspects(self, study_id: bytes) -> Suspicion:
        """Return the devices that were in a flagged part each time that parts were compared.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        """
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            batches = await list_acknowledged(transaction, study_id)
            suspicion = find_suspects(batches)
            known = await find_by_ordinals(
                transaction, study_id, [each.ordinal for each in suspicion.suspects]
            )
        return suspicion.identify(known)

    async def _get_plan(self, study_id: bytes) -> tuple[StudyRecord, SketchPlan]:
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
        return study, await self._plans.get(study)


async def _require_batch(
    transaction: Transaction, study_id: bytes, batch_id: bytes, *, lock: bool = False
) -> BatchRecord:
    await require_study(transaction, study_id)
    found = await transaction.get(BatchRecord, batch_id, lock=lock)
    if found is None or found.study_id != study_id:
        raise NotFoundError(
            "is unknown in this study", field="batch", fix="see `sfumato batch list`"
        )
    return found


async def _reread(transaction: Transaction, batch: BatchRecord) -> BatchRecord:
    return await _require_batch(transaction, batch.study_id, batch.batch_id)


async def _describe(transaction: Transaction, batch: BatchRecord) -> BatchDetails:
    return BatchDetails(batch=batch, reports=await count_reports(transaction, batch.batch_id))


async def _note(
    transaction: Transaction,
    action: AuditAction,
    batch: BatchRecord,
    now: float,
    actor: str,
    **about: str,
) -> None:
    study = batch.study_id.hex()
    target = batch.batch_id.hex()
    await write_entry(transaction, now, actor, action, target, study=study, **about)
