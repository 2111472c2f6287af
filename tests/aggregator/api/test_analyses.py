"""Analyses over the interface: frozen, queued, computed by a worker, and shown."""

from __future__ import annotations

import asyncio
import json
import re
import string
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.resources.jobs.service import analyses
from sfumato.aggregator.resources.sketches.store.retention import drop_payloads
from sfumato.aggregator.worker import Worker
from sfumato.shared.core import SketchAccumulator, feature_table
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm
from tests.aggregator.changing import N_RECORDS, N_SLOTS, fill, make_plan, release
from tests.aggregator.fleet import BEAT, SLOT, Desk, Device, assert_problem
from tests.aggregator.serving import Server
from tests.walking import Walk

pytestmark = pytest.mark.anyio

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "timeline.json"
ON_BOTH = pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True)
PHASES = {
    "release": "phase.v1",
    "frequencies_per_sketch": 10,
    "most_records": None,
    "most_sketches_per_device": 10,
}


def make_report(plan: SketchPlan) -> dict[str, Any]:
    """Return the members of a message that reports phases."""
    phases = np.arange(plan.frequencies_per_sketch) * 1000
    values = feature_table()[phases].T.astype(np.int64).ravel()
    payload = PayloadForm.of(plan).encode(values)
    return {"payload": payload, "block": 0, "kind": "phase.v1", "n_records": 1}


async def ask(desk: Desk, study: bytes, **body: Any) -> dict[str, Any]:
    """Request an analysis as an operator, and return it."""
    url = f"/v1/studies/{study.hex()}/analyses"
    answer = await desk.operate("POST", url, body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/analyses/{answer.json()['analysis_id']}"
    return dict(answer.json())


async def solve(server: Server, asked: dict[str, Any]) -> dict[str, Any]:
    """Let a worker compute an analysis, and return its result."""
    worker = Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)
    assert await worker.run_once(asyncio.Event())
    url = f"/v1/analyses/{asked['analysis_id']}"
    answer = await server.desk.operate("GET", url)
    shown = answer.json()
    assert shown["state"] == "succeeded", shown["problem"]
    assert shown["progress"] == 1.0
    assert shown["words"] == shown["result"]["words"]
    return dict(shown["result"])


async def check_decode(server: Server, study: bytes, liar: Device) -> None:
    """Check that an analyst reads that one device decides a cluster, and not which."""
    url = f"/v1/studies/{study.hex()}/decodes"
    asked = (await server.desk.post(url, {"n_clusters": 4})).json()
    worker = Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)
    assert await worker.run_once(asyncio.Event())
    shown = await server.desk.read(f"/v1/decodes/{asked['decode_id']}")
    found, verdict = shown["result"]["influence"], shown["result"]["verdict"]
    assert (found["source"], found["n_sources"]) == ("device", 6)
    assert found["share"] == pytest.approx(1 / 6, abs=0.02)
    assert found["share_without"] < 0.01
    assert verdict["word"] in ("doubtful", "do not use")
    assert f"one device of 6 decides cluster {found['cluster'] + 1}" in verdict["sentence"]
    assert liar.device_id.hex() not in str(shown)


def compare(first: dict[str, Any], second: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the body of a comparison."""
    return {"kind": "comparison", "first": first, "second": second, "n_clusters": 3, **more}


BEFORE: dict[str, Any] = {"first_slot": SLOT, "last_slot": SLOT + 2}
AFTER: dict[str, Any] = {"first_slot": SLOT + 3}
FAR: dict[str, Any] = {"first_slot": 1 << 40, "last_slot": 1 << 40}


@ON_BOTH
async def test_a_comparison_finds_the_change_and_says_what_it_rests_on(server: Server) -> None:
    desk = server.desk
    study = await fill(desk)
    asked = await ask(desk, study, **compare(BEFORE, AFTER))
    assert asked["state"] == "queued"
    assert asked["n_workers"] == 0
    assert asked["request"] == compare(
        {"labels": {}} | BEFORE,
        {"labels": {}, "last_slot": None, **AFTER},
        seed=0,
        level=0.05,
        smallest_shift=0.1,
        look=None,
    )
    result = await solve(server, asked)
    assert result["is_alarm"]
    assert result["p"] < 1e-3
    assert result["n_records"] == [6 * N_RECORDS] * 2
    named = [change for change in result["changes"] if change["is_named"]]
    surest = max(named, key=lambda change: abs(change["z"]))
    assert surest["quantity"] == "centre"
    assert surest["dimension"] == "flow"
    # The pooled fit has the moved cluster between both places, or both of them.
    assert result["clusters"][surest["cluster"]]["centre"][0] == pytest.approx(-5.0, abs=0.5)
    assert [each["name"] for each in result["dimensions"]] == ["pressure", "flow"]
    assert "assumes independent records" in result["assumptions"]
    digests = [(await desk.read(f"/v1/snapshots/{i}"))["digest"] for i in asked["snapshots"]]
    assert result["snapshots"] == digests
    # The same sums give the same answer, from whichever database they were read.
    record = await server.services.analyses.get(bytes.fromhex(asked["analysis_id"]))
    work = await server.services.analyses.prepare(record)
    answer = work.solve(progress=lambda _: None, cancelled=lambda: False)
    assert work.describe(answer, seconds=0.0) == record.result == result


async def test_the_same_request_is_the_same_analysis_until_another_sketch_comes(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan()
    study = await fill(desk)
    url = f"/v1/studies/{study.hex()}/analyses"
    body = compare(BEFORE, AFTER)
    first = await ask(desk, study, **body)
    again = await desk.post(url, body | {"seed": 0, "level": 0.05})
    assert again.status_code == 200
    assert again.json() == first
    others: list[dict[str, Any]] = [
        {"seed": 1},
        {"level": 0.01},
        {"n_clusters": 2},
        {"second": {"first_slot": SLOT + 4}},
    ]
    ids = {(await ask(desk, study, **body | other))["analysis_id"] for other in others}
    assert len(ids | {first["analysis_id"]}) == 5
    await desk.send(study, Device(1), plan, sequence=9)
    assert (await ask(desk, study, **body))["analysis_id"] not in ids | {first["analysis_id"]}


async def test_a_cancelled_analysis_stays_cancelled_until_it_is_asked_for_again(
    server: Server,
) -> None:
    desk = server.desk
    study = await fill(desk)
    asked = await ask(desk, study, **compare(BEFORE, AFTER))
    url = f"/v1/analyses/{asked['analysis_id']}"
    shown = (await desk.http.delete(url, headers=desk.analyst)).json()
    assert shown["state"] == "cancelled"
    assert await server.services.jobs.take(lease_s=60.0) is None
    events = await desk.http.get(f"{url}/events", headers=desk.analyst)
    assert events.text.count("event: ") == 2
    assert "event: result" in events.text
    assert (await ask(desk, study, **compare(BEFORE, AFTER)))["state"] == "queued"


async def test_what_cannot_be_computed_is_refused_at_once(desk: Desk) -> None:
    study = await fill(desk, n_devices=2)
    with Walk() as walk:
        for body, slug, field in [
            (compare({}, {}), "request-invalid", "second"),
            (compare(BEFORE, {"labels": {"site": "north"}}), "request-invalid", "second"),
            (compare(BEFORE, {"first_slot": SLOT + 40}), "decoding-invalid", "second"),
            (compare(BEFORE, {"labels": {"site": "west"}}), "request-invalid", "labels.site"),
            (compare(BEFORE, AFTER) | {"n_clusters": 0}, "decoding-invalid", "n_clusters"),
            (compare(BEFORE, AFTER) | {"n_clusters": 10**6}, "decoding-invalid", "n_clusters"),
            (compare(BEFORE, AFTER) | {"level": 0.9}, "request-invalid", "level"),
            (compare(BEFORE, AFTER) | {"kind": "drift"}, "request-invalid", "kind"),
            (
                {"kind": "timeline", "n_clusters": 3, "first_slot": SLOT + 5},
                "decoding-invalid",
                "windows",
            ),
            (
                {"kind": "timeline", "n_clusters": 3, "first_slot": SLOT + 5, "last_slot": SLOT},
                "request-invalid",
                "first_slot",
            ),
            (
                {"kind": "timeline", "n_clusters": 3, "first_slot": 0, "last_slot": 1000},
                "request-invalid",
                "slots_per_window",
            ),
            (
                {"kind": "timeline", "n_clusters": 3, "false_alarms_per_year": 10_000},
                "decoding-invalid",
                "alarms_per_year",
            ),
            ({"kind": "groups", "n_clusters": 3, "label": "floor"}, "request-invalid", "label"),
            (
                {"kind": "timeline", "n_clusters": 3, "slots_per_window": 1 << 30, **FAR},
                "request-invalid",
                "first_slot",
            ),
        ]:
            with walk.cell(body, slug, field):
                answer = await desk.post(f"/v1/studies/{study.hex()}/analyses", body)
                assert_problem(answer, slug, 422, field)
                assert (await desk.read(f"/v1/studies/{study.hex()}/analyses"))["items"] == []


async def test_groups_of_which_one_has_no_sketch_are_too_few(desk: Desk) -> None:
    study = await fill(desk, n_devices=1)
    body = {"kind": "groups", "n_clusters": 3, "label": "site"}
    answer = await desk.post(f"/v1/studies/{study.hex()}/analyses", body)
    assert_problem(answer, "decoding-invalid", 422, "label")
    assert "south is left out" in answer.json()["detail"]


async def test_windows_by_count_have_no_timeline_and_can_be_compared_by_label(
    server: Server,
) -> None:
    desk = server.desk
    study = await fill(desk, plan=make_plan(window=WindowRule(kind="count", length=N_RECORDS)))
    url = f"/v1/studies/{study.hex()}/analyses"
    refused = await desk.post(url, {"kind": "timeline", "n_clusters": 3})
    assert_problem(refused, "request-invalid", 422, "kind")
    north, south = ({"labels": {"site": site}} for site in ("north", "south"))
    result = await solve(server, await ask(desk, study, **compare(north, south)))
    assert result["p"] > 1e-3


async def test_a_plan_that_gives_no_answer_is_refused_at_once(desk: Desk) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"epsilon": Fraction(1, 1000)}, "selection"),
        ({"measurements_per_record": 10}, "measurements_per_record"),
        ({"unit": "device"}, "unit"),
        (PHASES, "release"),
    ]
    with Walk() as walk:
        for number, (changes, field) in enumerate(refused):
            plan = make_plan(**changes)
            study = await desk.publish(plan, f"study {number}")
            devices = [Device(2 * number), Device(2 * number + 1)]
            await desk.enrol(study, *devices)
            for i, device in enumerate(devices):
                more = make_report(plan) if plan.reports_phases else {}
                await desk.send(study, device, plan, slots=(SLOT + i, SLOT + i), **more)
            body = compare({"last_slot": SLOT}, {"first_slot": SLOT + 1})
            with walk.cell(field):
                answer = await desk.post(f"/v1/studies/{study.hex()}/analyses", body)
                assert_problem(answer, "decoding-invalid", 422, field)


async def test_a_timeline_finds_the_window_of_the_change(server: Server) -> None:
    desk = server.desk
    study = await fill(desk)
    asked = await ask(desk, study, kind="timeline", n_clusters=3)
    result = await solve(server, asked)
    windows = result["windows"]
    far = await ask(desk, study, kind="timeline", n_clusters=3, last_slot=1 << 40)
    # Slots far beyond the last sketch have times that no calendar has.
    assert len(far["snapshots"]) == len(windows)
    assert [window["first_slot"] for window in windows] == [SLOT + i for i in range(N_SLOTS)]
    assert windows[0]["start"] == "1970-01-21T00:00:00.000000Z"
    assert windows[0]["p"] is None
    assert windows[0]["level"] is None
    assert [window["is_alarm"] for window in windows[:4]] == [False, False, False, True]
    assert all(window["n_records"] == 2 * N_RECORDS for window in windows)
    (point,) = result["change_points"]
    assert point["window"] == 3
    assert point["p"] < 0.01
    assert point["start"] == windows[3]["start"]
    (moved,) = [
        change
        for change in point["changes"]
        if change["is_named"] and change["dimension"] == "flow" and change["estimate"] > 0.2
    ][:1]
    # Each window has the cluster where it is: before and after the change.
    flows = [window["clusters"][moved["cluster"]]["centre"][1] for window in windows]
    assert max(flows[:3]) < min(flows[3:])
    await check_dashboard(desk, study=study.hex(), analysis=asked["analysis_id"])


async def check_dashboard(desk: Desk, **values: str) -> None:
    """Check that an analyst's key reads each field that the dashboard of timelines names."""
    board = json.loads(DASHBOARD.read_text())
    queries = [each["query"]["infinityQuery"] for each in board["templating"]["list"][1:]]
    queries += [target for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) == 7
    for query in queries:
        items: Any = await desk.read(string.Template(query["url"]).substitute(values))
        for key in query["root_selector"].split("."):
            items = items[key]
        assert items
        names = {column["text"] for column in query["columns"]}
        assert set(re.findall(r"(\w+) ==", query.get("filterExpression", ""))) <= names
        for item in items:
            for column in query["columns"]:
                found = item
                for key in column["selector"].split("."):
                    found = found[int(key)] if isinstance(found, list) else found[key]


async def test_an_accepted_change_is_no_alarm_and_later_windows_are_compared_with_it(
    server: Server,
) -> None:
    desk = server.desk
    study = await fill(desk)
    before = await solve(
        server, await ask(desk, study, kind="timeline", n_clusters=3, reference="all-before")
    )
    assert [window["is_alarm"] for window in before["windows"]][3:] == [True] * 3
    assert {window["reference"] for window in before["windows"][1:]} == {0}
    url = f"/v1/studies/{study.hex()}/accepted-changes"
    made = await desk.post(url, {"first_slot": SLOT + 3, "note": "a new filter"})
    assert made.status_code == 201
    assert (made.json()["start"], made.json()["note"]) == (
        before["windows"][3]["start"],
        "a new filter",
    )
    again = await desk.post(url, {"first_slot": SLOT + 3})
    assert (again.status_code, again.json()) == (200, made.json())
    assert (await desk.read(url))["items"] == [made.json()]
    asked = await ask(desk, study, kind="timeline", n_clusters=3, reference="last-accepted")
    assert asked["request"]["accepted_slots"] == [SLOT + 3]
    windows = (await solve(server, asked))["windows"]
    assert [window["is_alarm"] for window in windows] == [False] * 6
    assert [window["is_accepted"] for window in windows] == [i == 3 for i in range(6)]
    assert [window["reference"] for window in windows] == [None, 0, 0, 0, 3, 3]
    # It was a change nevertheless.
    assert windows[3]["p"] < windows[3]["level"]
    gone = await desk.operate("DELETE", f"{url}/{SLOT + 3}")
    assert gone.json() == made.json()
    assert (await desk.read(url))["items"] == []
    missing = await desk.operate("DELETE", f"{url}/{SLOT + 3}")
    assert_problem(missing, "not-found", 404, "first_slot")
    audit = (await desk.operate("GET", "/v1/audit")).json()["items"]
    written = {entry["action"] for entry in audit if entry["target"] == study.hex()}
    assert {"change.accept", "change.reopen"} <= written


async def test_only_a_window_by_time_with_others_before_it_is_a_change(desk: Desk) -> None:
    study = await fill(desk, n_devices=1)
    by_count = await desk.publish(make_plan(window=WindowRule(kind="count", length=N_RECORDS)), "c")
    with Walk() as walk:
        for where, slot, field in (
            *((study, slot, "first_slot") for slot in (SLOT, SLOT + N_SLOTS, 1 << 52)),
            (by_count, 3, "kind"),
        ):
            url = f"/v1/studies/{where.hex()}/accepted-changes"
            with walk.cell(slot, field):
                answer = await desk.post(url, {"first_slot": slot})
                assert_problem(answer, "request-invalid", 422, field)


async def test_a_window_without_sketches_has_a_doubt_and_the_others_do_not_care(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan()
    study = await fill(desk, n_devices=2)
    await desk.send(
        study,
        Device(1),
        plan,
        release(plan, Device(1), 7, 3.0),
        sequence=9,
        slots=(SLOT + 8, SLOT + 8),
        n_records=N_RECORDS,
    )
    result = await solve(server, await ask(desk, study, kind="timeline", n_clusters=3))
    empty = result["windows"][N_SLOTS : N_SLOTS + 2]
    assert [window["n_sketches"] for window in empty] == [0, 0]
    assert {window["doubt"] for window in empty} == {"contains no sketch"}
    assert all(window["clusters"] is None and window["p"] is None for window in empty)
    assert result["windows"][-1]["p"] is not None
    assert result["words"][0].endswith("since Wednesday 1970-01-21 03:00 UTC, in 2 of 2 devices")
    assert result["words"][1].startswith("2 of 9 windows cannot be read")
    assert [point["window"] for point in result["change_points"]] == [3]


async def test_a_timeline_says_in_how_many_devices_a_change_is(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, plan = server.desk, make_plan()
    study = await fill(desk, n_devices=3)
    await server.services.merger.merge_all()
    early, device = server.clock.now(), Device(4)
    await desk.enrol(study, device)
    server.clock.seconds += 100
    for i in range(N_SLOTS):
        await desk.send(
            study,
            device,
            plan,
            release(plan, device, 900 + i, 0.0),
            sequence=i,
            slots=(SLOT + i,) * 2,
            n_records=N_RECORDS,
        )
    body = {"kind": "timeline", "n_clusters": 3, "reference": "all-before"}
    result = await solve(server, await ask(desk, study, **body))
    (point,) = result["change_points"]
    words = "in 3 of 4 devices"
    assert point["devices"] == {
        "n_changed": 3,
        "n_unchanged": 1,
        "n_unclear": 0,
        "n_alone": 0,
        "words": words,
    }
    assert point["finding"].endswith(f"03:00 UTC, {words}")
    *others, last = [window["devices"] for window in result["windows"]]
    assert last == point["devices"]
    assert others == [None, None, None, point["devices"], None]
    # Too many sketches to read, and some that are no longer kept.
    monkeypatch.setattr(analyses, "MOST_SKETCHES", 23)
    (point,) = (await solve(server, await ask(desk, study, seed=1, **body)))["change_points"]
    assert point["devices"] is None
    assert point["finding"].endswith("03:00 UTC")
    monkeypatch.undo()
    async with server.store.begin(write=True) as transaction:
        await drop_payloads(transaction, received_before=early + 1.0, most=1000)
    (point,) = (await solve(server, await ask(desk, study, seed=2, **body)))["change_points"]
    assert (point["devices"]["n_unclear"], point["devices"]["words"]) == (4, "")


async def test_a_timeline_works_where_numbers_of_records_are_secret(server: Server) -> None:
    window = WindowRule(kind="time", origin=1_700_000_000, length_s=3600)
    plan = make_plan(neighbouring="add-remove-one", window=window)
    study = await fill(server.desk, plan=plan)
    result = await solve(server, await ask(server.desk, study, kind="timeline", n_clusters=3))
    numbers = [window["n_records"] for window in result["windows"]]
    assert numbers == [pytest.approx(2 * N_RECORDS, rel=0.1)] * N_SLOTS
    assert len(set(numbers)) > 1
    assert [point["window"] for point in result["change_points"]] == [3]


async def test_groups_of_alike_records_are_not_told_apart(server: Server) -> None:
    study = await fill(server.desk)
    asked = await ask(server.desk, study, kind="groups", n_clusters=3, label="site")
    result = await solve(server, asked)
    assert result["values"] == ["north", "south"]
    assert result["n_records"] == [6 * N_RECORDS] * 2
    assert result["p"][0][1] == result["pairs"][0]["p"] > 0.001
    assert [place["value"] for place in result["map"]] == ["north", "south"]
    assert [(join["left"], join["right"]) for join in result["tree"]] == [(0, 1)]


async def test_the_health_of_devices_is_for_operators_and_names_the_one_that_lies(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan()
    study = await fill(desk, shift=0.0, n_devices=5)
    liar = Device(6, {"site": "south"})
    await desk.enrol(study, liar)
    for i in range(N_SLOTS):
        accumulator = SketchAccumulator(plan.statistic_of(liar.device_id + b"main"))
        accumulator.add(np.full((N_RECORDS, 2), 9.0))
        exact = plan.finish_sum(accumulator.sums, N_RECORDS)
        sums = plan.mechanism.add_noise(exact, SeededSource(i))
        await desk.send(study, liar, plan, sums, sequence=i, n_records=N_RECORDS)
    for device in (liar, Device(1)):
        await desk.http.put(BEAT, **device.beat(now=server.clock.now(), name="hall"))
    url = f"/v1/studies/{study.hex()}/analyses"
    body = {"kind": "devices", "n_clusters": 3}
    assert_problem(await desk.post(url, body), "forbidden", 403, "Authorization")
    asked = await ask(desk, study, **body)
    path = f"/v1/analyses/{asked['analysis_id']}"
    for method, where in (("GET", path), ("DELETE", path), ("GET", f"{path}/events")):
        answer = await desk.http.request(method, where, headers=desk.analyst)
        assert_problem(answer, "forbidden", 403, "Authorization")
    result = await solve(server, asked)
    worst = result["devices"][0]
    assert worst["device_id"] == liar.device_id.hex()
    assert (worst["labels"], worst["name"]) == ({"site": "south"}, "hall")
    # Two have that name, so sentences add the first digits.
    assert any(f"hall ({worst['device_id'][:8]})" in words for words in result["words"])
    assert worst["lamps"]["content"]
    for device in result["devices"]:
        assert device["words"].startswith(
            "differs " if device["lamps"]["content"] else "no difference that is certain"
        )
    assert worst["n_sketches"] == N_SLOTS
    assert worst["share"] == pytest.approx(1 / 6)
    # The others differ from a rest that has the liar in it, and by less.
    assert all(device["size"] < worst["size"] for device in result["devices"][1:])
    assert result["n_dropped"] == 0
    await check_decode(server, study, liar)
    # The history shows an analyst that it was asked for, and no word of it.
    (entry,) = (await desk.read(url))["items"]
    assert (entry["kind"], entry["words"]) == ("devices", None)


@ON_BOTH
async def test_dropped_payloads_are_counted_and_their_devices_stand_last(server: Server) -> None:
    desk = server.desk
    study = await fill(desk, shift=0.0, n_devices=3)
    await server.services.merger.merge_all()
    early = server.clock.now()
    server.clock.seconds += 100.0
    last = Device(4, {"site": "south"})
    await desk.enrol(study, last)
    plan = make_plan()
    for device in (Device(1, {"site": "north"}), last):
        for i in range(10, 13):
            sums = release(plan, device, 31 * device.seed + i, 0.0)
            await desk.send(study, device, plan, sums, sequence=i, n_records=N_RECORDS)
    async with server.store.begin(write=True) as transaction:
        await drop_payloads(transaction, received_before=early + 1.0, most=1000)
    result = await solve(server, await ask(desk, study, kind="devices", n_clusters=3))
    assert result["n_dropped"] == 18
    assert "18 sketches are not tested" in result["words"][0]
    kept = [device["n_sketches"] for device in result["devices"]]
    assert kept == [3, 3, 0, 0]
    assert [device["p_content"] for device in result["devices"][2:]] == [None, None]


async def test_devices_that_changed_since_the_request_are_no_answer(server: Server) -> None:
    desk = server.desk
    study = await fill(desk, n_devices=3)
    asked = await ask(desk, study, kind="devices", n_clusters=3)
    exclusion = f"/v1/devices/{Device(1).device_id.hex()}/exclude"
    await desk.operate("POST", exclusion, {"reason": "lies"})
    worker = Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)
    assert await worker.run_once(asyncio.Event())
    url = f"/v1/analyses/{asked['analysis_id']}"
    shown = (await desk.operate("GET", url)).json()
    assert shown["state"] == "failed"
    assert "device was excluded" in shown["problem"]["detail"]
    # Later sketches are no change: they are not in the selection as it was frozen.
    asked = await ask(desk, study, kind="devices", n_clusters=3)
    server.clock.seconds += 10.0
    plan = make_plan()
    await desk.send(study, Device(2, {"site": "south"}), plan, sequence=9)
    assert len((await solve(server, asked))["devices"]) == 2


@ON_BOTH
async def test_the_history_of_a_study_has_the_newest_first(server: Server) -> None:
    desk = server.desk
    study = await fill(desk, n_devices=2)
    url = f"/v1/studies/{study.hex()}"
    ids = []
    for seed in range(3):
        server.clock.seconds += 1.0
        ids.append((await ask(desk, study, **compare(BEFORE, AFTER, seed=seed)))["analysis_id"])
        made = await desk.post(f"{url}/decodes", {"n_clusters": 2, "seed": seed})
        assert made.status_code == 202
    page = await desk.read(f"{url}/analyses", params={"limit": 2})
    rest = await desk.read(f"{url}/analyses", params={"page": page["next_page"]})
    found = [item["analysis_id"] for item in page["items"] + rest["items"]]
    assert found == ids[::-1]
    assert rest["next_page"] is None
    assert "result" not in page["items"][0]
    decodes = await desk.read(f"{url}/decodes")
    assert [item["seed"] for item in decodes["items"]] == [2, 1, 0]
    worker = Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)
    for _ in range(2):  # one of each was asked for at the first moment
        assert await worker.run_once(asyncio.Event())
    (decode,) = [
        item
        for item in (await desk.read(f"{url}/decodes"))["items"]
        if item["state"] == "succeeded"
    ]
    whole = await desk.read(f"/v1/decodes/{decode['decode_id']}")
    assert whole["result"]["mixture"] is not None
    assert decode["result"]["mixture"] is None
    assert decode["result"]["centroids"] == whole["result"]["centroids"]
    (solved, *_) = [
        item
        for item in (await desk.read(f"{url}/analyses"))["items"]
        if item["state"] == "succeeded"
    ]
    assert solved["words"]


async def test_a_study_that_was_withdrawn_takes_its_analyses_with_it(server: Server) -> None:
    desk = server.desk
    study = await fill(desk, n_devices=2)
    asked = await ask(desk, study, **compare(BEFORE, AFTER))
    await desk.withdraw(study)
    url = f"/v1/analyses/{asked['analysis_id']}"
    assert_problem(await desk.http.get(url, headers=desk.analyst), "study-withdrawn", 410, "study")
    await server.services.studies.purge()
    assert_problem(await desk.http.get(url, headers=desk.analyst), "not-found", 404, "analysis")
