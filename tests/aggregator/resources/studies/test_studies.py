"""The store: studies, with their states, counts and withdrawal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.devices.record import DeviceRecord, TokenRecord
from sfumato.aggregator.resources.devices.store import add_device
from sfumato.aggregator.resources.jobs.record import DecodeRecord
from sfumato.aggregator.resources.jobs.store import count_totals
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.sketches.store.merge import list_unmerged
from sfumato.aggregator.resources.sketches.store.retention import purge_withdrawn, withdraw_study
from sfumato.aggregator.resources.sketches.store.sketches import (
    count_refusal,
    count_sketch,
    list_refusals,
)
from sfumato.aggregator.resources.sketches.store.streams import list_streams
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import (
    add_study,
    change_study,
    find_studies_of_plan,
    list_studies,
)
from tests.aggregator.records import (
    LAYOUT,
    SNAPSHOT,
    STUDY,
    add_sketch,
    assert_totals,
    make_device,
    make_payload,
    make_sketch,
    make_sums,
    make_token,
    merge,
    name,
    queue,
)

pytestmark = pytest.mark.anyio


async def test_a_state_changes_only_from_the_version_that_was_read(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)
        closed = replace(STUDY, state="closed", search_box={"pressure": [1.5, 2.0]})
        assert await change_study(transaction, closed)
        assert not await change_study(transaction, STUDY)
        found = await transaction.get(StudyRecord, STUDY.study_id)
    assert found == replace(closed, version=2)


async def test_studies_of_a_plan_are_found_but_withdrawn_ones(store: Store) -> None:
    others = [replace(STUDY, study_id=name(i), name=str(i), created=float(i)) for i in (2, 1)]
    elsewhere = replace(STUDY, study_id=name("x"), plan_digest=name("other plan"))
    gone = replace(STUDY, study_id=name("gone"), state="withdrawn")
    async with store.begin(write=True) as transaction:
        for study in (*others, elsewhere, gone):
            await add_study(transaction, study)
    async with store.begin() as transaction:
        found = await find_studies_of_plan(transaction, STUDY.plan_digest)
        assert list(found) == others[::-1]
        assert list(await find_studies_of_plan(transaction, name("?"))) == []


async def test_counts_stop_at_the_limit_and_at_another_state(store: Store) -> None:
    async with store.begin(write=True) as transaction:
        await add_study(transaction, STUDY)

        async def count(now: float = 0.0) -> bool:
            return await count_sketch(
                transaction, STUDY.study_id, n_records=1 << 40, most_sketches=2, now=now
            )

        async def change(version: int, state: Any, until: float | None = None) -> None:
            changed = replace(STUDY, state=state, accept_until=until, version=version)
            assert await change_study(transaction, changed)

        await change(1, "closed")
        assert not await count()
        await change(2, "closed", 10.0)
        assert [await count(10.0), await count(9.0)] == [False, True]
        await change(3, "open")
        assert [await count(11.0), await count()] == [True, False]
        found = await transaction.get(StudyRecord, STUDY.study_id)
    assert found == replace(STUDY, version=4, n_sketches=2, n_records=1 << 41)


async def test_a_withdrawn_study_is_emptied_in_batches_and_others_stay(store: Store) -> None:
    other = replace(STUDY, study_id=name("other"), name="other")
    device = make_device(9, study_id=other.study_id, ordinal=0)
    sketch = make_sketch(9, 0, study_id=other.study_id)
    async with store.begin(write=True) as transaction:
        await queue(transaction, 1, 2)
        for number in range(2):
            await add_device(transaction, make_device(number))
            await add_sketch(transaction, make_sketch(number, 0), make_payload(number, 0))
        await merge(transaction)
        await add_sketch(transaction, make_sketch(1, 1), make_payload(1, 1))
        await count_refusal(transaction, STUDY.study_id, "signature-invalid")
        await transaction.add(make_token("t"))
        await add_study(transaction, other)
        await transaction.add(make_token("o", study_id=other.study_id))
        await add_device(transaction, device)
        await add_sketch(transaction, sketch, make_payload(9, 0))
    async with store.begin(write=True) as transaction:
        assert await purge_withdrawn(transaction, most=100) == 0
        assert not await withdraw_study(transaction, name("nobody"))
        assert await withdraw_study(transaction, STUDY.study_id)
        assert not await withdraw_study(transaction, STUDY.study_id)
        assert await list_unmerged(transaction) == [other.study_id]
        assert not await count_sketch(
            transaction, STUDY.study_id, n_records=1, most_sketches=9, now=0.0
        )
    counts: list[int] = []
    while not counts or counts[-1]:
        async with store.begin(write=True) as transaction:
            counts.append(await purge_withdrawn(transaction, most=2))
    assert max(counts) == 2
    async with store.begin() as transaction:
        study = await transaction.get(StudyRecord, STUDY.study_id)
        assert study == replace(STUDY, state="withdrawn", version=2)
        assert await list_studies(transaction, after=None, limit=9) == [other]
        assert (
            await transaction.list_page(SketchRecord, study_id=STUDY.study_id, after=None, limit=9)
            == []
        )
        assert await transaction.get(DecodeRecord, name("decode", 1)) is None
        assert await transaction.get(SnapshotRecord, SNAPSHOT.snapshot_id) is None
        assert await list_refusals(transaction, STUDY.study_id) == []
        assert (
            await transaction.list_page(TokenRecord, study_id=STUDY.study_id, after=None, limit=9)
            == []
        )
        assert (
            len(
                await transaction.list_page(
                    TokenRecord, study_id=other.study_id, after=None, limit=9
                )
            )
            == 1
        )
        assert await transaction.get(DeviceRecord, name("device", 1)) == make_device(1, labels={})
        assert await list_streams(transaction, name("device", 1)) == []
        assert await transaction.get(DeviceRecord, device.device_id) == device
        totals = await sum_sketches(transaction, other.study_id, Selection(), layout=LAYOUT)
        counted = await count_totals(transaction)
    assert_totals(totals, [make_sums(9, 0).tolist()], [10])
    assert (counted.n_studies, counted.n_devices) == (1, 1)
