"""Jobs, which are decodes and analyses: states, leases of workers, and published results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from sqlalchemy import ColumnElement, Index, and_, delete, func, or_, select, update
from sqlalchemy.sql.dml import Update

from sfumato.aggregator.base.columns import KEY
from sfumato.aggregator.base.tables import TABLES, derive_table
from sfumato.aggregator.base.transaction import (
    NO_LEASE,
    Transaction,
    key_of,
    select_records,
    to_record,
    update_one,
)
from sfumato.aggregator.resources.jobs.record import (
    AnalysisRecord,
    DecodeRecord,
    JobRecord,
    JobState,
    PosteriorRecord,
    PublicationRecord,
    StoreTotals,
)
from sfumato.aggregator.resources.studies.store import STUDIES


class _Worker:
    """The time at which a worker last showed that it is there."""

    worker_id: Annotated[bytes, KEY]
    seen: float


DECODES = derive_table(
    "decodes",
    DecodeRecord,
    Index(None, "state", "created"),
    Index(None, "study_id", "created", "decode_id"),
    order=("created", "decode_id"),
    is_newest_first=True,
)
POSTERIORS = derive_table("posteriors", PosteriorRecord, Index(None, "study_id"))
ANALYSES = derive_table(
    "analyses",
    AnalysisRecord,
    Index(None, "state", "created"),
    Index(None, "study_id", "created", "analysis_id"),
    order=("created", "analysis_id"),
    is_newest_first=True,
)
PUBLICATIONS = derive_table("publications", PublicationRecord, order=("sequence", "decode_id"))
WORKERS = derive_table("workers", _Worker)


async def find_last_publication(
    transaction: Transaction, study_id: bytes, *, lock: bool = False
) -> PublicationRecord | None:
    """Return the latest published result of a study; ``lock`` keeps others from adding one."""
    if lock:  # the study's row, for there may be no publication yet
        study = select(STUDIES.c.study_id).where(STUDIES.c.study_id == study_id).with_for_update()
        await transaction.connection.execute(study)
    statement = (
        select_records(PublicationRecord)
        .where(PUBLICATIONS.c.study_id == study_id)
        .order_by(PUBLICATIONS.c.sequence.desc())
        .limit(1)
    )
    return to_record(PublicationRecord, (await transaction.connection.execute(statement)).first())


_KINDS: Final[tuple[type[JobRecord], ...]] = (DecodeRecord, AnalysisRecord)
_AFRESH: dict[str, Any] = {
    "state": "queued",
    "progress": 0.0,
    "started": None,
    "finished": None,
    "result": None,
    "problem": None,
    "attempts": 0,
    **NO_LEASE,
}


async def requeue_job(transaction: Transaction, kind: type[JobRecord], job_id: bytes) -> bool:
    """Queue a failed or cancelled job again; false if it is in another state."""
    ended = TABLES[kind].c.state.in_(["failed", "cancelled"])
    return await transaction.run(update_one(kind, job_id).where(ended).values(_AFRESH)) > 0


async def cancel_job(
    transaction: Transaction, kind: type[JobRecord], job_id: bytes, *, now: float
) -> bool:
    """Cancel a job; false if it has ended."""
    under_way = TABLES[kind].c.state.in_(["queued", "running"])
    cancelled = {"state": "cancelled", "finished": now, **NO_LEASE}
    return await transaction.run(update_one(kind, job_id).where(under_way).values(cancelled)) > 0


async def has_leasable_job(transaction: Transaction, *, now: float) -> bool:
    """Return whether a job waits for a worker."""
    for kind in _KINDS:
        if await transaction.exists(select(key_of(TABLES[kind])).where(_leasable(kind, now))):
            return True
    return False


async def lease_job(
    transaction: Transaction, *, token: bytes, now: float, expires: float, max_attempts: int
) -> JobRecord | None:
    """Lease the oldest job that is queued or whose lease has expired.

    One statement for a table, that of the oldest job first. On Postgres, workers skip locked
    rows; SQLite has one writer.
    """
    waiting: list[tuple[float, type[JobRecord]]] = []
    for kind in _KINDS:
        jobs = TABLES[kind].c
        oldest = select(func.min(jobs.created)).where(
            _leasable(kind, now), jobs.attempts < max_attempts
        )
        since = await transaction.scalar(oldest)
        if since is not None:
            waiting.append((since, kind))
    for _, kind in sorted(waiting, key=lambda each: each[0]):
        jobs = TABLES[kind].c
        is_due = and_(_leasable(kind, now), jobs.attempts < max_attempts)
        leased = await transaction.lease(
            kind,
            select(key_of(TABLES[kind])).where(is_due).order_by(jobs.created),
            state="running",
            started=now,
            progress=0.0,
            lease_token=token,
            lease_expires=expires,
            attempts=jobs.attempts + 1,
        )
        if leased is not None:
            return leased
    return None


async def renew_lease(
    transaction: Transaction,
    kind: type[JobRecord],
    job_id: bytes,
    token: bytes,
    *,
    expires: float,
    progress: float,
) -> bool:
    """Prolong a lease; false if it is lost or the job was cancelled."""
    statement = _held(kind, job_id, token).values(lease_expires=expires, progress=progress)
    return await transaction.run(statement) > 0


async def release_lease(
    transaction: Transaction, kind: type[JobRecord], job_id: bytes, token: bytes
) -> bool:
    """Return a job to the queue; the attempt does not count."""
    waiting = {
        "state": "queued",
        "started": None,
        "progress": 0.0,
        "attempts": TABLES[kind].c.attempts - 1,
        **NO_LEASE,
    }
    return await transaction.run(_held(kind, job_id, token).values(waiting)) > 0


async def finish_job(
    transaction: Transaction,
    kind: type[JobRecord],
    job_id: bytes,
    token: bytes,
    *,
    state: JobState,
    now: float,
    result: Mapping[str, Any] | None = None,
    problem: Mapping[str, Any] | None = None,
) -> bool:
    """Store the end of a job; false if the lease is lost or it was cancelled."""
    ended = {"state": state, "finished": now, "result": result, "problem": problem, **NO_LEASE}
    if state == "succeeded":
        ended["progress"] = 1.0
    return await transaction.run(_held(kind, job_id, token).values(ended)) > 0


async def fail_exhausted(
    transaction: Transaction, *, now: float, max_attempts: int, problem: Mapping[str, Any]
) -> int:
    """Fail jobs whose last allowed attempt has expired; return the number."""
    failed = {"state": "failed", "finished": now, "problem": problem, **NO_LEASE}
    n_failed = 0
    for kind in _KINDS:
        jobs = TABLES[kind].c
        exhausted = update(TABLES[kind]).where(_leasable(kind, now), jobs.attempts >= max_attempts)
        n_failed += await transaction.run(exhausted.values(failed))
    return n_failed


async def count_totals(transaction: Transaction) -> StoreTotals:
    """Count studies, devices, decodes and analyses, for the metrics."""
    counted = select(func.count(), func.coalesce(func.sum(STUDIES.c.n_ordinals), 0)).where(
        STUDIES.c.state != "withdrawn"
    )
    n_studies, n_devices = (await transaction.connection.execute(counted)).one()
    return StoreTotals(
        n_studies=int(n_studies),
        n_devices=int(n_devices),
        decodes=await transaction.count_states(DecodeRecord),
        analyses=await transaction.count_states(AnalysisRecord),
    )


async def note_worker(
    transaction: Transaction, worker_id: bytes, *, now: float, oldest: float
) -> None:
    """Note that a worker is there; forget those that were last seen before ``oldest``."""
    await transaction.run(delete(WORKERS).where(WORKERS.c.seen < oldest))
    note = transaction.insert_into(WORKERS).values(worker_id=worker_id, seen=now)
    key = [WORKERS.c.worker_id]
    await transaction.connection.execute(
        note.on_conflict_do_update(index_elements=key, set_={"seen": now})
    )


async def drop_worker(transaction: Transaction, worker_id: bytes) -> None:
    """Forget a worker that ends."""
    await transaction.run(delete(WORKERS).where(WORKERS.c.worker_id == worker_id))


async def count_workers(transaction: Transaction, *, since: float) -> int:
    """Count the workers that were seen since a time."""
    seen = WORKERS.c.seen >= since
    return int(await transaction.scalar(select(func.count()).select_from(WORKERS).where(seen)))


def _held(kind: type[JobRecord], job_id: bytes, token: bytes) -> Update:
    """Update as the holder of the lease: a worker that is too late finds no row."""
    jobs = TABLES[kind].c
    return update_one(kind, job_id).where(jobs.state == "running", jobs.lease_token == token)


def _leasable(kind: type[JobRecord], now: float) -> ColumnElement[bool]:
    jobs = TABLES[kind].c
    expired = and_(jobs.state == "running", jobs.lease_expires < now)
    return or_(jobs.state == "queued", expired)
