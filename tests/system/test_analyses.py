"""Analyses by commands and by the client, from a server with a worker of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import AsyncClient, Client
from sfumato.shared import command
from sfumato.shared.errors import ConfigError, DecodingError
from tests.aggregator.changing import N_SLOTS, fill
from tests.aggregator.fleet import SLOT, Desk, Device
from tests.analyst.planning.commands import words_of


@dataclass(frozen=True)
class Study:
    """A study whose records change at the fourth of six slots, on a server."""

    url: str
    key: str
    study_id: str


@pytest.fixture(scope="module")
def study(server: Aggregator) -> Study:
    async def publish() -> bytes:
        async with httpx.AsyncClient(base_url=server.url) as http:
            return await fill(Desk(http, server.key, server.key), n_devices=6)

    return Study(server.url, server.key, anyio.run(publish).hex())


@pytest.fixture(autouse=True)
def environment(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("URL", study.url), ("KEY", study.key)):
        monkeypatch.setenv(f"SFUMATO_{name}", value)
    monkeypatch.setenv("COLUMNS", "160")


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert command.main([*arguments]) == status, capsys.readouterr()
    return words_of(capsys.readouterr().out)


def ask(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert command.main([*arguments, "--json"]) == status, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


def test_two_stretches_are_compared_by_a_command_whose_status_is_the_answer(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = f"pumps@{SLOT}:{SLOT + 2}", f"pumps@{SLOT + 3}:{SLOT + 5}"
    words = run(capsys, "compare", before, after, "-k", "3", status=1)
    assert "they differ" in words
    assert "moved in flow by" in words
    assert "assumes independent records" in words
    found = ask(capsys, "compare", before, after, "-k", "3", status=1)
    asked = client.compare(
        "pumps",
        {"first_slot": SLOT, "last_slot": SLOT + 2},
        {"first_slot": SLOT + 3, "last_slot": SLOT + 5},
        n_clusters=3,
    )
    # The same request is the same analysis, and its result never changes.
    result = asked.wait()
    assert result.to_json() == found
    assert (result.is_alarm, asked.analysis_id) == (True, found["analysis_id"])
    frame = result.to_frame()
    assert len(frame) == len(found["changes"]) == 3 * (2 + 2)
    assert set(frame["dimension"].dropna()) == {"pressure", "flow"}


def test_days_labels_and_snapshots_are_selections_too(
    client: Client, study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    north, south = "pumps@site=north", "pumps@site=south"
    same = ask(capsys, "compare", north, south, "-k", "3", "--level", "0.0001")
    assert not same["is_alarm"]
    # All six slots are on one day.
    day = ask(
        capsys, "compare", f"{north},1970-01-21", f"{south},1970-01", "-k", "3", "--level", "0.0001"
    )
    assert [day[name] for name in ("p", "size")] == [same[name] for name in ("p", "size")]
    ids = [
        client.snapshot("pumps", labels={"site": site}).snapshot_id for site in ("north", "south")
    ]
    here = ask(capsys, "compare", *ids, "-k", "3", "--level", "0.0001")
    assert here["p"] == pytest.approx(same["p"])
    assert here["snapshots"] == same["snapshots"]
    assert command.main(["compare", north, "pumps", "-k", "3"]) == 2
    assert "must not overlap: 18 sketches are in both" in words_of(capsys.readouterr().err)
    with pytest.raises(ConfigError, match=r"first\.begin: is not a known member"):
        client.compare("pumps", {"begin": 1}, {}, n_clusters=3)  # type: ignore[typeddict-unknown-key]


def test_a_timeline_marks_the_change_and_the_history_lists_it(
    client: Client, study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    words = run(capsys, "timeline", "pumps", "-k", "3")
    assert f"a change at 1970-01-21 03:00 (slot {SLOT + 3})" in words
    found = ask(capsys, "timeline", "pumps", "-k", "3")
    assert [point["window"] for point in found["change_points"]] == [3]
    frame = client.timeline("pumps", n_clusters=3).wait().to_frame("polars")
    assert frame.height == N_SLOTS * 3
    assert {"centre of flow", "error of flow", "weight", "p"} <= set(frame.columns)
    history = ask(capsys, "analysis", "list", "pumps")
    assert found["analysis_id"] in [entry["analysis_id"] for entry in history]
    listed = run(capsys, "analysis", "list", "pumps")
    assert found["analysis_id"] in listed
    shown = run(capsys, "analysis", "show", found["analysis_id"])
    assert "a change at" in shown
    assert ask(capsys, "analysis", "watch", found["analysis_id"]) == found
    state = ask(capsys, "analysis", "cancel", found["analysis_id"])
    assert state["state"] == "succeeded"


def test_groups_and_devices_have_tables(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    words = run(capsys, "groups", "pumps", "site", "-k", "3")
    assert "north" in words
    found = ask(capsys, "groups", "pumps", "site", "-k", "3")
    assert found["values"] == ["north", "south"]
    assert client.groups("pumps", "site", n_clusters=3).wait().to_frame().shape == (1, 5)
    listed = run(capsys, "device", "health", "pumps", "-k", "3")
    assert Device(1).device_id.hex() in listed
    # No size stands without its error.
    assert listed.count(" +- ") == 6
    health = client.device_health("pumps", n_clusters=3).wait()
    frame = health.to_frame()
    assert len(frame) == 6
    assert set(frame["label site"]) == {"north", "south"}
    assert health.body.n_dropped == 0


def test_what_cannot_be_answered_is_refused_with_its_fix(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["groups", "pumps", "floor", "-k", "3"]) == 2
    assert "label: must be a label that the plan declares" in words_of(capsys.readouterr().err)
    assert command.main(["timeline", "pumps", "-k", "3", "--from", "1970-02"]) == 2
    assert "first_slot" in words_of(capsys.readouterr().err)
    with pytest.raises(DecodingError, match="n_clusters"):
        client.timeline("pumps", n_clusters=10_000)
    with pytest.raises(ConfigError, match="n_clusters: must be at least 1"):
        client.groups("pumps", "site", n_clusters=0)


def test_both_clients_follow_an_analysis_alike(client: Client, study: Study) -> None:
    async def follow() -> Any:
        async with AsyncClient(study.url, key=study.key) as opened:
            running = await opened.groups("pumps", "site", n_clusters=2, seed=7)
            shares: list[float] = []
            result = await running.wait(progress=shares.append, timeout=600.0)
            entries = [entry async for entry in opened.analyses("pumps")]
            return result, shares, entries

    result, shares, entries = anyio.run(follow)
    assert shares[-1] == 1.0
    assert result.body == client.groups("pumps", "site", n_clusters=2, seed=7).wait().body
    assert entries[0].analysis_id == result.analysis_id
    assert entries[0].words == list(result.words)
    assert str(result).startswith(result.words[0])
    assert "<li>" in result._repr_html_()
