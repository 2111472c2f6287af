"""A server that loses its database, and gets everything again from a backup and its devices."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared import command
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.wire import decode_message, decode_payload
from sfumato.shared.wire.objects.results import SnapshotBody
from tests.commands import run_inside
from tests.system.agents import Agent, make_agent
from tests.system.servers import start_server
from tests.system.test_whole_path import SPEC, write_records


def sum_sent(agents: list[Agent], width: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sum what the agents keep of all that they ever sent."""
    total = np.zeros(2 * SPEC["n_frequencies"], dtype=np.int64)
    for agent in agents:
        with closing(sqlite3.connect(agent.config.parent / "state" / "agent.sqlite")) as outbox:
            for (message,) in outbox.execute("SELECT message FROM outbox"):
                payload = decode_message(message).payload
                total += decode_payload(payload, width=width, n_coordinates=total.size)
    return total


def read_sums(server: Aggregator, snapshot: SnapshotBody) -> list[int]:
    """Read the exact sums of a snapshot, which are not among what the client shows of it."""
    answer = httpx.get(
        f"{server.url}/v1/snapshots/{snapshot.snapshot_id}",
        headers={"Authorization": f"Bearer {server.key}"},
    )
    return list(answer.raise_for_status().json()["sums"])


def run(*arguments: str) -> str:
    done = run_inside(command.main, arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def append_records(path: Path, *, n: int, seed: int, first_time: int) -> None:
    more = path.with_suffix(".more")
    write_records(more, n=n, seed=seed, first_time=first_time)
    with path.open("a") as file:
        file.writelines(more.read_text().splitlines(keepends=True)[1:])


def test_devices_send_a_restored_server_what_it_lost_and_nothing_counts_twice(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    database, saved = folder / "aggregator.sqlite", tmp_path / "saved.db"
    plan = plan_from_spec(SPEC)
    server = start_server(folder)
    try:
        agents = []
        with Client(server.url, key=server.key) as client:
            study = client.create_study("restored", plan).study_id
            for number, site in enumerate(("north", "south")):
                data = tmp_path / f"{site}.csv"
                write_records(data, n=2000, seed=number)
                agents.append(make_agent(tmp_path / site, client, study, data=data, site=site))
        assert [agent.once()["released"] for agent in agents] == [2, 2]
        # Taken while the server is at work.
        run("backup", str(saved), "--database", str(database))
        for number, site in enumerate(("north", "south")):
            append_records(tmp_path / f"{site}.csv", n=3000, seed=10 + number, first_time=2000)
        assert [agent.once()["released"] for agent in agents] == [3, 3]
        port = int(server.url.rsplit(":", 1)[1])
        server.stop()
        for left in folder.glob("aggregator.sqlite*"):
            left.rename(tmp_path / f"broken-{left.name}")
        said = run("restore", str(saved), "--database", str(database))
        assert said.startswith("generation ")
        # With a key of its own: that of the first start is in the backup as well.
        server = start_server(folder, port=port)
        with Client(server.url, key=server.key) as client:
            assert client.snapshot(study).n_sketches == 4
            for agent in agents:
                assert "was restored from a backup" in " ".join(agent.once()["messages"])
            # Once more, and there is nothing left to do.
            for agent in agents:
                assert agent.once()["messages"] == []
            snapshot = client.snapshot(study)
            sums = read_sums(server, snapshot)
        assert (snapshot.n_sketches, snapshot.n_records) == (10, 10_000)
        assert np.array_equal(sums, sum_sent(agents, plan.payload_width))
    finally:
        server.stop()
