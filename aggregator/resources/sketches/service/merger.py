"""Merging and retention: a background task of the server, about twice a second.

Merging adds pending sketches to the running sums and takes those of excluded devices out. It
changes no total: a selection counts pending sketches, and none of an excluded device. Only the time
that a snapshot takes depends on it. Any number of replicas may run it: of two at one study, one
passes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from sfumato.aggregator.base.clock import wait_for_stop
from sfumato.aggregator.base.readiness import Readiness
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.batches.store.exclusion import (
    apply_removal,
    list_leaving,
    prepare_removal,
)
from sfumato.aggregator.resources.keys.service.idempotency import KEPT_S
from sfumato.aggregator.resources.keys.store import drop_idempotency_keys
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.sketches.store.merge import (
    apply_merge,
    list_unmerged,
    merge_sketches,
    prepare_merge,
)
from sfumato.aggregator.resources.sketches.store.retention import drop_payloads
from sfumato.aggregator.resources.studies.service.studies import StudyService
from sfumato.shared.errors import SketchError, TransportError

_PERIOD_S = 0.5
_SECONDS_A_DAY = 86_400.0
_DROP_PERIOD_S = 60.0
_BATCH = 1024
"""Sketches merged at once: many share cells, which cost more to write than to add to."""
_REMOVED = 256
"""Sketches removed at once: fewer, because their own rows are written too."""

log = structlog.get_logger("aggregator.merging")


class Merger(Service):
    """Merges pending sketches, removes excluded ones, and drops what was kept long enough."""

    def __init__(self, parts: Parts, readiness: Readiness, studies: StudyService) -> None:
        super().__init__(parts)
        self._next_drop = 0.0
        self._readiness = readiness
        self._studies = studies

    async def merge_all(self) -> int:
        """Merge and remove until nothing is left; return the number of sketches moved.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        n_moved = 0
        while True:
            n_round, has_more = await self._move_some()
            n_moved += n_round
            if not has_more:
                return n_moved

    async def _move_some(self) -> tuple[int, bool]:
        """Move one batch of each study; return the number, and whether there may be more."""
        async with self._store.begin() as transaction:
            waiting = await list_unmerged(transaction)
            leaving = await list_leaving(transaction)
        # Pending sketches of excluded devices are added first, and removed right after.
        added = [await self._move(self._merge_batch, study_id) for study_id in waiting]
        removed = [await self._move(self._remove_batch, study_id) for study_id in leaving]
        return sum(added) + sum(removed), _BATCH in added or _REMOVED in removed

    async def _move(self, move: Callable[[bytes], Awaitable[int]], study_id: bytes) -> int:
        try:
            return await move(study_id)
        except TransportError:
            raise
        except SketchError as error:
            # Other studies go on, and the totals of this one are right all the same.
            log.error("sketches cannot be merged", study=study_id.hex(), reason=str(error))
            return 0

    async def _merge_batch(self, study_id: bytes) -> int:
        if self._store.has_one_writer:
            return await self._merge_apart(study_id)
        async with self._store.begin(write=True) as transaction:
            layout = await self._find_layout(transaction, study_id)
            return await merge_sketches(transaction, study_id, layout=layout, most=_BATCH)

    async def _merge_apart(self, study_id: bytes) -> int:
        """Merge a batch, and let uploads be stored while it is summed."""
        async with self._store.begin() as transaction:
            layout = await self._find_layout(transaction, study_id)
            prepared = await prepare_merge(transaction, study_id, layout=layout, most=_BATCH)
        if prepared is None:
            return 0
        async with self._store.begin(write=True) as transaction:
            return await apply_merge(transaction, prepared)

    async def _remove_batch(self, study_id: bytes) -> int:
        """Remove a batch, and let uploads be stored while it is summed."""
        async with self._store.begin() as transaction:
            layout = await self._find_layout(transaction, study_id)
            prepared = await prepare_removal(transaction, study_id, layout=layout, most=_REMOVED)
        if prepared is None:
            return 0
        async with self._store.begin(write=True) as transaction:
            return await apply_removal(transaction, prepared)

    async def _find_layout(self, transaction: Transaction, study_id: bytes) -> Layout:
        return Layout.of(await self._plans.get(await require_study(transaction, study_id)))

    async def drop_payloads(self) -> int:
        """Drop the payloads older than their retention; return the number.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        if self._settings.payload_days is None:
            return 0
        before = self._clock.now() - self._settings.payload_days * _SECONDS_A_DAY
        n_dropped = 0
        while True:
            async with self._store.begin(write=True) as transaction:
                n_batch = await drop_payloads(transaction, received_before=before, most=_BATCH)
            n_dropped += n_batch
            if n_batch < _BATCH:
                return n_dropped

    async def _drop_now_and_then(self) -> None:
        now = self._clock.now()
        if now >= self._next_drop or self._studies.is_purge_due:
            self._next_drop = now + _DROP_PERIOD_S
            await self.drop_payloads()
            await self._studies.purge()
            async with self._store.begin(write=True) as transaction:
                await drop_idempotency_keys(transaction, before=now - KEPT_S)

    async def check(self, study_id: bytes) -> Sequence[str]:
        """Recompute the sums of a study from its sketches; name the running sums that differ.

        Raises
        ------
        NotFoundError
            There is no such study.
        """
        async with self._store.begin() as transaction:
            layout = await self._find_layout(transaction, study_id)
            return await check_sums(transaction, study_id, layout=layout)

    async def run(self, stop: asyncio.Event) -> None:
        """Merge until ``stop``, while the database can be used."""
        is_away = has_more = False
        while not stop.is_set():
            await wait_for_stop(stop, 0.0 if has_more else _PERIOD_S)
            has_more = False
            if stop.is_set() or not self._readiness.is_open:
                continue
            try:
                _, has_more = await self._move_some()
                await self._drop_now_and_then()
                is_away = False
            except TransportError as error:
                if not is_away:
                    reason = describe_cause(error)
                    log.warning("merging waits for the database", reason=reason)
                is_away = True
