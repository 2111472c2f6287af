"""Real processes on the loopback address: records in, centroids out."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import BIN, Aggregator
from sfumato.analyst import Client
from sfumato.shared.errors import DecodingError, NotFoundError
from sfumato.shared.plan import SketchPlan, plan_from_spec
from tests.forking import put_programs, run_forked
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


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregator]:
    running = start_server(tmp_path_factory.mktemp("aggregator"), worker=True)
    yield running
    running.stop()


@pytest.fixture
def client(aggregator: Aggregator) -> Iterator[Client]:
    with Client(aggregator.url, key=aggregator.key) as connected:
        yield connected


@pytest.fixture
def study_id(client: Client, request: pytest.FixtureRequest) -> str:
    # A study per test: its id comes from its name and plan.
    return client.create_study(request.node.name, plan(), allow_same_plan=True).study_id


def plan() -> SketchPlan:
    return plan_from_spec(SPEC)


@pytest.fixture
def agent(tmp_path: Path, aggregator: Aggregator, client: Client, study_id: str) -> Agent:
    write_records(tmp_path / "records.csv", n=3000, seed=1)
    return make_agent(
        tmp_path / "agent",
        data=tmp_path / "records.csv",
        url=aggregator.url,
        study_id=study_id,
        site="north",
        token=client.create_token(study_id),
    )


def test_records_of_two_devices_become_centroids_close_to_the_truth(
    tmp_path: Path, aggregator: Aggregator, client: Client, study_id: str, agent: Agent
) -> None:
    write_records(tmp_path / "more.csv", n=2000, seed=2)
    other = make_agent(
        tmp_path / "other",
        data=tmp_path / "more.csv",
        url=aggregator.url,
        study_id=study_id,
        site="south",
        token=client.create_token(study_id),
    )
    assert agent.once()["released"] == 3
    assert other.once()["released"] == 2
    snapshot = client.snapshot(study_id)
    assert (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records) == (5, 2, 5000)
    result = client.decode(study_id, n_clusters=3).wait()
    nearest = np.linalg.norm(result.centroids[:, None] - CENTRES[None], axis=2).min(axis=0)
    assert np.all(nearest < 0.5)
    assert "replace-one" in result.privacy
    assert result.snr > 1


def test_a_label_or_slots_select_sketches(client: Client, study_id: str, agent: Agent) -> None:
    agent.once()
    assert client.snapshot(study_id, labels={"site": "north"}).n_sketches == 3
    assert client.snapshot(study_id, first_slot=1, last_slot=1).n_records == 1000


def test_the_same_request_is_the_same_decode(client: Client, study_id: str, agent: Agent) -> None:
    agent.once()
    first = client.decode(study_id, n_clusters=3)
    result = first.wait()
    again = client.decode(study_id, n_clusters=3)
    assert again.decode_id == first.decode_id
    assert np.array_equal(again.wait().centroids, result.centroids)
    assert client.decode(study_id, n_clusters=3, seed=1).decode_id != first.decode_id


def test_a_second_run_on_the_same_file_releases_and_spends_nothing(
    client: Client, study_id: str, agent: Agent
) -> None:
    first = agent.once()
    second = agent.once()
    assert (first["released"], second["released"]) == (3, 0)
    assert second["epsilon_spent_lifetime"] == first["epsilon_spent_lifetime"]
    assert client.study(study_id).n_sketches == 3


def test_what_is_sent_is_what_is_stored_and_holds_no_record(
    client: Client, study_id: str, agent: Agent
) -> None:
    agent.once()
    stored = list(client.sketches(study_id))
    assert sorted(sketch.sequence for sketch in stored) == [0, 1, 2]
    assert {sketch.n_records for sketch in stored} == {1000}
    assert len({sketch.payload_digest for sketch in stored}) == 3


def test_sketches_wait_while_the_server_is_away_and_arrive_unchanged(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    first = start_server(folder)
    with Client(first.url, key=first.key) as client:
        study_id = client.create_study("restart", plan(), allow_same_plan=True).study_id
        write_records(tmp_path / "records.csv", n=2000, seed=3)
        agent = make_agent(
            tmp_path / "agent",
            data=tmp_path / "records.csv",
            url=first.url,
            study_id=study_id,
            site="north",
            token=client.create_token(study_id),
        )
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


def test_decoding_an_unknown_study_or_too_many_clusters_is_refused(
    client: Client, study_id: str, agent: Agent
) -> None:
    with pytest.raises(NotFoundError):
        client.decode("00" * 32, n_clusters=3)
    agent.once()
    with pytest.raises(DecodingError, match="n_clusters"):
        client.decode(study_id, n_clusters=1000).wait()


def test_the_server_refuses_plain_http_beyond_loopback(tmp_path: Path) -> None:
    options = ["--host", "0.0.0.0", "--database", str(tmp_path / "x.sqlite")]
    done = run_forked([BIN / "sfumato", "serve", *options])
    assert done.returncode == 2
    assert "--behind-proxy" in done.stderr


INHERITING = """\
from tests import forking
forking.refuse_bare_names()
from deploy.demo import cluster
scope = forking.forking_in(cluster)
scope.__enter__()
"""


def test_the_demo_ends_with_one_json_line_and_a_picture_and_shows_the_seasons(
    tmp_path: Path,
) -> None:
    script = Path(__file__).parents[2] / "deploy" / "demo" / "run_demo.py"
    picture = tmp_path / "weather.png"
    command = [sys.executable, str(script), "--json", "--keep", "--picture", str(picture)]
    # Every process of the demo fails if it loads a room by its bare name, from the checkout.
    (tmp_path / "sitecustomize.py").write_text(INHERITING)
    options = put_programs(tmp_path)
    options["env"]["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(script.parents[2])])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == ""
    assert running.returncode == 0
    figures = json.loads(line)
    assert (figures["sketches"], figures["records"]) == (12, 26115)
    assert figures["bytes_sent"] < 20_000 < figures["raw_bytes"]
    # Noise is fresh at every run: a bound that a broken path misses, not a measure of quality.
    assert 1.0 <= figures["relative_sse"] < 3.0
    assert 120 < figures["snr"] < 400
    assert 3.3 < figures["snr"] / figures["snr_with_laplace"] < 4.2
    # Without the histogram it is 3 % of the records.
    assert figures["synthetic"]["range_error"] < 0.025
    assert figures["synthetic"]["correlation_error"] < 0.2
    assert picture.read_bytes().startswith(b"\x89PNG")
    # The difference has over ten standard errors, so that noise hides it in no run.
    assert any(first.split()[1] in ("September", "October") for first, _ in figures["alarms"])


def test_the_demo_of_phones_ends_with_one_json_line_and_a_picture(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "deploy" / "demo" / "run_demo.py"
    picture = tmp_path / "phones.png"
    done = subprocess.run(
        [
            sys.executable, str(script),
            "--phones", "--devices", "3000", "--json", "--picture", str(picture),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert (figures["phones"], figures["bytes_a_report"]) == (3000, 2)
    # Noise is fresh at every run: a bound that a broken path misses, not a measure of quality.
    assert 1.0 <= figures["relative_sse"] < 2.2
    assert picture.read_bytes().startswith(b"\x89PNG")
