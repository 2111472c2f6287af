"""Histograms, calibrations and moments on the dashboard, from real sketches."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from fractions import Fraction
from html import unescape
from typing import Any

import httpx
import numpy as np
import pytest

from sfumato.analyst import Client
from sfumato.shared.plan import Dimension, LogTransform, SketchPlan
from tests.aggregator.api.test_units import make_bin_plan, report
from tests.aggregator.fleet import SLOT, Device, make_plan
from tests.aggregator.ui.browser import MISSING, PROGRAM
from tests.aggregator.ui.scene import HOSTILE, Scene, publish_records, upload
from tests.shared.plan.looks import LOOK
from tests.walking import Walk

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

Floats = np.ndarray[Any, np.dtype[np.float64]]

COLUMNS = (
    Dimension(name="temperature", unit="degC", lower=-40.0, upper=60.0),
    Dimension(
        name="load", unit="kW", lower=-1e6, upper=1e6, transform=LogTransform(resolution=1e-6)
    ),
    Dimension(name="pumps", unit="1", lower=0.0, upper=10.0),
    Dimension(name="door", unit="1", lower=-1.0, upper=2.0),
    Dimension(name=HOSTILE, unit="hPa", lower=900.0, upper=1100.0),
    Dimension(name="site", unit="1", levels=("north", HOSTILE, "west")),
)
AXES = tuple(
    Dimension(name=name, unit=unit, lower=-5.0, upper=5.0)
    for name, unit in (("flow", "l/s"), ("head", "m"), (HOSTILE, "kW"), ("noise", "dB"))
)


def draw_columns(seed: int) -> Floats:
    """Two humps, a spread over octaves, a constant, a flag, missing values and levels."""
    rng, n = np.random.default_rng(seed), 1500
    pressure = rng.normal(1013.0, 8.0, n)
    pressure[rng.random(n) < 0.1] = np.nan
    return np.column_stack(
        [
            np.where(rng.random(n) < 0.4, rng.normal(-5, 3, n), rng.normal(20, 4, n)),
            rng.lognormal(3.0, 1.5, n),
            np.full(n, 3.02),
            rng.random(n) < 0.25,
            pressure,
            rng.choice(3, size=n, p=[0.7, 0.25, 0.05]),
        ]
    )


def draw_axes(seed: int) -> Floats:
    """Two directions that stand out, and two that are alike."""
    rng, n = np.random.default_rng(seed), 1500
    sides = np.array([[1, 1, 1, 0], [1, -1, 0, 0], [1, 1, -2, 0], [0, 0, 0, 1]], dtype=float)
    sides /= np.linalg.norm(sides, axis=1)[:, None]
    values: Floats = rng.normal(size=(n, 4)) * np.array([2.5, 1.2, 0.3, 0.3]) @ sides
    return values


def make_pilot(**changes: Any) -> SketchPlan:
    choices = {"dimensions": COLUMNS, "statistic": "histogram"} | changes
    return make_plan(n_frequencies=None, seed=None, **choices)


@pytest.fixture(scope="module")
def pilot(scene: Scene) -> str:
    parts = [draw_columns(seed) for seed in range(4)]
    return publish_records(scene.aggregator, "pilot", make_pilot(), parts)


@pytest.fixture(scope="module")
def moments(scene: Scene) -> str:
    plan = make_pilot(dimensions=AXES, statistic="moments", norm_steps=2600)
    return publish_records(scene.aggregator, "moments", plan, [draw_axes(i) for i in range(4)])


@pytest.fixture(scope="module")
def look(scene: Scene) -> str:
    names = tuple(axis.name for axis in AXES[:2])
    part = replace(LOOK, assigned=names[:1], summed=names)
    part = replace(part, units=replace(part.units, presence=64))
    plan = make_pilot(dimensions=AXES[:2], statistic="clusters", clusters=part)
    return publish_records(scene.aggregator, "look", plan, [draw_axes(i)[:, :2] for i in range(4)])


def read_answer(scene: Scene, kind: str, query: str = "") -> dict[str, Any]:
    """Read, as a program, the answer of the snapshot whose address the page shows."""
    snapshot = str(scene.page.evaluate("location.hash")).rpartition("/")[2]
    answer = httpx.get(
        f"{scene.aggregator.url}/v1/snapshots/{snapshot}/{kind}{query}",
        headers={"Authorization": f"Bearer {scene.aggregator.key}"},
        timeout=None,  # a calibration takes seconds on a busy machine
    )
    found: dict[str, Any] = answer.json()
    return found


def read_table(scene: Scene, caption: str) -> list[list[str]]:
    """Read the cells of a table, folded or not."""
    found: list[list[str]] = scene.page.evaluate(
        f"(caption => [...[...document.querySelectorAll('table')].find("
        "table => table.caption.textContent === caption).tBodies[0].rows].map("
        f"row => [...row.cells].map(cell => cell.textContent)))({json.dumps(caption)})"
    )
    return found


def fill(scene: Scene, label: str, value: str) -> None:
    """Type a value into the field with a label."""
    scene.page.evaluate(
        "((label, value) => {"
        " const found = [...document.querySelectorAll('label')].find("
        "   one => one.textContent.startsWith(label)).querySelector('input');"
        " found.value = value;"
        " found.dispatchEvent(new Event('change'));"
        f"}})({json.dumps(label)}, {json.dumps(value)})"
    )


def assert_sound(scene: Scene) -> None:
    """Check that nothing on the page is undefined or markup, and nothing failed."""
    shown = scene.page.text()
    for word in ("undefined", "NaN", "Infinity", "null"):
        assert word not in shown, word
    drawn = scene.page.evaluate(
        "[...document.querySelectorAll('.plot svg *')].flatMap(node =>"
        " [...node.attributes].map(one => one.value))"
    )
    assert not [value for value in drawn if re.search("NaN|Infinity|undefined", value)]
    assert scene.page.evaluate("document.querySelectorAll('main img').length") == 0
    assert not scene.page.complaints


def test_a_pilot_shows_each_column_with_its_doubts_before_its_bars_and_what_follows(
    scene: Scene, pilot: str
) -> None:
    scene.show_answer(pilot)
    page = scene.page
    assert_sound(scene)
    assert "From 4 sketches of 4 devices with 6,000 records." in page.text(".result")
    pills = page.evaluate(
        "[...document.querySelectorAll('.marginal')].map(one =>"
        " [...one.querySelectorAll('.pill')].map(pill => pill.textContent))"
    )
    assert pills == [[], ["log advised"], ["constant"], ["flag"], ["often missing"], []]
    answer = read_answer(scene, "histogram")
    temperature, load, _, _, pressure, site = page.evaluate(
        "[...document.querySelectorAll('.marginal')].map(one => one.innerText)"
    )
    assert 0.08 < answer["marginals"][4]["missing"] < 0.12
    assert re.search(r"Missing\s+\d+\.\d+% \(\d+\.\d+% to \d+\.\d+%\)", pressure)
    assert re.search(r"Missing\s+at most 0\.\d+%", temperature)
    middle = answer["marginals"][0]["quantiles"][2]
    shown = re.search(r"Median\s+([-\d.]+) \(([-\d.]+) to ([-\d.]+)\)", temperature)
    assert shown is not None
    assert [float(text) for text in shown.groups()] == pytest.approx(
        [middle["value"], middle["low"], middle["high"]], abs=0.05
    )
    assert load.index("logarithmic scale") < load.index("Median")
    assert "Other or missing" in site
    assert [row[0] for row in read_table(scene, "Levels of site")] == ["north", HOSTILE, "west"]
    check_fit(scene)
    check_bars(scene)
    check_main_study(scene, pilot)


def check_bars(scene: Scene) -> None:
    """Check that no bar is drawn without its band, and that the tables have every bar."""
    page = scene.page
    counts = page.evaluate(
        "['.bar', '.bar > .value', '.bar > .noise'].map("
        "one => document.querySelectorAll(`.plot ${one}`).length)"
    )
    assert counts[0] == counts[1] == counts[2] > 50
    for marginal in read_answer(scene, "histogram")["marginals"][:5]:
        rows = read_table(scene, f"Bars of {marginal['name']}")
        assert len(rows) == len(marginal["bars"])
        shares = [float(row[2].rstrip("%")) / 100 for row in rows]
        assert shares == pytest.approx([bar["share"] for bar in marginal["bars"]], abs=6e-5)
    # The stretch without records is drawn on demand.
    page.evaluate("document.querySelector('.check input').click()")
    more = page.evaluate("document.querySelectorAll('.plot .bar').length")
    assert more > counts[0]
    assert_sound(scene)
    check_files(scene)


def check_main_study(scene: Scene, pilot: str) -> None:
    """Check that a pilot says what a main study should be, and how to plan it."""
    page = scene.page
    fill(scene, "Clusters, the least", "4")
    fill(scene, "Clusters, the most", "9")
    fill(scene, "Epsilon", "1/2")
    fill(scene, "Delta", "1e-6")
    query = "?clusters=4&most_clusters=9"
    found = read_answer(scene, "calibration", query)
    temperature, load, pumps, *_ = (row for row in found["columns"])
    scale = f"{temperature['scale']:.4g}"
    page.wait(f"document.querySelector('main').innerText.includes({json.dumps(scale)})")
    rows = {row[0]: row[1:] for row in read_table(scene, "Columns of the main study")}
    assert rows["load (kW)"][1] == f"logarithmic, linear below {load['resolution']:f}"
    assert rows["load (kW)"][2] == f"{load['spread']:.4g} doublings"
    assert rows["pumps left out"][0] == "–"
    assert rows["pumps left out"][-1] == pumps["findings"][0]
    assert "Left out, for a pilot gives levels no scale: site." in page.text()
    assert page.text(".command") == (
        f"sfumato plan refine {pilot} --clusters 4 --most-clusters 9 --epsilon 1/2 "
        f"--delta 1e-6 --url {scene.aggregator.url} -o main.toml"
    )
    fill(scene, "Epsilon", "1; rm -r x")
    page.wait("document.querySelector('.command').textContent.startsWith('fill in')")


def test_a_pilot_that_is_too_weak_is_refused_before_its_figures(scene: Scene) -> None:
    plan = make_pilot(epsilon=Fraction(1, 20))
    parts = [draw_columns(seed) for seed in range(4)]
    study = publish_records(scene.aggregator, "weak", plan, parts)
    scene.show_answer(study)
    assert_sound(scene)
    shown = scene.page.text(".result")
    refusal = read_answer(scene, "calibration", "?clusters=5")["refusal"]
    assert shown.index(refusal) < shown.index("Median")
    assert f"Do not build on this pilot: {refusal}." in shown
    assert scene.page.evaluate("document.querySelector('.command')") is None
    assert "not seen" in shown
    # Noise is not called a flag.
    assert "flag" not in shown


def test_an_answer_is_found_again_at_its_address_and_at_that_of_no_other_study(
    scene: Scene, pilot: str
) -> None:
    scene.show_answer(pilot)
    before = scene.page.text(".result")
    address = scene.page.evaluate("location.hash")
    assert re.fullmatch(f"#studies/{pilot}/snapshots/[0-9a-f]{{64}}", address)
    scene.page.call("Page.reload")
    scene.page.wait_for(".result .plot svg")
    assert scene.page.text(".result") == before
    snapshot = address.rpartition("/")[2]
    plan = make_pilot(epsilon=Fraction(5))
    other = publish_records(scene.aggregator, "other", plan, [draw_columns(0)])
    scene.page.evaluate(f"location.hash = '#studies/{other}/snapshots/{snapshot}'")
    scene.page.wait_for(".problem", problem=True)
    assert "must name a snapshot of this study" in scene.page.text(".problem")


def test_a_selection_without_sketches_is_a_problem_in_words(scene: Scene, pilot: str) -> None:
    scene.enter(f"{scene.aggregator.url}/#studies/{pilot}")
    page = scene.page
    page.wait_for("button.main")
    page.evaluate("document.querySelector('.fields select').selectedIndex = 2")
    scene.ask()
    page.wait_for(".problem", problem=True)
    assert not page.evaluate("document.querySelector('button.main').disabled")


def test_reports_of_bins_are_shown_and_calibrate_nothing(scene: Scene) -> None:
    plan, aggregator = make_bin_plan("one", "two"), scene.aggregator
    with (
        Client(aggregator.url, key=aggregator.key) as client,
        httpx.Client(base_url=aggregator.url) as http,
    ):
        study = client.create_study("reports", plan).study_id
        for seed in range(60, 66):
            device = Device(seed)
            body = device.enrolment(client.create_token(study), bytes.fromhex(study))
            assert http.post("/v1/enrolments", json=body).status_code == 201
            ordinal = client.device(device.device_id.hex()).ordinal
            block = plan.blocks.choose(ordinal=ordinal, stream="main", turn=SLOT)
            *message, _ = report(device, bytes.fromhex(study), plan, block)
            assert upload(http, study, *message) == 201
    scene.show_answer(study)
    assert_sound(scene)
    # Six reports bound nothing.
    assert "not known" in scene.page.text(".result")
    assert "Calibration" not in scene.page.text(".result")


def test_moments_show_what_stands_out_and_never_what_noise_may_have_made(
    scene: Scene, moments: str
) -> None:
    scene.show_answer(moments)
    page = scene.page
    assert_sound(scene)
    answer = read_answer(scene, "moments")
    assert [each["is_told_apart"] for each in answer["components"]] == [True, True, False, False]
    shown = page.text(".result")
    doubt = "Directions 3 and 4 are not told apart: from noise, or from each other."
    assert shown.index(doubt) < shown.index("Loadings")
    drawn = page.evaluate(
        "[...document.querySelectorAll('.marginal h4')].map(one => one.textContent)"
    )
    assert drawn == ["Direction 1", "Direction 2"]
    for number, component in enumerate(answer["components"][:2], 1):
        rows = read_table(scene, f"Loadings of direction {number}")
        found = [float(row[1].split(" ")[0]) for row in rows]
        assert found == pytest.approx(component["loadings"], rel=0.02, abs=0.01)
        assert [row[2] != "" for row in rows] == [
            abs(loading) < 2 * error
            for loading, error in zip(
                component["loadings"], component["loadings_error"], strict=True
            )
        ]
    turns = [row[3] for row in read_table(scene, "Directions")]
    assert turns[2:] == ["arbitrary", "arbitrary"]
    assert all(re.fullmatch(r"(about|less than) [\d.]+°", turn) for turn in turns[:2])
    check_fit(scene)
    check_correlations(scene, answer)
    check_files_of_moments(scene, answer)


def check_files(scene: Scene) -> None:
    """Check that distributions are saved as table and object."""
    found = scene.save_files(3)
    answer = read_answer(scene, "histogram")
    assert json.loads(found["json"]) == answer
    rows = list(csv.DictReader(io.StringIO(found["csv"])))
    for marginal in answer["marginals"]:
        own = [row for row in rows if row["dimension"] == marginal["name"]]
        bars = [float(row["share"]) for row in own if row["figure"] == "bar"]
        assert bars == [bar["share"] for bar in marginal["bars"]]
        levels = {row["level"]: float(row["share"]) for row in own if row["figure"] == "level"}
        assert levels == {each["level"]: each["share"] for each in marginal["levels"]}
        medians = [row["value"] for row in own if row["figure"] == "quantile"][2:3]
        assert list(map(float, medians)) == [q["value"] for q in marginal["quantiles"][2:3]]
        (missing,) = (row for row in own if row["figure"] == "missing")
        assert float(missing["error"]) == marginal["error"]
    assert answer["privacy"]["statement"] in unescape(found["html"])
    assert not scene.page.complaints


def check_files_of_moments(scene: Scene, answer: dict[str, Any]) -> None:
    """Check that moments are saved without loadings of arbitrary directions."""
    found = scene.save_files(3)
    assert json.loads(found["json"]) == answer
    rows = list(csv.DictReader(io.StringIO(found["csv"])))
    loadings = [row for row in rows if row["figure"] == "loading"]
    assert {row["direction"] for row in loadings} == {"1", "2"}
    assert [float(row["value"]) for row in loadings[:4]] == answer["components"][0]["loadings"]
    means = [row for row in rows if row["figure"] == "mean"]
    assert [float(row["value"]) for row in means] == answer["mean"]
    assert all(float(row["low"]) < float(row["high"]) for row in means)
    assert sum(row["figure"] == "correlation" for row in rows) == 6
    assert not scene.page.complaints


def test_a_look_is_shown_with_its_verdict_its_errors_and_its_files(scene: Scene, look: str) -> None:
    scene.show_answer(look)
    answer = read_answer(scene, "clusters")
    text = scene.page.evaluate("document.body.innerText")
    assert f"{answer['verdict']['word']}: " in text
    assert "other optima are not excluded" in text
    rows = read_table(scene, "Measured clusters")
    assert [row[0] for row in rows] == ["1", "2"]
    assert scene.page.evaluate("document.querySelectorAll('.bar').length") == 2
    found = scene.save_files(3)
    assert json.loads(found["json"]) == answer
    listed = list(csv.DictReader(io.StringIO(found["csv"])))
    shares = [float(row["value"]) for row in listed if row["figure"] == "share"]
    assert shares == [each["share"]["value"] for each in answer["clusters"]]
    assert not scene.page.complaints


def check_correlations(scene: Scene, answer: dict[str, Any]) -> None:
    """Check that each correlation is drawn with its band."""
    counts = scene.page.evaluate(
        "['.cell', '.cell .band', '.cell.unsure'].map(one => document.querySelectorAll(one).length)"
    )
    pairs = [(i, j) for i in range(4) for j in range(i)]
    unsure = [
        answer["correlation_low"][i][j] <= 0 <= answer["correlation_high"][i][j] for i, j in pairs
    ]
    assert counts == [6, 6, sum(unsure)]
    rows = read_table(scene, "Correlations")
    assert sum("not told from 0" in row[2] for row in rows) == sum(unsure)
    flow_head = next(row[2] for row in rows if row[:2] == ["head", "flow"])
    assert flow_head.startswith(f"{answer['correlation'][1][0]:.2f}")


def test_answers_fit_a_phone(scene: Scene, pilot: str, moments: str) -> None:
    try:
        scene.page.resize(390)
        for study in (pilot, moments):
            scene.show_answer(study)
            check_fit(scene)
    finally:
        scene.page.resize(1200)


def check_fit(scene: Scene) -> None:
    """Check that nothing scrolls sideways, and that the texts of a picture lie inside and apart."""
    page, root = scene.page, "document.documentElement"
    assert page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") == 0
    overlaps = page.evaluate(
        """[...document.querySelectorAll('.result .plot svg')].flatMap(svg => {
          const frame = svg.getBoundingClientRect();
          const boxes = [...svg.querySelectorAll('text')].map(text =>
            [text.textContent, text.getBoundingClientRect()]);
          const out = boxes.filter(([, box]) =>
            box.left < frame.left - 1 || box.right > frame.right + 1 ||
            box.bottom > frame.bottom + 3).map(([text]) => text);
          const met = boxes.flatMap(([text, a], i) => boxes.slice(i + 1)
            .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 &&
              a.top < b.bottom - 3 && b.top < a.bottom - 3)
            .map(([other]) => `${text} | ${other}`));
          return [...out, ...met];
        })"""
    )
    assert overlaps == []


TICKS: list[tuple[float, float, float | None, list[float]]] = [
    (0, 9.5, None, [0, 5]),
    (1, 1000, 1e-6, [1, 10, 100, 1000]),
    (-100, 100, 1.0, [-100, -10, -1, 0, 1, 10, 100]),
    (990, 1040, 1e-6, [1000, 1020, 1040]),
    (0, 0.5, 1.0, [0, 0.5]),
]
WORDS = {
    "noisyShare(0.1, 0.004)": "10.0% (9.2% to 10.8%)",
    "noisyShare(0.007, 0.004)": "at most 1.5%",
    "noisyShare(-0.01, 0.004)": "at most 0.8%",
    "noisyShare(1.001, 0.01)": "100% (98% to 100%)",
    "between(1013.2468, 1013.1, 1013.4)": "1,013.25 (1,013.1 to 1,013.4)",
    "between(7.2, 0.001, 100)": "7.2 (0.001 to 100)",
    "between(0.000123, 0.0001, 0.0002)": "0.000123 (0.0001 to 0.0002)",
    "tickText(0.000001)": "1e−6",
    "tickText(2500000)": "2.5M",
}


def test_ticks_are_round_and_numbers_have_the_digits_that_their_noise_allows(scene: Scene) -> None:
    scene.page.open(f"{scene.aggregator.url}/")
    with Walk() as walk:
        for low, high, resolution, ticks in TICKS:
            fits = f"found => found.length <= {len(ticks)}"
            call = f"ticksOf({low}, {high}, {json.dumps(resolution)}, {fits})"
            with walk.cell(call):
                assert scene.call("base/axes.js", call) == pytest.approx(ticks)
        for call, text in WORDS.items():
            with walk.cell(call):
                assert scene.call("base/words.js", call) == text
