"""Check reports, and answer once for each batch: the sum of its masks, plus one full noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sqlalchemy import Column, Connection, Row, Select, func, select

from sfumato.helper.answers import CLOCK_SKEW_S, JournalledAnswers, cut, find_batch
from sfumato.helper.tables import batches, plans, reports, server, write
from sfumato.shared.errors import (
    BatchCommittedError,
    BatchDiffersError,
    BatchTooSmallError,
    MalformedMessageError,
    NotFoundError,
    PlanNotAcceptedError,
    SealError,
    WireError,
)
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy import RandomSource
from sfumato.shared.sharing.batches import (
    BatchKey,
    add_noise_to_masks,
    choose_part,
    compute_members,
    compute_report,
)
from sfumato.shared.sharing.masks import MaskContext, expand_mask
from sfumato.shared.sharing.seals import open_seal
from sfumato.shared.wire import PayloadForm, SketchHeader, decode_header
from sfumato.shared.wire.sum_messages import CommitRequest, ReportsRequest, SumAnswer, Verdict


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A report whose seal has opened."""

    sketch_id: bytes
    report: bytes
    report_id: bytes
    n_records: int | None
    seed: bytes


@dataclass(kw_only=True)
class Batches(JournalledAnswers):
    """The batches of a helper.

    Parameters
    ----------
    database, plans, journal, now
        What it keeps, and its clock.
    identity
        Signs its answers.
    source
        The generator of its noise.
    """

    identity: Ed25519PrivateKey
    source: RandomSource
    _private: dict[bytes, X25519PrivateKey] = field(default_factory=dict)

    def check(self, batch_id: bytes, request: ReportsRequest) -> list[Verdict]:
        """Judge reports, and keep the seeds of those that are accepted.

        Raises
        ------
        PlanNotAcceptedError
            The plan does not exist for this helper.
        MalformedMessageError
            The batch is not the one of its address, or cannot be of the plan.
        HelperRestoredError
            The database was put back while this process served.
        """
        key = request.batch
        if self.plans.is_retired(key.plan_digest):
            return self._recall(batch_id, request)
        plan = self.plans.require(key.plan_digest)
        _require_batch(plan, key, batch_id)
        # Outside of the transaction: this is most of the work.
        judged = [self._judge(plan, key, data) for data in request.headers]
        opened = [each for each in judged if isinstance(each, _Opened)]
        with write(self.database) as connection:
            stored = self._store(connection, plan, key, opened)
        return [each if isinstance(each, str) else stored[each.report] for each in judged]

    def _recall(self, batch_id: bytes, request: ReportsRequest) -> list[Verdict]:
        """Find the reports that were answered for, of a plan whose key is destroyed.

        A server that was restored asks; it gets the answer again, and must know what is in it.
        """
        wanted = [compute_report(data) for data in request.headers]
        spent: set[bytes] = set()
        with self.database.connect() as connection:
            batch = find_batch(connection, batch_id)
            if batch is None or batch.state == "open":
                self.plans.require(request.batch.plan_digest)
            for some in cut(wanted):
                found = select(reports.c.report).where(
                    reports.c.batch_id == batch_id,
                    reports.c.state == "spent",
                    reports.c.report.in_(some),
                )
                spent.update(connection.execute(found).scalars())
        return ["accepted" if each in spent else "late" for each in wanted]

    def _judge(self, plan: SketchPlan, key: BatchKey, data: bytes) -> _Opened | Verdict:
        try:
            header = decode_header(data)
        except WireError:
            return "header"
        release = plan.sum_release
        if release is None or not _is_of_batch(plan, key, header):
            return "header"
        start, end = plan.window.slot_bounds(key.slot)
        if start > self.now() + CLOCK_SKEW_S:
            return "early"
        if self.now() > end + release.late_s:
            return "late"
        try:
            private = self._load_key(key.plan_digest)
            seed = open_seal(header.sealed or b"", private, header.seal_context)
        except SealError:
            return "box"
        return _Opened(
            sketch_id=header.sketch_id,
            report=compute_report(data),
            report_id=header.report_id,
            n_records=header.n_records,
            seed=seed,
        )

    def _load_key(self, plan_digest: bytes) -> X25519PrivateKey:
        if plan_digest not in self._private:
            self._private[plan_digest] = self.plans.keys.load_plan_key(plan_digest)
        return self._private[plan_digest]

    def _store(
        self, connection: Connection, plan: SketchPlan, key: BatchKey, opened: Sequence[_Opened]
    ) -> Mapping[bytes, Verdict]:
        """Store new reports of an open batch; return the verdict on each, by its digest."""
        batch_id = key.batch_id
        self.require_last_answer(connection)
        refused = _find_refusal(connection, plan, key)
        if refused is not None:
            return {each.report: refused for each in opened}
        # Locked, so that no report joins a batch while it is answered.
        batch = find_batch(connection, batch_id, lock=True)
        if batch is None:
            connection.execute(
                batches.insert().values(
                    batch_id=batch_id, plan_digest=key.plan_digest, slot=key.slot, state="open"
                )
            )
        is_open = batch is None or batch.state == "open"
        known = {
            row.sketch_id: row
            for some in cut([each.sketch_id for each in opened])
            for row in connection.execute(reports.select().where(reports.c.sketch_id.in_(some)))
        }
        verdicts: dict[bytes, Verdict] = {}
        new: dict[bytes, dict[str, object]] = {}
        for each in opened:
            row = known.get(each.sketch_id)
            if row is not None:
                is_same = row.report == each.report and row.batch_id == batch_id
                # Spent reports too: a leader that was restored learns whom its batch consists of.
                is_in = is_same and row.state in ("accepted", "spent")
                verdicts[each.report] = "accepted" if is_in else "used"
            elif not is_open:
                verdicts[each.report] = "closed"
            elif each.sketch_id in new:
                is_same = new[each.sketch_id]["report"] == each.report
                verdicts[each.report] = "accepted" if is_same else "used"
            else:
                verdicts[each.report] = "accepted"
                new[each.sketch_id] = {
                    **vars(each),
                    "batch_id": batch_id,
                    "plan_digest": key.plan_digest,
                    "slot": key.slot,
                    "state": "accepted",
                }
        if new:
            connection.execute(reports.insert(), list(new.values()))
        return verdicts

    def commit(self, batch_id: bytes, request: CommitRequest) -> bytes:
        """Answer for a batch, once: the same request gets the same answer for ever.

        Raises
        ------
        NotFoundError
            There is no such batch.
        BatchCommittedError
            It was answered for other members.
        BatchDiffersError, BatchTooSmallError
            Its reports are others, too few or too many; nothing has changed.
        HelperRestoredError
            The database was put back while this process served.
        """
        with write(self.database) as connection:
            self.require_last_answer(connection)
            batch = _require(connection, batch_id, lock=True)
            if batch.state == "open":
                self._answer(connection, batch, request)
                batch = _require(connection, batch_id)
            elif batch.members != request.members:
                raise BatchCommittedError(
                    "was answered for other members",
                    field="members",
                    fix="ask for those of the answer: read the batch",
                )
        # Before anybody sees the answer, and again if it failed then.
        self.write_journal(batch)
        return SumAnswer(
            batch_id=batch_id,
            members=batch.members,
            count=batch.n_reports,
            n_records=batch.n_records,
            state=batch.state,
            body=batch.body,
        ).encode(self.identity.public_key().public_bytes_raw(), self.identity.sign)

    def _answer(self, connection: Connection, batch: Row[Any], request: CommitRequest) -> None:
        plan = self.plans.require(batch.plan_digest)
        release, ring, n_words = plan.sum_release, plan.ring, plan.n_coordinates
        accepted = reports.c.batch_id == batch.batch_id, reports.c.state == "accepted"
        for some in cut(request.without):
            connection.execute(
                reports.update()
                .where(*accepted, reports.c.sketch_id.in_(some))
                .values(state="dropped", seed=None)
            )
        held = connection.execute(select(reports.c.report, reports.c.n_records).where(*accepted))
        members = held.all()
        if (
            len(members) != request.count
            or compute_members(row.report for row in members) != request.members
        ):
            raise BatchDiffersError(
                f"must be the {len(members)} reports that this helper has accepted",
                field="members",
                fix="send the batch's reports again, then ask with those that were accepted",
            )
        least, most = (release.least_reports, release.most_reports) if release else (0, 0)
        if not least <= len(members) <= most:
            raise BatchTooSmallError(
                f"has {len(members)} reports and must have {least} to {most}",
                field="count",
                fix="wait for more reports, or divide them between batches",
            )
        # Before any seed is read, so that the time of a draw tells nothing about masks.
        zeros = np.zeros(n_words, dtype=np.int64)
        noise = plan.mechanism.add_noise(zeros, self.source)
        total = np.zeros(n_words, dtype=np.uint64)
        seeds = select(reports.c.sketch_id, reports.c.report_id, reports.c.seed).where(*accepted)
        for row in _stream(connection, seeds):
            context = MaskContext(
                plan_digest=batch.plan_digest, sketch_id=row.sketch_id, report_id=row.report_id
            )
            total += expand_mask(row.seed, context, ring=ring, n_words=n_words)
        body = ring.encode(add_noise_to_masks(total, noise, ring=ring))
        connection.execute(reports.update().where(*accepted).values(state="spent", seed=None))
        n_records = None if plan.releases_count else sum(row.n_records for row in members)
        connection.execute(
            batches.update()
            .where(batches.c.batch_id == batch.batch_id)
            .values(
                state="answered",
                members=request.members,
                n_reports=len(members),
                n_records=n_records,
                body=body,
            )
        )

    def acknowledge(self, batch_id: bytes, total: bytes) -> None:
        """Put the opened total in the place of the answer: from now on only it is given again.

        A batch that was answered before a backup was restored, and that the backup does not know,
        stays unknown: it has no answer any more that could be given again.

        Raises
        ------
        NotFoundError
            There is no such batch.
        BatchCommittedError
            It has no answer yet, or was acknowledged with another total.
        MalformedMessageError
            The total has another length.
        HelperRestoredError
            The database was put back while this process served.
        """
        with write(self.database) as connection:
            self.require_last_answer(connection)
            found = find_batch(connection, batch_id, lock=True)
            if found is None and self.journal.has_answer(batch_id.hex()):
                return
            batch = _require(connection, batch_id)
            if batch.state == "open" or (batch.state == "acknowledged" and batch.body != total):
                raise BatchCommittedError(
                    "has no answer yet" if batch.state == "open" else "has another total",
                    field="batch",
                    fix="read the batch, and take its total",
                )
            if len(total) != len(batch.body):
                raise MalformedMessageError(
                    f"must have {len(batch.body)} bytes and has {len(total)}",
                    field="total",
                    fix="send the opened total as words of the plan",
                )
            connection.execute(
                batches.update()
                .where(batches.c.batch_id == batch_id)
                .values(state="acknowledged", body=total)
            )
            batch = _require(connection, batch_id)
        # Before the other server shows it to anybody: a database that is put back to before this
        # must not give the answer again.
        self.write_journal(batch)

    def require_leader(self, batch_id: bytes, leader: str) -> None:
        """Refuse a batch whose plan another leader runs; an unknown batch is nobody's.

        Raises
        ------
        ForbiddenError
            It is of another leader.
        """
        with self.database.connect() as connection:
            found = find_batch(connection, batch_id)
        if found is not None:
            self.plans.require_leader(found.plan_digest, leader)

    def list_held(self, batch_id: bytes) -> list[bytes]:
        """Return the sketches of the reports that would be answered for now, in ascending order.

        Raises
        ------
        NotFoundError
            There is no such batch.
        """
        with self.database.connect() as connection:
            _require(connection, batch_id)
            held = select(reports.c.sketch_id).where(
                reports.c.batch_id == batch_id, reports.c.state == "accepted"
            )
            return sorted(connection.execute(held).scalars())

    def show(self, batch_id: bytes) -> tuple[str, int, bytes]:
        """Return the state of a batch, the number of its reports and the digest of its members.

        Raises
        ------
        NotFoundError
            There is no such batch.
        """
        with self.database.connect() as connection:
            batch = _require(connection, batch_id)
            if batch.state != "open":
                return batch.state, batch.n_reports, batch.members
            held = connection.execute(
                select(reports.c.report).where(
                    reports.c.batch_id == batch_id, reports.c.state == "accepted"
                )
            ).all()
        return batch.state, len(held), compute_members(row.report for row in held)

    def count(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Count batches and reports by state."""
        with self.database.connect() as connection:
            return _count(connection, batches.c.state), _count(connection, reports.c.state)

    def forget_late(self) -> int:
        """Remove the rows of slots whose reports are refused as late; return how many.

        What has no answer by then never gets one.
        """
        removed = 0
        for row in self.plans.list():
            if row.retired is not None:
                # Its file is gone; this is the last copy.
                self._private.pop(row.digest, None)
                continue
            plan = self.plans.require(row.digest)
            release = plan.sum_release
            if release is None:
                continue
            late = self.now() - release.late_s - CLOCK_SKEW_S
            last = math.floor((late - plan.window.origin) / plan.window.length_s) - 1
            if last < 0:
                continue
            _, end = plan.window.slot_bounds(last)
            with write(self.database) as connection:
                # Whatever the clock says later: what is forgotten here must not come again.
                connection.execute(
                    plans.update()
                    .where(plans.c.digest == row.digest, plans.c.closed_before < end)
                    .values(closed_before=end)
                )
                removed += connection.execute(
                    reports.delete().where(
                        reports.c.plan_digest == row.digest, reports.c.slot <= last
                    )
                ).rowcount
        return removed


def _require_batch(plan: SketchPlan, key: BatchKey, batch_id: bytes) -> None:
    release = plan.sum_release
    declared = {label.name: label.values for label in plan.labels}
    is_labelled = key.labels.keys() == declared.keys() and all(
        value in declared[name] for name, value in key.labels.items()
    )
    n_slots = plan.window.n_slots
    if (
        key.batch_id != batch_id
        or release is None
        or key.part >= release.parts
        or not is_labelled
        or (n_slots is not None and key.slot >= n_slots)
    ):
        raise MalformedMessageError(
            "must be the batch of its address, with a slot, labels and a part of the plan",
            field="batch",
            fix="compute its identity from the fields of the request",
        )


def _find_refusal(connection: Connection, plan: SketchPlan, key: BatchKey) -> Verdict | None:
    """Return why no report of a slot is taken any more: reports of it may have been forgotten."""
    start, _ = plan.window.slot_bounds(key.slot)
    burnt_before = connection.execute(select(server.c.burnt_before)).scalar_one()
    # Locked, so that nothing is forgotten while it is stored.
    row = connection.execute(
        select(plans.c.closed_before, plans.c.retired)
        .where(plans.c.digest == key.plan_digest)
        .with_for_update(read=True)
    ).one()
    if row.retired is not None:
        # While the boxes were opened: no seed may stay behind.
        raise PlanNotAcceptedError(
            "is retired", field="plan", fix="send no more reports of it: its key is destroyed"
        )
    if start < burnt_before:
        return "burnt"
    return "late" if start < row.closed_before else None


def _is_of_batch(plan: SketchPlan, key: BatchKey, header: SketchHeader) -> bool:
    release = plan.sum_release
    if release is None or header.n_public == plan.releases_count:
        return False
    least, most = plan.size_limits
    return (
        header.kind == release.kind
        and header.plan_digest == key.plan_digest
        and header.slots == (key.slot, key.slot)
        and header.payload_length == PayloadForm.of(plan).length
        and (header.n_records is None or least <= header.n_records <= most)
        and choose_part(header.sketch_id, release.parts) == key.part
    )


def _require(connection: Connection, batch_id: bytes, *, lock: bool = False) -> Row[Any]:
    found = find_batch(connection, batch_id, lock=lock)
    if found is None:
        raise NotFoundError("does not exist", field="batch", fix="send its reports first")
    return found


def _stream(connection: Connection, query: Select[Any]) -> Iterator[Row[Any]]:
    yield from connection.execute(query, execution_options={"yield_per": 1000})


def _count(connection: Connection, column: Column[str]) -> Mapping[str, int]:
    rows = connection.execute(select(column, func.count()).group_by(column))
    return {row[0]: row[1] for row in rows}
