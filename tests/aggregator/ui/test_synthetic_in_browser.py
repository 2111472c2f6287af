"""Synthetic tables on the page of a decode, in a real browser at a real server."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from typing import Any

import pytest

from sfumato.analyst import Client
from tests.aggregator.fleet import SLOT, Device, make_plan
from tests.aggregator.ui.browser import MISSING, PROGRAM
from tests.aggregator.ui.scene import Scene, publish

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

N_DRAWN = 21_000
"""More than one part."""
# Press every button of the drawn table, and read the files instead of saving them.
_SAVE = """(async () => {
  const files = {};
  const blobs = new Map();
  const make = URL.createObjectURL.bind(URL);
  URL.createObjectURL = (blob) => {
    const url = make(blob);
    blobs.set(url, blob);
    return url;
  };
  const saved = [];
  HTMLAnchorElement.prototype.click = function () {
    saved.push([this.download, blobs.get(this.href)]);
  };
  for (const button of document.querySelectorAll(".synthetic .downloads button")) button.click();
  for (const [name, blob] of saved) files[name] = await blob.text();
  return files;
})()"""


def decode(scene: Scene, url: str) -> None:
    """Open a study with an empty tab, ask for three clusters, and wait for the answer."""
    scene.enter(url)
    page = scene.page
    page.wait_for("form button.main")
    page.evaluate("document.querySelector('.fields input[type=number]').value = 3")
    page.evaluate("document.querySelector('form button.main').click()")
    page.wait_for("details.synthetic")


def test_by_keyboard_a_table_is_drawn_and_saved_with_its_promise(scene: Scene) -> None:
    decode(scene, scene.url)
    page = scene.page
    page.tab_to("details.synthetic summary")
    page.press("Enter")
    page.tab_to("details.synthetic input")
    page.press("Backspace")
    page.type(str(N_DRAWN))
    page.press("Enter")
    page.wait_for(".synthetic .downloads")
    assert "21,000 synthetic records drawn" in page.text(".synthetic .headline")
    found: dict[str, Any] = page.evaluate(_SAVE)
    assert set(found) == {"records.json", "records.csv", "records.csv.about.json"}
    whole, about = json.loads(found["records.json"]), json.loads(found["records.csv.about.json"])
    identity = str(page.evaluate("location.hash")).rpartition("/")[2]
    with Client(scene.aggregator.url, key=scene.aggregator.key) as client:
        made = client.synthesise(identity, N_DRAWN)
    # The page, the client and the command line give the same files.
    assert whole == {**made.about, "columns": made.columns}
    assert about == made.about
    assert made.statement in page.text(".synthetic")
    assert all(promise["statement"] in page.text(".synthetic") for promise in about["privacy"])
    rows = list(csv.reader(io.StringIO(found["records.csv"])))
    assert rows[0] == list(made.names)
    assert len(rows) == 1 + N_DRAWN
    first = next(iter(made.columns.values()))
    assert [float(row[0]) for row in rows[1:]] == first
    assert not page.complaints


def test_records_are_not_drawn_from_noise_and_the_page_says_so(scene: Scene) -> None:
    plan = make_plan(epsilon=Fraction(1, 200))
    study = publish(scene.aggregator, "noise", plan, SLOT, Device(810))
    decode(scene, f"{scene.aggregator.url}/#studies/{study}")
    page = scene.page
    assert "Do not use" in page.text(".verdict")
    page.evaluate("document.querySelector('.synthetic').open = true")
    page.evaluate("document.querySelector('.synthetic button').click()")
    page.wait_for(".synthetic .problem", problem=True)
    told = page.text(".synthetic .problem")
    assert "records would be drawn from noise" in told
    assert "decode more sketches" in told
    assert not page.evaluate("document.querySelector('.synthetic .downloads')")


def test_a_drawn_table_fits_a_phone(scene: Scene) -> None:
    page = scene.page
    try:
        page.resize(390)
        decode(scene, scene.url)
        page.evaluate("document.querySelector('.synthetic').open = true")
        page.evaluate("document.querySelector('.synthetic button').click()")
        page.wait_for(".synthetic .downloads")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    finally:
        page.resize(1200)
