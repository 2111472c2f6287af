"""Records that stand for what a server stores, for the tests of stores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.cells import digest_members, encode_members
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection, SketchTotals
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.devices.record import DeviceRecord, TokenRecord
from sfumato.aggregator.resources.devices.store import add_device
from sfumato.aggregator.resources.jobs.record import AnalysisRecord, DecodeRecord, JobRecord
from sfumato.aggregator.resources.jobs.store import lease_job
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.store.merge import merge_sketches
from sfumato.aggregator.resources.sketches.store.sketches import add_sketches, list_neighbours
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import add_study
from sfumato.learning.estimate.limbs import join_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.errors import StoreError
from sfumato.shared.wire import PayloadForm, encode_payload


def name(*parts: object) -> bytes:
    """Return 32 bytes that stand for something."""
    return hashlib.sha256(repr(parts).encode()).digest()


STUDY = StudyRecord(
    study_id=name("study"), name="pumps", plan=b"plan", plan_digest=name("plan"), created=10.0
)
WIDTH, COORDINATES = 3, 4


def make_layout(width: int) -> Layout:
    """The layout of payloads of one block, with a few coordinates."""
    form = PayloadForm(width=width, n_coordinates=COORDINATES)
    return Layout(form=form, n_features=COORDINATES, places=np.arange(COORDINATES)[None])


LAYOUT = make_layout(WIDTH)


def make_device(number: int, **changes: Any) -> DeviceRecord:
    """Return a device of the study, as it is stored in the order of its number."""
    record = DeviceRecord(
        device_id=name("device", number),
        study_id=STUDY.study_id,
        public_key=name("key", number),
        labels={"site": "north" if number % 2 else "south"},
        enrolled=float(number),
        ordinal=number,
    )
    return replace(record, **changes)


def make_token(key: object, **changes: Any) -> TokenRecord:
    """Return a token of the study."""
    record = TokenRecord(
        token_hash=name(key), study_id=STUDY.study_id, max_uses=1, created=0.0, expires=100.0
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
    n_covered=0,
    moments=b"\0\3\xff",
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
        search_box={"flow": [-1e-9, 0.1]},
        looks=["ab" * 32],
        seed=(1 << 63) - 1,
        created=float(number),
    )
    return replace(record, **changes)


def make_analysis(number: int, **changes: Any) -> AnalysisRecord:
    """Return a comparison of a snapshot with an empty selection."""
    selection: dict[str, Any] = {"first_slot": number, "last_slot": None, "labels": {}}
    record = AnalysisRecord(
        analysis_id=name("analysis", number),
        study_id=STUDY.study_id,
        kind="comparison",
        version=1,
        request={"kind": "comparison", "n_clusters": 3, "seed": (1 << 63) - 1, "level": 0.05},
        inputs=[
            {
                "selection": selection,
                "n_sketches": 4,
                "snapshot_id": SNAPSHOT.snapshot_id.hex(),
                "doubt": None,
            }
        ],
        created=float(number),
    )
    return replace(record, **changes)


MAKERS: dict[type[JobRecord], Callable[..., JobRecord]] = {
    DecodeRecord: make_decode,
    AnalysisRecord: make_analysis,
}
"""How a job of each kind is made."""


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
    return await merge_sketches(transaction, STUDY.study_id, layout=make_layout(width), most=most)


async def fill(transaction: Transaction, n_devices: int = 2) -> None:
    """Store the study and devices."""
    await add_study(transaction, STUDY)
    for number in range(n_devices):
        await add_device(transaction, make_device(number))


async def queue(
    transaction: Transaction, *numbers: int, kind: type[JobRecord] = DecodeRecord
) -> None:
    """Store the study, the snapshot and jobs."""
    await add_study(transaction, STUDY)
    await transaction.add(SNAPSHOT)
    for number in numbers:
        await transaction.add(MAKERS[kind](number))


async def lease(store: Store, token: bytes, *, now: float = 0.0) -> JobRecord | None:
    """Lease a job for ten seconds."""
    async with store.begin(write=True) as transaction:
        return await lease_job(
            transaction, token=token, now=now, expires=now + 10.0, max_attempts=3
        )


async def add_sketch(transaction: Transaction, record: SketchRecord, payload: bytes) -> bool:
    """Store a sketch; false if its identity or its place in the stream is taken."""
    try:
        await add_sketches(transaction, [(record, payload)])
    except StoreError:
        return False
    return True


async def get_sketch(transaction: Transaction, sketch_id: bytes) -> SketchRecord | None:
    """Return a sketch."""
    return (await transaction.get_many(SketchRecord, [sketch_id])).get(sketch_id)


async def find_neighbours(
    transaction: Transaction, device_id: bytes, stream: str, sequence: int
) -> tuple[SketchRecord | None, SketchRecord | None]:
    """Return the nearest sketches below and above in the same stream."""
    (both,) = await list_neighbours(transaction, [(device_id, stream, sequence)])
    return both


def contains_slots(selection: Selection, first: int | None, last: int | None) -> bool:
    """Return whether all slots of a sketch are in a selection."""
    if selection.first_slot is not None and (first is None or first < selection.first_slot):
        return False
    return selection.last_slot is None or (last is not None and last <= selection.last_slot)
