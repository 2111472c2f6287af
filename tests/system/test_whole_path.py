"""Real processes on the loopback address: records in, centroids out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import BIN, Aggregator
from sfumato.analyst import Client
from sfumato.shared.errors import DecodingError, NotFoundError
from sfumato.shared.plan import SketchPlan, plan_from_spec
from tests.forking import run_forked
from tests.system.agents import Agent, make_agent
from tests.system.servers import start_server

SPEC: dict[str, Any] = {
    "dimensions": [
        {"name": "x", "unit": "m", "lower": -10.0, "upper": 10.0, "scale": 1.0},
        {"name": "y", "unit": "m", "lower": -10.0, "upper": 10.0, "scale": 1.0},
    ],
    "n_frequencies": 60,
    "seed": "system tests",
    "epsilon": "20",
    "window": {"kind": "time", "origin": 0, "length_s": 1000},
    "least_records": 10,
    "most_records": 5000,
    "labels": [{"name": "site", "values": ["north", "south"]}],
}
CENTRES = np.array([[-6.0, -5.0], [0.0, 6.0], [6.0, -4.0]])


def write_records(path: Path, *, n: int, seed: int, first_time: int = 0) -> None:
    rng = np.random.default_rng(seed)
    points = CENTRES[rng.integers(0, 3, n)] + rng.normal(scale=0.7, size=(n, 2))
    with path.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output, lineterminator="\n")
        writer.writerow(["time", "x", "y"])
        for i, (x, y) in enumerate(points):
            writer.writerow([first_time + i, f"{x:.4f}", f"{y:.4f}"])


@pytest.fixture
def study_id(client: Client, request: pytest.FixtureRequest) -> str:
    # A study per test: its id comes from its name and plan.
    return client.create_study(request.node.name, plan(), allow_same_plan=True).study_id


def plan() -> SketchPlan:
    return plan_from_spec(SPEC)


@pytest.fixture
def agent(tmp_path: Path, server: Aggregator, client: Client, study_id: str) -> Agent:
    write_records(tmp_path / "records.csv", n=3000, seed=1)
    return make_agent(tmp_path / "agent", client, study_id, data=tmp_path / "records.csv")


def test_records_of_two_devices_become_centroids_close_to_the_truth(
    tmp_path: Path, server: Aggregator, client: Client, study_id: str, agent: Agent
) -> None:
    write_records(tmp_path / "more.csv", n=2000, seed=2)
    other = make_agent(
        tmp_path / "other", client, study_id, data=tmp_path / "more.csv", site="south"
    )
    first = agent.once()
    assert first["released"] == 3
    assert other.once()["released"] == 2
    # A second run on the same file releases and spends nothing.
    second = agent.once()
    assert second["released"] == 0
    assert second["epsilon_spent_lifetime"] == first["epsilon_spent_lifetime"]
    stored = list(client.sketches(study_id))
    assert sorted(sketch.sequence for sketch in stored) == [0, 0, 1, 1, 2]
    assert {sketch.n_records for sketch in stored} == {1000}
    assert len({sketch.payload_digest for sketch in stored}) == 5
    snapshot = client.snapshot(study_id)
    assert (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records) == (5, 2, 5000)
    assert client.snapshot(study_id, labels={"site": "north"}).n_sketches == 3
    assert client.snapshot(study_id, first_slot=1, last_slot=1).n_records == 2000
    decode = client.decode(study_id, n_clusters=3)
    result = decode.wait()
    nearest = np.linalg.norm(result.centroids[:, None] - CENTRES[None], axis=2).min(axis=0)
    assert np.all(nearest < 0.5)
    assert "replace-one" in result.privacy
    assert result.snr > 1
    # The same request is the same decode.
    again = client.decode(study_id, n_clusters=3)
    assert again.decode_id == decode.decode_id
    assert np.array_equal(again.wait().centroids, result.centroids)
    assert client.decode(study_id, n_clusters=3, seed=1).decode_id != decode.decode_id
    with pytest.raises(DecodingError, match="n_clusters"):
        client.decode(study_id, n_clusters=1000).wait()
    with pytest.raises(NotFoundError):
        client.decode("00" * 32, n_clusters=3)


def test_sketches_wait_while_the_server_is_away_and_arrive_unchanged(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    first = start_server(folder)
    with Client(first.url, key=first.key) as client:
        study_id = client.create_study("restart", plan(), allow_same_plan=True).study_id
        write_records(tmp_path / "records.csv", n=2000, seed=3)
        agent = make_agent(tmp_path / "agent", client, study_id, data=tmp_path / "records.csv")
    first.stop()
    away = agent.run("once", "--json", "--send-for", "0")
    assert away.returncode == 75
    assert json.loads(away.stdout)["waiting"] == 2
    # The device keeps the address, so the server comes back on the same port.
    again = start_server(folder, port=int(first.url.rpartition(":")[2]))
    try:
        report = agent.once()
        with Client(again.url, key=again.key) as client:
            assert (report["released"], report["sent"]) == (0, 2)
            assert client.study(study_id).n_sketches == 2
    finally:
        again.stop()


def test_while_the_study_is_closed_a_device_releases_and_spends_nothing_and_says_so(
    client: Client, study_id: str, agent: Agent
) -> None:
    client.set_state(study_id, "closed")
    report = json.loads(agent.run("once", "--json").stdout)
    assert (report["released"], report["epsilon_spent_per_record"]) == (0, "0")
    assert "the study is closed" in json.dumps(report)
    client.set_state(study_id, "open")
    report = agent.once()
    assert (report["released"], report["sent"], report["shelved"]) == (3, 3, 0)
    assert report["epsilon_spent_per_record"] == "20"


def test_the_server_refuses_plain_http_beyond_loopback(tmp_path: Path) -> None:
    options = ["--host", "0.0.0.0", "--database", str(tmp_path / "x.sqlite")]
    done = run_forked([BIN / "sfumato", "serve", *options])
    assert done.returncode == 2
    assert "--behind-proxy" in done.stderr
