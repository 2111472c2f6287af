"""The store: rows as such, keys, tokens, the audit log and the generation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sfumato.aggregator.base.generation import get_generation, renew_generation
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.database.schema import require_ready
from sfumato.aggregator.resources.devices.record import DeviceRecord, TokenRecord
from sfumato.aggregator.resources.devices.store import add_device, touch_devices, use_token
from sfumato.aggregator.resources.jobs.record import AnalysisRecord, DecodeRecord
from sfumato.aggregator.resources.jobs.store import cancel_job, count_totals
from sfumato.aggregator.resources.keys.record import AuditRecord, KeyRecord
from sfumato.aggregator.resources.keys.store import touch_key
from sfumato.aggregator.resources.sketches.store.sketches import count_refusal, list_refusals
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import add_study
from tests.aggregator.records import (
    SNAPSHOT,
    STUDY,
    add_sketch,
    fill,
    find_neighbours,
    get_sketch,
    make_analysis,
    make_decode,
    make_device,
    make_payload,
    make_sketch,
    make_token,
    name,
    queue,
)

pytestmark = pytest.mark.anyio


async def test_it_is_ready(store: Store) -> None:
    await require_ready(store)


async def test_what_is_stored_is_read_back_field_by_field(store: Store) -> None:
    token = TokenRecord(
        token_hash=name("t"),
        study_id=STUDY.study_id,
        max_uses=1,
        created=1.5,
        expires=5.5,
    )
    forced = replace(token, token_hash=name("u"), labels={"site": "nörd"}, revoked=2.5)
    key = KeyRecord(key_id="k", key_hash=name("k"), name="me", scope="operator", created=1.0)
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1)
        await transaction.add(make_analysis(1))
        await add_device(transaction, make_device(1))
        await add_sketch(transaction, make_sketch(1, 0), make_payload(1, 0))
        await transaction.add(token)
        await transaction.add(forced)
        await transaction.add(key)
    async with store.begin() as transaction:
        assert await transaction.get(StudyRecord, STUDY.study_id) == STUDY
        assert await transaction.get(DeviceRecord, name("device", 1)) == make_device(1, ordinal=0)
        assert await get_sketch(transaction, name("sketch", 1, 0)) == make_sketch(1, 0)
        assert await transaction.get(TokenRecord, name("t")) == token
        assert await transaction.get(TokenRecord, name("u")) == forced
        assert await transaction.get(SnapshotRecord, SNAPSHOT.snapshot_id) == SNAPSHOT
        assert await transaction.get(DecodeRecord, name("decode", 1)) == make_decode(1)
        assert await transaction.get(AnalysisRecord, name("analysis", 1)) == make_analysis(1)
        assert await transaction.get(KeyRecord, "k") == key
        assert await transaction.find(KeyRecord, key_hash=key.key_hash) == key


async def test_what_is_not_there_is_none(store: Store) -> None:
    async with store.begin() as transaction:
        assert await transaction.get(StudyRecord, name("?")) is None
        assert await transaction.get(DeviceRecord, name("?"), lock=True) is None
        assert await get_sketch(transaction, name("?")) is None
        assert await transaction.get(TokenRecord, name("?")) is None
        assert await transaction.get(SnapshotRecord, name("?")) is None
        assert await transaction.get(DecodeRecord, name("?")) is None
        assert await transaction.get(KeyRecord, "?") is None
        assert await transaction.find(KeyRecord, key_hash=name("?")) is None
        assert await list_refusals(transaction, name("?")) == []


async def test_a_transaction_that_fails_leaves_no_trace(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        before = await get_generation(transaction)

    async def fail() -> None:
        async with store.begin(write=True) as transaction:
            await add_sketch(transaction, make_sketch(1, 0), make_payload(1, 0))
            await touch_devices(transaction, [name("device", 1)], now=7.0, n_sketches=1)
            await count_refusal(transaction, STUDY.study_id, "not-found")
            await renew_generation(transaction)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        await fail()
    async with store.begin() as transaction:
        assert await get_sketch(transaction, name("sketch", 1, 0)) is None
        assert await transaction.get(DeviceRecord, name("device", 1)) == make_device(1)
        assert await list_refusals(transaction, STUDY.study_id) == []
        assert await find_neighbours(transaction, name("device", 1), "main", 1) == (None, None)
        assert await get_generation(transaction) == before


async def test_an_identity_is_taken_once(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1)
        await fill(transaction)
        await add_sketch(transaction, make_sketch(1, 0), make_payload(1, 0))
    async with store.begin(write=True) as transaction:
        assert not await add_study(transaction, replace(STUDY, name="other"))
        assert not await add_device(transaction, make_device(1, labels={}))
        assert not await transaction.add(make_decode(1, seed=2))
        assert not await transaction.add(replace(SNAPSHOT, snr=0.0))
        assert not await add_sketch(transaction, make_sketch(1, 0, n_records=3), b"")
        # Nor does another identity for the same place in a stream.
        other = make_sketch(1, 0, sketch_id=name("other"))
        assert not await add_sketch(transaction, other, b"")
    async with store.begin() as transaction:
        assert await transaction.get(StudyRecord, STUDY.study_id) == STUDY
        assert await get_sketch(transaction, name("sketch", 1, 0)) == make_sketch(1, 0)


async def test_of_many_that_add_at_once_one_does(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction)

    async def add() -> bool:
        async with store.begin(write=True) as transaction:
            return await add_sketch(transaction, make_sketch(1, 0), make_payload(1, 0))

    added = await asyncio.gather(*(add() for _ in range(6)))
    assert sorted(added) == [False] * 5 + [True]


async def test_a_token_is_used_as_often_as_it_may_be(store: Store) -> None:
    token = make_token("t", max_uses=2, expires=50.0)
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)
        await transaction.add(token)
        assert not await use_token(transaction, name("t"), now=50.0)
        used = [await use_token(transaction, name("t"), now=49.0) for _ in range(3)]
        assert used == [True, True, False]
        assert not await use_token(transaction, name("unknown"), now=0.0)


async def test_a_token_is_revoked_once_and_then_used_no_more(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)
        for i in "tu":
            await transaction.add(make_token(i, max_uses=2))
        assert await use_token(transaction, name("t"), now=1.0)
        assert await transaction.revoke(TokenRecord, name("t"), now=3.0)
        assert not await transaction.revoke(TokenRecord, name("t"), now=4.0)
        assert not await transaction.revoke(TokenRecord, name("unknown"), now=4.0)
        assert not await use_token(transaction, name("t"), now=1.0)
        assert await use_token(transaction, name("u"), now=1.0)
    async with store.begin() as transaction:
        found = await transaction.get(TokenRecord, name("t"))
    assert found == make_token("t", max_uses=2, uses=1, revoked=3.0)


async def test_the_tokens_of_a_study_are_listed_in_pages_in_order(store: Store) -> None:
    other = replace(STUDY, study_id=name("other"), name="other")
    tokens = [make_token(i, created=float(i // 2)) for i in range(5)]
    tokens.sort(key=lambda token: (token.created, token.token_hash))
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)
        await add_study(transaction, other)
        for token in reversed(tokens):
            await transaction.add(token)
        await transaction.add(make_token("other", study_id=other.study_id))
    listed: list[TokenRecord] = []
    async with store.begin() as transaction:
        for expected in (2, 2, 1, 0):
            after = (listed[-1].created, listed[-1].token_hash) if listed else None
            page = await transaction.list_page(
                TokenRecord, study_id=STUDY.study_id, after=after, limit=2
            )
            assert len(page) == expected
            listed += page
    assert listed == tokens


async def test_keys_are_listed_and_revoked_once(store: Store) -> None:
    keys = [
        KeyRecord(key_id=i, key_hash=name(i), name=i, scope="analyst", created=float(n))
        for n, i in enumerate("ba")
    ]
    async with store.begin(write=True) as transaction:
        for key in keys:
            assert await transaction.add(key)
        assert not await transaction.add(replace(keys[0], key_id="c"))
        assert await transaction.revoke(KeyRecord, "a", now=9.0)
        assert not await transaction.revoke(KeyRecord, "a", now=10.0)
        assert not await transaction.revoke(KeyRecord, "unknown", now=10.0)
        await touch_key(transaction, "b", now=3.0)
        await touch_key(transaction, "b", now=2.0)
        await touch_key(transaction, "unknown", now=2.0)
        used = replace(keys[0], last_used=3.0)
        assert await transaction.list_all(KeyRecord) == [used, replace(keys[1], revoked=9.0)]


async def test_audit_entries_are_listed_in_pages_in_order(store: Store) -> None:
    entries = [
        AuditRecord(
            entry_id=bytes([i]) * 16,
            time=float(i // 2),
            actor="local",
            action="key.create",
            target="k",
            details={"name": "nörd"},
        )
        for i in range(5)
    ]
    async with store.begin(write=True) as transaction:
        for entry in reversed(entries):
            assert await transaction.add(entry)
    async with store.begin() as transaction:
        first = await transaction.list_page(AuditRecord, after=None, limit=2)
        after = (first[-1].time, first[-1].entry_id)
        rest = await transaction.list_page(AuditRecord, after=after, limit=9)
    assert [*first, *rest] == entries


async def test_totals_count_everything_by_state(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1)
        await queue(transaction, 2)
        await cancel_job(transaction, DecodeRecord, name("decode", 2), now=5.0)
        await transaction.add(make_analysis(1))
        await add_device(transaction, make_device(1))
        totals = await count_totals(transaction)
    assert (totals.n_studies, totals.n_devices) == (1, 1)
    assert dict(totals.decodes) == {"queued": 1, "cancelled": 1}
    assert dict(totals.analyses) == {"queued": 1}


async def test_a_generation_stays_until_it_is_renewed(store: Store) -> None:
    async with store.begin() as transaction:
        before = await get_generation(transaction)
    async with store.begin(write=True) as transaction:
        after = await renew_generation(transaction)
    async with store.begin() as transaction:
        assert await get_generation(transaction) == after
    assert len(before) == len(after) == 16
    assert before != after
