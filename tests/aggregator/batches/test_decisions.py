"""What an operator sees of batches, and decides about them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import text

from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.shared.errors import HelperError
from sfumato.shared.sharing.batches import choose_part
from tests.aggregator.batches.conftest import ON_BOTH, Pair, open_pair
from tests.aggregator.fleet import Device, assert_problem

pytestmark = pytest.mark.anyio


async def call(pair: Pair, batch_id: bytes, action: str, **body: str) -> httpx.Response:
    url = f"/v1/studies/{pair.study.hex()}/batches/{batch_id.hex()}/{action}"
    return await pair.server.desk.operate("POST", url, body or None)


async def read(pair: Pair, path: str = "") -> Any:
    return await pair.server.desk.read(f"/v1/studies/{pair.study.hex()}/batches{path}")


async def fill(pair: Pair, count: int = 4) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(count)])


async def test_batches_are_listed_with_state_and_counts(pair: Pair) -> None:
    await fill(pair)
    (waiting,) = (await read(pair))["items"]
    assert (waiting["state"], waiting["n_reports"], waiting["total"]) == ("open", 4, None)

    await pair.close()

    (listed,) = (await read(pair))["items"]
    shown = await read(pair, f"/{listed['batch_id']}")
    assert (shown["state"], shown["standing"], shown["n_records"]) == ("acknowledged", "counted", 8)
    assert shown["reports"] == {"opened": 4}
    assert shown["answer"]
    assert shown["total"]


async def test_an_operator_opens_a_batch_before_its_time(pair: Pair) -> None:
    devices = await pair.enrol(5)
    await pair.upload(*[pair.report(device) for device in devices[:2]])
    batch = await pair.only()
    assert_problem(await call(pair, batch.batch_id, "open"), "batch-too-small", 409, "batch")
    await pair.upload(*[pair.report(device) for device in devices[2:4]])

    answer = await call(pair, batch.batch_id, "open")
    await pair.work()

    assert answer.status_code == 200, answer.text
    assert await pair.states() == ["acknowledged"]
    await pair.upload(pair.report(devices[4]))
    assert await pair.states() == ["acknowledged", "open"]


@ON_BOTH
async def test_a_batch_is_set_aside_and_admitted_exactly(pair: Pair) -> None:
    devices = await pair.enrol(4)
    await pair.upload(*[pair.report(device) for device in devices])
    await pair.close()
    pair.end_slot(1, grace=0)
    await pair.upload(*[pair.report(device, sequence=1, slot=1) for device in devices[:3]])
    await pair.close(1)
    first, second = await pair.batches()
    before = await pair.sum_all()
    url = f"/v1/studies/{pair.study.hex()}/snapshots"
    snapshot = (await pair.server.desk.post(url, {})).json()
    assert (snapshot["n_batches"], snapshot["n_waiting"], snapshot["left_batches"]) == (2, 0, [])

    answer = await call(pair, first.batch_id, "set-aside", reason="broken firmware")

    assert answer.status_code == 200, answer.text
    left = await pair.sum_all()
    assert left.sums.tolist() == pair.read_total(second).tolist()
    assert (left.n_sketches, left.n_devices) == (1, 3)
    flagged = await pair.server.desk.read(f"/v1/snapshots/{snapshot['snapshot_id']}")
    assert flagged["left_batches"] == [first.batch_id.hex()]
    assert await pair.find_faults() == []

    await call(pair, first.batch_id, "admit", reason="it was not")

    after = await pair.sum_all()
    assert after.sums.tolist() == before.sums.tolist()
    assert (after.members, after.devices) == (before.members, before.devices)
    assert await pair.find_faults() == []


async def test_decisions_about_a_batch_are_in_the_audit_log(pair: Pair) -> None:
    await fill(pair)
    batch = await pair.only()
    await call(pair, batch.batch_id, "open")
    await pair.work()
    await call(pair, batch.batch_id, "set-aside", reason="broken firmware")
    await call(pair, batch.batch_id, "admit", reason="it was not")

    desk = pair.server.desk
    entries = (await desk.operate("GET", "/v1/audit")).json()["items"]

    noted = [(e["action"], e["target"]) for e in entries if e["action"].startswith("batch.")]
    actions = ("batch.admit", "batch.open", "batch.set-aside")
    assert sorted(noted) == [(action, batch.batch_id.hex()) for action in actions]


async def test_only_an_opened_batch_can_be_set_aside(pair: Pair) -> None:
    await fill(pair)
    batch = await pair.only()

    answer = await call(pair, batch.batch_id, "set-aside", reason="too early")

    assert_problem(answer, "store-conflict", 409, "batch")
    assert "must be acknowledged, and is open" in answer.json()["rule"]


async def test_garbage_is_flagged_and_stays_out_of_the_sums(pair: Pair) -> None:
    """A random vector passes with probability 16^-40."""
    devices = await pair.enrol(4)
    reports = [pair.report(device) for device in devices]
    rng = np.random.default_rng(0)
    reports[0].message = pair.change_payload(
        devices[0], reports[0], rng.integers(0, 256, 4096, dtype=np.uint8).tobytes()
    )
    await pair.upload(*reports)
    await pair.close()

    batch = await pair.only()
    assert (batch.standing, batch.flags) == ("flagged", ["implausible"])
    assert (await pair.sum_all()).n_sketches == 0
    assert await pair.find_faults() == []


async def test_a_part_that_differs_leaves_the_sums_until_an_operator_decides(
    tmp_path: Path,
) -> None:
    async with open_pair(tmp_path, parts=3, least_reports=2, epsilon=Fraction(200)) as pair:
        # All in one or two parts with a chance of 3e-4.
        devices = await pair.enrol(30)
        reports = [pair.report(device) for device in devices]
        parts = [choose_part(bytes.fromhex(each.sketch_id), 3) for each in reports]
        # The largest: of a few reports nearly any mean may be honest.
        part = max(range(3), key=parts.count)
        its = [each for each, its_part in zip(reports, parts, strict=True) if its_part == part]
        exact = np.sum([each.sums for each in its], axis=0)
        # To the other side, where all its records could be.
        shift = -exact - np.sign(exact) * int(1.9 * len(its) * pair.plan.amplitude)
        bad = its[0]
        bad.message = pair.shift(bad.device, bad, shift)
        await pair.upload(*reports)
        await pair.close()

        batches = await pair.batches()
        assert [each.flags for each in batches if each.part == part] == [["inconsistent"]]
        assert {each.standing for each in batches if each.part != part} == {"counted"}
        assert (await pair.sum_all()).n_sketches == 2
        found = await read(pair, "/suspects")
        suspects = {each["device_id"] for each in found["suspects"]}
        assert bad.device.device_id.hex() in suspects
        assert len(suspects) == next(e.n_reports for e in batches if e.part == part)
        assert await pair.find_faults() == []

        await call(pair, batches[part].batch_id, "admit", reason="it is all there is")

        assert (await pair.sum_all()).n_sketches == 3
        assert await pair.find_faults() == []


async def test_single_devices_cannot_be_looked_at(pair: Pair) -> None:
    await fill(pair)
    await pair.close()
    url = f"/v1/studies/{pair.study.hex()}/analyses"

    answer = await pair.server.desk.operate("POST", url, {"kind": "devices", "n_clusters": 2})

    assert_problem(answer, "decoding-invalid", 422, "kind")
    assert "no server has the sums of one" in answer.json()["rule"]


async def test_a_batch_whose_helper_is_gone_is_given_up(pair: Pair) -> None:
    devices = await pair.enrol(4)
    await pair.upload(*[pair.report(device) for device in devices[:3]])
    pair.end_slot()
    object.__setattr__(pair.server.settings, "helper_url", "http://127.0.0.1:9")
    await pair.work()
    batch = await pair.only()

    answer = await call(pair, batch.batch_id, "give-up", reason="the helper was dissolved")

    entries = (await pair.server.desk.operate("GET", "/v1/audit")).json()
    assert "batch.give-up" in [entry["action"] for entry in entries["items"]]
    assert answer.status_code == 200, answer.text
    shown = await read(pair, f"/{batch.batch_id.hex()}")
    assert (shown["state"], shown["reason"]) == ("void", "the helper was dissolved")
    assert shown["reports"] == {"void": 3}
    async with pair.server.store.begin() as transaction:
        held = await transaction.connection.execute(
            text("SELECT count(*) FROM sketches WHERE payload IS NOT NULL")
        )
        assert held.scalar_one() == 0
    # Later reports of the slot form the next batch.
    await pair.upload(pair.report(devices[3]))
    assert await pair.states() == ["void", "open"]
    assert await pair.find_faults() == []


async def test_a_total_that_the_helper_never_got_is_given_up_and_one_that_it_has_is_not(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(pair)
    pair.end_slot()

    async def fail(*_: object) -> None:
        raise HelperError("was cut off")

    with monkeypatch.context() as patched:
        patched.setattr(HelperClient, "acknowledge", fail)
        await pair.work()
    batch = await pair.only()
    assert batch.state == "opened"
    await call(pair, batch.batch_id, "give-up", reason="the helper was dissolved")
    pair.wait()
    await pair.work()
    given_up = await pair.only()
    assert (given_up.state, given_up.sums, given_up.n_records) == ("void", None, None)
    assert (await pair.sum_all()).n_sketches == 0
    assert await pair.find_faults() == []

    pair.end_slot(1, grace=0)
    devices = [Device(number, {}) for number in range(4)]
    await pair.upload(*[pair.report(device, sequence=1, slot=1) for device in devices])
    await pair.close(1)
    _, second = await pair.batches()
    answer = await call(pair, second.batch_id, "give-up", reason="by mistake")
    assert_problem(answer, "store-conflict", 409, "batch")
    assert "set-aside" in answer.json()["fix"]
