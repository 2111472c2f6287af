"""A leader that was restored from a backup: it gets the totals back, and draws no second noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.helper.answers import CLOCK_SKEW_S
from sfumato.shared.errors import HelperError
from sfumato.shared.plan import compute_plan_digest
from tests.aggregator.batches.conftest import Pair, Report

pytestmark = pytest.mark.anyio


async def test_a_leader_of_before_the_opening_gets_the_same_total(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(4)])
    pair.copy_leader(tmp_path / "backup.db")
    await pair.close()
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
    pair: Pair, tmp_path: Path
) -> None:
    devices = await pair.enrol(6)
    reports = [pair.report(device) for device in devices]
    await pair.upload(*reports[:4])
    pair.copy_leader(tmp_path / "backup.db")
    await pair.upload(reports[4])
    await pair.close()
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
    pair: Pair, tmp_path: Path
) -> None:
    devices = await pair.enrol(4)
    reports = [pair.report(device) for device in devices]
    await pair.upload(reports[0])
    pair.copy_leader(tmp_path / "backup.db")
    await pair.upload(*reports[1:])
    await pair.close()
    before = await pair.only()

    pair.restore_leader(tmp_path / "backup.db")
    release = pair.plan.sum_release
    assert release is not None
    pair.clock.seconds = pair.plan.window.slot_bounds(0)[1] + release.late_s + 1
    await pair.work()

    after = await pair.only()
    assert (after.state, after.sums) == ("acknowledged", before.sums)
    assert await pair.find_faults() == []


async def test_reports_of_two_batches_find_their_own_again(pair: Pair, tmp_path: Path) -> None:
    pair.copy_leader(tmp_path / "backup.db")
    devices = await pair.enrol(7)
    pair.copy_leader(tmp_path / "backup.db")
    reports = [pair.report(device) for device in devices]
    await pair.upload(*reports[:3])
    await pair.close()
    await pair.upload(*reports[3:])
    await pair.close(grace=2)
    before = await pair.batches()

    pair.restore_leader(tmp_path / "backup.db")
    await pair.upload(*reports)
    await pair.work()

    after = await pair.batches()
    assert [each.sums for each in after] == [each.sums for each in before]
    assert [each.n_reports for each in after] == [3, 4]
    assert (await pair.sum_all()).n_sketches == 2
    assert await pair.find_faults() == []


async def test_reports_that_only_the_helper_knows_are_waited_for(
    pair: Pair, tmp_path: Path
) -> None:
    reports, before = await forget_a_report_that_the_helper_holds(pair, tmp_path)
    await pair.work()
    batch = await pair.only()
    assert (batch.state, batch.sums) == ("open", None)
    assert batch.problem is not None
    assert "1 report(s) that this server does not have" in batch.problem["rule"]

    await pair.upload(reports[-1])
    pair.wait()
    await pair.work()

    batch = await pair.only()
    assert (batch.state, batch.n_reports) == ("acknowledged", len(reports))
    assert before == len(reports)
    assert await pair.find_faults() == []


async def test_an_operator_opens_a_batch_without_reports_that_only_the_helper_knows(
    pair: Pair, tmp_path: Path
) -> None:
    reports, _ = await forget_a_report_that_the_helper_holds(pair, tmp_path)
    await pair.work()
    batch = await pair.only()

    await pair.server.services.batches.open(pair.study, batch.batch_id)
    await pair.work()
    await pair.upload(reports[-1])
    await pair.close(grace=3)

    first, second = await pair.batches()
    assert (first.state, first.n_reports) == ("acknowledged", len(reports) - 1)
    exact = np.sum([each.sums for each in reports[:-1]], axis=0)
    noise = np.abs(pair.read_total(first) - exact)
    assert noise.max() <= 2 * pair.plan.mechanism.noise_bound
    assert (second.state, second.n_reports) == ("open", 1)
    assert await pair.find_faults() == []


async def forget_a_report_that_the_helper_holds(
    pair: Pair, tmp_path: Path
) -> tuple[list[Report], int]:
    """Restore a leader whose helper judged a report that came after the backup."""
    reports = [pair.report(device) for device in await pair.enrol(4)]
    await pair.upload(*reports[:3])
    pair.copy_leader(tmp_path / "backup.db")
    await pair.upload(reports[3])
    pair.end_slot()

    async def fail(*_: object) -> bytes:
        raise HelperError("was cut off")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HelperClient, "commit", fail)
        await pair.work()
    _, held, _ = pair.helper.batches.show((await pair.only()).batch_id)
    pair.restore_leader(tmp_path / "backup.db")
    return reports, held


async def test_a_total_that_reaches_the_helper_late_takes_the_place_of_a_second(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader is restored, gets the answer again, and draws; nobody has seen either noise."""
    sent: list[bytes] = []
    await pair.upload(*[pair.report(device) for device in await pair.enrol(4)])
    pair.copy_leader(tmp_path / "backup.db")
    pair.end_slot()
    acknowledge = HelperClient.acknowledge

    async def delay(helper: HelperClient, batch_id: bytes, total: bytes) -> None:
        sent.append(total)
        if len(sent) == 1:
            raise HelperError("was cut off")
        if len(sent) == 2:
            pair.helper.batches.acknowledge(batch_id, sent[0])
        await acknowledge(helper, batch_id, total)

    monkeypatch.setattr(HelperClient, "acknowledge", delay)
    await pair.work()
    assert await pair.states() == ["opened"]
    pair.restore_leader(tmp_path / "backup.db")
    await pair.work()

    batch = await pair.only()
    assert sent[0] != sent[1]
    assert (batch.state, batch.standing, batch.sums) == ("acknowledged", "counted", sent[0])
    assert await pair.find_faults() == []


async def test_a_total_is_given_back_though_the_plan_is_retired(pair: Pair, tmp_path: Path) -> None:
    devices = await pair.enrol(5)
    await pair.upload(*[pair.report(device) for device in devices[:3]])
    pair.copy_leader(tmp_path / "backup.db")
    await pair.upload(pair.report(devices[3]))
    await pair.close()
    before = await pair.only()
    pair.helper.plans.retire(compute_plan_digest(pair.plan), now=0.0)

    pair.restore_leader(tmp_path / "backup.db")
    await pair.upload(pair.report(devices[4]))
    await pair.work()

    after = await pair.only()
    assert (after.state, after.sums, after.n_reports) == ("acknowledged", before.sums, 4)
    assert await pair.count_reports(after) == {"opened": 3, "refused-late": 1}
    assert await pair.find_faults() == []


async def test_a_helper_restored_with_its_clock_ahead_takes_no_report_and_the_batch_says_so(
    pair: Pair,
) -> None:
    pair.clock.seconds += 86_400.0
    _, burnt_before = pair.helper.batches.mark_restored()
    pair.clock.seconds -= 86_400.0
    assert burnt_before == pair.clock.seconds + 86_400.0 + CLOCK_SKEW_S
    await pair.upload(*[pair.report(device) for device in await pair.enrol(4)])
    await pair.close()

    batch = await pair.only()
    assert (batch.state, batch.n_reports) == ("open", 0)
    assert await pair.count_reports(batch) == {"refused-burnt": 4}
    assert batch.problem is not None
    assert batch.problem["type"] == "/problems/helper-restored"
    assert "takes no report of this slot" in batch.problem["detail"]
    pair.wait()
    await pair.work()
    assert (await pair.only()).problem == batch.problem
