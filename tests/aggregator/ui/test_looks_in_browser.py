"""A result that has taken second looks over, on the page and in its report."""

from __future__ import annotations

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
