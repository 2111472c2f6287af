"""Take batches from their closing to the cells, together with the helper.

Each step ends in one transaction, or is a call that may be repeated; so a step that was cut off is
done again, with the same effect. The order is binding: nothing is said about a total, and no check
of it is made, before this server's noise was added to it and stored; and it is used only when the
helper has it too, so that no backup, restored later, can give another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray

from sfumato.aggregator.base.helper_client import BatchAtHelper, HelperClient
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.batches.record import BatchRecord, BatchState, find_last_close
from sfumato.aggregator.resources.batches.service.checks import find_inconsistent, is_plausible
from sfumato.aggregator.resources.batches.service.lease import BatchLeaser, Leased
from sfumato.aggregator.resources.batches.store.batches import (
    count_in,
    count_out,
    list_parts,
    lock_cells,
    open_batch,
    void_batch,
)
from sfumato.aggregator.resources.batches.store.exclusion import repeat_check
from sfumato.aggregator.resources.batches.store.reports import (
    compute_batch_members,
    count_reports,
    fetch_reports,
    list_left_out,
    list_reports,
    list_waiting_reports,
    mark_reports,
    move_reports,
    move_reports_to,
    stream_payloads,
)
from sfumato.aggregator.resources.parts import Parts
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import (
    BatchCommittedError,
    BatchDiffersError,
    BatchError,
    HelperError,
    HelperRestoredError,
    NotFoundError,
    PlanNotAcceptedError,
    SketchError,
    StoreError,
    StudyWithdrawnError,
    TransportError,
)
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy import RandomSource
from sfumato.shared.sharing.batches import BatchKey, compute_members, compute_report, open_total
from sfumato.shared.sharing.masks import read_masked
from sfumato.shared.sharing.ring import Words
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import encode_payload
from sfumato.shared.wire.sum_messages import MOST_HEADERS, CommitRequest, SumAnswer

TOO_FEW = "it never had enough reports"
_PATIENCE_S = 86_400.0
"""How long a batch that is over waits for a helper that cannot be used, before it is void."""

log = structlog.get_logger("aggregator.batches")


class BatchOpener(BatchLeaser):
    """Opens batches that are due, one at a time.

    Parameters
    ----------
    parts
        What every service is given.
    source
        The generator of this server's noise.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        source: RandomSource | None = None,
    ) -> None:
        super().__init__(parts)
        self.source = source or SystemSource()
        self.connect: Callable[[], HelperClient] = partial(HelperClient, self._settings)

    async def advance(self, leased: Leased) -> SketchError | None:
        """Take a batch as far as it goes; return what stopped it, if something did."""
        name = leased.batch_id.hex()
        try:
            try:
                state = await self._go_on(leased)
            except SketchError as error:
                is_own = isinstance(error, TransportError) and not isinstance(error, HelperError)
                if is_own or isinstance(error, StudyWithdrawnError):
                    raise
                await self._void_if_over(leased, error)
                log.warning("batch cannot go on", batch=name, reason=str(error))
                return error
        except StudyWithdrawnError:
            return None
        except TransportError:
            raise
        except Exception as error:
            # Or the worker would end, and with it all decodes.
            log.error("batch failed", batch=name, exc_info=error)
            return SketchError("the batch could not be opened", fix="see the worker's log")
        log.info("batch left", batch=name, state=state)
        return None

    async def _go_on(self, leased: Leased) -> BatchState:
        async with self.connect() as helper:
            state = await self._close(leased)
            if state == "void":
                state = await self._recover_or_void(leased, helper, TOO_FEW)
            if state == "closing":
                state = await self._open_or_void(leased, helper)
            if state == "opened":
                state = await self._acknowledge(leased, helper)
        return state

    async def _void_if_over(self, leased: Leased, error: SketchError) -> None:
        """Drop the reports of a batch that has been over for long, and still cannot be opened.

        Or its payloads would wait for ever for a helper that is gone. A total that is stored waits
        until an operator decides: nothing of a device is left with it.
        """
        if self._clock.now() >= leased.batch.expires + _PATIENCE_S:
            await self._void(leased, f"the helper never opened it: {error.rule}")

    async def _void(self, leased: Leased, reason: str) -> None:
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state in ("open", "closing"):
                await void_batch(transaction, leased.batch_id, reason=reason)

    # Closing: from here on the batch takes no reports.

    async def _close(self, leased: Leased) -> BatchState:
        """Close a batch that has enough reports; void one that never will have."""
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state != "open":
                return batch.state
            study = await require_study(transaction, batch.study_id)
            is_over = batch.expires <= now or not study.accepts_sketches(now)
            if batch.n_reports >= batch.least_reports and (batch.should_close(now) or is_over):
                await transaction.change(BatchRecord, leased.batch_id, state="closing")
                return "closing"
            return "void" if is_over else "open"

    async def _recover_or_void(
        self, leased: Leased, helper: HelperClient, reason: str
    ) -> BatchState:
        """Drop the reports of a batch that cannot be opened, unless the helper has its total."""
        known = await helper.find(leased.batch_id)
        if known is not None and known.state == "acknowledged":
            return await self._adopt(leased, helper, known)
        await self._void(leased, reason)
        return "void"

    async def _adopt(
        self, leased: Leased, helper: HelperClient, known: BatchAtHelper
    ) -> BatchState:
        """Take the total of a batch that this server opened before it was restored from a backup.

        Its members are those of the answer; this server may not have all of their rows.
        """
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state == "open":
                # Reports that come from here on are of another batch.
                await transaction.change(BatchRecord, leased.batch_id, state="closing")
        request = CommitRequest(members=known.members, count=known.count)
        answer, data = await self._commit(leased, helper, request)
        if answer.state != "acknowledged":
            raise _is_odd("a batch", "acknowledged", answer.state)
        await self._forward(leased, helper)
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state != "closing":
                return batch.state
            await transaction.change(
                BatchRecord, leased.batch_id, members=answer.members, n_reports=answer.count
            )
            await self._write_total(transaction, leased, None, (answer, data))
        return "opened"

    # Opening: the helper judges the reports, and answers for those that it accepts.

    async def _open_or_void(self, leased: Leased, helper: HelperClient) -> BatchState:
        """Open a batch; one that the helper never can answer for is void when it is too late."""
        try:
            return await self._open(leased, helper)
        except (BatchError, NotFoundError, PlanNotAcceptedError) as error:
            if self._clock.now() < leased.batch.expires:
                raise
            reason = f"the helper has no answer: {error.rule}"
        return await self._recover_or_void(leased, helper, reason)

    async def _open(self, leased: Leased, helper: HelperClient) -> BatchState:
        for is_last in (False, True):
            await self._forward(leased, helper)
            request = await self._fix_members(leased)
            if request is None:
                return await self._adopt_or_reopen(leased, helper)
            try:
                answer = await self._commit(leased, helper, request)
            except BatchDiffersError as error:
                if is_last:
                    answer = await self._commit_what_is_here(leased, helper, request, error)
                    return await self._store_total(leased, answer)
                await self._repeat(leased)
            except (BatchCommittedError, NotFoundError):
                # One of the two was restored from a backup: all reports are judged again.
                await self._repeat(leased)
                if is_last:
                    if await self._adopt_or_reopen(leased, helper) == "opened":
                        return "opened"
                    raise
            else:
                return await self._store_total(leased, answer)
        raise AssertionError("unreachable")

    async def _adopt_or_reopen(self, leased: Leased, helper: HelperClient) -> BatchState:
        """Take the total that the helper has; without one, let the batch take reports again."""
        known = await helper.find(leased.batch_id)
        if known is not None and known.state == "acknowledged":
            return await self._adopt(leased, helper, known)
        state = await self._reopen(leased)
        async with self._store.begin() as transaction:
            counts = await count_reports(transaction, leased.batch_id)
        if n_refused := counts.get("refused-burnt"):
            raise HelperRestoredError(
                f"takes no report of this slot, and has refused {n_refused}: by its clock the slot "
                "had begun when its operator ran `sfumato helper restored`",
                field="helper",
                fix="wait for later slots; if this one began after that, the helper's clock was "
                "ahead: its operator knows the time from which slots count",
            )
        return state

    async def _commit_what_is_here(
        self, leased: Leased, helper: HelperClient, request: CommitRequest, error: BatchDiffersError
    ) -> tuple[SumAnswer, bytes]:
        """Settle about reports that the helper holds, and this server has not, or elsewhere.

        It was restored from a backup. Devices send such reports again, so the batch takes reports
        and waits; in the end, or when an operator asks for the total, it is opened without them.
        """
        held = await helper.list_held(leased.batch_id)
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state != "closing":
                raise error
            study = await require_study(transaction, batch.study_id)
            missing = held.difference(await list_reports(transaction, leased.batch_id))
            known = await transaction.get_many(SketchRecord, sorted(missing))
            if await fetch_reports(transaction, leased.batch_id, sorted(known)):
                raise_later: BatchDiffersError | None = _differs(len(known))
            elif missing.issubset(known) or _is_last_chance(leased, study, now):
                raise_later = None if missing else error
            else:
                await transaction.change(BatchRecord, leased.batch_id, state="open", members=None)
                raise_later = _differs(len(missing.difference(known)))
        if raise_later is not None:
            raise raise_later
        without = (*request.without, *sorted(missing))
        return await self._commit(leased, helper, replace(request, without=without))

    async def _forward(self, leased: Leased, helper: HelperClient) -> None:
        """Let the helper judge the reports that it has not judged yet."""
        while True:
            async with self._store.begin() as transaction:
                waiting = await list_waiting_reports(
                    transaction, leased.batch_id, most=MOST_HEADERS
                )
            if not waiting:
                return
            verdicts = await helper.check(leased.key, [header for _, header in waiting])
            by_verdict: dict[str, list[bytes]] = {}
            for (sketch_id, _), verdict in zip(waiting, verdicts, strict=True):
                by_verdict.setdefault(verdict, []).append(sketch_id)
            next_key = await self._find_next(leased, helper) if "used" in by_verdict else None
            is_early = by_verdict.pop("early", None) is not None
            await self._note_verdicts(leased, by_verdict, next_key=next_key)
            if is_early:
                raise HelperError(
                    "has a clock by which the slot of these reports has not begun",
                    field="helper",
                    fix="set the clocks of both servers; the reports wait, and nothing is lost",
                )

    async def _note_verdicts(
        self,
        leased: Leased,
        by_verdict: Mapping[str, Sequence[bytes]],
        *,
        next_key: BatchKey | None,
    ) -> None:
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            for verdict, sketch_ids in by_verdict.items():
                if verdict == "closed":
                    await move_reports(
                        transaction, leased.plan, batch, leased.key, sketch_ids, now=now
                    )
                    continue
                if verdict == "used" and next_key is not None:
                    # A leader that was restored counts anew; the helper knows the numbers.
                    next_batch = BatchRecord.of(
                        leased.plan, next_key, study_id=batch.study_id, now=now
                    )
                    await move_reports_to(transaction, batch, next_batch, sketch_ids)
                state = "accepted" if verdict == "accepted" else f"refused-{verdict}"
                await mark_reports(transaction, leased.batch_id, sketch_ids, state=state)

    async def _find_next(self, leased: Leased, helper: HelperClient) -> BatchKey | None:
        """Return the key of the batch with the next number, if the helper has it."""
        key = replace(leased.key, number=leased.key.number + 1)
        return key if await helper.find(key.batch_id) is not None else None

    async def _fix_members(self, leased: Leased) -> CommitRequest | None:
        """Fix whom the batch consists of; None if too few are left."""
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            members, count, _ = await compute_batch_members(transaction, leased.batch_id)
            if batch.members is None:
                if count < batch.least_reports:
                    return None
                await transaction.change(BatchRecord, leased.batch_id, members=members)
            left_out = await list_left_out(transaction, leased.batch_id)
        return CommitRequest(members=members, count=count, without=tuple(left_out))

    async def _reopen(self, leased: Leased) -> BatchState:
        """Let a batch take reports again: too few are left, or the helper knows of more."""
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state == "closing":
                await transaction.change(
                    BatchRecord, leased.batch_id, state="open", members=None, is_asked=False
                )
        return "open"

    async def _commit(
        self, leased: Leased, helper: HelperClient, request: CommitRequest
    ) -> tuple[SumAnswer, bytes]:
        """Ask the helper for its answer, and verify that it is the one asked for."""
        data = await helper.commit(leased.batch_id, request)
        answer = SumAnswer.decode(data, leased.plan.helper.identity)
        if (answer.batch_id, answer.members, answer.count) != (
            leased.batch_id,
            request.members,
            request.count,
        ):
            raise HelperError(
                "answered for another batch, or for other reports than it was asked for",
                field="helper",
                fix="ask the helper's operator: it does not keep to the protocol. Nothing of the "
                "batch was opened",
            )
        return answer, data

    async def _repeat(self, leased: Leased) -> None:
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state == "closing":
                await repeat_check(transaction, batch)

    async def _store_total(self, leased: Leased, answered: tuple[SumAnswer, bytes]) -> BatchState:
        """Add up both halves and this server's noise, and store the total in one transaction."""
        answer, _ = answered
        masked = None
        if answer.state == "answered":
            masked = await self._sum_payloads(leased, answer.members)
        async with self._store.begin(write=True) as transaction:
            batch = await self._require(transaction, leased)
            if batch.state != "closing" or batch.members != answer.members:
                return batch.state
            _, _, n_records = await compute_batch_members(transaction, leased.batch_id)
            if answer.n_records != n_records:
                raise _is_odd("records", n_records, answer.n_records)
            await self._write_total(transaction, leased, masked, answered)
        return "opened"

    async def _write_total(
        self,
        transaction: Transaction,
        leased: Leased,
        masked: Words | None,
        answered: tuple[SumAnswer, bytes],
    ) -> None:
        """Store the total; this server's noise is drawn here, and nowhere else.

        Parameters
        ----------
        masked
            This server's half; None if the answer has the total, which was drawn already.
        """
        answer, data = answered
        plan = leased.plan
        half = plan.ring.decode(answer.body, n_words=plan.n_coordinates)
        if masked is None:
            total = plan.ring.centre(half)
        else:
            total = open_total(masked, half, self._draw_noise(plan), ring=plan.ring)
        await open_batch(
            transaction,
            leased.batch_id,
            sums=encode_payload(total, plan.payload_width),
            n_records=answer.n_records,
            answer=_read_statement(data),
            now=self._clock.now(),
        )

    def _draw_noise(self, plan: SketchPlan) -> NDArray[np.int64]:
        return plan.mechanism.add_noise(np.zeros(plan.n_coordinates, dtype=np.int64), self.source)

    async def _sum_payloads(self, leased: Leased, members: bytes) -> Words:
        """Add up the masked words of a batch.

        Its members are fixed; but a worker that lost its lease may look while another lets the
        helper judge them again, and a sum of some of them would never be found wrong.
        """
        plan, n_words = leased.plan, leased.plan.n_coordinates
        total, reports = np.zeros(n_words, dtype=np.uint64), []
        async with self._store.begin() as transaction:
            async for rows in stream_payloads(transaction, leased.batch_id):
                for header, payload in rows:
                    reports.append(compute_report(header))
                    total += read_masked(payload, ring=plan.ring, n_words=n_words)
        if compute_members(reports) != members:
            raise StoreError(
                "has other reports than the helper answered for: another worker has it too",
                field="batch",
                fix="none is needed: nothing was opened, and the batch is taken up again; if it "
                "stays so, check the clocks of the workers and `lease_s`",
            )
        return total

    # Acknowledging: the helper gets the total before anybody else.

    async def _acknowledge(self, leased: Leased, helper: HelperClient) -> BatchState:
        async with self._store.begin() as transaction:
            batch = await self._require(transaction, leased)
        try:
            await helper.acknowledge(leased.batch_id, batch.sums or b"")
        except BatchCommittedError:
            await self._exchange_total(leased, helper, batch)
        await self._count(leased)
        return "acknowledged"

    async def _exchange_total(
        self, leased: Leased, helper: HelperClient, batch: BatchRecord
    ) -> None:
        """Take the total that the helper has in the place of this server's, which nobody has seen.

        This server opened the batch, and was restored to a backup of before; then the first total
        reached the helper, late.
        """
        request = CommitRequest(members=batch.members or b"", count=batch.n_reports)
        answer, data = await self._commit(leased, helper, request)
        if answer.state != "acknowledged":
            raise _is_odd("a batch", "acknowledged", answer.state)
        ring, width = leased.plan.ring, leased.plan.payload_width
        total = ring.centre(ring.decode(answer.body, n_words=leased.plan.n_coordinates))
        async with self._store.begin(write=True) as transaction:
            now = await self._require(transaction, leased)
            if now.state == "opened":
                await transaction.change(
                    BatchRecord,
                    leased.batch_id,
                    sums=encode_payload(total, width),
                    answer=_read_statement(data),
                )

    async def _count(self, leased: Leased) -> None:
        """Note that the helper has the total, check it, and count it in."""
        layout = Layout.of(leased.plan)
        async with self._store.begin(write=True) as transaction:
            # One part after the other, so that the last one is compared with all.
            await lock_cells(transaction, leased.batch.study_id)
            batch = await self._require(transaction, leased)
            if batch.state != "opened":
                return
            await transaction.change(BatchRecord, leased.batch_id, state="acknowledged")
            flags = [] if is_plausible(leased.plan, batch) else ["implausible"]
            standing = "flagged" if flags else "counted"
            await transaction.change(BatchRecord, leased.batch_id, flags=flags, standing=standing)
            if not flags:
                await count_in(transaction, batch, layout=layout)
            for part in find_inconsistent(leased.plan, await list_parts(transaction, batch)):
                await transaction.change(
                    BatchRecord,
                    part.batch_id,
                    flags=[*part.flags, "inconsistent"],
                    standing="flagged",
                )
                await count_out(transaction, part, layout=layout)


def _is_last_chance(leased: Leased, study: StudyRecord, now: float) -> bool:
    """Return whether no report may come any more that a batch could wait for."""
    release = leased.plan.sum_release
    assert release is not None
    _, end = leased.plan.window.slot_bounds(leased.batch.slot)
    is_late = now >= end + find_last_close(release.late_s)
    return is_late or leased.batch.is_asked or not study.accepts_sketches(now)


def _differs(count: int) -> BatchDiffersError:
    return BatchDiffersError(
        f"is held by the helper with {count} report(s) that this server does not have: it was "
        "restored from a backup",
        field="batch",
        fix="wait: devices send them again by themselves; or go on without them, by `sfumato batch "
        "open`",
    )


def _is_odd(what: str, ours: object, theirs: object) -> HelperError:
    return HelperError(
        f"states {theirs} for {what}, and this server {ours}",
        field="helper",
        fix="ask the helper's operator: one of the two servers does not keep to the protocol",
    )


def _read_statement(data: bytes) -> bytes:
    """Return what the helper signed, without the body: its digest is in the statement."""
    envelope, _ = decode_deterministic(data, what="answer")
    return encode_deterministic(envelope)
