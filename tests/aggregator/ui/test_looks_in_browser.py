"""A result that has taken second looks over, on the page and in its report."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.analyst import Client
from sfumato.analyst.report.page import render_report
from tests.aggregator.fleet import draw_records, make_plan
from tests.aggregator.ui.browser import MISSING, PROGRAM
from tests.aggregator.ui.scene import Scene, publish_records

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)
PARTS = [draw_records(seed) for seed in (1, 2)]


def test_measured_shares_stand_beside_predicted_ones_with_the_doubts_of_the_look(
    scene: Scene,
) -> None:
    server = scene.aggregator
    study = publish_records(server, "refined", make_plan(), PARTS)
    with Client(server.url, key=server.key) as client:
        first = client.decode(study, n_clusters=3).wait()
        planned = client.plan_look(first, epsilon="2", same_records=True)
        look = publish_records(server, "refined look", planned.plan, PARTS)
        decode = client.decode(study, n_clusters=3, looks=[look])
        found = decode.wait()
    scene.enter(f"{server.url}/#studies/{study}/decodes/{decode.decode_id}")
    scene.page.wait_for(".result .plot svg")
    text = scene.page.evaluate("document.body.innerText")
    assert found.looks is not None
    measured = found.looks.looks[0]
    for words in (
        f"{found.reason}.",
        "Measured: shares are those of 1 second look",
        found.looks.cost,
        "The sketch alone predicts shares of ",
        "Second look 1: 2 sketches",
        measured.statement,
        "Beyond the cap, or clipped: ",
    ):
        assert words in text, words
    assert scene.page.evaluate("document.querySelectorAll('.bar').length") == 3
    assert not scene.page.complaints
    report = render_report(found, title="refined")
    for words in ("What second looks measured", measured.statement, "of the squared distances"):
        assert words in report.replace("&#x27;", "'"), words


def test_clusters_keep_their_numbers_where_a_look_measures_other_shares(scene: Scene) -> None:
    server = scene.aggregator
    study = publish_records(server, "turned", make_plan(), PARTS)
    with Client(server.url, key=server.key) as client:
        first = client.decode(study, n_clusters=3).wait()
        planned = client.plan_look(first, epsilon="2")
        # Half of the records of all clusters but the last.
        last = np.array(first.centroids)[-1]
        parts = [
            part[(np.linalg.norm(part - last, axis=1) < 2.0) | (np.arange(len(part)) % 2 == 0)]
            for part in PARTS
        ]
        look = publish_records(server, "turned look", planned.plan, parts)
        decode = client.decode(study, n_clusters=3, looks=[look])
        found = decode.wait()
    assert np.argmax(found.weights) == 2
    scene.enter(f"{server.url}/#studies/{study}/decodes/{decode.decode_id}")
    scene.page.wait_for(".result .plot svg")
    rows = scene.page.evaluate(
        "[...document.querySelector('.result table tbody').rows]"
        ".map(({ cells }) => [cells[0].innerText, cells[1].innerText])"
    )
    numbers = [int(cell.split()[0]) for cell, _ in rows]
    shares = [float(cell.partition("%")[0]) for _, cell in rows]
    assert numbers == [1, 2, 3]
    assert shares == pytest.approx(100.0 * found.weights, abs=0.051)


def fill(scene: Scene, values: dict[str, str]) -> None:
    for label, value in values.items():
        done = scene.page.evaluate(
            """(([label, value]) => {
              const { control } = [...document.querySelectorAll("details.look label")]
                .find((each) => each.firstChild.textContent === label);
              control.value = value;
              return control.dispatchEvent(new Event("change"));
            })"""
            + f"({[label, value]})"
        )
        assert done, label


def plan_on_page(scene: Scene) -> str:
    scene.page.evaluate("document.querySelector('details.look .result').replaceChildren()")
    scene.page.evaluate("document.querySelector('details.look form').requestSubmit()")
    scene.page.wait_for("details.look .result > *", problem=True)
    return scene.page.text("details.look .result")


def test_a_look_is_planned_on_the_page_says_what_it_gives_and_becomes_a_study(
    scene: Scene,
) -> None:
    server = scene.aggregator
    study = publish_records(server, "looked at", make_plan(), PARTS)
    with Client(server.url, key=server.key) as client:
        decode = client.decode(study, n_clusters=3)
        first = decode.wait()
        refined = client.plan_look(first, epsilon="1/2", same_records=True)
        measured = client.plan_look(first, epsilon="2", aim="measure")
        scene.enter(f"{server.url}/#studies/{study}/decodes/{decode.decode_id}")
        scene.page.wait_for("details.look")
        scene.page.evaluate("document.querySelector('details.look').open = true")

        fill(scene, {"It shall": "measure", "Epsilon of a record": "2"})
        text = plan_on_page(scene)
        assert all(each in text for each in measured.describe())
        assert "Mean of" not in text

        fill(scene, {"It shall": "profile", "Column": "tide", "Lowest value": "0"})
        fill(scene, {"Highest value": "5", "Unit": "m"})
        assert "Mean of tide" in plan_on_page(scene)

        fill(scene, {"It shall": "refine", "Epsilon of a record": "none"})
        assert "epsilon" in plan_on_page(scene)
        scene.page.complaints.clear()

        fill(scene, {"It reads": "same", "Epsilon of a record": "1/2"})
        text = plan_on_page(scene)
        for each in refined.describe():
            assert each in text, each
        assert "one record costs" in text
        scene.page.evaluate("document.querySelector('details.look .result form').requestSubmit()")
        scene.page.wait_for("details.look .result .verdict.good a", problem=True)
        made = client.study(client.find_study("looked at look"))
        assert client.plan(made.study_id) == refined.plan
    assert not scene.page.complaints
