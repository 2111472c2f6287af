"""The queue of jobs for workers, decodes and analyses alike: lease, renew, finish."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.jobs.record import WORKER_SILENCE_S, JobRecord
from sfumato.aggregator.resources.jobs.store import (
    count_workers,
    drop_worker,
    fail_exhausted,
    finish_job,
    has_leasable_job,
    lease_job,
    note_worker,
    release_lease,
    renew_lease,
)
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.shared.errors import DecodingError, SketchError
from sfumato.shared.wire import problem_document

MAX_ATTEMPTS = 3
_TOKEN_BYTES = 16


class Work(Protocol):
    """The inputs of a job, its computation and the description of its answer."""

    def solve(self, *, progress: Callable[[float], None], cancelled: Callable[[], bool]) -> Any:
        """Compute the answer; the same job gives the same answer on every machine.

        Raises
        ------
        SketchError
            There is no answer.
        DecodingCancelledError
            ``cancelled`` returned true.
        """

    async def complete(self, store: Store, answer: Any) -> Any:
        """Return the answer with what rests on sums that only the answer could name."""

    def describe(self, answer: Any, *, seconds: float) -> dict[str, Any]:
        """Return the answer as a document."""

    async def store(self, transaction: Transaction, answer: Any) -> None:
        """Store what is kept beside the document, in the transaction that stores it."""


Prepare = Callable[[Any], Awaitable[Work]]
"""Loads the inputs of a job."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A leased job."""

    record: JobRecord
    token: bytes


class JobService(Service):
    """Leases jobs to workers.

    Parameters
    ----------
    parts
        What every service is given.
    prepare
        Loads the inputs of each kind of job.
    """

    def __init__(self, parts: Parts, prepare: Mapping[type[JobRecord], Prepare]) -> None:
        super().__init__(parts)
        self._prepare = prepare

    async def note_worker(self, worker_id: bytes) -> None:
        """Note that a worker is there."""
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            await note_worker(transaction, worker_id, now=now, oldest=now - WORKER_SILENCE_S)

    async def drop_worker(self, worker_id: bytes) -> None:
        """Forget a worker that ends."""
        async with self._store.begin(write=True) as transaction:
            await drop_worker(transaction, worker_id)

    async def count_workers(self) -> int:
        """Count the workers that are there."""
        since = self._clock.now() - WORKER_SILENCE_S
        async with self._store.begin() as transaction:
            return await count_workers(transaction, since=since)

    async def take(self, *, lease_s: float) -> Job | None:
        """Lease the job that has waited longest; one whose lease has expired waits too.

        After three expired attempts a job fails.
        """
        now = self._clock.now()
        async with self._store.begin() as transaction:
            # Workers poll often: look first without the lock of a writer.
            if not await has_leasable_job(transaction, now=now):
                return None
        token = secrets.token_bytes(_TOKEN_BYTES)
        async with self._store.begin(write=True) as transaction:
            await fail_exhausted(
                transaction, now=now, max_attempts=MAX_ATTEMPTS, problem=_describe_exhausted()
            )
            record = await lease_job(
                transaction, token=token, now=now, expires=now + lease_s, max_attempts=MAX_ATTEMPTS
            )
        return None if record is None else Job(record=record, token=token)

    async def prepare(self, job: Job) -> Work:
        """Load the inputs of a job.

        Raises
        ------
        SketchError
            They are gone, or this release computes something else from them.
        TransportError
            The database does not answer.
        """
        return await self._prepare[type(job.record)](job.record)

    async def complete(self, work: Work, answer: Any) -> Any:
        """Return the answer of a job with what rests on sums that only it could name."""
        return await work.complete(self._store, answer)

    async def renew(self, job: Job, *, lease_s: float, progress: float) -> bool:
        """Renew a lease and store progress; false if it is lost or the job was cancelled."""
        expires = self._clock.now() + lease_s
        async with self._store.begin(write=True) as transaction:
            return await renew_lease(
                transaction,
                type(job.record),
                job.record.job_id,
                job.token,
                expires=expires,
                progress=progress,
            )

    async def succeed(self, job: Job, work: Work, answer: Any) -> bool:
        """Store an answer; false if the lease is lost."""
        now = self._clock.now()
        seconds = max(0.0, now - (job.record.started or now))
        result = work.describe(answer, seconds=seconds)
        async with self._store.begin(write=True) as transaction:
            is_stored = await finish_job(
                transaction,
                type(job.record),
                job.record.job_id,
                job.token,
                state="succeeded",
                now=now,
                result=result,
            )
            if is_stored:
                await work.store(transaction, answer)
            return is_stored

    async def fail(self, job: Job, error: SketchError) -> bool:
        """Store the error of a job; false if the lease is lost."""
        async with self._store.begin(write=True) as transaction:
            return await finish_job(
                transaction,
                type(job.record),
                job.record.job_id,
                job.token,
                state="failed",
                now=self._clock.now(),
                problem=problem_document(error),
            )

    async def give_back(self, job: Job) -> bool:
        """Release the lease, so that another worker can take the job at once."""
        async with self._store.begin(write=True) as transaction:
            return await release_lease(transaction, type(job.record), job.record.job_id, job.token)


def _describe_exhausted() -> dict[str, Any]:
    """Return the problem of a job whose workers all died."""
    return problem_document(
        DecodingError(
            "ended every worker that tried it",
            field="n_clusters",
            fix="check the workers' logs and memory; request fewer clusters or replicates",
        )
    )
