"""Take up batches that are due, one at a time, each by one worker while it renews its lease."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from sfumato.aggregator.base.clock import wait_for_stop
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.store.batches import (
    has_due_batch,
    lease_batch,
    renew_batch,
)
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.shared.errors import NotFoundError, SketchError, StudyWithdrawnError, TransportError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.sharing.batches import BatchKey
from sfumato.shared.wire import problem_document

_TOKEN_BYTES = 16
_PAUSES_S = (5.0, 15.0, 60.0, 300.0)
"""Pauses after failures; the last one repeats."""
_PERIOD_S = 1.0

log = structlog.get_logger("aggregator.batches")


@dataclass(frozen=True, kw_only=True)
class Leased:
    """A batch that this worker has leased, with its plan."""

    batch: BatchRecord
    token: bytes
    plan: SketchPlan
    key: BatchKey

    @property
    def batch_id(self) -> bytes:
        """The identity of the batch."""
        return self.batch.batch_id


class BatchLeaser(Service, ABC):
    """Leases the batch that has been due for longest, and leaves it to :meth:`advance`.

    Parameters
    ----------
    parts
        What every service is given.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._lease_s = parts.settings.lease_s

    @abstractmethod
    async def advance(self, leased: Leased) -> SketchError | None:
        """Take a batch as far as it goes; return what stopped it, if something did.

        Raises
        ------
        TransportError
            The database does not answer.
        """

    async def run(self, stop: asyncio.Event) -> None:
        """Open batches when they are due until ``stop``."""
        while not stop.is_set():
            try:
                worked = await self.run_once()
                if not worked:
                    await self._store.empty_log()
            except TransportError as error:
                log.warning("batches wait for the database", reason=describe_cause(error))
                worked = False
            if not worked:
                await wait_for_stop(stop, _PERIOD_S)

    async def run_due(self) -> int:
        """Work until no batch is due; return how many were taken up."""
        n_taken = 0
        while await self.run_once():
            n_taken += 1
        return n_taken

    async def run_once(self) -> bool:
        """Take up the batch that has been due for longest, as far as it goes; false if none is.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        leased = await self._take()
        if leased is None:
            return False
        async with self._renew_meanwhile(leased):
            failure = await self.advance(leased)
        await self._leave(leased, failure)
        return True

    async def _take(self) -> Leased | None:
        now = self._clock.now()
        async with self._store.begin() as transaction:
            # Workers look often: without the lock of a writer first.
            if not await has_due_batch(transaction, now=now):
                return None
        token = secrets.token_bytes(_TOKEN_BYTES)
        async with self._store.begin(write=True) as transaction:
            batch = await lease_batch(
                transaction, token=token, now=now, expires=now + self._lease_s
            )
            if batch is None:
                return None
            try:
                study = await require_study(transaction, batch.study_id)
            except StudyWithdrawnError:
                # Between the statements; an error here would end the worker.
                return None
        plan = await self._plans.get(study)
        return Leased(batch=batch, token=token, plan=plan, key=batch.key_of(study.plan_digest))

    @asynccontextmanager
    async def _renew_meanwhile(self, leased: Leased) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await asyncio.sleep(self._lease_s / 3.0)
                with suppress(TransportError):
                    async with self._store.begin(write=True) as transaction:
                        await renew_batch(
                            transaction,
                            leased.batch_id,
                            leased.token,
                            expires=self._clock.now() + self._lease_s,
                        )

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()

    async def _leave(self, leased: Leased, failure: SketchError | None) -> None:
        """End the lease; after a failure with the reason, and a pause."""
        now, batch = self._clock.now(), leased.batch
        values: dict[str, object] = {"problem": None, "attempts": 0, "next_at": now}
        if failure is not None:
            pause = _PAUSES_S[min(batch.attempts, len(_PAUSES_S) - 1)]
            values = {
                "problem": problem_document(failure),
                "attempts": batch.attempts + 1,
                "next_at": now + pause,
            }
        async with self._store.begin(write=True) as transaction:
            await transaction.settle(BatchRecord, leased.batch_id, leased.token, **values)

    async def _require(self, transaction: Transaction, leased: Leased) -> BatchRecord:
        """Return the batch as it is now, locked in a writing transaction."""
        await require_study(transaction, leased.batch.study_id)
        found = await transaction.get(BatchRecord, leased.batch_id, lock=True)
        if found is None:
            raise NotFoundError("is gone", field="batch", fix="its study was withdrawn")
        return found
