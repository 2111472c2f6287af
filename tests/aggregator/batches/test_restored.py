"""A leader that was restored from a backup: it gets the totals back, and draws no second noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aggregator.batches.conftest import Pair

pytestmark = pytest.mark.anyio


async def test_a_leader_of_before_the_opening_gets_the_same_total(
    sqlite_pair: Pair, tmp_path: Path
) -> None:
    pair = sqlite_pair
    await pair.upload(*[pair.report(device) for device in await pair.enrol(4)])
    pair.copy_leader(tmp_path / "backup.db")
    pair.end_slot()
    await pair.work()
    before = await pair.only()

    pair.restore_leader(tmp_path / "backup.db")
    assert await pair.states() == ["open"]
    await pair.work()

    after = await pair.only()
    assert (after.state, after.sums, after.members) == (
        "acknowledged",
        before.sums,
        before.members,
    )
    assert (await pair.sum_all()).n_sketches == 1
    assert await pair.find_faults() == []


async def test_a_leader_that_forgot_reports_gets_the_total_of_all(
    sqlite_pair: Pair, tmp_path: Path
) -> None:
    pair = sqlite_pair
    devices = await pair.enrol(6)
    reports = [pair.report(device) for device in devices]
    await pair.upload(*reports[:4])
    pair.copy_leader(tmp_path / "backup.db")
    await pair.upload(reports[4])
    pair.end_slot()
    await pair.work()
    before = await pair.only()

    pair.restore_leader(tmp_path / "backup.db")
    # A report that never was in the total joins the next batch.
    await pair.upload(reports[5])
    await pair.work()

    after, later = await pair.batches()
    assert (after.state, after.sums, after.n_reports, after.n_records) == (
        "acknowledged",
        before.sums,
        5,
        10,
    )
    assert await pair.count_reports(after) == {"opened": 4}
    assert (later.number, later.state, later.n_reports) == (1, "open", 1)
    assert await pair.find_faults() == []


async def test_a_leader_that_forgot_nearly_all_reports_gets_the_total_in_the_end(
    sqlite_pair: Pair, tmp_path: Path
) -> None:
    pair = sqlite_pair
    devices = await pair.enrol(4)
    reports = [pair.report(device) for device in devices]
    await pair.upload(reports[0])
    pair.copy_leader(tmp_path / "backup.db")
    await pair.upload(*reports[1:])
    pair.end_slot()
    await pair.work()
    before = await pair.only()

    pair.restore_leader(tmp_path / "backup.db")
    release = pair.plan.sum_release
    assert release is not None
    pair.clock.seconds = pair.plan.window.slot_bounds(0)[1] + release.late_s + 1
    await pair.work()

    after = await pair.only()
    assert (after.state, after.sums) == ("acknowledged", before.sums)
    assert await pair.find_faults() == []


async def test_reports_of_two_batches_find_their_own_again(
    sqlite_pair: Pair, tmp_path: Path
) -> None:
    pair = sqlite_pair
    pair.copy_leader(tmp_path / "backup.db")
    devices = await pair.enrol(7)
    pair.copy_leader(tmp_path / "backup.db")
    reports = [pair.report(device) for device in devices]
    await pair.upload(*reports[:3])
    pair.end_slot()
    await pair.work()
    await pair.upload(*reports[3:])
    pair.end_slot(grace=2)
    await pair.work()
    before = await pair.batches()

    pair.restore_leader(tmp_path / "backup.db")
    await pair.upload(*reports)
    await pair.work()

    after = await pair.batches()
    assert [each.sums for each in after] == [each.sums for each in before]
    assert [each.n_reports for each in after] == [3, 4]
    assert (await pair.sum_all()).n_sketches == 2
    assert await pair.find_faults() == []
