"""The store: sketches and their sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.devices.store import add_device
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.sketches.store.sketches import (
    count_refusal,
    find_last_arrivals,
    list_refusals,
)
from sfumato.aggregator.resources.studies.store import add_study, list_studies
from sfumato.shared.errors import StoreError
from sfumato.shared.wire import encode_payload
from tests.aggregator.records import (
    LAYOUT,
    STUDY,
    add_sketch,
    assert_totals,
    digest_of,
    fill,
    find_neighbours,
    get_sketch,
    make_device,
    make_layout,
    make_payload,
    make_sketch,
    make_sums,
    merge,
    name,
)

pytestmark = pytest.mark.anyio


async def test_neighbours_are_the_nearest_of_the_same_stream(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        for sequence in (1, 4, 9):
            await add_sketch(transaction, make_sketch(1, sequence), b"")
        await add_sketch(transaction, make_sketch(0, 5), b"")
        await add_sketch(
            transaction, make_sketch(1, 5, stream="other", sketch_id=name("other")), b""
        )
        below, above = await find_neighbours(transaction, name("device", 1), "main", 6)
        assert (below, above) == (make_sketch(1, 4), make_sketch(1, 9))
        below, above = await find_neighbours(transaction, name("device", 1), "main", 4)
        assert (below, above) == (make_sketch(1, 1), make_sketch(1, 9))
        none_above = await find_neighbours(transaction, name("device", 1), "main", 50)
        assert none_above == (make_sketch(1, 9), None)


async def test_the_last_arrival_is_that_of_the_study_alone(store: Store) -> None:
    other = replace(STUDY, study_id=name("other"), name="other")
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        await add_study(transaction, other)
        await add_device(transaction, make_device(9, study_id=other.study_id))
        both = [STUDY.study_id, other.study_id]
        assert await find_last_arrivals(transaction, both) == {}
        for sequence, received in enumerate((5.0, 7.5, 6.0)):
            await add_sketch(transaction, make_sketch(1, sequence, received=received), b"")
        later = make_sketch(9, 0, study_id=other.study_id, received=99.0)
        await add_sketch(transaction, later, b"")
        arrivals = {STUDY.study_id: 7.5, other.study_id: 99.0}
        assert await find_last_arrivals(transaction, both) == arrivals


async def test_pages_hold_everything_once_in_order(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        sketches = [make_sketch(1, i, received=float(i // 2)) for i in range(7)]
        for sketch in sketches:
            await add_sketch(transaction, sketch, b"")
        expected = sorted(sketches, key=lambda s: (s.received, s.sketch_id))
        seen: list[SketchRecord] = []
        after = None
        while page := await transaction.list_page(
            SketchRecord, study_id=STUDY.study_id, after=after, limit=3
        ):
            seen += page
            after = (page[-1].received, page[-1].sketch_id)
        assert seen == expected
        others = [replace(STUDY, study_id=name(i), created=20.0) for i in range(3)]
        for other in others:
            await add_study(transaction, other)
        studies = [STUDY, *sorted(others, key=lambda s: s.study_id)]
        assert await list_studies(transaction, after=None, limit=2) == studies[:2]
        after = (studies[1].created, studies[1].study_id)
        assert await list_studies(transaction, after=after, limit=9) == studies[2:]


async def test_a_sum_is_exact_over_what_is_selected(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction, 3)
        for device in range(3):
            for sequence in range(50):
                await add_sketch(
                    transaction, make_sketch(device, sequence), make_payload(device, sequence)
                )
        # Most are in cells, some wait.
        assert [await merge(transaction, most=40) for _ in range(3)] == [40] * 3
    walk = [
        (Selection(), [(d, s) for d in range(3) for s in range(50)]),
        (Selection(first_slot=48), [(d, s) for d in range(3) for s in (48, 49)]),
        (Selection(last_slot=0), [(d, 0) for d in range(3)]),
        (Selection(first_slot=7, last_slot=7, labels={"site": "north"}), [(1, 7)]),
        (Selection(labels={"site": "west"}), []),
        (Selection(labels={"floor": "1"}), []),
        (Selection(first_slot=99), []),
    ]
    for selection, chosen in walk:
        async with store.begin() as transaction:
            totals = await sum_sketches(transaction, STUDY.study_id, selection, layout=LAYOUT)
        sums = [make_sums(*one).tolist() for one in chosen]
        sizes = [10 + sequence for _, sequence in chosen]
        assert_totals(totals, sums, sizes)
        assert totals.n_devices == len({device for device, _ in chosen}), selection
        assert totals.members == digest_of(chosen), selection


async def test_sums_and_moments_beyond_64_bits_are_exact(store: Store) -> None:
    sizes = [1, (1 << 24) - 1, 1 << 24, (1 << 40) + 3, (1 << 41) + 12345, (1 << 41) - 1]
    limit = (1 << 63) // len(sizes) - 1
    rng = np.random.default_rng(8)
    sums = [[-limit, limit, *rng.integers(-limit, limit, size=2).tolist()] for _ in sizes]
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        for i, (size, values) in enumerate(zip(sizes, sums, strict=True)):
            payload = encode_payload(np.array(values), 8)
            await add_sketch(transaction, make_sketch(1, i, n_records=size), payload)
        await merge(transaction, width=8, most=4)
        totals = await sum_sketches(transaction, STUDY.study_id, Selection(), layout=make_layout(8))
    assert_totals(totals, sums, sizes)


async def test_a_secret_number_of_records_stays_unknown_and_adds_nothing_to_the_moments(
    store: Store,
) -> None:
    sums = [make_sums(1, i).tolist() for i in range(2)]
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        for i in range(2):
            secret = make_sketch(1, i, n_records=None)
            assert await add_sketch(transaction, secret, make_payload(1, i))
        assert await get_sketch(transaction, secret.sketch_id) == secret
        totals = await sum_sketches(transaction, STUDY.study_id, Selection(), layout=LAYOUT)
    assert_totals(totals, sums, [0, 0])


async def test_a_sum_that_could_leave_64_bits_is_refused(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        for i in range(2):
            # Twice 2^62 is one more than fits.
            payload = encode_payload(np.array([1 << 62, 0, 0, -(1 << 62)]), 8)
            await add_sketch(transaction, make_sketch(1, i), payload)
        with pytest.raises(StoreError, match="64 bits"):
            await sum_sketches(transaction, STUDY.study_id, Selection(), layout=make_layout(8))


async def test_a_sketch_over_several_slots_is_selected_only_whole(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction)
        wide = make_sketch(1, 0, first_slot=4, last_slot=6)
        await add_sketch(transaction, wide, make_payload(1, 0))
        untimed = make_sketch(0, 0, first_slot=None, last_slot=None)
        await add_sketch(transaction, untimed, make_payload(0, 0))
        assert await merge(transaction) == 2

        async def select(first: int | None, last: int | None) -> int:
            totals = await sum_sketches(
                transaction,
                STUDY.study_id,
                Selection(first_slot=first, last_slot=last),
                layout=LAYOUT,
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


async def test_refusals_are_counted_by_problem(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)
    for problem in ("b", "a", "b", "c", "b"):
        async with store.begin(write=True) as transaction:
            await count_refusal(transaction, STUDY.study_id, problem)
    async with store.begin() as transaction:
        found = await list_refusals(transaction, STUDY.study_id)
    assert [(r.problem, r.count) for r in found] == [("b", 3), ("a", 1), ("c", 1)]
