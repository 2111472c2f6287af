"""What every store must do; a test class for each store inherits these tests."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aggregator.ports import (
    AuditRecord,
    DecodeRecord,
    DeviceRecord,
    KeyRecord,
    RetiredKeyRecord,
    Selection,
    SketchRecord,
    SketchTotals,
    SnapshotRecord,
    Store,
    StreamRecord,
    StudyRecord,
    TokenRecord,
    Transaction,
    join_limbs,
)
from aggregator.ports.members import digest_members, encode_members
from shared.errors import StoreError
from shared.privacy.weighting import SizeMoments
from shared.wire import encode_payload


def name(*parts: object) -> bytes:
    """Return 32 bytes that stand for something."""
    return hashlib.sha256(repr(parts).encode()).digest()


STUDY = StudyRecord(
    study_id=name("study"), name="pumps", plan=b"plan", plan_digest=name("plan"), created=10.0
)
WIDTH, COORDINATES = 3, 4


def make_device(number: int, **changes: Any) -> DeviceRecord:
    """Return a device of the study."""
    record = DeviceRecord(
        device_id=name("device", number),
        study_id=STUDY.study_id,
        public_key=name("key", number),
        labels={"site": "north" if number % 2 else "south"},
        enrolled=float(number),
    )
    return replace(record, **changes)


def make_sketch(device: int, sequence: int, **changes: Any) -> SketchRecord:
    """Return a sketch of a device whose slot is its sequence number."""
    record = SketchRecord(
        sketch_id=name("sketch", device, sequence),
        study_id=STUDY.study_id,
        device_id=name("device", device),
        stream="main",
        sequence=sequence,
        first_slot=sequence,
        last_slot=sequence,
        n_records=10 + sequence,
        payload_digest=name("payload", device, sequence),
        header=b"header",
        signature=b"signature",
        received=100.0 * device + sequence,
    )
    return replace(record, **changes)


def make_sums(device: int, sequence: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return what that sketch released, up to the limits of its width."""
    rng = np.random.default_rng([device, sequence])
    limit = 1 << (8 * WIDTH - 1)
    sums = rng.integers(-limit, limit, size=COORDINATES)
    sums[0] = -limit if device % 2 else limit - 1
    return sums


def make_payload(device: int, sequence: int) -> bytes:
    """Return the payload of that sketch."""
    return encode_payload(make_sums(device, sequence), WIDTH)


SNAPSHOT = SnapshotRecord(
    snapshot_id=name("snapshot"),
    study_id=STUDY.study_id,
    digest=name("digest"),
    selection={"first_slot": None, "labels": {"site": "north"}},
    weighting="size",
    n_sketches=1,
    n_devices=1,
    n_records=10,
    snr=0.1 + 0.2,
    signal_energy=1e-300,
    noise_energy=5.0,
    # Beyond 64 bits, and beyond what a float could tell from its neighbours.
    second_moment=(1 << 80) + 1,
    third_moment=(1 << 120) + 1,
    weight_a=1.0,
    weight_b=0.1 + 0.7,
    sums=b"\0\1",
    size_sums=b"\0\2\xff",
    created=3.0,
)


def make_decode(number: int, **changes: Any) -> DecodeRecord:
    """Return a queued decode of the snapshot."""
    record = DecodeRecord(
        decode_id=name("decode", number),
        study_id=STUDY.study_id,
        snapshot_id=SNAPSHOT.snapshot_id,
        n_clusters=3,
        decoder="cl-ompr",
        solver="cl-ompr/1",
        settings={"tolerance": 1e-9, "n_replicates": 5},
        seed=(1 << 63) - 1,
        created=float(number),
    )
    return replace(record, **changes)


def assert_totals(totals: SketchTotals, sums: list[list[int]], sizes: list[int]) -> None:
    """Compare totals with the same in Python's integers."""
    columns = list(zip(*sums, strict=True)) if sums else [()] * COORDINATES
    assert totals.sums.dtype == np.int64
    assert totals.size_sums.dtype == np.int64
    assert totals.sums.tolist() == [sum(column) for column in columns]
    assert join_limbs(totals.size_sums) == [
        sum(n * value for n, value in zip(sizes, column, strict=True)) for column in columns
    ]
    assert totals.moments == SizeMoments.of_sizes(sizes)
    assert totals.n_records == sum(sizes)


def digest_of(sketches: Iterable[tuple[int, int]]) -> bytes:
    """Return the digest of a set of sketches, by device and sequence."""
    return encode_members(
        digest_members((name("sketch", *one), name("payload", *one)) for one in sketches)
    )


async def merge(transaction: Transaction, *, width: int = WIDTH, most: int = 1000) -> int:
    """Merge sketches of the study."""
    return await transaction.merge_sketches(
        STUDY.study_id, width=width, n_coordinates=COORDINATES, most=most
    )


async def fill(transaction: Transaction, n_devices: int = 2) -> None:
    """Store the study and devices."""
    await transaction.add_study(STUDY)
    for number in range(n_devices):
        await transaction.add_device(make_device(number))


async def queue(transaction: Transaction, *numbers: int) -> None:
    """Store the study, the snapshot and decodes."""
    await transaction.add_study(STUDY)
    await transaction.add_snapshot(SNAPSHOT)
    for number in numbers:
        await transaction.add_decode(make_decode(number))


async def lease(store: Store, token: bytes, *, now: float = 0.0) -> DecodeRecord | None:
    """Lease a decode for ten seconds."""
    async with store.begin(write=True) as transaction:
        return await transaction.lease_decode(
            token=token, now=now, expires=now + 10.0, max_attempts=3
        )


@pytest.mark.anyio
class StoreContract:
    """Tests of the port; a subclass gives the fixture ``store``."""

    async def test_it_is_ready(self, store: Store) -> None:
        await store.require_ready()

    async def test_what_is_stored_is_read_back_field_by_field(self, store: Store) -> None:
        token = TokenRecord(
            token_hash=name("t"), study_id=STUDY.study_id, max_uses=1, expires=5.5, labels=None
        )
        forced = replace(token, token_hash=name("u"), labels={"site": "nörd"})
        key = KeyRecord(key_id="k", key_hash=name("k"), name="me", scope="operator", created=1.0)
        async with store.begin(write=True) as transaction:
            await queue(transaction, 1)
            await transaction.add_device(make_device(1))
            await transaction.add_sketch(make_sketch(1, 0), make_payload(1, 0))
            await transaction.add_token(token)
            await transaction.add_token(forced)
            await transaction.add_key(key)
        async with store.begin() as transaction:
            assert await transaction.get_study(STUDY.study_id) == STUDY
            assert await transaction.get_device(name("device", 1)) == make_device(1)
            assert await transaction.get_sketch(name("sketch", 1, 0)) == make_sketch(1, 0)
            assert await transaction.get_token(name("t")) == token
            assert await transaction.get_token(name("u")) == forced
            assert await transaction.get_snapshot(SNAPSHOT.snapshot_id) == SNAPSHOT
            assert await transaction.get_decode(name("decode", 1)) == make_decode(1)
            assert await transaction.get_key("k") == key

    async def test_what_is_not_there_is_none(self, store: Store) -> None:
        async with store.begin() as transaction:
            assert await transaction.get_study(name("?")) is None
            assert await transaction.get_device(name("?"), lock=True) is None
            assert await transaction.get_sketch(name("?")) is None
            assert await transaction.get_token(name("?")) is None
            assert await transaction.get_snapshot(name("?")) is None
            assert await transaction.get_decode(name("?")) is None
            assert await transaction.get_key("?") is None
            assert await transaction.list_refusals(name("?")) == []

    async def test_a_transaction_that_fails_leaves_no_trace(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            before = await transaction.get_generation()

        async def fail() -> None:
            async with store.begin(write=True) as transaction:
                await transaction.add_sketch(make_sketch(1, 0), make_payload(1, 0))
                await transaction.touch_device(name("device", 1), now=7.0, n_sketches=1)
                await transaction.count_refusal(STUDY.study_id, "not-found")
                await transaction.renew_generation()
                raise RuntimeError("in the middle")

        with pytest.raises(RuntimeError):
            await fail()
        async with store.begin() as transaction:
            assert await transaction.get_sketch(name("sketch", 1, 0)) is None
            assert await transaction.get_device(name("device", 1)) == make_device(1)
            assert await transaction.list_refusals(STUDY.study_id) == []
            assert await transaction.find_neighbours(name("device", 1), "main", 1) == (None, None)
            assert await transaction.get_generation() == before

    async def test_an_identity_is_taken_once(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await queue(transaction, 1)
            await fill(transaction)
            await transaction.add_sketch(make_sketch(1, 0), make_payload(1, 0))
        async with store.begin(write=True) as transaction:
            assert not await transaction.add_study(replace(STUDY, name="other"))
            assert not await transaction.add_device(make_device(1, labels={}))
            assert not await transaction.add_decode(make_decode(1, seed=2))
            assert not await transaction.add_snapshot(replace(SNAPSHOT, snr=0.0))
            assert not await transaction.add_sketch(make_sketch(1, 0, n_records=3), b"")
            # Nor does another identity for the same place in a stream.
            other = make_sketch(1, 0, sketch_id=name("other"))
            assert not await transaction.add_sketch(other, b"")
        async with store.begin() as transaction:
            assert await transaction.get_study(STUDY.study_id) == STUDY
            assert await transaction.get_sketch(name("sketch", 1, 0)) == make_sketch(1, 0)

    async def test_of_many_that_add_at_once_one_does(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction)

        async def add() -> bool:
            async with store.begin(write=True) as transaction:
                return await transaction.add_sketch(make_sketch(1, 0), make_payload(1, 0))

        added = await asyncio.gather(*(add() for _ in range(6)))
        assert sorted(added) == [False] * 5 + [True]

    async def test_a_state_changes_only_from_the_version_that_was_read(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await transaction.add_study(STUDY)
            change = transaction.set_study_state
            assert await change(STUDY.study_id, "closed", expected_version=1)
            assert not await change(STUDY.study_id, "open", expected_version=1)
            found = await transaction.get_study(STUDY.study_id)
        assert found == replace(STUDY, state="closed", version=2)

    async def test_a_token_is_used_as_often_as_it_may_be(self, store: Store) -> None:
        token = TokenRecord(token_hash=name("t"), study_id=STUDY.study_id, max_uses=2, expires=50.0)
        async with store.begin(write=True) as transaction:
            await transaction.add_study(STUDY)
            await transaction.add_token(token)
            assert not await transaction.use_token(name("t"), now=50.0)
            used = [await transaction.use_token(name("t"), now=49.0) for _ in range(3)]
            assert used == [True, True, False]
            assert not await transaction.use_token(name("unknown"), now=0.0)

    async def test_counts_stop_at_the_limit_and_at_another_state(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await transaction.add_study(STUDY)

            async def count(now: float = 0.0) -> bool:
                return await transaction.count_sketch(
                    STUDY.study_id, n_records=1 << 40, most_sketches=2, now=now
                )

            async def change(version: int, state: Any, until: float | None = None) -> None:
                assert await transaction.set_study_state(
                    STUDY.study_id, state, accept_until=until, expected_version=version
                )

            await change(1, "closed")
            assert not await count()
            await change(2, "closed", 10.0)
            assert [await count(10.0), await count(9.0)] == [False, True]
            await change(3, "open")
            assert [await count(11.0), await count()] == [True, False]
            found = await transaction.get_study(STUDY.study_id)
        assert found == replace(STUDY, version=4, n_sketches=2, n_records=1 << 41)

    async def test_a_withdrawn_study_is_emptied_in_batches_and_others_stay(
        self, store: Store
    ) -> None:
        other = replace(STUDY, study_id=name("other"), name="other")
        device = make_device(9, study_id=other.study_id)
        sketch = make_sketch(9, 0, study_id=other.study_id)
        async with store.begin(write=True) as transaction:
            await queue(transaction, 1, 2)
            for number in range(2):
                await transaction.add_device(make_device(number))
                await transaction.add_sketch(make_sketch(number, 0), make_payload(number, 0))
            await merge(transaction)
            await transaction.add_sketch(make_sketch(1, 1), make_payload(1, 1))
            await transaction.count_refusal(STUDY.study_id, "signature-invalid")
            await transaction.add_study(other)
            await transaction.add_device(device)
            await transaction.add_sketch(sketch, make_payload(9, 0))
        async with store.begin(write=True) as transaction:
            assert await transaction.purge_withdrawn(most=100) == 0
            assert not await transaction.withdraw_study(name("nobody"))
            assert await transaction.withdraw_study(STUDY.study_id)
            assert not await transaction.withdraw_study(STUDY.study_id)
            assert await transaction.list_unmerged() == [other.study_id]
            assert not await transaction.count_sketch(
                STUDY.study_id, n_records=1, most_sketches=9, now=0.0
            )
        counts: list[int] = []
        while not counts or counts[-1]:
            async with store.begin(write=True) as transaction:
                counts.append(await transaction.purge_withdrawn(most=2))
        assert max(counts) == 2
        async with store.begin() as transaction:
            study = await transaction.get_study(STUDY.study_id)
            assert study == replace(STUDY, state="withdrawn", version=2)
            assert await transaction.list_studies(after=None, limit=9) == [other]
            assert await transaction.list_sketches(STUDY.study_id, after=None, limit=9) == []
            assert await transaction.get_decode(name("decode", 1)) is None
            assert await transaction.get_snapshot(SNAPSHOT.snapshot_id) is None
            assert await transaction.list_refusals(STUDY.study_id) == []
            assert await transaction.get_device(name("device", 1)) == make_device(1, labels={})
            assert await transaction.list_streams(name("device", 1)) == []
            assert await transaction.get_device(device.device_id) == device
            totals = await transaction.sum_sketches(
                other.study_id, Selection(), width=WIDTH, n_coordinates=COORDINATES
            )
            counted = await transaction.count_totals()
        assert_totals(totals, [make_sums(9, 0).tolist()], [10])
        assert (counted.n_studies, counted.n_devices) == (1, 1)

    async def test_devices_are_listed_in_pages_of_one_study_or_of_all(self, store: Store) -> None:
        other = replace(STUDY, study_id=name("other"), name="other")
        elsewhere = make_device(2, study_id=other.study_id, enrolled=1.0)
        devices = [make_device(0), make_device(1), make_device(3, enrolled=1.0)]
        async with store.begin(write=True) as transaction:
            await transaction.add_study(STUDY)
            await transaction.add_study(other)
            for device in (*devices, elsewhere):
                await transaction.add_device(device)
            await transaction.add_sketch(make_sketch(1, 0), make_payload(1, 0))
            await transaction.add_sketch(make_sketch(1, 4), make_payload(1, 4))
        devices.sort(key=lambda d: (d.enrolled, d.device_id))
        everywhere = sorted([*devices, elsewhere], key=lambda d: (d.enrolled, d.device_id))
        async with store.begin() as transaction:
            for study, expected in ((STUDY.study_id, devices), (None, everywhere)):
                first = await transaction.list_devices(study, after=None, limit=2)
                after = (first[-1].enrolled, first[-1].device_id)
                rest = await transaction.list_devices(study, after=after, limit=9)
                assert [*first, *rest] == expected
            ids = [device.device_id for device in everywhere]
            assert await transaction.list_streams_of(ids) == {
                name("device", 1): [StreamRecord(stream="main", last_sequence=4, last_slot=4)]
            }

    async def test_a_device_changes_its_key_and_the_old_one_is_kept(self, store: Store) -> None:
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
                assert await transaction.rotate_key(old, public_key=name("key", old.successor))
            assert not await transaction.rotate_key(retired[0], public_key=b"")
            changed = replace(retired[0], last_sequences={"a": 1}, revoked=9.0)
            await transaction.change_retired_key(changed)
            assert await transaction.revoke_device(device, now=5.0)
            assert not await transaction.revoke_device(device, now=6.0)
            assert not await transaction.revoke_device(name("nobody"), now=6.0)
        async with store.begin() as transaction:
            assert await transaction.list_retired_keys(device) == [changed, retired[1]]
            assert await transaction.list_retired_keys(name("device", 0)) == []
            found = await transaction.get_device(device)
        assert found == make_device(1, public_key=name("key", name(3)), revoked=5.0)

    async def test_the_last_heartbeat_of_a_device_is_kept(self, store: Store) -> None:
        refusal = {"study": "5f", "rule": "policy.max_epsilon", "detail": "nörd"}
        said = {"agent": "0.1.0", "plan_refusals": [refusal, refusal]}
        async with store.begin(write=True) as transaction:
            await fill(transaction, n_devices=3)
            first, second, _ = (name("device", number) for number in range(3))
            await transaction.note_heartbeat(first, {"plan_refusals": []}, now=1.0)
            for device in (first, second, name("nobody")):
                await transaction.note_heartbeat(device, said, now=2.0)
        async with store.begin() as transaction:
            assert await transaction.count_plan_refusals(STUDY.study_id) == {
                "policy.max_epsilon": 2
            }
            assert await transaction.count_plan_refusals(name("other")) == {}
            found = await transaction.get_device(first)
        assert found == make_device(0, heartbeat=said, heartbeat_at=2.0, last_seen=2.0)

    async def test_a_device_shows_when_it_was_seen_and_how_far_it_is(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            device = name("device", 1)
            await transaction.touch_device(device, now=7.0)
            await transaction.touch_device(device, now=8.0, n_sketches=2)
            assert await transaction.get_device(device, lock=True) == make_device(
                1, last_seen=8.0, n_sketches=2
            )
            for stream, sequence in (("z", 3), ("z", 20), ("z", 5), ("a", 0)):
                sketch = make_sketch(1, sequence, stream=stream, sketch_id=name(stream, sequence))
                await transaction.add_sketch(sketch, b"")
            streams = await transaction.list_streams(device)
            assert [(s.stream, s.last_sequence, s.last_slot) for s in streams] == [
                ("a", 0, 0),
                ("z", 20, 20),
            ]
            assert await transaction.count_devices(STUDY.study_id) == 2
            listed = await transaction.list_devices(STUDY.study_id, after=None, limit=9)
            assert [d.device_id for d in listed] == [name("device", 0), device]

    async def test_neighbours_are_the_nearest_of_the_same_stream(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            for sequence in (1, 4, 9):
                await transaction.add_sketch(make_sketch(1, sequence), b"")
            await transaction.add_sketch(make_sketch(0, 5), b"")
            await transaction.add_sketch(
                make_sketch(1, 5, stream="other", sketch_id=name("other")), b""
            )
            below, above = await transaction.find_neighbours(name("device", 1), "main", 6)
            assert (below, above) == (make_sketch(1, 4), make_sketch(1, 9))
            below, above = await transaction.find_neighbours(name("device", 1), "main", 4)
            assert (below, above) == (make_sketch(1, 1), make_sketch(1, 9))
            none_above = await transaction.find_neighbours(name("device", 1), "main", 50)
            assert none_above == (make_sketch(1, 9), None)

    async def test_pages_hold_everything_once_in_order(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            sketches = [make_sketch(1, i, received=float(i // 2)) for i in range(7)]
            for sketch in sketches:
                await transaction.add_sketch(sketch, b"")
            expected = sorted(sketches, key=lambda s: (s.received, s.sketch_id))
            seen: list[SketchRecord] = []
            after = None
            while page := await transaction.list_sketches(STUDY.study_id, after=after, limit=3):
                seen += page
                after = (page[-1].received, page[-1].sketch_id)
            assert seen == expected
            others = [replace(STUDY, study_id=name(i), created=20.0) for i in range(3)]
            for other in others:
                await transaction.add_study(other)
            studies = [STUDY, *sorted(others, key=lambda s: s.study_id)]
            assert await transaction.list_studies(after=None, limit=2) == studies[:2]
            after = (studies[1].created, studies[1].study_id)
            assert await transaction.list_studies(after=after, limit=9) == studies[2:]

    @pytest.mark.parametrize(
        ("selection", "chosen"),
        [
            (Selection(), [(d, s) for d in range(3) for s in range(50)]),
            (Selection(first_slot=48), [(d, s) for d in range(3) for s in (48, 49)]),
            (Selection(last_slot=0), [(d, 0) for d in range(3)]),
            (Selection(first_slot=7, last_slot=7, labels={"site": "north"}), [(1, 7)]),
            (Selection(labels={"site": "west"}), []),
            (Selection(labels={"floor": "1"}), []),
            (Selection(first_slot=99), []),
        ],
    )
    async def test_a_sum_is_exact_over_what_is_selected(
        self, store: Store, selection: Selection, chosen: list[tuple[int, int]]
    ) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction, 3)
            for device in range(3):
                for sequence in range(50):
                    await transaction.add_sketch(
                        make_sketch(device, sequence), make_payload(device, sequence)
                    )
            # Most are in cells, some wait.
            assert [await merge(transaction, most=40) for _ in range(3)] == [40] * 3
        async with store.begin() as transaction:
            totals = await transaction.sum_sketches(
                STUDY.study_id, selection, width=WIDTH, n_coordinates=COORDINATES
            )
        sums = [make_sums(*one).tolist() for one in chosen]
        sizes = [10 + sequence for _, sequence in chosen]
        assert_totals(totals, sums, sizes)
        assert totals.n_devices == len({device for device, _ in chosen})
        assert totals.members == digest_of(chosen)

    async def test_sums_and_moments_beyond_64_bits_are_exact(self, store: Store) -> None:
        sizes = [1, (1 << 24) - 1, 1 << 24, (1 << 49) + 3, (1 << 62) + 12345, (1 << 63) - 1]
        limit = (1 << 63) // len(sizes) - 1
        rng = np.random.default_rng(8)
        sums = [[-limit, limit, *rng.integers(-limit, limit, size=2).tolist()] for _ in sizes]
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            for i, (size, values) in enumerate(zip(sizes, sums, strict=True)):
                payload = encode_payload(np.array(values), 8)
                await transaction.add_sketch(make_sketch(1, i, n_records=size), payload)
            await merge(transaction, width=8, most=4)
            totals = await transaction.sum_sketches(
                STUDY.study_id, Selection(), width=8, n_coordinates=COORDINATES
            )
        assert_totals(totals, sums, sizes)

    async def test_a_secret_number_of_records_stays_unknown_and_adds_nothing_to_the_moments(
        self, store: Store
    ) -> None:
        sums = [make_sums(1, i).tolist() for i in range(2)]
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            for i in range(2):
                secret = make_sketch(1, i, n_records=None)
                assert await transaction.add_sketch(secret, make_payload(1, i))
            assert await transaction.get_sketch(secret.sketch_id) == secret
            totals = await transaction.sum_sketches(
                STUDY.study_id, Selection(), width=WIDTH, n_coordinates=COORDINATES
            )
        assert_totals(totals, sums, [0, 0])

    async def test_a_sum_that_could_leave_64_bits_is_refused(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            for i in range(2):
                # Twice 2^62 is one more than fits.
                payload = encode_payload(np.array([1 << 62, 0, 0, -(1 << 62)]), 8)
                await transaction.add_sketch(make_sketch(1, i), payload)
            with pytest.raises(StoreError, match="64 bits"):
                await transaction.sum_sketches(
                    STUDY.study_id, Selection(), width=8, n_coordinates=COORDINATES
                )

    async def test_a_sketch_over_several_slots_is_selected_only_whole(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await fill(transaction)
            wide = make_sketch(1, 0, first_slot=4, last_slot=6)
            await transaction.add_sketch(wide, make_payload(1, 0))
            untimed = make_sketch(0, 0, first_slot=None, last_slot=None)
            await transaction.add_sketch(untimed, make_payload(0, 0))
            assert await merge(transaction) == 2

            async def select(first: int | None, last: int | None) -> int:
                totals = await transaction.sum_sketches(
                    STUDY.study_id,
                    Selection(first_slot=first, last_slot=last),
                    width=WIDTH,
                    n_coordinates=COORDINATES,
                )
                return totals.n_sketches

            assert [await select(*s) for s in ((4, 6), (5, 6), (4, 5), (None, 5), (4, None))] == [
                1,
                0,
                0,
                0,
                1,
            ]
            assert await select(None, None) == 2

    async def test_refusals_are_counted_by_problem(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await transaction.add_study(STUDY)
        for problem in ("b", "a", "b", "c", "b"):
            async with store.begin(write=True) as transaction:
                await transaction.count_refusal(STUDY.study_id, problem)
        async with store.begin() as transaction:
            found = await transaction.list_refusals(STUDY.study_id)
        assert [(r.problem, r.count) for r in found] == [("b", 3), ("a", 1), ("c", 1)]

    async def test_a_lease_is_given_to_one_worker_oldest_first(self, store: Store) -> None:
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

    async def test_of_many_workers_at_once_each_gets_another_decode(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await queue(transaction, *range(4))
        leased = await asyncio.gather(*(lease(store, name("w", i)) for i in range(6)))
        ids = [decode.decode_id for decode in leased if decode is not None]
        assert sorted(ids) == sorted(name("decode", i) for i in range(4))

    async def test_an_expired_lease_is_taken_over_and_its_holder_writes_no_more(
        self, store: Store
    ) -> None:
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
            assert not await transaction.renew_lease(
                decode, name("old"), expires=99.0, progress=0.6
            )
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

    async def test_a_decode_is_tried_three_times(self, store: Store) -> None:
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

    async def test_a_decode_that_is_given_back_has_lost_no_attempt(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await queue(transaction, 1)
        await lease(store, name("w"))
        async with store.begin(write=True) as transaction:
            assert await transaction.release_lease(name("decode", 1), name("w"))
            assert await transaction.get_decode(name("decode", 1)) == make_decode(1)

    async def test_a_cancelled_decode_stays_so(self, store: Store) -> None:
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

    async def test_keys_are_listed_and_revoked_once(self, store: Store) -> None:
        keys = [
            KeyRecord(key_id=i, key_hash=name(i), name=i, scope="analyst", created=float(n))
            for n, i in enumerate("ba")
        ]
        async with store.begin(write=True) as transaction:
            for key in keys:
                assert await transaction.add_key(key)
            assert not await transaction.add_key(replace(keys[0], key_id="c"))
            assert await transaction.revoke_key("a", now=9.0)
            assert not await transaction.revoke_key("a", now=10.0)
            assert not await transaction.revoke_key("unknown", now=10.0)
            await transaction.touch_key("b", now=3.0)
            await transaction.touch_key("b", now=2.0)
            await transaction.touch_key("unknown", now=2.0)
            used = replace(keys[0], last_used=3.0)
            assert await transaction.list_keys() == [used, replace(keys[1], revoked=9.0)]

    async def test_audit_entries_are_listed_in_pages_in_order(self, store: Store) -> None:
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
                assert await transaction.add_audit_entry(entry)
        async with store.begin() as transaction:
            first = await transaction.list_audit_entries(after=None, limit=2)
            after = (first[-1].time, first[-1].entry_id)
            rest = await transaction.list_audit_entries(after=after, limit=9)
        assert [*first, *rest] == entries

    async def test_totals_count_everything_by_state(self, store: Store) -> None:
        async with store.begin(write=True) as transaction:
            await queue(transaction, 1)
            await queue(transaction, 2)
            await transaction.cancel_decode(name("decode", 2), now=5.0)
            await transaction.add_device(make_device(1))
            totals = await transaction.count_totals()
        assert (totals.n_studies, totals.n_devices) == (1, 1)
        assert dict(totals.decodes) == {"queued": 1, "cancelled": 1}

    async def test_a_generation_stays_until_it_is_renewed(self, store: Store) -> None:
        async with store.begin() as transaction:
            before = await transaction.get_generation()
        async with store.begin(write=True) as transaction:
            after = await transaction.renew_generation()
        async with store.begin() as transaction:
            assert await transaction.get_generation() == after
        assert len(before) == len(after) == 16
        assert before != after
