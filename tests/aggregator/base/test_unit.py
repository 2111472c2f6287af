"""Transactions that are one: on both databases, whole or undone."""

import asyncio
from contextlib import suppress

import pytest

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.keys.record import KeyRecord

pytestmark = pytest.mark.anyio


async def add(store: Store, name: str) -> None:
    record = KeyRecord(key_id=name, key_hash=name.encode(), name=name, scope="analyst", created=0.0)
    async with store.begin(write=True) as transaction:
        await transaction.add(record)


async def names(store: Store) -> list[str]:
    async with store.begin() as transaction:
        return sorted(each.name for each in await transaction.list_all(KeyRecord))


async def seen_by_others(store: Store) -> list[str]:
    return await asyncio.create_task(names(store))


async def test_a_unit_commits_at_its_end_and_sees_what_it_wrote(store: Store) -> None:
    async with store.unite():
        assert await names(store) == []
        await add(store, "first")
        await add(store, "second")
        assert await names(store) == ["first", "second"]
        assert await seen_by_others(store) == []
    assert await names(store) == ["first", "second"]


async def test_a_unit_that_fails_leaves_nothing(store: Store) -> None:
    with suppress(ValueError):
        async with store.unite():
            await add(store, "first")
            raise ValueError
    assert await names(store) == []
    await add(store, "later")
    assert await names(store) == ["later"]


async def test_a_block_of_a_unit_that_fails_is_undone_by_itself(store: Store) -> None:
    async with store.unite():
        await add(store, "first")
        with suppress(ValueError):
            async with store.begin(write=True) as transaction:
                await transaction.change(KeyRecord, "first", name="changed")
                raise ValueError
        await add(store, "second")
    assert await names(store) == ["first", "second"]


async def test_what_is_written_apart_stays_when_the_unit_fails(store: Store) -> None:
    with suppress(ValueError):
        async with store.unite():
            with store.apart():
                await add(store, "apart")
            assert await seen_by_others(store) == ["apart"]
            await add(store, "first")
            with store.apart():
                # A unit that has written would wait for itself.
                await add(store, "second")
            raise ValueError
    assert await names(store) == ["apart"]
