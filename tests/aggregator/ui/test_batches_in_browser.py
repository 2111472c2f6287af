"""The batches of a secure sum on the page."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.accessibility import AXE, check_page
from tests.aggregator.batches.conftest import open_pair
from tests.aggregator.databases import find_address
from tests.aggregator.processes import read_announcement, start
from tests.aggregator.ui.browser import MISSING, PROGRAM, Page, open_browser
from tests.walking import Walk

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(PROGRAM is None, reason=MISSING)]


async def test_an_operator_sees_batches_and_sets_one_aside(tmp_path: Path) -> None:
    async with open_pair(tmp_path) as pair:
        devices = await pair.enrol(5)
        await pair.upload(*[pair.report(device) for device in devices[:4]])
        pair.end_slot()
        await pair.work()
        await pair.upload(pair.report(devices[4]))
        options = ("--no-worker", "--database", find_address(pair.server.store))
        with start(*options, stderr=subprocess.DEVNULL) as process:
            try:
                address, _ = await anyio.to_thread.run_sync(read_announcement, process)
                url = f"{address}/#studies/{pair.study.hex()}/batches"
                key = pair.server.desk.operator_key
                await anyio.to_thread.run_sync(use_page, tmp_path, url, key)
            finally:
                process.send_signal(signal.SIGTERM)
                await anyio.to_thread.run_sync(process.communicate)
        batch = (await pair.batches())[0]
        assert (batch.standing, batch.reason) == ("set-aside", "broken firmware")


def use_page(folder: Path, url: str, key: str) -> None:
    with open_browser(folder) as page:
        page.resize(1200)
        page.open(url)
        page.type(key)
        page.press("Enter")
        page.wait_for("main table")
        text = page.text()
        assert "in the sums" in text
        assert "needs 3 reports" in text
        click(page, "Set aside: slot 0")
        page.wait_for("dialog[open]")
        page.evaluate("document.querySelector('dialog input').focus()")
        page.type("broken firmware")
        page.press("Enter")
        page.wait_for(".pill.late")
        assert "set aside" in page.text()
        assert "Its total is in no sum." in page.text()
        assert page.complaints == []
        if AXE.is_file():
            with Walk() as walk:
                check_page(page, walk, "batches")


def click(page: Page, label: str) -> None:
    page.evaluate(f"document.querySelector('button[aria-label=\"{label}\"]').click()")
