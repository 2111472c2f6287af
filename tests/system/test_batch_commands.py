"""`sfumato batch` against a server on real batches."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import anyio
import pytest

from sfumato.shared.command import main
from tests.aggregator.batches.conftest import open_pair
from tests.aggregator.databases import find_address
from tests.aggregator.processes import read_announcement, start

pytestmark = pytest.mark.anyio


def run(*words: str, status: int = 0) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        done = main(["batch", *words])
    assert done == status, err.getvalue()
    return out.getvalue() + err.getvalue()


async def test_batches_are_listed_shown_set_aside_and_admitted_by_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_pair(tmp_path) as pair:
        devices = await pair.enrol(5)
        await pair.upload(*[pair.report(device) for device in devices[:4]])
        pair.end_slot()
        await pair.work()
        await pair.upload(pair.report(devices[4]))
        await pair.upload(*[pair.report(each, sequence=1, slot=1) for each in devices[:3]])
        opened, waiting, full = (each.batch_id.hex() for each in await pair.batches())
        monkeypatch.setenv("SFUMATO_KEY", pair.server.desk.operator_key)
        options = ("--no-worker", "--database", find_address(pair.server.store))
        with start(*options, stderr=subprocess.DEVNULL) as process:
            address, _ = await anyio.to_thread.run_sync(read_announcement, process)
            monkeypatch.setenv("SFUMATO_URL", address)
            with contextlib.ExitStack() as stack:
                stack.callback(process.send_signal, signal.SIGTERM)
                await anyio.to_thread.run_sync(use_commands, opened, waiting, full)


def use_commands(opened: str, waiting: str, full: str) -> None:
    listed = run("list", "pumps")
    assert "acknowledged" in listed
    assert "needs 3 reports" in listed
    assert opened in listed
    both = json.loads(run("list", "pumps", "--json"))
    assert [each["state"] for each in both] == ["open", "open", "acknowledged"]
    shown = run("show", "pumps", opened[:8])
    assert f"batch {opened}\n" in shown
    assert "counted" in shown
    assert "8" in shown
    refused = run("open", "pumps", waiting, status=2)
    assert "has 1 report(s), and the plan's least_reports is 3" in refused
    assert "asked" not in run("show", "pumps", full)
    assert "now: an operator asked for it" in run("open", "pumps", full)
    assert "closes now: an operator asked for it" in run("list", "pumps")
    aside = run("set-aside", "pumps", opened, "--reason", "broken firmware")
    assert "set-aside" in aside
    assert "broken firmware" in aside
    assert "counted" in run("admit", "pumps", opened, "--reason", "it was not")
    given_up = run("give-up", "pumps", waiting, "--reason", "the helper was dissolved")
    assert "void" in given_up
    assert "the helper was dissolved" in run("list", "pumps")
    assert "nobody is suspected" in run("suspects", "pumps")
