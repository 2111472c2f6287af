"""The store: decodes and analyses, which are jobs, and their leases."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import PageKey
from sfumato.aggregator.resources.jobs.record import AnalysisRecord, DecodeRecord, JobRecord
from sfumato.aggregator.resources.jobs.store import (
    cancel_job,
    fail_exhausted,
    finish_job,
    has_leasable_job,
    release_lease,
    renew_lease,
    requeue_job,
)
from tests.aggregator.records import MAKERS, STUDY, lease, make_analysis, make_decode, name, queue

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("kind", [DecodeRecord, AnalysisRecord]),
]


def identity(kind: type[JobRecord], number: int) -> bytes:
    return MAKERS[kind](number).job_id


async def test_a_lease_is_given_to_one_worker_oldest_first(
    store: Store, kind: type[JobRecord]
) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 5, 2, kind=kind)
        assert await has_leasable_job(transaction, now=0.0)
    first, second, third = [await lease(store, name("w", i)) for i in range(3)]
    assert first is not None
    assert second is not None
    assert (first.job_id, second.job_id) == (identity(kind, 2), identity(kind, 5))
    assert third is None
    assert (first.state, first.attempts, first.lease_token) == ("running", 1, name("w", 0))
    async with store.begin() as transaction:
        assert not await has_leasable_job(transaction, now=10.0)
        assert await has_leasable_job(transaction, now=10.5)


async def test_of_many_workers_at_once_each_gets_another_job(
    store: Store, kind: type[JobRecord]
) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, *range(4), kind=kind)
    leased = await asyncio.gather(*(lease(store, name("w", i)) for i in range(6)))
    ids = [job.job_id for job in leased if job is not None]
    assert sorted(ids) == sorted(identity(kind, i) for i in range(4))


async def test_a_job_that_waits_longer_goes_first_whatever_its_kind(
    store: Store, kind: type[JobRecord]
) -> None:
    (other,) = set(MAKERS) - {kind}
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, 4, kind=kind)
        await queue(transaction, 2, 3, kind=other)
    leased = [await lease(store, name("w", i)) for i in range(5)]
    wanted = [identity(kind, 1), identity(other, 2), identity(other, 3), identity(kind, 4)]
    assert [job and job.job_id for job in leased] == [*wanted, None]
    assert [type(job) for job in leased[:2]] == [kind, other]


async def test_of_both_kinds_at_once_each_worker_gets_another_job(
    store: Store, kind: type[JobRecord]
) -> None:
    (other,) = set(MAKERS) - {kind}
    async with store.begin(write=True) as transaction:
        await queue(transaction, 0, 2, kind=kind)
        await queue(transaction, 1, 3, kind=other)
    leased = await asyncio.gather(*(lease(store, name("w", i)) for i in range(8)))
    ids = [job.job_id for job in leased if job is not None]
    # A worker that finds the oldest job taken, and no other, comes again at its next poll.
    while (more := await lease(store, name("again"))) is not None:
        ids.append(more.job_id)
    wanted = [identity(each, i) for each, i in ((kind, 0), (other, 1), (kind, 2), (other, 3))]
    assert sorted(ids) == sorted(wanted)


async def test_an_expired_lease_is_taken_over_and_its_holder_writes_no_more(
    store: Store, kind: type[JobRecord]
) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, kind=kind)
    job = kind, identity(kind, 1)
    assert await lease(store, name("old"), now=0.0) is not None
    async with store.begin(write=True) as transaction:
        assert await renew_lease(transaction, *job, name("old"), expires=20.0, progress=0.5)
    assert await lease(store, name("new"), now=15.0) is None
    taken = await lease(store, name("new"), now=21.0)
    assert taken is not None
    assert (taken.attempts, taken.progress) == (2, 0.0)
    async with store.begin(write=True) as transaction:
        assert not await renew_lease(transaction, *job, name("old"), expires=99.0, progress=0.6)
        assert not await release_lease(transaction, *job, name("old"))
        late: dict[str, Any] = {"state": "succeeded", "now": 30.0, "result": {"by": "old"}}
        assert not await finish_job(transaction, *job, name("old"), **late)
        result = {"centroids": [[0.1 + 0.2, -1e300]]}
        assert await finish_job(
            transaction, *job, name("new"), state="succeeded", now=31.0, result=result
        )
        assert not await finish_job(
            transaction, *job, name("new"), state="failed", now=32.0, problem={}
        )
        found = await transaction.get(*job)
    assert found is not None
    assert (found.state, found.progress, found.finished) == ("succeeded", 1.0, 31.0)
    assert (found.result, found.problem, found.lease_token) == (result, None, None)


async def test_a_job_is_tried_three_times(store: Store, kind: type[JobRecord]) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, kind=kind)
    job = kind, identity(kind, 1)
    for attempt in range(3):
        assert await lease(store, name(attempt), now=100.0 * attempt) is not None
    assert await lease(store, name("fourth"), now=1000.0) is None
    async with store.begin(write=True) as transaction:
        fail = partial(fail_exhausted, transaction)
        assert await fail(now=205.0, max_attempts=3, problem={}) == 0
        assert await fail(now=1000.0, max_attempts=3, problem={"title": "x"}) == 1
        found = await transaction.get(*job)
        assert found is not None
        assert (found.state, found.problem) == ("failed", {"title": "x"})
        assert await requeue_job(transaction, *job)
        assert await transaction.get(*job) == MAKERS[kind](1)
        assert not await requeue_job(transaction, *job)


async def test_a_job_that_is_given_back_has_lost_no_attempt(
    store: Store, kind: type[JobRecord]
) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, kind=kind)
    await lease(store, name("w"))
    async with store.begin(write=True) as transaction:
        assert await release_lease(transaction, kind, identity(kind, 1), name("w"))
        assert await transaction.get(kind, identity(kind, 1)) == MAKERS[kind](1)


async def test_a_cancelled_job_stays_so(store: Store, kind: type[JobRecord]) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, 2, kind=kind)
    await lease(store, name("w"))
    running, waiting = (kind, identity(kind, 1)), (kind, identity(kind, 2))
    async with store.begin(write=True) as transaction:
        assert await cancel_job(transaction, *running, now=5.0)
        assert await cancel_job(transaction, *waiting, now=5.0)
        assert not await cancel_job(transaction, *waiting, now=6.0)
        assert not await renew_lease(transaction, *running, name("w"), expires=9.0, progress=0.1)
        assert not await finish_job(
            transaction, *running, name("w"), state="succeeded", now=9.0, result={}
        )
        assert not await has_leasable_job(transaction, now=1e9)
        found = await transaction.get(*waiting)
    assert found == MAKERS[kind](2, state="cancelled", finished=5.0)


async def test_the_history_lists_the_newest_first_page_by_page(
    store: Store, kind: type[JobRecord]
) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 3, 1, 2, kind=kind)
        # Two of one moment are in the order of their identities.
        await transaction.add(make_decode(7, created=2.0))
        await transaction.add(make_analysis(7, created=2.0))
        pages: list[JobRecord] = []
        after: PageKey | None = None
        while page := await transaction.list_page(
            kind, study_id=STUDY.study_id, after=after, limit=1
        ):
            pages += page
            after = (page[-1].created, page[-1].job_id)
        whole = await transaction.list_page(kind, study_id=STUDY.study_id, after=None, limit=9)
        elsewhere = await transaction.list_page(kind, study_id=name("other"), after=None, limit=9)
    assert pages == list(whole)
    assert [job.created for job in whole] == [3.0, 2.0, 2.0, 1.0]
    assert sorted(job.job_id for job in whole[1:3]) == [whole[2].job_id, whole[1].job_id]
    assert elsewhere == []


async def test_jobs_are_counted_by_state(store: Store, kind: type[JobRecord]) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, 2, 3, kind=kind)
    await lease(store, name("w"))
    async with store.begin() as transaction:
        assert await transaction.count_states(kind) == {"queued": 2, "running": 1}
        (other,) = set(MAKERS) - {kind}
        assert await transaction.count_states(other) == {}
