"""Whatever is stored, in whatever order it is merged: a selection is the sum of its sketches."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import update

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.cells import (
    decode_array,
    decode_limbs,
    encode_array,
    encode_limbs,
)
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum, Row
from sfumato.aggregator.base.sums.removal import Removal
from sfumato.aggregator.base.sums.selection import Selection, SketchTotals
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.batches.store.exclusion import (
    apply_removal,
    count_excluded,
    exclude_device,
    list_leaving,
    prepare_removal,
)
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.devices.store import add_device, find_excluded
from sfumato.aggregator.resources.sketches.record import ExcludedSketches, SketchRecord
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.sketches.store.merge import (
    apply_merge,
    list_unmerged,
    merge_sketches,
    prepare_merge,
)
from sfumato.aggregator.resources.sketches.store.retention import drop_payloads
from sfumato.aggregator.resources.sketches.store.tables import CELLS
from sfumato.aggregator.resources.studies.store import add_study
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.shared.wire import PayloadForm, encode_payload
from tests.aggregator.records import (
    STUDY,
    add_sketch,
    contains_slots,
    get_sketch,
    make_device,
    name,
)

WIDTH, COORDINATES = 8, 3
# A sketch has one of two blocks, whose coordinates alternate in the sums.
LAYOUT = Layout(
    form=PayloadForm(width=WIDTH, n_coordinates=COORDINATES),
    n_features=2,
    places=np.array([[0, 2, 4], [1, 3, 5]]),
)
LABELS: tuple[dict[str, str], ...] = (
    {"site": "north", "kind": "pump"},
    {"site": "north", "kind": "fan"},
    {"site": "south", "kind": "fan"},
)
_examples = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    """Let a check read a few sketches at a time, so that it goes over pages here as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.aggregator.resources.batches.store.check._CHECKED_AT_ONCE", 5)
        yield


@dataclass(frozen=True)
class Upload:
    """A sketch, by the number of its device."""

    device: int
    slots: tuple[int, int] | None
    n_records: int | None
    block: int
    values: tuple[int, ...]


@st.composite
def draw_uploads(draw: Any) -> list[Upload]:
    """Sketches of four devices over few slots, on both sides of the origin, or far from it."""
    origin = draw(st.sampled_from([0, -3, 490_123, -(1 << 53) + 1, (1 << 53) - 40]))
    value = st.integers(-(1 << 55), 1 << 55)
    first = st.integers(origin, origin + 20)
    slots = st.one_of(st.none(), st.tuples(first, st.sampled_from([0, 0, 0, 1, 2, 7])))
    drawn: list[tuple[int, tuple[int, int] | None, int | None, int, tuple[int, ...]]] = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3),
                slots.map(lambda s: None if s is None else (s[0], s[0] + s[1])),
                st.one_of(st.none(), st.integers(0, 1 << 39), st.integers(1, 50)),
                st.integers(0, 1),
                st.tuples(*[value] * COORDINATES),
            ),
            max_size=24,
        )
    )
    return [Upload(*one) for one in drawn]


@st.composite
def draw_selection(draw: Any, uploads: list[Upload]) -> Selection:
    """Draw a selection whose ends are near those of sketches."""
    ends = [slot + by for u in uploads for slot in u.slots or () for by in (-1, 0, 1)]
    end = st.one_of(st.none(), st.sampled_from(ends)) if ends else st.none()
    return Selection(
        first_slot=draw(end),
        last_slot=draw(end),
        labels=draw(st.sampled_from([{}, {"site": "north"}, {"kind": "fan"}, LABELS[2]])),
    )


@st.composite
def draw_cases(draw: Any) -> tuple[list[Upload], list[Selection]]:
    """Sketches and selections."""
    uploads = draw(draw_uploads())
    return uploads, [draw(draw_selection(uploads)) for _ in range(6)]


Case = tuple[list[Upload], list[Selection]]


@dataclass(frozen=True)
class Study:
    """A study of its own for each example, for they share a store."""

    study_id: bytes

    def device(self, number: int) -> DeviceRecord:
        """Return a device."""
        return make_device(
            number,
            device_id=name(self.study_id, "device", number),
            study_id=self.study_id,
            labels=LABELS[number % len(LABELS)],
        )

    def sketch(self, upload: Upload, position: int) -> SketchRecord:
        """Return what is stored of an upload."""
        first, last = upload.slots or (None, None)
        return SketchRecord(
            sketch_id=name(self.study_id, "sketch", position),
            study_id=self.study_id,
            device_id=self.device(upload.device).device_id,
            stream="main",
            sequence=position,
            first_slot=first,
            last_slot=last,
            n_records=upload.n_records,
            block=upload.block,
            payload_digest=name(self.study_id, "payload", position),
            header=b"",
            signature=b"",
            received=float(position),
        )

    async def open(self, transaction: Transaction) -> None:
        """Store the study and its devices."""
        await add_study(transaction, replace(STUDY, study_id=self.study_id))
        for number in range(4):
            await add_device(transaction, self.device(number))

    async def store(
        self, transaction: Transaction, uploads: list[Upload], *, skip: int = 0
    ) -> None:
        """Store sketches, but for the first."""
        for position, upload in list(enumerate(uploads))[skip:]:
            payload = encode_payload(np.array(upload.values), WIDTH)
            assert await add_sketch(transaction, self.sketch(upload, position), payload)

    async def begin(self, store: Store, uploads: list[Upload], *, merged: int = 0) -> None:
        """Store the study with sketches, some of which are merged."""
        async with store.begin(write=True) as transaction:
            await self.open(transaction)
            await self.store(transaction, uploads)
            if merged:
                await self.merge(transaction, merged)

    async def merge(self, transaction: Transaction, most: int) -> int:
        """Merge sketches."""
        return await merge_sketches(transaction, self.study_id, layout=LAYOUT, most=most)

    async def sum(self, transaction: Transaction, selection: Selection) -> SketchTotals:
        """Return the sums of a selection."""
        return await sum_sketches(transaction, self.study_id, selection, layout=LAYOUT)

    async def check(self, transaction: Transaction) -> list[str]:
        """Return the sums that are wrong."""
        return list(await check_sums(transaction, self.study_id, layout=LAYOUT))

    async def exclude(self, transaction: Transaction, number: int) -> ExcludedSketches | None:
        """Exclude a device."""
        return await exclude_device(
            transaction, self.device(number).device_id, now=9.0, reason="lies"
        )

    async def prepare(self, store: Store, most: int) -> Removal | None:
        """Prepare that sketches leave the cells."""
        async with store.begin() as transaction:
            return await prepare_removal(transaction, self.study_id, layout=LAYOUT, most=most)

    async def remove(self, store: Store, most: int) -> int:
        """Take sketches out of the cells."""
        prepared = await self.prepare(store, most)
        if prepared is None:
            return 0
        async with store.begin(write=True) as transaction:
            return await apply_removal(transaction, prepared)

    def find_merged(self, uploads: list[Upload], most: int) -> set[int]:
        """Return which sketches are merged first."""
        by_id = sorted(range(len(uploads)), key=lambda i: self.sketch(uploads[i], i).sketch_id)
        return set(by_id[:most])

    def sum_rows(
        self, uploads: list[Upload], selection: Selection, *, without: Collection[int] = ()
    ) -> SketchTotals:
        """Add up what is selected, sketch by sketch, but for some positions."""
        running = PayloadSum(LAYOUT)
        for position, upload in enumerate(uploads):
            record = self.sketch(upload, position)
            if position in without:
                continue
            if contains_slots(
                selection, record.first_slot, record.last_slot
            ) and selection.matches_labels(self.device(upload.device).labels):
                payload = encode_payload(np.array(upload.values), WIDTH)
                row = Row(
                    record.sketch_id,
                    record.payload_digest,
                    1 << upload.device,
                    record.n_records,
                    record.block,
                    payload,
                )
                running.add([row])
        return running.total().to_totals()


def assert_same(found: SketchTotals, wanted: SketchTotals) -> None:
    """Compare bit for bit."""
    assert found.sums.tolist() == wanted.sums.tolist()
    assert found.size_sums.tolist() == wanted.size_sums.tolist()
    assert found.moments == wanted.moments
    assert found.n_devices == wanted.n_devices
    assert found.members == wanted.members


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_sums_are_decoded_as_they_were_encoded(values: list[int]) -> None:
    assert decode_array(encode_array(np.array(values, dtype=np.int64))).tolist() == values


@given(
    st.lists(st.integers(-(1 << 126), (1 << 126) - 1), min_size=1)
    | st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1)
)
def test_size_sums_are_decoded_as_they_were_encoded(values: list[int]) -> None:
    limbs = split_limbs(values)
    assert decode_limbs(encode_limbs(limbs)).tolist() == limbs.tolist()


def open_study() -> Study:
    """Return a study that no other example has."""
    return Study(name("cells", next(_examples)))


async def require_sum_of_rows(store: Store, case: Case, most: int, rounds: int) -> None:
    """Check selections when some of their sketches were merged."""
    uploads, selections = case
    study = open_study()
    await study.begin(store, uploads)
    for _ in range(rounds):
        async with store.begin(write=True) as transaction:
            await study.merge(transaction, most)
    async with store.begin() as transaction:
        assert await study.check(transaction) == []
        for selection in selections:
            found = await study.sum(transaction, selection)
            assert_same(found, study.sum_rows(uploads, selection))


async def require_all_other_rows(
    store: Store,
    case: Case,
    merged: int,
    dropped: int,
    excluded: set[int],
    moves: list[tuple[str, int]],
) -> None:
    """Check selections once devices are excluded, at every moment while these leave the cells."""
    uploads, selections = case
    study = open_study()
    old = study.find_merged(uploads, merged) & set(range(dropped))
    gone = {i for i, u in enumerate(uploads) if u.device in excluded} - old
    async with store.begin(write=True) as transaction:
        await study.open(transaction)
        await study.store(transaction, uploads)
        if merged:
            await study.merge(transaction, merged)
        # Waiting sketches and young ones keep their payloads.
        await drop_payloads(transaction, received_before=float(dropped), most=9999)
    async with store.begin(write=True) as transaction:
        for device in excluded:
            own = {i for i, u in enumerate(uploads) if u.device == device}
            left = await study.exclude(transaction, device)
            assert left == ExcludedSketches(n_subtracted=len(own & gone), n_kept=len(own - gone))
            assert await study.exclude(transaction, device) is None

    async def require_same(*, write: bool) -> None:
        async with store.begin(write=write) as transaction:
            assert await study.check(transaction) == []
            for selection in selections:
                found = await study.sum(transaction, selection)
                assert_same(found, study.sum_rows(uploads, selection, without=gone))
            for device in excluded:
                own = {i for i, u in enumerate(uploads) if u.device == device}
                left = await count_excluded(transaction, study.device(device).device_id)
                assert (left.n_subtracted, left.n_kept) == (len(own & gone), len(own - gone))

    await require_same(write=True)
    for what, most in moves:
        if what == "remove":
            await study.remove(store, most)
        else:
            async with store.begin(write=True) as transaction:
                if what == "merge":
                    await study.merge(transaction, most)
                else:
                    await drop_payloads(transaction, received_before=99.0, most=9999)
        await require_same(write=False)
    async with store.begin(write=True) as transaction:
        await study.merge(transaction, 99)
    while await study.remove(store, 5):
        await require_same(write=False)
    # Now nothing is left to be subtracted, and the cells name the devices that they should.
    await require_same(write=False)
    async with store.begin() as transaction:
        assert study.study_id not in await list_leaving(transaction)
        for i, upload in enumerate(uploads):
            found = await get_sketch(transaction, study.sketch(upload, i).sketch_id)
            assert found is not None
            assert found.state == ("excluded" if i in gone else "stored")


merging = given(case=draw_cases(), most=st.integers(1, 24), rounds=st.integers(0, 9))
leaving = given(
    case=draw_cases(),
    merged=st.integers(0, 24),
    dropped=st.integers(0, 24),
    excluded=st.sets(st.integers(0, 3), min_size=1, max_size=2),
    moves=st.lists(
        st.tuples(st.sampled_from(["merge", "remove", "remove", "drop"]), st.integers(1, 6)),
        max_size=6,
    ),
)
_shared = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
few = settings(max_examples=10, suppress_health_check=_shared)
many = settings(max_examples=300, suppress_health_check=_shared, derandomize=False)


@pytest.mark.anyio
@few
@merging
async def test_a_selection_is_the_sum_of_its_rows_however_much_was_merged(
    store: Store, **case: Any
) -> None:
    await require_sum_of_rows(store, **case)


@pytest.mark.soak
@pytest.mark.anyio
@many
@merging
async def test_many_selections_are_the_sums_of_their_rows(store: Store, **case: Any) -> None:
    await require_sum_of_rows(store, **case)


@pytest.mark.anyio
@few
@leaving
async def test_an_excluded_device_leaves_the_sum_of_all_other_rows(
    store: Store, **case: Any
) -> None:
    await require_all_other_rows(store, **case)


@pytest.mark.soak
@pytest.mark.anyio
@many
@leaving
async def test_many_excluded_devices_leave_the_sums_of_all_other_rows(
    store: Store, **case: Any
) -> None:
    await require_all_other_rows(store, **case)


@pytest.mark.anyio
async def test_what_was_prepared_before_something_changed_takes_nothing_out(store: Store) -> None:
    study = open_study()
    uploads = [Upload(i % 2, (i, i), 5, 0, (1 << i, 2, 3)) for i in range(4)]
    far = Upload(2, (9999, 9999), 5, 0, (16, 2, 3))
    await study.begin(store, uploads, merged=9)
    assert await study.prepare(store, 9) is None
    async with store.begin(write=True) as transaction:
        await study.exclude(transaction, 1)
    first, second = await study.prepare(store, 1), await study.prepare(store, 9)
    assert first is not None
    assert second is not None
    async with store.begin(write=True) as transaction:
        assert await apply_removal(transaction, first) == 1
        # The one that it holds as well is out already.
        assert await apply_removal(transaction, second) == 0
        assert await apply_removal(transaction, first) == 0
    third = await study.prepare(store, 9)
    assert third is not None
    async with store.begin(write=True) as transaction:
        await study.store(transaction, [*uploads, far], skip=4)
        await study.merge(transaction, 9)
        # The root has moved, so the sketch is in more cells than it was.
        assert await apply_removal(transaction, third) == 0
        assert await study.check(transaction) == []
    assert await study.remove(store, 9) == 1
    assert await study.remove(store, 9) == 0
    async with store.begin() as transaction:
        assert await study.check(transaction) == []
        assert_same(
            await study.sum(transaction, Selection()),
            study.sum_rows([*uploads, far], Selection(), without={1, 3}),
        )


@pytest.mark.anyio
async def test_a_merge_prepared_before_an_exclusion_changes_no_total(store: Store) -> None:
    study = open_study()
    uploads = [Upload(i % 2, (i, i), 5, 0, (1 << i, 2, 3)) for i in range(4)]
    await study.begin(store, uploads)
    async with store.begin() as transaction:
        merge = await prepare_merge(transaction, study.study_id, layout=LAYOUT, most=9)
    assert merge is not None
    wanted = study.sum_rows(uploads, Selection(), without={1, 3})
    async with store.begin(write=True) as transaction:
        await study.exclude(transaction, 1)
    assert await study.remove(store, 9) == 0
    async with store.begin(write=True) as transaction:
        assert_same(await study.sum(transaction, Selection()), wanted)
        assert await apply_merge(transaction, merge) == 4
        assert_same(await study.sum(transaction, Selection()), wanted)
    assert await study.remove(store, 9) == 2
    async with store.begin() as transaction:
        assert_same(await study.sum(transaction, Selection()), wanted)
        assert await study.check(transaction) == []
        assert study.study_id not in await list_leaving(transaction)


@pytest.mark.anyio
async def test_a_merge_adds_to_cells_as_they_are_then_not_as_they_were_when_it_was_prepared(
    store: Store,
) -> None:
    study = open_study()
    # All in one slot, so that the root stays and every cell is touched twice.
    uploads = [Upload(i % 2, (4, 4), 5, 0, (1 << i, 2, 3)) for i in range(4)]
    async with store.begin(write=True) as transaction:
        await study.open(transaction)
        await study.store(transaction, uploads[:2])
        await study.merge(transaction, 9)
        await study.store(transaction, uploads, skip=2)
    async with store.begin() as transaction:
        merge = await prepare_merge(transaction, study.study_id, layout=LAYOUT, most=9)
    assert merge is not None
    async with store.begin(write=True) as transaction:
        await study.exclude(transaction, 1)
    assert await study.remove(store, 9) == 1
    async with store.begin(write=True) as transaction:
        assert await apply_merge(transaction, merge) == 2
    assert await study.remove(store, 9) == 1
    async with store.begin() as transaction:
        assert await study.check(transaction) == []
        assert_same(
            await study.sum(transaction, Selection()),
            study.sum_rows(uploads, Selection(), without={1, 3}),
        )


@pytest.mark.anyio
async def test_a_dropped_payload_leaves_all_else_of_its_sketch(store: Store) -> None:
    study = open_study()
    uploads = [Upload(1, (slot, slot), 5, 0, (1, 2, 3)) for slot in range(4)]
    async with store.begin(write=True) as transaction:
        await study.open(transaction)
        await study.store(transaction, uploads)
        assert await drop_payloads(transaction, received_before=99.0, most=9) == 0
        await study.merge(transaction, 9)
        assert await drop_payloads(transaction, received_before=2.0, most=1) == 1
        assert await drop_payloads(transaction, received_before=2.0, most=9) == 1
        assert await drop_payloads(transaction, received_before=2.0, most=9) == 0
        record = study.sketch(uploads[0], 0)
        assert await get_sketch(transaction, record.sketch_id) == record
        assert not await add_sketch(transaction, record, b"other")
        assert_same(await study.sum(transaction, Selection()), study.sum_rows(uploads, Selection()))


@pytest.mark.anyio
async def test_a_snapshot_tells_which_of_its_devices_were_excluded(store: Store) -> None:
    study = open_study()
    uploads = [Upload(device, (0, 0), 5, 0, (1, 2, 3)) for device in (0, 1, 2)]
    async with store.begin(write=True) as transaction:
        await study.open(transaction)
        await study.store(transaction, uploads)
        await study.merge(transaction, 2)
        devices = (await study.sum(transaction, Selection())).devices
        assert await find_excluded(transaction, study.study_id, devices) == []
        for number in (1, 3):
            await study.exclude(transaction, number)
        found = await find_excluded(transaction, study.study_id, devices)
        assert found == [study.device(1).device_id]
        after = (await study.sum(transaction, Selection())).devices
        assert await find_excluded(transaction, study.study_id, after) == []


@pytest.mark.anyio
async def test_merging_that_fails_leaves_everything_as_it_was(store: Store) -> None:
    study = open_study()
    uploads = [Upload(1, (slot, slot), 5, 0, (1, 2, 3)) for slot in range(5)]
    await study.begin(store, uploads, merged=2)

    async def fail() -> None:
        async with store.begin(write=True) as transaction:
            assert await study.merge(transaction, 9) == 3
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        await fail()
    async with store.begin(write=True) as transaction:
        assert await study.check(transaction) == []
        assert study.study_id in await list_unmerged(transaction)
        assert await study.merge(transaction, 9) == 3
        assert await study.check(transaction) == []
        assert await list_unmerged(transaction) == []
        assert_same(await study.sum(transaction, Selection()), study.sum_rows(uploads, Selection()))


@pytest.mark.anyio
async def test_at_every_moment_of_uploads_and_merging_each_sketch_is_counted_once(
    store: Store,
) -> None:
    study = open_study()
    n_sketches = 40
    # Each sketch has a bit of its own, so that one counted twice or not at all shows.
    uploads = [Upload(i % 4, (i % 5, i % 5), 1, 0, (1 << i, 0, 0)) for i in range(n_sketches)]
    async with store.begin(write=True) as transaction:
        await study.open(transaction)

    async def upload(device: int) -> None:
        for position, one in enumerate(uploads):
            if one.device == device:
                async with store.begin(write=True) as transaction:
                    payload = encode_payload(np.array(one.values), WIDTH)
                    await add_sketch(transaction, study.sketch(one, position), payload)

    async def merge_until(done: asyncio.Event) -> None:
        while not done.is_set():
            async with store.begin(write=True) as transaction:
                await study.merge(transaction, 3)
            await asyncio.sleep(0)

    async def watch(done: asyncio.Event, *, write: bool) -> None:
        seen = 0
        while not done.is_set():
            async with store.begin(write=write) as transaction:
                totals = await study.sum(transaction, Selection())
                if not write:
                    assert await study.check(transaction) == []
            bits = int(totals.sums[0])
            assert bits.bit_count() == totals.n_sketches == totals.n_records
            assert bits & seen == seen
            seen = bits
            await asyncio.sleep(0)

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(merge_until(done))
        group.create_task(watch(done, write=False))
        group.create_task(watch(done, write=True))
        await asyncio.gather(*(upload(device) for device in range(4)))
        done.set()
    async with store.begin(write=True) as transaction:
        await study.merge(transaction, 99)
        assert await study.check(transaction) == []
        totals = await study.sum(transaction, Selection())
        assert await list_unmerged(transaction) == []
    assert int(totals.sums[0]) == (1 << n_sketches) - 1


@pytest.mark.anyio
async def test_the_check_names_a_cell_that_is_not_what_it_should_be(store: Store) -> None:
    study = open_study()
    await study.begin(store, [Upload(1, (s, s), 5, 0, (1, 2, 3)) for s in range(3)], merged=9)
    async with store.engine.begin() as connection:
        top = update(CELLS).where(CELLS.c.level == 1, CELLS.c.labels == "{}")
        await connection.execute(top.values(sums=encode_array(np.array([9, 9, 9]))))
    async with store.begin() as transaction:
        wrong = await study.check(transaction)
    assert len(wrong) >= 1
    assert all(line.startswith("level 1,") for line in wrong)
