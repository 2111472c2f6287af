"""The store: devices and what they said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.devices.record import DeviceRecord, RetiredKeyRecord
from sfumato.aggregator.resources.devices.store import (
    add_device,
    count_devices,
    count_plan_refusals,
    list_devices,
    note_heartbeat,
    rotate_key,
    touch_devices,
)
from sfumato.aggregator.resources.sketches.record import MOST_RANGES, StreamRecord
from sfumato.aggregator.resources.sketches.store.streams import (
    count_streams,
    list_streams,
    list_streams_of,
)
from sfumato.aggregator.resources.studies.store import add_study
from tests.aggregator.records import (
    STUDY,
    add_sketch,
    fill,
    make_device,
    make_payload,
    make_sketch,
    name,
)

pytestmark = pytest.mark.anyio


async def test_devices_are_listed_in_pages_of_one_study_or_of_all(store: Store) -> None:
    other = replace(STUDY, study_id=name("other"), name="other")
    elsewhere = make_device(2, study_id=other.study_id, enrolled=1.0, ordinal=0)
    devices = [make_device(0), make_device(1), make_device(3, enrolled=1.0, ordinal=2)]
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)
        await add_study(transaction, other)
        for device in (*devices, elsewhere):
            await add_device(transaction, device)
        await add_sketch(transaction, make_sketch(1, 0), make_payload(1, 0))
        await add_sketch(transaction, make_sketch(1, 4), make_payload(1, 4))
    devices.sort(key=lambda d: (d.enrolled, d.device_id))
    everywhere = sorted([*devices, elsewhere], key=lambda d: (d.enrolled, d.device_id))
    async with store.begin() as transaction:
        for study, expected in ((STUDY.study_id, devices), (None, everywhere)):
            first = await list_devices(transaction, study, after=None, limit=2)
            after = (first[-1].enrolled, first[-1].device_id)
            rest = await list_devices(transaction, study, after=after, limit=9)
            assert [*first, *rest] == expected
        ids = [device.device_id for device in everywhere]
        assert await list_streams_of(transaction, ids) == {
            name("device", 1): [
                StreamRecord(
                    stream="main", last_sequence=4, last_slot=4, n_missing=3, missing=((1, 3),)
                )
            ]
        }


async def test_the_numbers_that_a_stream_lacks_are_found(store: Store) -> None:
    every_other = [2 * i for i in range(MOST_RANGES + 5)]
    held = {(0, "whole"): [1, 0, 2], (0, "late"): [1], (0, "many"): every_other, (1, "a"): [3]}
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)
        for number in (0, 1):
            await add_device(transaction, make_device(number))
        for (number, stream), sequences in held.items():
            for i in sequences:
                identity = name("sketch", number, stream, i)
                sketch = make_sketch(number, i, stream=stream, sketch_id=identity)
                assert await add_sketch(transaction, sketch, b"")
    async with store.begin() as transaction:
        found = await list_streams_of(transaction, [name("device", i) for i in (0, 1)])
        counted = [await count_streams(transaction, name("device", i)) for i in (0, 1, 2)]
        assert counted == [3, 1, 0]
        assert list(found[name("device", 0)]) == await list_streams(transaction, name("device", 0))
    assert {
        (number, record.stream): (record.n_missing, record.missing)
        for number in (0, 1)
        for record in found[name("device", number)]
    } == {
        (0, "whole"): (0, ()),
        (0, "late"): (1, ((0, 0),)),
        (0, "many"): (MOST_RANGES + 4, tuple((2 * i + 1,) * 2 for i in range(MOST_RANGES))),
        (1, "a"): (3, ((0, 2),)),
    }


async def test_a_device_changes_its_key_and_the_old_one_is_kept(store: Store) -> None:
    device = name("device", 1)
    retired = [
        RetiredKeyRecord(
            key_id=name(i),
            device_id=device,
            public_key=name("key", i),
            retired=float(i),
            successor=name(i + 1),
            last_sequences={"näme": (1 << 53) - 1},
        )
        for i in (1, 2)
    ]
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        for old in retired:
            assert await rotate_key(transaction, old, public_key=name("key", old.successor))
        assert not await rotate_key(transaction, retired[0], public_key=b"")
        changed = replace(retired[0], last_sequences={"a": 1}, revoked=9.0)
        await transaction.change(
            RetiredKeyRecord, changed.key_id, last_sequences={"a": 1}, revoked=9.0
        )
        assert await transaction.revoke(DeviceRecord, device, now=5.0)
        assert not await transaction.revoke(DeviceRecord, device, now=6.0)
        assert not await transaction.revoke(DeviceRecord, name("nobody"), now=6.0)
    async with store.begin() as transaction:
        assert await transaction.list_all(RetiredKeyRecord, device_id=device) == [
            changed,
            retired[1],
        ]
        assert await transaction.list_all(RetiredKeyRecord, device_id=name("device", 0)) == []
        found = await transaction.get(DeviceRecord, device)
    assert found == make_device(1, public_key=name("key", name(3)), revoked=5.0)


async def test_the_last_heartbeat_of_a_device_is_kept(store: Store) -> None:
    refusal = {"study": "5f", "rule": "policy.max_epsilon", "detail": "nörd"}
    said = {"agent": "0.1.0", "plan_refusals": [refusal, refusal]}
    async with store.begin(write=True) as transaction:
        await fill(transaction, n_devices=3)
        first, second, _ = (name("device", number) for number in range(3))
        await note_heartbeat(transaction, first, {"plan_refusals": []}, now=1.0)
        for device in (first, second, name("nobody")):
            await note_heartbeat(transaction, device, said, now=2.0)
    async with store.begin() as transaction:
        assert await count_plan_refusals(transaction, STUDY.study_id) == {"policy.max_epsilon": 2}
        assert await count_plan_refusals(transaction, name("other")) == {}
        found = await transaction.get(DeviceRecord, first)
    assert found == make_device(0, heartbeat=said, heartbeat_at=2.0, last_seen=2.0)


async def test_a_device_shows_when_it_was_seen_and_how_far_it_is(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        device = name("device", 1)
        await touch_devices(transaction, [device], now=7.0)
        await touch_devices(transaction, [device], now=8.0, n_sketches=2)
        assert await transaction.get(DeviceRecord, device, lock=True) == make_device(
            1, last_seen=8.0, n_sketches=2
        )
        for stream, sequence in (("z", 3), ("z", 20), ("z", 5), ("a", 0)):
            sketch = make_sketch(1, sequence, stream=stream, sketch_id=name(stream, sequence))
            await add_sketch(transaction, sketch, b"")
        streams = await list_streams(transaction, device)
        assert [(s.stream, s.last_sequence, s.last_slot) for s in streams] == [
            ("a", 0, 0),
            ("z", 20, 20),
        ]
        assert await count_devices(transaction, [STUDY.study_id]) == {STUDY.study_id: 2}
        listed = await list_devices(transaction, STUDY.study_id, after=None, limit=9)
        assert [d.device_id for d in listed] == [name("device", 0), device]
