"""Requests for jobs, whatever is computed: queue, read, list, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.jobs.record import JobRecord
from sfumato.aggregator.resources.jobs.store import cancel_job, requeue_job
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_known, require_study
from sfumato.aggregator.resources.snapshots.service.snapshots import SnapshotService
from sfumato.shared.errors import DecodingError

J = TypeVar("J", bound=JobRecord)


class RequestService(Service, Generic[J]):
    """Queues jobs of one kind, shows them and cancels them."""

    def __init__(self, parts: Parts, snapshots: SnapshotService, kind: type[J]) -> None:
        super().__init__(parts)
        self._snapshots = snapshots
        self._kind = kind

    async def get(self, job_id: bytes) -> J:
        """Return a job.

        Raises
        ------
        NotFoundError
            There is none with this identity.
        """
        async with self._store.begin() as transaction:
            return await self._require(transaction, job_id)

    async def list_page(self, study_id: bytes, *, after: PageKey | None, limit: int) -> Sequence[J]:
        """Return the jobs of a study, the newest first.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        """
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return await transaction.list_page(
                self._kind, study_id=study_id, after=after, limit=limit
            )

    async def cancel(self, job_id: bytes) -> J:
        """Cancel a job; one that has ended stays as it is."""
        async with self._store.begin(write=True) as transaction:
            await cancel_job(transaction, self._kind, job_id, now=self._clock.now())
            return await self._require(transaction, job_id)

    async def _queue(self, record: J) -> tuple[J, bool]:
        """Queue a job, or queue it again where it failed or was cancelled.

        Returns
        -------
        J, bool
            The stored job, and whether it was queued now.
        """
        async with self._store.begin(write=True) as transaction:
            queued = await transaction.add(record)
            queued = queued or await requeue_job(transaction, self._kind, record.job_id)
            return await self._require(transaction, record.job_id), queued

    async def _require(self, transaction: Transaction, job_id: bytes) -> J:
        found = await transaction.get(self._kind, job_id)
        return await require_known(transaction, found, self._kind.identity.removesuffix("_id"))


def require_one_cluster(n_clusters: int) -> None:
    """Refuse fewer than one cluster, before anything is frozen, which may fail otherwise.

    Raises
    ------
    DecodingError
        There are fewer.
    """
    if n_clusters < 1:
        raise DecodingError(
            "must be at least 1", field="n_clusters", fix="request at least one cluster"
        )
