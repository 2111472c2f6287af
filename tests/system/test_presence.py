"""A study that hides presence, with real processes: records in, centroids out."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import plan_from_spec
from tests.system.agents import Agent, make_agent
from tests.system.test_whole_path import CENTRES, SPEC

# So long that the slot does not change while a test runs.
LENGTH = 10**6


def write_slots(path: Path, origin: int, numbers: list[int], seed: int) -> None:
    """Write so many records into each slot."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as file:
        file.write("time,x,y\n")
        for slot, number in enumerate(numbers):
            points = CENTRES[rng.integers(0, 3, number)] + rng.normal(scale=0.7, size=(number, 2))
            start = origin + slot * LENGTH
            file.writelines(f"{start + i},{x:.4f},{y:.4f}\n" for i, (x, y) in enumerate(points))


def test_two_devices_with_empty_windows_become_centroids_and_no_count_is_public(
    tmp_path: Path, server: Aggregator
) -> None:
    origin = int(time.time()) - 3 * LENGTH - LENGTH // 2
    spec: dict[str, Any] = {
        **{name: value for name, value in SPEC.items() if name != "least_records"},
        "neighbouring": "add-remove-one",
        "window": {"kind": "time", "origin": origin, "length_s": LENGTH},
    }
    with Client(server.url, key=server.key) as client:
        study_id = client.create_study("presence", plan_from_spec(spec)).study_id
        agents: list[Agent] = []
        for site, numbers in (("north", [2000, 0, 1000, 7]), ("south", [0, 2000, 0, 0])):
            write_slots(tmp_path / f"{site}.csv", origin, numbers, seed=len(agents))
            agents.append(
                make_agent(
                    tmp_path / site, client, study_id, data=tmp_path / f"{site}.csv", site=site
                )
            )
        for agent in agents:
            assert (agent.once()["released"], agent.once()["sent"]) == (3, 3)
        sketches = list(client.sketches(study_id))
        slots = sorted(sketch.slots for sketch in sketches if sketch.slots)
        assert slots == [(i, i) for i in (0, 0, 1, 1, 2, 2)]
        assert {sketch.n_records for sketch in sketches} == {None}
        assert client.study(study_id).n_records is None
        snapshot = client.snapshot(study_id)
        assert (snapshot.n_sketches, snapshot.n_devices) == (6, 2)
        # Fresh noise of six sketches: twelve standard errors have a chance below 1e-12.
        assert abs(snapshot.n_records - 5000) <= 12 * snapshot.n_records_error
        result = client.decode(study_id, n_clusters=3).wait()
        with pytest.raises(ConfigError, match="weighting"):
            client.snapshot(study_id, weighting="noise-optimal")
        # South held nothing in slot 2.
        with pytest.raises(ConfigError, match="too few records"):
            client.snapshot(study_id, first_slot=2, labels={"site": "south"})
    nearest = np.linalg.norm(result.centroids[:, None] - CENTRES[None], axis=2).min(axis=0)
    assert np.all(nearest < 0.5)
    assert "add-remove-one" in result.privacy
    assert result.snr > 1
    status = json.loads(agents[0].run("status", "--json").stdout)
    assert status["streams"][0]["open_window"]["n_records"] is None
    connection = sqlite3.connect(tmp_path / "north" / "state" / "agent.sqlite")
    assert connection.execute("SELECT DISTINCT n_records FROM outbox").fetchall() == [(None,)]
    assert connection.execute("SELECT slot, n_records FROM open_slots").fetchall() == [(3, 7)]
    connection.close()
