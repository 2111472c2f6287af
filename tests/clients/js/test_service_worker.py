"""The example of a service worker, in a real Chromium: it sends what the page has added."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from analyst import Client
from deploy.demo.cluster import Aggregator
from tests.aggregator.ui.browser import MISSING as NO_BROWSER
from tests.aggregator.ui.browser import PROGRAM, Page, open_browser
from tests.clients.js.devices import LENGTH, make_code, make_exact_plan

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=NO_BROWSER)
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "clients/js/examples/service-worker"
BUNDLE = ROOT / "aggregator/ui/assets/device/sfumato-device.js"


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def page(tmp_path: Path) -> Iterator[tuple[Page, str]]:
    pages = tmp_path / "pages"
    shutil.copytree(EXAMPLE, pages)
    shutil.copy(BUNDLE, pages)
    handler = partial(_Files, directory=str(pages))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with open_browser(tmp_path) as opened:
            yield opened, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_worker_of_the_example_sends_what_its_page_has_added(
    page: tuple[Page, str], server: Aggregator, client: Client
) -> None:
    browser, address = page
    # The example's owner allows what every owner allows.
    plan = make_exact_plan("service worker", epsilon="1")
    study = client.create_study("service worker", plan).study_id
    code = make_code(client, server.url, study)
    browser.open(f"{address}/index.html#{code}", until="#log")
    browser.wait("document.getElementById('log').textContent.includes('ready')")
    # The first slot is over long ago, and that of the page's own readings is not.
    when = 1000.0 * (plan.window.origin + LENGTH / 2)
    for x in range(4):
        browser.evaluate(f"void window.device.add([{x}, -{x}], {when})")
    browser.evaluate("window.askForFlush()")
    browser.wait("document.getElementById('log').textContent.includes('\"sent\":1')")
    (sketch,) = client.sketches(study)
    assert sketch.n_records == 4
