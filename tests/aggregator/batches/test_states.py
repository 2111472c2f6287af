"""When batches close, wait, are void, and what becomes of their reports."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from sfumato.aggregator.database.copy import copy_database
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.shared.plan import SketchPlan, compute_plan_digest, plan_to_json
from sfumato.shared.wire.message import decode_message
from tests.aggregator.batches.conftest import HOUR, ON_BOTH, Pair, make_sum_draft, open_pair
from tests.aggregator.databases import open_sqlite
from tests.aggregator.fleet import assert_problem
from tests.shared.sharing.samples import make_plan

pytestmark = pytest.mark.anyio


async def test_a_batch_waits_for_the_end_of_its_grace_period(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    await pair.close(grace=0)
    assert await pair.states() == ["open"]

    await pair.close()

    assert await pair.states() == ["acknowledged"]


async def test_late_reports_are_a_batch_of_their_own(pair: Pair) -> None:
    devices = await pair.enrol(7)
    await pair.upload(*[pair.report(device) for device in devices[:3]])
    await pair.close()
    await pair.upload(*[pair.report(device) for device in devices[3:]])
    await pair.work()
    assert await pair.states() == ["acknowledged", "open"]

    await pair.close(grace=2)

    _, second = await pair.batches()
    assert (second.number, second.state, second.n_reports) == (1, "acknowledged", 4)
    assert (await pair.sum_all()).n_sketches == 2
    assert await pair.find_faults() == []


async def test_a_batch_that_may_wait_until_it_is_too_late_opens_before(tmp_path: Path) -> None:
    """Both servers refuse reports at ``late_s``: a batch that closed then would lose all."""
    async with open_pair(tmp_path, grace_s=HOUR, late_s=HOUR) as pair:
        devices = await pair.enrol(6)
        await pair.upload(*[pair.report(device) for device in devices[:3]])
        pair.end_slot()
        pair.clock.seconds -= HOUR // 20
        await pair.work()
        await pair.upload(*[pair.report(device) for device in devices[3:]])
        await pair.work()

        assert await pair.states() == ["acknowledged", "acknowledged"]


@ON_BOTH
async def test_too_few_reports_are_dropped_unread_when_it_is_too_late(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(2)])
    await pair.close()
    assert await pair.states() == ["open"]

    release = pair.plan.sum_release
    assert release is not None
    pair.clock.seconds = pair.plan.window.slot_bounds(0)[1] + release.late_s + 1
    await pair.work()

    batch = await pair.only()
    assert (batch.state, batch.sums) == ("void", None)
    assert await pair.count_reports(batch) == {"void": 2}
    async with pair.server.store.engine.connect() as connection:
        held = await connection.execute(
            text("SELECT count(*) FROM sketches WHERE payload IS NOT NULL")
        )
    assert held.scalar_one() == 0
    assert (await pair.sum_all()).n_sketches == 0
    assert await pair.find_faults() == []


async def test_a_report_that_comes_too_late_is_refused(pair: Pair) -> None:
    (device,) = await pair.enrol(1)
    report = pair.report(device)
    release = pair.plan.sum_release
    assert release is not None
    pair.clock.seconds = pair.plan.window.slot_bounds(0)[1] + release.late_s

    answer = await pair.server.desk.put(pair.study, report.sketch_id, report.message)

    assert_problem(answer, "window-expired", 410, "slots")
    assert await pair.batches() == []


async def test_a_full_batch_closes_at_once(tmp_path: Path) -> None:
    async with open_pair(tmp_path, most_reports=3) as pair:
        await pair.upload(*[pair.report(device) for device in await pair.enrol(7)])

        await pair.work()

        assert await pair.states() == ["acknowledged", "acknowledged", "open"]
        assert [each.n_reports for each in await pair.batches()] == [3, 3, 1]


@ON_BOTH
async def test_an_excluded_device_is_left_out_before_and_kept_after(pair: Pair) -> None:
    devices = await pair.enrol(6)
    await pair.upload(*[pair.report(device) for device in devices[:5]])
    answer = await exclude(pair, devices[0].device_id)
    assert (answer["n_subtracted"], answer["n_kept"]) == (1, 0)
    await pair.close()
    batch = await pair.only()
    assert (batch.state, batch.n_reports, batch.n_records) == ("acknowledged", 4, 8)

    answer = await exclude(pair, devices[1].device_id)

    assert (answer["n_subtracted"], answer["n_kept"]) == (0, 1)
    assert (await pair.sum_all()).moments.first == 8
    assert await pair.find_faults() == []


async def test_exclusions_that_leave_too_few_open_the_batch_again(pair: Pair) -> None:
    devices = await pair.enrol(4)
    await pair.upload(*[pair.report(device) for device in devices[:3]])
    pair.end_slot()
    async with pair.server.store.begin(write=True) as transaction:
        (batch,) = await pair.batches()
        await transaction.change(BatchRecord, batch.batch_id, state="closing")
    await exclude(pair, devices[0].device_id)
    await pair.work()
    assert await pair.states() == ["open"]

    await pair.upload(pair.report(devices[3]))
    await pair.work()

    batch = await pair.only()
    assert (batch.number, batch.state, batch.n_reports) == (0, "acknowledged", 3)
    assert await pair.find_faults() == []


async def test_a_broken_seal_is_refused_and_the_rest_is_opened(pair: Pair) -> None:
    devices = await pair.enrol(4)
    reports = [pair.report(device) for device in devices]
    broken = decode_message(reports[0].message)
    reports[0].message = pair.break_seal(devices[0], broken)
    await pair.upload(*reports)
    await pair.close()

    batch = await pair.only()
    assert batch.state == "acknowledged"
    assert await pair.count_reports(batch) == {"opened": 3, "refused-box": 1}
    assert batch.n_records == 6
    assert await pair.find_faults() == []


async def test_a_batch_waits_for_a_helper_that_is_away(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    pair.end_slot()
    settings = pair.server.settings
    object.__setattr__(settings, "helper_url", "http://127.0.0.1:9")

    await pair.work()

    batch = await pair.only()
    assert batch.state == "closing"
    assert batch.problem is not None
    assert batch.problem["type"] == "/problems/helper-unreachable"
    assert "nothing is lost" in batch.problem["fix"]
    object.__setattr__(settings, "helper_url", pair.helper.url)
    await pair.work()
    assert await pair.states() == ["closing"]
    pair.wait()
    await pair.work()
    assert await pair.states() == ["acknowledged"]
    assert (await pair.only()).problem is None


async def exclude(pair: Pair, device_id: bytes) -> dict[str, int]:
    answer: httpx.Response = await pair.server.desk.operate(
        "POST", f"/v1/devices/{device_id.hex()}/exclude", {"reason": "test"}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_metrics_count_batches_and_reports_and_name_none(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    pair.end_slot()
    object.__setattr__(pair.server.settings, "helper_url", "http://127.0.0.1:9")
    await pair.work()
    pair.wait(99.0)

    text_ = (await pair.server.desk.operate("GET", "/metrics")).text

    assert 'sfumato_batches{state="closing"} 1.0' in text_
    assert 'sfumato_reports{verdict="waiting"} 3.0' in text_
    assert "sfumato_helper_up 0.0" in text_
    assert "sfumato_batch_oldest_seconds 100.0" in text_
    assert (await pair.only()).batch_id.hex() not in text_
    object.__setattr__(pair.server.settings, "helper_url", pair.helper.url)
    await pair.work()
    text_ = (await pair.server.desk.operate("GET", "/metrics")).text
    assert "sfumato_helper_up 1.0" in text_
    assert 'sfumato_reports{verdict="opened"} 3.0' in text_


async def test_a_batch_whose_plan_the_helper_retired_is_void_in_the_end(
    pair: Pair,
) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    pair.helper.plans.retire(compute_plan_digest(pair.plan), now=0.0)
    await pair.close()
    batch = await pair.only()
    assert batch.state == "closing"
    assert batch.problem is not None
    assert batch.problem["type"] == "/problems/plan-not-accepted"

    pair.clock.seconds = batch.expires + 1
    await pair.work()

    assert await pair.states() == ["void"]
    assert await pair.find_faults() == []


@ON_BOTH
async def test_a_withdrawn_study_leaves_no_batch_and_no_work(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    pair.end_slot()

    await pair.server.desk.withdraw(pair.study)
    await pair.work()
    await pair.server.services.studies.purge()

    assert await pair.batches() == []
    async with pair.server.store.engine.connect() as connection:
        left = await connection.execute(text("SELECT count(*) FROM sketches"))
    assert left.scalar_one() == 0


async def test_a_plan_has_one_study_because_the_helper_knows_batches_by_plan(
    pair: Pair,
) -> None:
    body = {"name": "again", "plan": plan_to_json(pair.plan), "allow_same_plan": True}

    answer = await pair.server.desk.operate("POST", "/v1/studies", body)

    assert_problem(answer, "store-conflict", 409, "plan")
    assert "a secure sum has one" in answer.json()["rule"]


async def test_a_study_needs_its_helper_and_the_helpers_consent(pair: Pair) -> None:
    desk, settings = pair.server.desk, pair.server.settings

    async def create(plan: SketchPlan) -> httpx.Response:
        body = {"name": "other", "plan": plan_to_json(plan)}
        return await desk.operate("POST", "/v1/studies", body)

    # The samples' own helper endorsed this one, under another identity.
    answer = await create(make_plan())
    assert_problem(answer, "helper-unreachable", 503, "helper_url")
    assert "is not the plan's helper" in answer.json()["rule"]

    retired = pair.helper.accept(make_sum_draft(most_records=4))
    pair.helper.plans.retire(compute_plan_digest(retired), now=0.0)
    answer = await create(retired)
    assert_problem(answer, "request-invalid", 422, "plan")
    assert "has not been accepted by the helper" in answer.json()["rule"]

    accepted = pair.helper.accept(make_sum_draft(most_records=3))
    object.__setattr__(settings, "helper_api_key", "sfh_wrong")
    assert_problem(await create(accepted), "helper-unreachable", 503, "helper_api_key")
    object.__setattr__(settings, "helper_url", None)
    assert_problem(await create(accepted), "request-invalid", 422, "helper_url")
    object.__setattr__(settings, "helper_url", "http://helper.example.org")
    answer = await create(accepted)
    assert_problem(answer, "request-invalid", 422, "helper_url")
    assert "must begin with https://" in answer.json()["rule"]


async def test_a_copied_database_has_the_same_batches(pair: Pair, tmp_path: Path) -> None:
    devices = await pair.enrol(5)
    await pair.upload(*[pair.report(device) for device in devices[:4]])
    await pair.close()
    await pair.upload(pair.report(devices[4]))
    before = await pair.batches()

    async with open_sqlite(tmp_path / "copy.db") as copy:
        await copy_database(pair.server.store, copy)
        pair.server.store = copy

        assert await pair.batches() == before
        assert (await pair.sum_all()).n_sketches == 1
        assert await pair.find_faults() == []


async def test_payloads_do_not_wait_for_ever_for_a_helper_that_is_gone(
    pair: Pair,
) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    pair.end_slot()
    object.__setattr__(pair.server.settings, "helper_url", "http://127.0.0.1:9")
    await pair.work()
    batch = await pair.only()
    pair.clock.seconds = batch.expires + 80_000.0
    await pair.work()
    assert await pair.states() == ["closing"]

    pair.clock.seconds = batch.expires + 90_000.0
    await pair.work()

    batch = await pair.only()
    assert batch.state == "void"
    assert batch.reason is not None
    assert "does not answer" in batch.reason
    assert await pair.count_reports(batch) == {"void": 3}
    assert await count_payloads(pair) == 0
    assert await pair.find_faults() == []


async def test_nor_for_a_helper_that_is_in_no_settings_any_more(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    object.__setattr__(pair.server.settings, "helper_url", None)
    pair.clock.seconds = (await pair.only()).expires + 90_000.0

    await pair.work()

    assert await pair.states() == ["void"]
    assert await count_payloads(pair) == 0


async def test_reports_wait_while_the_helpers_clock_is_behind(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    pair.end_slot()
    pair.helper.batches.now = lambda: pair.clock.seconds - 4 * HOUR
    await pair.work()
    batch = await pair.only()
    assert batch.problem is not None
    assert "set the clocks" in batch.problem["fix"]
    assert await pair.count_reports(batch) == {"waiting": 3}

    pair.helper.batches.now = pair.clock.now
    pair.wait()
    await pair.work()

    assert await pair.states() == ["acknowledged"]


async def count_payloads(pair: Pair) -> int:
    async with pair.server.store.engine.connect() as connection:
        held = await connection.execute(
            text("SELECT count(*) FROM sketches WHERE payload IS NOT NULL")
        )
    return int(held.scalar_one())
