"""The dashboard in a real browser, at a real server with a real worker."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import httpx
import pytest

from sfumato.analyst import Client
from sfumato.shared.plan import Dimension, WindowRule
from tests.aggregator.fleet import SLOT, Device, make_plan
from tests.aggregator.ui.browser import MISSING, PROGRAM, PageError
from tests.aggregator.ui.scene import HOSTILE, N_SKETCHES, Scene, publish, upload
from tests.walking import Walk

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)


def read_result(scene: Scene) -> dict[str, Any]:
    """Read, as a program, the decode whose address the page shows."""
    decode = str(scene.page.evaluate("location.hash")).rpartition("/")[2]
    answer = httpx.get(
        f"{scene.aggregator.url}/v1/decodes/{decode}",
        headers={"Authorization": f"Bearer {scene.aggregator.key}"},
    )
    result: dict[str, Any] = answer.json()["result"]
    return result


def test_by_keyboard_alone_an_analyst_finds_a_study_and_decodes_it(scene: Scene) -> None:
    scene.enter()
    page = scene.page
    row = next(line for line in page.text("tbody").splitlines() if line.startswith(HOSTILE))
    assert row.split("\t")[4:6] == ["2", "2,000"]
    page.tab_to("tbody a")
    page.press("Enter")
    page.wait_for(".result > *")
    if not page.evaluate("document.querySelector('.asking').open"):
        page.tab_to(".asking summary")
        page.press("Enter")
    page.wait_for(".prediction:not(:empty)")
    assert "relative SSE" in page.text(".prediction")
    page.tab_to("input[type=number]")
    page.press("Backspace")
    page.type("3")
    page.tab_to("button.main")
    page.press("Enter")
    page.wait("document.querySelectorAll('.swatch').length === 3")
    result = read_result(scene)
    shown = page.evaluate(
        "[...document.querySelectorAll('.result .scroll tbody tr')].map(row =>"
        " [...row.cells].slice(1).map(cell => parseFloat(cell.textContent)))"
    )
    order = sorted(range(3), key=lambda i: -result["weights"][i])
    expected = [[100 * result["weights"][i], *result["centroids"][i]] for i in order]
    for line, values in zip(shown, expected, strict=True):
        assert line == pytest.approx(values, abs=0.051)
    widths = page.evaluate(
        "[...document.querySelectorAll('.line')].map(line => +line.getAttribute('stroke-width'))"
    )
    assert widths == pytest.approx([16 * row[0] / expected[0][0] for row in expected], abs=0.02)
    text = page.text()
    assert all(words in text for words in result["words"])
    assert result["band"]["statement"] not in text
    assert result["band"]["statement"] in page.all_text()
    assert all(warning in text for warning in result["warnings"])
    assert f"From {N_SKETCHES} sketches of 2 devices with 2,000 records." in text
    assert not page.complaints


def test_the_page_tells_plan_promise_devices_and_refusals_in_words(scene: Scene) -> None:
    scene.enter(scene.url + "/plan")
    text = scene.page.text()
    for words in (
        "Each sketch is epsilon = 10 differentially private under replace-one neighbouring",
        "K-norm noise, drawn on each device",
        "one sketch every 1 hour of a stream, counted from Jan 1, 1970, 12:00 AM UTC",
    ):
        assert words in text, words
    scene.go("devices")
    scene.page.wait("document.querySelector('main').innerText.includes('access-denied')")
    scene.page.wait_for("table.stacks")
    text = scene.page.text()
    for words in ("site north", "1 sketch", "enrolled", "Device 0"):
        assert words in text, words
    assert scene.page.text("table.stacks tbody tr:nth-child(2) strong") == HOSTILE


def test_a_decode_is_found_again_at_its_address_and_fits_a_phone(scene: Scene) -> None:
    scene.show_answer()
    page = scene.page
    before = page.text(".result .scroll table")
    page.call("Page.reload")
    page.wait_for(".plot svg")
    assert page.text(".result .scroll table") == before
    try:
        page.resize(390)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    finally:
        page.resize(1200)
    # Names that are markup stay text.
    assert page.text("h1") == HOSTILE
    assert HOSTILE in page.all_text(".asking .fields")
    assert f"{HOSTILE} ({HOSTILE})" in page.text(".result table")
    assert page.evaluate("document.querySelectorAll('main img').length") == 0
    assert page.evaluate("window.pwned ?? null") is None
    assert not page.complaints


def test_the_key_is_in_the_tab_alone_and_goes_when_it_is_forgotten(scene: Scene) -> None:
    scene.show_answer()
    page, secret = scene.page, scene.aggregator.key
    assert page.evaluate("Object.values(sessionStorage)") == [secret]
    # Chromium draws its own calendar button from data.
    asked = [one for one in page.requests if not one["url"].startswith(("about:", "data:image/"))]
    for request in asked:
        assert request["url"].startswith(scene.aggregator.url), request["url"]
        assert secret not in request["url"]
        assert secret not in request.get("postData", "")
        told = {name for name, value in request["headers"].items() if secret in value}
        assert told <= {"Authorization"}
    assert any("/events" in request["url"] for request in asked)
    assert page.evaluate("document.cookie + localStorage.length + history.state") == "0null"
    assert secret not in page.evaluate("document.documentElement.outerHTML + location.href")
    page.tab_to("#session button:last-child")
    page.press("Enter")
    page.wait_for("#key")
    assert page.evaluate("Object.values(sessionStorage)") == []
    assert HOSTILE not in page.text()
    assert secret not in scene.aggregator.log.read_text()


def test_a_key_that_is_refused_is_not_kept(scene: Scene) -> None:
    page = scene.page
    scene.enter()
    page.evaluate("sessionStorage.clear()")
    for secret, rule in (
        ("sfk_" + "0" * 16 + "_" + "a" * 43, "carries a key that is unknown or revoked"),
        ("password", "must begin with sfk_ and contain no blanks"),
    ):
        page.open("about:blank", until=None)
        page.open(scene.aggregator.url + "/")
        page.type(secret)
        page.press("Enter")
        page.wait_for(".problem", problem=True)
        assert rule in page.text(".problem")
        assert page.evaluate("sessionStorage.length") == 0


def test_a_problem_is_shown_with_its_field_rule_and_fix(scene: Scene) -> None:
    scene.enter(scene.url)
    page = scene.page
    page.wait_for("button.main")
    page.evaluate("document.querySelector('input[type=number]').value = 1000")
    scene.ask()
    page.wait_for(".problem", problem=True)
    told = page.text(".problem")
    for words in ("n_clusters", "must be at most 40, not 1000", "ask for fewer clusters"):
        assert words in told
    assert page.evaluate("document.querySelector('.problem a').pathname") == (
        "/problems/decoding-invalid"
    )
    assert not page.evaluate("document.querySelector('button.main').disabled")
    page.evaluate("document.querySelector('input[type=number]').value = 3")
    for i, time in enumerate(("1970-01-21T00:10", "1970-01-21T00:50")):
        page.evaluate(f"document.querySelectorAll('[type=datetime-local]')[{i}].value = '{time}'")
    scene.ask()
    told = "document.querySelector('.problem')?.textContent.includes('one whole window between')"
    page.wait(told, problem=True)


def test_the_page_follows_the_reader_into_the_dark(scene: Scene) -> None:
    scene.enter()
    grounds = set()
    for scheme in ("light", "dark"):
        scene.page.prefer(scheme)
        grounds.add(scene.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_the_browser_refuses_markup_inline_script_and_other_servers(scene: Scene) -> None:
    scene.enter()
    page = scene.page
    with pytest.raises(PageError, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")
    with pytest.raises(PageError, match="Failed to fetch"):
        page.evaluate("fetch('http://127.0.0.2:9/')")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('button'),"
        " {id: 'trap'})), document.getElementById('trap').setAttribute('style', 'color: red')"
    )
    with pytest.raises(PageError, match="TrustedScript"):
        page.evaluate("document.getElementById('trap').setAttribute('onclick', 'window.pwned=1')")
    assert page.evaluate("getComputedStyle(document.getElementById('trap')).color") != (
        "rgb(255, 0, 0)"
    )


def test_times_become_the_slots_wholly_between_them(scene: Scene) -> None:
    scene.enter()
    with Walk() as walk:
        for start, end, slots in (
            ("1970-01-01T02:00", "1970-01-01T05:00", [2, 4]),
            ("1970-01-01T02:01", "1970-01-01T04:59", [3, 3]),
            ("", "1970-01-01T05:00", [None, 4]),
            ("1969-12-31T22:30", "", [-1, None]),
        ):
            window = "{origin: 0, length_s: 3600}"
            call = f"slotsBetween({json.dumps(start)}, {json.dumps(end)}, {window})"
            with walk.cell(start, end):
                found = scene.call("study/selection.js", call)
                assert [found["first_slot"], found["last_slot"]] == slots


def test_a_selection_of_times_and_labels_is_what_is_decoded(scene: Scene) -> None:
    scene.enter(scene.url)
    page = scene.page
    page.wait_for("button.main")
    # Slots 480 and 481 begin at 00:00 and 01:00.
    for i, time in enumerate(("1970-01-21T00:00", "1970-01-21T01:00")):
        page.evaluate(f"document.querySelectorAll('[type=datetime-local]')[{i}].value = '{time}'")
    page.evaluate("document.querySelector('.fields select').selectedIndex = 2")
    scene.ask()
    page.wait_for(".plot svg")
    assert (
        f"From 1 sketch of 1 device with 500 records (site {HOSTILE}, "
        "from Jan 21, 1970, 12:00 AM UTC, to Jan 21, 1970, 1:00 AM UTC)."
    ) in page.text(".result")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "names",
    [["raumtemperatur_c", "load", "b"], 3 * ["outer_temperature_2"], ["temperature of the room"]],
)
def test_names_of_axes_lie_within_the_picture_and_apart(
    scene: Scene, names: list[str], width: int
) -> None:
    scene.enter(scene.url)
    scene.page.resize(width)
    size, boxes = scene.page.evaluate(
        """(async (names) => {
          const { makePlot } = await import("/ui/decode/profile.js");
          const axes = names.map((name) => ({ name, unit: "K", lower: 0, upper: 1 }));
          const centroid = names.map(() => 0.5);
          const row = { number: 1, colour: "", words: "", weight: 1, centroid };
          const { node } = makePlot([row], axes);
          document.querySelector("main").append(node);
          while (!node.querySelector(".name")) await new Promise(requestAnimationFrame);
          const boxes = [...node.querySelectorAll(".name")].map((name) => name.getBBox());
          const size = node.querySelector("svg").viewBox.baseVal.width;
          return [size, boxes.map(({ x, y, width }) => [y, x, x + width])];
        })"""
        + f"({json.dumps(names)})"
    )
    scene.page.resize(1280)
    assert all(left >= 0 and right <= size for _, left, right in boxes), boxes
    for (row, _, right), (next_row, left, _) in pairwise(sorted(boxes)):
        assert row != next_row or right <= left, boxes


def test_a_stream_that_breaks_off_or_is_refused_is_followed_all_the_same(scene: Scene) -> None:
    # Nothing that loads on its own takes an answer.
    scene.enter(scene.url + "/plan")
    found = scene.page.evaluate(
        """(async () => {
          const { follow } = await import("/ui/base/api.js");
          const bytes = (...parts) => new Response(new ReadableStream({ start(controller) {
            for (const part of parts) controller.enqueue(new TextEncoder().encode(part));
            controller.close();
          } }));
          const json = (body, status) => new Response(JSON.stringify(body), {
            status, headers: { "Content-Type": "application/json", "Retry-After": "0.01" } });
          const answers = [
            () => bytes('event: progress\\ndata: {"state": "running", "progress": 0.25}\\n\\n'),
            () => Promise.reject(new TypeError("gone")),
            () => json({ state: "running", progress: 0.5, finished: null }, 200),
            () => json({ title: "too many" }, 429),
            () => json({ state: "running", progress: 0.75, finished: null }, 200),
            () => bytes(': ping\\r\\n\\r\\nevent: res', 'ult\\r\\ndata: {"state": "succ',
                        'eeded"}\\r\\n\\r', '\\n'),
          ];
          const asked = [], told = [];
          const real = window.fetch;
          window.fetch = async (path) => { asked.push(path); return answers.shift()(); };
          try {
            const tell = ({ progress }) => told.push(progress);
            const ended = await follow("/v1/decodes/d", tell, new AbortController().signal);
            return { ended, told, asked };
          } finally { window.fetch = real; }
        })()"""
    )
    assert found["ended"] == {"state": "succeeded"}
    assert found["told"] == [0.25, 0.5, 0.75]
    events, decode = "/v1/decodes/d/events", "/v1/decodes/d"
    assert found["asked"] == [events, events, decode, events, decode, events]


def test_a_decode_that_takes_long_is_cancelled(scene: Scene) -> None:
    scene.enter(scene.url)
    page = scene.page
    page.wait_for("button.main")
    page.evaluate("document.querySelector('.check input').click()")
    page.evaluate("document.querySelector('input[type=number]').value = 40")
    # The page may still be opening the latest answer, which is not the one to cancel.
    page.evaluate(
        "window.asked = new Promise((done) => { const send = window.fetch; window.fetch ="
        " async (path, options) => { const answer = await send(path, options);"
        " if (options?.method === 'POST') done(answer.clone().json()); return answer; }; })"
        ".then((made) => { window.made = made.decode_id; }), 0"
    )
    scene.ask()
    page.wait(
        "window.made && location.hash.includes(window.made)"
        " && !document.querySelector('.progress').hidden"
    )
    assert page.evaluate("document.querySelector('button.main').disabled")
    page.evaluate("document.querySelector('.progress button').click()")
    page.wait_for(".result > p")
    assert page.text(".result") == "The decode was cancelled."
    assert page.evaluate("document.querySelector('.progress').hidden")


def test_every_number_of_clusters_is_tried_and_one_recommended(scene: Scene) -> None:
    scene.enter(scene.url)
    page = scene.page
    page.wait_for("button.main")
    page.evaluate("document.querySelector('.check input').click()")
    scene.ask()
    page.wait_for(".plot svg")
    choice = read_result(scene)["choice"]
    tried = "details:has([aria-label='How many clusters'])"
    page.evaluate(f'document.querySelector("{tried}").open = true')
    assert page.text(f"{tried} summary") == choice["statement"]
    (line,) = (row for row in page.text(f"{tried} table").splitlines() if "recommended" in row)
    assert line.startswith(f"{choice['recommended']}\t")
    assert page.text(".result h3").startswith(str(choice["recommended"]))


def test_where_presence_is_secret_no_number_of_records_is_told_as_exact(scene: Scene) -> None:
    plan = make_plan(
        neighbouring="add-remove-one",
        window=WindowRule(kind="time", origin=1_700_000_000, length_s=3600),
    )
    study = publish(scene.aggregator, "secret", plan, 0, Device(11), Device(12))
    scene.enter(f"{scene.aggregator.url}/#studies/{study}")
    page = scene.page
    page.wait_for("button.main")
    assert page.text(".tile:nth-child(3)") == "Records\nsecret"
    scene.ask()
    page.wait_for(".plot svg")
    assert re.search(r"4 sketches of 2 devices with about [\d,]+ ± [\d.]+ records", page.text())
    scene.go("plan", study)
    assert "any number; it stays secret" in page.text()


def test_windows_by_count_are_selected_by_no_time(scene: Scene) -> None:
    plan = make_plan(window=WindowRule(kind="count", length=500))
    study = publish(scene.aggregator, "counted", plan, 0, Device(21))
    scene.enter(f"{scene.aggregator.url}/#studies/{study}")
    page = scene.page
    page.wait_for("button.main")
    assert page.evaluate("document.querySelectorAll('[type=datetime-local]').length") == 0
    scene.ask()
    page.wait_for(".plot svg")
    assert "From 2 sketches of 1 device with 1,000 records." in page.text()
    scene.go("plan", study)
    assert "one sketch every 500 records of a stream" in page.text()
    scene.go("time", study)
    assert "The windows of this plan count records, so they have no times." in page.text()


def test_the_search_box_is_told_before_and_after_a_decode(scene: Scene) -> None:
    study = publish(scene.aggregator, "boxed", make_plan(), SLOT, Device(15), Device(16))
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        client.set_search_box(study, {"flow": (-8, 7.5)})
    scene.enter(f"{scene.aggregator.url}/#studies/{study}")
    page = scene.page
    page.wait_for("button.main")
    assert "Decodes search within flow -8 to 7.5 l/s." in page.all_text()
    scene.ask()
    page.wait_for(".plot svg")
    details = str(page.evaluate("document.querySelector('.result dl.facts').textContent"))
    assert "Searched withinflow -8 to 7.5 l/s" in details


def test_phones_are_told_what_they_report_and_how_many_frequencies_they_carry(
    scene: Scene,
) -> None:
    plan = make_plan(
        release="phase.v1",
        frequencies_per_sketch=30,
        most_records=None,
        most_sketches_per_device=4,
    )
    aggregator = scene.aggregator
    with (
        Client(aggregator.url, key=aggregator.key) as client,
        httpx.Client(base_url=aggregator.url) as http,
    ):
        study = client.create_study("phones", plan).study_id
        identity, device = bytes.fromhex(study), Device(31)
        body = device.enrolment(client.create_token(study), identity)
        assert http.post("/v1/enrolments", json=body).status_code == 201
        assert upload(http, study, *device.message(identity, plan, block=0)) == 201
        scene.enter(f"{aggregator.url}/#studies/{study}")
        page = scene.page
        page.wait_for("[open] .prediction:not(:empty)")
        assert "The sketches carry 30 of 60 frequencies." in page.text(".prediction")
        scene.go("plan", study)
        shown = page.text()
        assert "a noisy phase of one record" in shown
        assert "all records of a device in a window together" in shown
        assert "each of 30 of 60 frequencies: fewer than 2 carry not all" in shown
        assert "Records of one person" not in shown


def test_a_grid_is_decoded_and_claims_no_signal_to_noise(scene: Scene) -> None:
    numbers = tuple(
        Dimension(name=name, unit="bar", lower=-10.0, upper=10.0) for name in ("pressure", "flow")
    )
    plan = make_plan(
        dimensions=numbers, statistic="grid", cells=(16, 16), n_frequencies=None, seed=None
    )
    study = publish(scene.aggregator, "grid", plan, SLOT, Device(41))
    scene.enter(f"{scene.aggregator.url}/#studies/{study}")
    page = scene.page
    page.wait_for("[open] .prediction:not(:empty)")
    assert "Noise of a cell, all stored sketches together:" in page.text(".prediction")
    scene.ask()
    page.wait_for(".plot svg")
    assert "Signal to noise" not in page.text()
    assert read_result(scene)["verdict"]["sentence"] in page.text(".verdict")
    scene.go("plan", study)
    assert "256 cells (16 × 16)" in page.text()
