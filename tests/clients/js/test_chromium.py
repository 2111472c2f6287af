"""Devices in a real Chromium under a real server: kills, quota, two tabs, refused storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.aggregator.ui.browser import MISSING as NO_BROWSER, PROGRAM
from tests.clients.js.devices import LIMITS, Study, add, make_report, spread
from tests.clients.js.node import MISSING, NODE
from tests.clients.js.tabs import Browser, KilledError, Tab, open_tabs
from tests.soak import small_and_soak

pytestmark = [
    pytest.mark.skipif(NODE is None, reason=MISSING),
    pytest.mark.skipif(PROGRAM is None, reason=NO_BROWSER),
]
OPTIONS = {"limits": LIMITS}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_tabs(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def run(tab: Tab, name: str, *calls: Sequence[Any], **order: Any) -> list[Any]:
    options = OPTIONS | {"name": name} | order.pop("options", {})
    return tab.run(*calls, options=options, **order)


def test_a_page_enrols_releases_and_sends_from_another_origin(
    browser: Browser, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "page")
    records = np.random.default_rng(3).normal(scale=4.0, size=(6, 2))
    tab = browser.open_tab()
    enrolled, *_, flushed, status = run(
        tab,
        "page",
        ("enrol", study.code),
        *add(records.tolist(), study.times(0, 0, 0, 1, 1, 1)),
        ("flush",),
        ("status",),
    )
    # Headless, a browser promises to keep nothing: the owner is told.
    assert all("does not promise to keep" in problem for problem in enrolled["problems"])
    assert flushed == make_report(released=2, sent=2)
    assert status["sent"] == 2
    tab.close()
    # The next tab goes on with the same device, whose key it cannot read.
    tab = browser.open_tab()
    flushed, status = run(tab, "page", ("flush",), ("status",))
    assert (flushed["waiting"], status["device"] != "") == (0, True)
    secret = tab.evaluate("showSecret()")
    assert secret == "InvalidAccessError"
    tab.close()
    study.expected.add(records)
    study.check()


@small_and_soak("n_kills", 4, 1000)
def test_a_tab_that_is_killed_at_any_place_releases_every_record_once_or_never(
    browser: Browser, server: Aggregator, client: Client, n_kills: int
) -> None:
    study = Study(server, client, f"killed tabs {n_kills}")

    def try_out(kill_at: int) -> int:
        name, n_places = f"killed at {kill_at} of {n_kills}", 0

        def end(calls: Sequence[Any]) -> list[Any]:
            nonlocal n_places
            browser.places.clear()
            tab = browser.open_tab()
            # A run may have a place less than the first.
            with suppress(KilledError):
                run(tab, name, *calls, killAt=kill_at)
            n_places = len(browser.places)
            tab.close()
            return []

        def go_on(calls: Sequence[Any]) -> list[Any]:
            tab = browser.open_tab()
            answers = run(tab, name, *calls)
            tab.close()
            return answers

        study.try_out(end, go_on, kill_at)
        return n_places

    for kill_at in spread(try_out(0), n_kills):
        try_out(kill_at)
    study.check()


def test_two_tabs_of_one_device_count_every_record_once(
    browser: Browser, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "two tabs", window={"kind": "count", "length": 3})
    records = np.random.default_rng(5).normal(scale=4.0, size=(24, 2))
    first, second = browser.open_tab(), browser.open_tab()
    run(first, "tabs", ("enrol", study.code))
    running = []
    for tab, part in ((first, records[:12]), (second, records[12:])):
        calls: list[Sequence[Any]] = []
        for record in part.tolist():
            calls += [("add", record), ("flush",)]
        running.append((tab, tab.start(*calls, options=OPTIONS | {"name": "tabs"})))
    waiting = dict(running_results(browser, running))
    assert all("error" not in str(answers) for answers in waiting.values())
    flushed, status = run(first, "tabs", ("flush",), ("status",))
    assert (flushed["waiting"], status["released"], status["sent"]) == (0, 8, 8)
    first.close()
    second.close()
    study.expected.add(records)
    study.check()


def running_results(
    browser: Browser, running: Sequence[tuple[Tab, int]]
) -> Iterator[tuple[str, Any]]:
    """Yield the answers of tabs that run at the same time, in the order in which they end."""
    numbers = {number: tab.target for tab, number in running}
    while numbers:
        answer = browser._page._read()
        if answer.get("id") in numbers:
            yield numbers.pop(answer["id"]), answer["result"]


def test_a_full_storage_loses_nothing_that_was_stored_and_says_what_to_do(
    browser: Browser, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "quota")
    records = np.random.default_rng(6).normal(scale=4.0, size=(6, 2))
    times = study.times(0, 0, 0, 1, 1, 1)
    context = browser.call("Target.createBrowserContext")["browserContextId"]
    tab = browser.open_tab(context=context)
    quota = {"origin": browser.address, "quotaSize": 1 << 20}
    browser.call("Storage.overrideQuotaForOrigin", tab.session, **quota)
    run(tab, "quota", ("enrol", study.code), *add(records[:3].tolist(), times[:3]), ("save",))
    tab.evaluate("fillStorage()")
    *_, flushed = run(tab, "quota", *add(records[3:].tolist(), times[3:]), ("flush",), keep=True)
    assert "store: is full. Free space; nothing was lost" in flushed["error"]
    assert not list(client.sketches(study.study_id))
    browser.call("Storage.overrideQuotaForOrigin", tab.session, origin=browser.address)
    # The tab still has what it could not store.
    (flushed,) = run(tab, "quota", ("flush",), keep=True)
    assert (flushed["released"], flushed["sent"], flushed["problems"]) == (2, 2, [])
    browser.call("Target.disposeBrowserContext", browserContextId=context)
    study.expected.add(records)
    study.check()


def test_a_call_ends_where_the_browser_deletes_the_data_under_it_and_the_tab_goes_on(
    browser: Browser, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "deleted")
    records = np.random.default_rng(7).normal(scale=4.0, size=(3, 2))
    context = browser.call("Target.createBrowserContext")["browserContextId"]
    tab = browser.open_tab(context=context)
    added = add(records.tolist(), study.times(0, 0, 0))
    run(tab, "deleted", ("enrol", study.code), *added, ("save",))
    tab.evaluate("holdStore()")
    flush = tab.start(("flush",), ("flush",), keep=True)
    # Answered once the calls before it have begun.
    tab.evaluate("navigator.storage.estimate().then(() => 0)")
    data = {"origin": browser.address, "storageTypes": "indexeddb"}
    browser.call("Storage.clearDataForOrigin", tab.session, **data)
    closed, gone = tab.finish(flush)["answers"]
    assert "store: was closed by the browser" in closed["error"]
    assert "Do it again; if it fails again, see whether the disk is full" in closed["error"]
    for _ in range(20):
        if "store: was closed by the browser" in gone["error"]:  # it is still at it
            (gone,) = run(tab, "deleted", ("flush",), keep=True)
    assert "has not enrolled. Call enrol(code)" in gone["error"]
    # The tab has let its lock go: another one finds the ledger gone, and enrols anew.
    other = browser.open_tab(context=context)
    *_, flushed = run(other, "deleted", ("enrol", study.code), *added, ("flush",))
    assert (flushed["released"], flushed["sent"]) == (1, 1)
    # A tab that deletes the database waits for nobody, and the next call opens it anew.
    assert other.evaluate("deleteStore()") == "deleted"
    for each in tab, other:
        (gone,) = run(each, "deleted", ("flush",), keep=True)
        assert "not enrolled" in gone["error"]
    browser.call("Target.disposeBrowserContext", browserContextId=context)
    study.expected.add(records)
    study.check()


def test_a_call_ends_where_the_store_does_not_answer_and_nothing_is_lost(
    browser: Browser, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "silent")
    records = np.random.default_rng(8).normal(scale=4.0, size=(3, 2))
    tab = browser.open_tab()
    run(tab, "silent", ("enrol", study.code), *add(records.tolist(), study.times(0, 0, 0)))
    tab.evaluate("hastenTimers()")
    tab.evaluate("holdStore()")
    (silent,) = run(tab, "silent", ("flush",), keep=True)
    assert "store: was closed by the browser, or does not answer" in silent["error"]
    tab.evaluate("freeStore()")
    (flushed,) = run(tab, "silent", ("flush",), keep=True)
    assert (flushed["released"], flushed["sent"]) == (1, 1)
    study.expected.add(records)
    study.check()


def test_where_the_browser_refuses_to_store_nothing_is_enrolled_and_the_owner_is_told(
    browser: Browser, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "refused")
    tab = browser.open_tab("sandboxed.html")
    (refused,) = run(tab, "refused", ("enrol", study.code))
    tab.close()
    assert refused["kind"] == "store"
    assert "cannot be used (SecurityError)" in refused["error"]
    assert "leave private browsing, or allow this site to store data" in refused["error"].lower()
    assert list(client.devices(study.study_id)) == []


def test_private_browsing_works_for_one_session_and_the_owner_is_told(
    browser: Browser, server: Aggregator, client: Client
) -> None:
    study = Study(server, client, "private")
    context = browser.call("Target.createBrowserContext")["browserContextId"]
    tab = browser.open_tab(context=context)
    records = np.random.default_rng(8).normal(scale=4.0, size=(3, 2))
    enrolled, *_, flushed = run(
        tab,
        "private",
        ("enrol", study.code),
        *add(records.tolist(), study.times(0, 0, 0)),
        ("flush",),
    )
    assert "private browsing never does" in enrolled["problems"][0]
    assert flushed["sent"] == 1
    browser.call("Target.disposeBrowserContext", browserContextId=context)
    # All is gone with the session: what follows is another device, with another code.
    context = browser.call("Target.createBrowserContext")["browserContextId"]
    tab = browser.open_tab(context=context)
    (refused,) = run(tab, "private", ("flush",))
    assert "has not enrolled. Call enrol(code)" in refused["error"]
    browser.call("Target.disposeBrowserContext", browserContextId=context)
    study.expected.add(records)
    study.check()
