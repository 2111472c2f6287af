"""The sections of a study's page in a real browser: answers, and an operator's actions."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import httpx
import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client, LogTransform, PlannedDimension
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Label, plan_to_json
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import decode_enrolment_code
from tests.aggregator.fleet import CLUSTERS, SLOT, Device, make_plan
from tests.aggregator.ui.browser import MISSING, PROGRAM
from tests.aggregator.ui.scene import Scene, publish, publish_records, upload
from tests.device_agent.daemons import wait_until

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

ARABIC = "محطة ضخ المياه الشمالية"
N_WINDOWS = 8
CHANGED = 5
SECTIONS = ("", "time", "compare", "groups", "devices", "plan", "manage")


def draw_window(rng: np.random.Generator, window: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Draw records of three clusters; from ``CHANGED`` on the first has far more of them."""
    shares = [0.7, 0.15, 0.15] if window >= CHANGED else [1 / 3] * 3
    return CLUSTERS[rng.choice(3, size=800, p=shares)] + 0.5 * rng.standard_normal((800, 2))


@pytest.fixture(scope="module")
def changing(scene: Scene) -> str:
    return publish_changing(scene.aggregator)


def publish_changing(aggregator: Aggregator, name: str = ARABIC, first_device: int = 700) -> str:
    """Publish a study whose records change in the sixth of eight windows."""
    plan = make_plan(labels=(Label(name="site", values=("north", ARABIC)),))
    with (
        Client(aggregator.url, key=aggregator.key) as client,
        httpx.Client(base_url=aggregator.url) as http,
    ):
        study = client.create_study(name, plan, allow_same_plan=True).study_id
        identity = bytes.fromhex(study)
        for seed, site in enumerate(("north", ARABIC)):
            device, rng = Device(first_device + seed, {"site": site}), np.random.default_rng(seed)
            body = device.enrolment(client.create_token(study), identity)
            assert http.post("/v1/enrolments", json=body).status_code == 201
            for window in range(N_WINDOWS):
                accumulator = SketchAccumulator(plan.statistic_of(b""))
                accumulator.add(draw_window(rng, window))
                exact = plan.finish_sum(accumulator.sums, 800)
                sums = plan.mechanism.add_noise(exact, SeededSource(100 * seed + window))
                slot = SLOT + window
                sent = device.message(
                    identity, plan, sums, n_records=800, sequence=window, slots=(slot, slot)
                )
                assert upload(http, study, *sent) == 201
    return study


def ask(scene: Scene, study: str, section: str, *, n_clusters: int = 3) -> None:
    """Open a section with an empty tab, choose k, and wait for the answer."""
    scene.enter(f"{scene.aggregator.url}/#studies/{study}/{section}")
    page = scene.page
    page.wait_for("form button.main")
    page.evaluate(f"document.querySelector('.fields input[type=number]').value = {n_clusters}")
    page.evaluate("document.querySelector('form button.main').click()")
    page.wait_for(".result .verdict")


def read_analysis(scene: Scene) -> dict[str, Any]:
    """Read, as a program, the analysis whose address the page shows."""
    analysis = str(scene.page.evaluate("location.hash")).rpartition("/")[2]
    answer = httpx.get(
        f"{scene.aggregator.url}/v1/analyses/{analysis}",
        headers={"Authorization": f"Bearer {scene.aggregator.key}"},
    )
    result: dict[str, Any] = answer.json()["result"]
    return result


# The planted change is far above the noise: p is below 1e-4, and so is the false-alarm rate.
def test_a_change_is_seen_over_time_with_its_window_and_its_cluster(
    scene: Scene, changing: str
) -> None:
    ask(scene, changing, "time")
    page = scene.page
    page.wait_for(".multiples svg")
    result = read_analysis(scene)
    assert [change["window"] for change in result["change_points"]] == [CHANGED]
    states = page.evaluate("[...document.querySelectorAll('.window')].map(g => g.classList[1])")
    assert states[0] == "hopeless"
    assert states[CHANGED] == "alarm"
    assert [state == "alarm" for state in states] == [w["is_alarm"] for w in result["windows"]]
    chips = page.evaluate("[...document.querySelectorAll('.chips li')].map(e => e.innerText)")
    (chip,) = (text for text in chips if "▲" in text and "share" in text)
    nearest = min(range(3), key=lambda k: abs(result["clusters"][k]["centre"][0] + 5))
    assert chip.startswith(str(nearest + 1)), chip
    assert "1 lasting change" in page.text(".verdict")
    (point,) = result["change_points"]
    columns = result["windows"][CHANGED]["columns"]
    headline = page.text(".verdict .headline")
    assert point["finding"].split(" ")[0] in headline
    assert all(f"{each['name']} " in headline for each in columns if each["is_named"])
    assert page.evaluate("document.querySelectorAll('.multiples .row svg').length") == 9
    assert not page.complaints


def test_an_alarm_that_is_no_lasting_change_yet_leads_with_its_column_and_devices(
    scene: Scene,
) -> None:
    column = {"name": "room", "unit": "degC", "before": 21.0, "after": 15.2, "is_named": True}
    quiet = {"start": "2026-03-02T00:00:00Z", "p": 0.4, "is_alarm": False, "columns": []}
    alarm = quiet | {
        "start": "2026-03-03T00:00:00Z",
        "is_alarm": True,
        "columns": [column],
        "devices": {"words": "in 1 of 6 devices"},
    }
    scene.enter(scene.aggregator.url)
    for windows, found in (
        ([quiet, alarm], ["Since Mar 3, 2026: room 21 → 15.2 degC, in 1 of 6 devices"]),
        ([alarm, quiet], []),
    ):
        result = {"windows": windows, "change_points": []}
        call = f"listFindings({json.dumps(result)})"
        assert scene.call("insight/timeline.js", call) == found


def test_a_section_opens_on_its_latest_answer_and_the_list_shows_what_matters(
    scene: Scene, changing: str
) -> None:
    ask(scene, changing, "time")
    result = read_analysis(scene)
    scene.go("time", changing)
    page = scene.page
    page.wait_for(".result .verdict")
    assert read_analysis(scene) == result
    assert not page.evaluate("document.querySelector('.asking').open")
    page.evaluate("location.hash = '#studies'")
    row = f"document.querySelector('th a[href$=\"{changing}\"]')?.closest('tr')"
    page.wait(f"!!({row}) && !{row}.textContent.includes('…')")
    found = page.evaluate(f"[...{row}.cells].slice(1, 4).map(cell => cell.innerText)")
    last = [each for each in result["windows"] if each["p"] is not None][-1]
    assert found == ["no decode", "alarm" if last["is_alarm"] else "none", "none"]


def test_an_answer_is_repeated_shown_at_the_next_visit_and_stopped(scene: Scene) -> None:
    study = publish_changing(scene.aggregator, "repeated", 710)
    page = scene.page
    stop = "document.querySelector('.repeats button')"
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        for section, kind in (("", "decode"), ("time", "timeline")):
            scene.enter(f"{scene.aggregator.url}/#studies/{study}/{section}".rstrip("/"))
            page.wait_for("form button.main")
            every = "[...document.querySelectorAll('.fields select')].at(-1)"
            page.evaluate(f"{every}.value = 86400")
            page.evaluate("document.querySelector('form button.main').click()")
            page.wait_for(".result .verdict")
            page.wait(f"!!{stop}")
            assert "Repeated every 1 day, k 5: next " in page.all_text(".repeats")
            (schedule,) = (each for each in client.schedules(study) if each.kind == kind)
            wait_until(lambda: client.schedule(schedule.schedule_id).last_job_id is not None)  # noqa: B023
            last = client.schedule(schedule.schedule_id).last_job_id
            # Somebody's later question of one place does not hide the answer of all.
            if kind == "decode":
                client.decode(study, n_clusters=2, labels={"site": "north"}).wait()
            scene.enter(f"{scene.aggregator.url}/#studies/{study}/{section}".rstrip("/"))
            page.wait_for(".result .verdict")
            assert str(page.evaluate("location.hash")).endswith(f"/{last}")
            page.wait(f"!!{stop}")
            page.evaluate(f"{stop}.click()")
            page.wait(f"!{stop}")
        assert list(client.schedules(study)) == []
    assert not page.complaints


def test_two_stretches_of_the_time_axis_are_compared_by_keyboard(
    scene: Scene, changing: str
) -> None:
    ask(scene, changing, "time")
    page = scene.page
    page.tab_to("input[type=range][aria-label='last window of A']")
    page.press("ArrowRight")
    value = "document.querySelector(\"[aria-label='last window of A']\").value"
    overlaps = "document.querySelector('.brush a').getAttribute('href') === null"
    assert page.evaluate(value) == "4"
    assert page.evaluate(overlaps)
    page.press("ArrowLeft")
    assert not page.evaluate(overlaps)
    page.tab_to(".brush a")
    page.press("Enter")
    page.wait_for(".moved.named")
    result = read_analysis(scene)
    assert result["is_alarm"]
    drawn = page.evaluate("document.querySelectorAll('.moved.named').length")
    assert drawn == sum(change["is_named"] for change in result["changes"])
    assert "B differs from A" in page.text(".verdict")
    assert "scale" not in page.text(".verdict")
    assert all(words in page.all_text(".answer") for words in result["words"])


def test_groups_are_compared_and_a_cell_opens_the_comparison(scene: Scene, changing: str) -> None:
    ask(scene, changing, "groups")
    page = scene.page
    assert page.evaluate("document.querySelectorAll('.matrix a').length") == 2
    assert "No difference between groups can be told from noise" in page.text(".headline")
    assert all(words in page.all_text(".answer") for words in read_analysis(scene)["words"])
    page.evaluate("document.querySelector('.matrix a').click()")
    page.wait_for(".sides")
    page.wait_for(".result .moved")
    assert ARABIC in page.text(".sides")


def test_one_window_says_that_nothing_is_before_it(scene: Scene) -> None:
    study = publish(scene.aggregator, "one window", make_plan(), SLOT, Device(6161))
    scene.enter(f"{scene.aggregator.url}/#studies/{study}/time")
    page = scene.page
    page.wait_for("form button.main")
    page.evaluate("document.querySelectorAll('.fields input[type=number]')[1].value = 10")
    page.evaluate("document.querySelector('form button.main').click()")
    page.wait("document.querySelector('.result .verdict, .result .problem')", problem=True)
    assert "window" in page.text(".result")


def test_operators_see_which_devices_differ_by_name(scene: Scene, changing: str) -> None:
    ask(scene, changing, "devices")
    scene.page.evaluate("document.querySelector('.answer details').open = true")
    scene.page.wait_for(".answer details .bar")
    text = scene.page.text(".result")
    assert "None of 2 devices stands out" in scene.page.text(".headline")
    devices = read_analysis(scene)["devices"]
    for device in devices:
        assert device["device_id"] in text
        assert f"{device['size']:.2f} ± {device['size_error']:.2f}" in text
    assert ARABIC in text


def test_a_device_that_differs_is_told_in_the_units_of_its_columns(scene: Scene) -> None:
    plan = make_plan(most_clusters=3)
    honest = [draw_window(np.random.default_rng(seed), 0) for seed in range(5)]
    parts = [*honest[1:], honest[0] + [3.0, 0.0]]
    study = publish_records(scene.aggregator, "one is off", plan, parts)
    ask(scene, study, "devices")
    odd = read_analysis(scene)["devices"][0]
    assert odd["lamps"]["content"]
    assert all(each["is_named"] for each in odd["changes"])
    headline, told, *_ = re.split(r"\n+", scene.page.text(".answer .verdict"))
    assert re.fullmatch(r"\d of 5 devices stands? out", headline)
    assert re.search(r"cluster \d.*: pressure \+\d.* ± .* bar", told)
    assert "scale" not in scene.page.text(".result")


def test_sliders_ask_what_share_of_the_records_is_where(scene: Scene, changing: str) -> None:
    scene.enter(f"{scene.aggregator.url}/#studies/{changing}")
    page = scene.page
    page.wait_for("form button.main")
    page.evaluate("document.querySelector('.fields input[type=number]').value = 3")
    page.evaluate("document.querySelector('form button.main').click()")
    page.wait_for("details.ask")
    page.evaluate("document.querySelector('details.ask').open = true")
    page.wait("document.querySelectorAll('.ask .row svg').length === 2")
    assert "Move a slider" in page.text(".ask")
    # The bounds are -10 and 10, so this is -2.5; the first cluster is at -5.
    page.evaluate(
        "(input => { input.value = 75; input.dispatchEvent(new Event('input')); })"
        "(document.querySelector(\"[aria-label='upper end of pressure']\"))"
    )
    page.wait_for(".ask .headline")
    told = float(page.text(".ask .headline").split("%")[0])
    expected = (CHANGED / 3 + (N_WINDOWS - CHANGED) * 0.7) / N_WINDOWS
    assert told == pytest.approx(100 * expected, abs=4)
    assert "at most -2.5 bar" in page.text(".ask .ranges")
    assert not page.complaints


def test_names_that_run_from_right_to_left_do_so(scene: Scene, changing: str) -> None:
    scene.enter(f"{scene.aggregator.url}/#studies/{changing}/devices")
    page = scene.page
    page.wait_for("table.stacks bdi")
    heading = "getComputedStyle(document.querySelector('h1')).direction"
    names = "[...document.querySelectorAll('td bdi, th bdi')].filter(b => b.textContent === %s)"
    found = page.evaluate(f"{names % json.dumps(ARABIC)}.map(b => getComputedStyle(b).direction)")
    assert page.evaluate(heading) == "rtl"
    assert found
    assert set(found) == {"rtl"}


def test_no_section_scrolls_a_phone_sideways(scene: Scene, changing: str) -> None:
    page = scene.page
    try:
        page.resize(390)
        for section in ("time", "groups", "devices"):
            ask(scene, changing, section)
            assert page.evaluate("document.documentElement.scrollWidth") == 390, section
        for section in SECTIONS:
            scene.go(section, changing)
            page.wait_for("section.card")
            assert page.evaluate("document.documentElement.scrollWidth") == 390, section
    finally:
        page.resize(1200)


def test_an_answer_is_saved_as_table_object_and_picture(scene: Scene, changing: str) -> None:
    ask(scene, changing, "time")
    page = scene.page
    page.wait_for(".result .plot svg")
    found = scene.save_files(5)
    result = read_analysis(scene)
    lines = found["csv"].splitlines()
    assert len(lines) == 1 + N_WINDOWS
    assert lines[0].startswith("start,end,n_records")
    assert json.loads(found["json"]) == result
    assert found["svg"].startswith("<svg")
    check_report(found["html"], result, scene, changing)
    assert "class=" not in found["svg"]
    assert found["colours"] > 20
    assert found["width"] == 2 * found["drawn"]


def check_report(html: str, result: dict[str, Any], scene: Scene, study: str) -> None:
    """Check that a report stands by itself: answer, protection, origin, and nothing to run."""
    content = html[html.index("<body") :]
    assert "default-src 'none'" in html
    assert not re.search("<(script|button|input|form|a|img|link)[ >]", html)
    assert not re.search(r"\s(on\w+|style|href|src)=", content)
    assert content.count("<svg") > 9
    assert ARABIC in content
    assert study in content
    privacy = httpx.get(f"{scene.aggregator.url}/v1/studies/{study}/privacy").json()
    assert privacy["statement"] in unescape(content)
    assert all(digest in content for digest in result["snapshots"])
    pre = content[content.index("<pre>") + 5 : content.index("</pre>")]
    assert json.loads(unescape(pre)) == result


def test_an_accepted_change_is_no_alarm_any_more(scene: Scene, changing: str) -> None:
    ask(scene, changing, "time")
    page = scene.page
    before = read_analysis(scene)["windows"]
    assert before[CHANGED]["is_alarm"]
    page.tab_to("[aria-label^='Accept the change of']")
    page.press("Enter")
    page.wait_for(".pill.accepted")
    try:
        with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
            (accepted,) = client.accepted_changes(changing)
        assert accepted.first_slot == before[CHANGED]["first_slot"]
        page.evaluate("document.querySelector('form button.main').click()")
        page.wait_for(".window.accepted")
        assert page.evaluate("document.querySelectorAll('.window.alarm').length") == 0
        assert "No alarm in 7 windows" in page.text(".verdict")
    finally:
        page.evaluate("document.querySelector('[aria-label^=\"Accept no longer\"]')?.click()")
        page.wait_for("[aria-label^='Accept the change of']")
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        assert list(client.accepted_changes(changing)) == []
    assert not page.complaints


def test_a_formula_in_a_name_is_saved_as_text(scene: Scene) -> None:
    scene.page.open(f"{scene.aggregator.url}/")
    found = scene.call("base/downloads.js", "toCsv([['=1+1', 'a,\"b', -2, null]])")
    assert found == '\'=1+1,"a,""b",-2,\r\n'


def test_the_choice_of_colours_outlives_the_tab(scene: Scene) -> None:
    page = scene.page
    scene.enter()
    page.prefer("light")
    ground = "getComputedStyle(document.body).backgroundColor"
    bright = page.evaluate(ground)
    choose = (
        "(theme => { const menu = document.getElementById('theme'); menu.value = theme;"
        " menu.dispatchEvent(new Event('change')); })"
    )
    page.evaluate(f"{choose}('dark')")
    dark = page.evaluate(ground)
    assert dark != bright
    scene.enter()
    assert page.evaluate(ground) == dark
    page.evaluate(f"{choose}('system')")
    assert page.evaluate(ground) == bright
    assert page.evaluate("localStorage.length") == 0


def test_one_of_many_devices_is_found_by_its_number(scene: Scene) -> None:
    plan = make_plan()
    aggregator = scene.aggregator
    with (
        Client(aggregator.url, key=aggregator.key) as client,
        httpx.Client(base_url=aggregator.url) as http,
    ):
        study = client.create_study("many", plan, allow_same_plan=True).study_id
        token = client.create_token(study, max_uses=60)
        for seed in range(60):
            body = Device(5000 + seed).enrolment(token, bytes.fromhex(study))
            assert http.post("/v1/enrolments", json=body).status_code == 201
    scene.enter(f"{aggregator.url}/#studies/{study}/devices")
    page = scene.page
    rows = "document.querySelectorAll('.listing tbody tr').length"
    page.wait(f"{rows} === 50")
    page.evaluate("document.querySelector('.pages button:last-of-type').click()")
    page.wait(f"{rows} === 10")
    assert "51 to 60 of 60 devices" in page.text(".pages")
    page.evaluate("document.querySelector('input[type=search]').focus()")
    page.type("device 57")
    page.wait(f"{rows} === 1")
    assert Device(5057).device_id.hex() in page.text(".listing").replace("\n", "")


def test_an_operator_excludes_a_device_after_a_reason(scene: Scene) -> None:
    study = publish(scene.aggregator, "to exclude", make_plan(), SLOT, Device(81), Device(82))
    scene.enter(f"{scene.aggregator.url}/#studies/{study}/devices")
    page = scene.page
    page.wait_for("[aria-label='Exclude device 1']")
    page.tab_to("[aria-label='Exclude device 1']")
    page.press("Enter")
    page.wait_for("dialog[open]")
    # Without a reason the form does not leave.
    page.press("Enter")
    assert page.evaluate("document.querySelector('dialog').open")
    page.type("tampered with")
    page.press("Enter")
    page.wait_for("dialog[open]", absent=True)
    page.wait_for(".pill.excluded")
    assert "2 sketches taken out" in page.text()
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        assert client.study(study).n_sketches == 2


def test_the_code_on_the_page_is_one_that_a_device_reads(scene: Scene) -> None:
    study = publish(scene.aggregator, "to enrol", make_plan(), SLOT)
    scene.enter(f"{scene.aggregator.url}/#studies/{study}/manage")
    page = scene.page
    page.wait_for("form button.main")
    page.evaluate("document.querySelector('form button.main').click()")
    page.wait_for(".qr .dark")
    code = decode_enrolment_code(page.text(".command").split("--code")[1])
    assert (code.server, code.study.hex()) == (scene.aggregator.url, study)
    device = Device(91)
    body = device.enrolment(code.token, code.study)
    assert httpx.post(f"{code.server}/v1/enrolments", json=body).status_code == 201
    assert not page.complaints


def test_an_operator_closes_a_study_and_opens_it_again(scene: Scene) -> None:
    study = publish(scene.aggregator, "to close", make_plan(), SLOT)
    scene.enter(f"{scene.aggregator.url}/#studies/{study}/manage")
    page = scene.page
    state = "document.querySelectorAll('section.card')[1]"
    for name, words in (("Close", "closed"), ("Open", "open")):
        page.wait(f"{state}.querySelector('button').textContent.startsWith('{name}')")
        page.evaluate(f"{state}.querySelector('button').click()")
        page.wait(f"{state}.querySelector('.pill.{words}')")
        assert "false" not in page.text("main")
        with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
            assert client.study(study).state == words


def test_an_operator_creates_a_study_from_a_pasted_plan(scene: Scene) -> None:
    scene.enter()
    page = scene.page
    page.evaluate("document.querySelector('textarea').closest('details').open = true")
    fill = "(text => { document.querySelector('textarea').value = text; })"
    page.evaluate("document.querySelector('textarea').form.querySelector('input').value = 'pasted'")
    page.evaluate(f"{fill}('not JSON')")
    create = "document.querySelector('textarea').form.querySelector('button.main').click()"
    page.evaluate(create)
    page.wait_for(".problem", problem=True)
    assert "must be JSON" in page.text(".problem")
    document = json.dumps(plan_to_json(make_plan(most_sketches=1234)))
    page.evaluate(f"{fill}({json.dumps(document)})")
    page.evaluate(create)
    page.wait_for("details .verdict.good a", problem=True)
    page.evaluate("document.querySelector('details .verdict.good a').click()")
    page.wait("document.querySelector('h1').textContent === 'pasted'")


def describe_flow(scene: Scene) -> None:
    """Type a column into the planner, by keyboard alone."""
    scene.enter()
    page = scene.page
    page.evaluate("document.querySelector('.planner').open = true")
    page.evaluate("document.querySelector('.planner input').focus()")
    for text in ("flow", "l/s", "0", "50"):
        page.type(text)
        page.press("Tab")


def test_a_study_is_planned_on_the_page_and_created_from_its_plan(scene: Scene) -> None:
    describe_flow(scene)
    page = scene.page
    page.evaluate("document.querySelector('.planner form').requestSubmit()")
    page.wait_for(".planner .verdict.good")
    assert "between 1.0" in page.text(".planner .headline")
    assert "epsilon = 1 " in page.text(".planner blockquote")
    assert "State the most records of one person" in page.text(".planner .warnings")
    page.evaluate("document.querySelector('.planner .result button.main').click()")
    page.type("planned")
    page.evaluate("document.querySelector('textarea').form.requestSubmit()")
    page.wait_for("details .verdict.good a")
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        (dimension,) = client.plan("planned").dimensions
    found = (dimension.name, dimension.unit, dimension.lower, dimension.upper)
    assert found == ("flow", "l/s", 0.0, 50.0)
    assert not page.complaints


def test_the_planner_asks_what_is_protected_and_how_many_records_a_person_has(
    scene: Scene,
) -> None:
    describe_flow(scene)
    page = scene.page
    label = (
        "[...document.querySelectorAll('.planner label')].find(e => e.textContent.startsWith({}))"
    )
    person = label.format("'Records of one person'")
    page.evaluate(f"{person}.querySelector('input').value = 3")
    page.evaluate("document.querySelector('.planner form').requestSubmit()")
    page.wait_for(".planner .verdict.good")
    shown = "JSON.parse(document.querySelector('.planner .result pre').textContent)"
    assert page.evaluate(f"{shown}.max_records_per_person") == 3
    assert page.evaluate("document.querySelector('.planner .warnings')") is None
    unit = f"{label.format(repr('Protected'))}.querySelector('select')"
    page.evaluate(f"{unit}.value = 'device'")
    page.evaluate(f"{unit}.dispatchEvent(new Event('change'))")
    assert page.evaluate(f"{person}.hidden")
    page.evaluate("document.querySelector('.planner form').requestSubmit()")
    page.wait_for(".planner .verdict:not(.good)")
    assert page.evaluate(f"{shown}.release.unit") == "device"


def test_a_column_is_planned_on_a_logarithmic_scale_as_the_client_plans_it(scene: Scene) -> None:
    describe_flow(scene)
    page = scene.page
    column = "document.querySelector('.planner .column')"
    assert "doublings" not in page.text(".planner .column")
    page.evaluate(f"{column}.querySelector('select').value = 'log'")
    page.evaluate(f"{column}.querySelector('select').dispatchEvent(new Event('change'))")
    assert "doublings" in page.text(".planner .column")
    page.evaluate("document.querySelector('.planner form').requestSubmit()")
    page.wait_for(".planner .verdict")
    flow = PlannedDimension(
        name="flow", unit="l/s", lower=0.0, upper=50.0, transform=LogTransform(resolution=1.0)
    )
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        found = client.advise(
            dimensions=[flow], n_clusters=5, n_devices=100, records_per_window=1000
        )
    assert found.band.statement in page.text(".planner .headline")
    shown = json.loads(page.evaluate("document.querySelector('.planner .result pre').textContent"))
    assert shown["dimensions"] == found.plan["dimensions"]
    assert shown["dimensions"][0]["transform"]["kind"] == "log"
    assert not page.complaints


def test_a_hopeless_study_is_called_so_on_the_page_with_what_would_help(scene: Scene) -> None:
    describe_flow(scene)
    page = scene.page
    for name in ("Devices", "Records"):
        page.evaluate(
            "[...document.querySelectorAll('.planner label')]"
            f".find(e => e.innerText.startsWith('{name}')).querySelector('input').value = 10"
        )
    page.evaluate("document.querySelector('.planner form').requestSubmit()")
    page.wait_for(".planner .verdict.bad")
    assert "Do not run this" in page.text(".planner .headline")
    assert "devices instead of 10" in page.text(".planner .result")
    assert page.evaluate("document.querySelector('.planner .result button.main')") is None


def test_an_analyst_is_offered_no_action_of_an_operator(scene: Scene, changing: str) -> None:
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        key = client.create_key("ana", scope="analyst").key
    aggregator, operator = scene.aggregator, scene.aggregator.key
    try:
        aggregator.key = key
        scene.enter(f"{aggregator.url}/#studies/{changing}/devices")
    finally:
        aggregator.key = operator
    page = scene.page
    page.wait_for(".listing tbody")
    assert "Manage" not in page.text(".tabs")
    assert page.evaluate("document.querySelectorAll('.listing tbody button').length") == 0
    scene.go("manage", changing)
    assert "There is no section “manage” here" in page.text()


def test_a_viewer_reads_and_is_offered_nothing_to_start(scene: Scene, changing: str) -> None:
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        key = client.create_key("vi", scope="viewer", study=changing).key
    page, aggregator, operator = scene.page, scene.aggregator, scene.aggregator.key
    offers = "[...document.querySelectorAll('form .main, .look')].some((e) => e.offsetParent)"
    try:
        aggregator.key = key
        scene.enter(f"{aggregator.url}/#studies/{changing}/time")
        page.wait_for(".card form")
        assert page.evaluate(offers) is False
        scene.go("devices", changing)
        page.wait("document.querySelector('main').innerText.includes('Refusals')")
        page.wait("!document.querySelector('main').innerText.includes('…')")
        assert page.evaluate("document.querySelectorAll('.problem').length") == 0
    finally:
        aggregator.key = operator
