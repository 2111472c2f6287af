"""The store: decodes and their leases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aggregator.storage import Store
from tests.aggregator.storage.records import (
    lease,
    make_decode,
    name,
    queue,
)

pytestmark = pytest.mark.anyio


async def test_a_lease_is_given_to_one_worker_oldest_first(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 5, 2)
        assert await transaction.has_leasable_decode(now=0.0)
    first, second, third = [await lease(store, name("w", i)) for i in range(3)]
    assert first is not None
    assert second is not None
    assert (first.decode_id, second.decode_id) == (name("decode", 2), name("decode", 5))
    assert third is None
    assert (first.state, first.attempts, first.lease_token) == ("running", 1, name("w", 0))
    async with store.begin() as transaction:
        assert not await transaction.has_leasable_decode(now=10.0)
        assert await transaction.has_leasable_decode(now=10.5)


async def test_of_many_workers_at_once_each_gets_another_decode(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, *range(4))
    leased = await asyncio.gather(*(lease(store, name("w", i)) for i in range(6)))
    ids = [decode.decode_id for decode in leased if decode is not None]
    assert sorted(ids) == sorted(name("decode", i) for i in range(4))


async def test_an_expired_lease_is_taken_over_and_its_holder_writes_no_more(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1)
    decode = name("decode", 1)
    assert await lease(store, name("old"), now=0.0) is not None
    async with store.begin(write=True) as transaction:
        assert await transaction.renew_lease(decode, name("old"), expires=20.0, progress=0.5)
    assert await lease(store, name("new"), now=15.0) is None
    taken = await lease(store, name("new"), now=21.0)
    assert taken is not None
    assert (taken.attempts, taken.progress) == (2, 0.0)
    async with store.begin(write=True) as transaction:
        assert not await transaction.renew_lease(decode, name("old"), expires=99.0, progress=0.6)
        assert not await transaction.release_lease(decode, name("old"))
        late: dict[str, Any] = {"state": "succeeded", "now": 30.0, "result": {"by": "old"}}
        assert not await transaction.finish_decode(decode, name("old"), **late)
        result = {"centroids": [[0.1 + 0.2, -1e300]]}
        assert await transaction.finish_decode(
            decode, name("new"), state="succeeded", now=31.0, result=result
        )
        assert not await transaction.finish_decode(
            decode, name("new"), state="failed", now=32.0, problem={}
        )
        found = await transaction.get_decode(decode)
    assert found is not None
    assert (found.state, found.progress, found.finished) == ("succeeded", 1.0, 31.0)
    assert (found.result, found.problem, found.lease_token) == (result, None, None)


async def test_a_decode_is_tried_three_times(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1)
    for attempt in range(3):
        assert await lease(store, name(attempt), now=100.0 * attempt) is not None
    assert await lease(store, name("fourth"), now=1000.0) is None
    async with store.begin(write=True) as transaction:
        fail = transaction.fail_exhausted
        assert await fail(now=205.0, max_attempts=3, problem={}) == 0
        assert await fail(now=1000.0, max_attempts=3, problem={"title": "x"}) == 1
        found = await transaction.get_decode(name("decode", 1))
        assert found is not None
        assert (found.state, found.problem) == ("failed", {"title": "x"})
        assert await transaction.requeue_decode(name("decode", 1))
        assert await transaction.get_decode(name("decode", 1)) == make_decode(1)
        assert not await transaction.requeue_decode(name("decode", 1))


async def test_a_decode_that_is_given_back_has_lost_no_attempt(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1)
    await lease(store, name("w"))
    async with store.begin(write=True) as transaction:
        assert await transaction.release_lease(name("decode", 1), name("w"))
        assert await transaction.get_decode(name("decode", 1)) == make_decode(1)


async def test_a_cancelled_decode_stays_so(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, 2)
    await lease(store, name("w"))
    running, waiting = name("decode", 1), name("decode", 2)
    async with store.begin(write=True) as transaction:
        assert await transaction.cancel_decode(running, now=5.0)
        assert await transaction.cancel_decode(waiting, now=5.0)
        assert not await transaction.cancel_decode(waiting, now=6.0)
        assert not await transaction.renew_lease(running, name("w"), expires=9.0, progress=0.1)
        assert not await transaction.finish_decode(
            running, name("w"), state="succeeded", now=9.0, result={}
        )
        assert not await transaction.has_leasable_decode(now=1e9)
        found = await transaction.get_decode(waiting)
    assert found == make_decode(2, state="cancelled", finished=5.0)
