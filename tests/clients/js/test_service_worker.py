"""The example of a service worker, in a real Chromium: it sends what the page has added."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.aggregator.ui.browser import MISSING as NO_BROWSER, PROGRAM, open_browser
from tests.clients.js.devices import LENGTH, make_code, make_exact_plan
from tests.clients.js.tabs import serve_files

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=NO_BROWSER)
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "clients/js/examples/service-worker"
BUNDLE = ROOT / "aggregator/ui/assets/device/sfumato-device.js"


def test_the_worker_of_the_example_sends_what_its_page_has_added(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    pages = tmp_path / "pages"
    shutil.copytree(EXAMPLE, pages)
    shutil.copy(BUNDLE, pages)
    # The example's owner allows what every owner allows.
    origin = int(time.time()) - 7 * LENGTH // 2
    window = {"kind": "time", "origin": origin, "length_s": LENGTH}
    plan = make_exact_plan("service worker", epsilon="1", window=window)
    study = client.create_study("service worker", plan).study_id
    code = make_code(client, server.url, study)
    with serve_files(pages) as address, open_browser(tmp_path) as browser:
        browser.open(f"{address}/index.html#{code}", until="#log")
        browser.wait("document.getElementById('log').textContent.includes('ready')")
        # Three slots are over long ago, and that of the page's own readings is not.
        for slot in range(3):
            when = 1000.0 * (origin + slot * LENGTH + LENGTH / 2)
            for x in range(4):
                browser.evaluate(f"void window.device.add([{x}, -{x}], {when})")
        browser.evaluate("window.askForFlush()")
        browser.wait("document.getElementById('log').textContent.includes('\"sent\":3')")
    assert [sketch.n_records for sketch in client.sketches(study)] == [4, 4, 4]
