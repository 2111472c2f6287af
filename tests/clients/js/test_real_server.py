"""Devices in TypeScript under a real server: with agents in Python, in sums that are exact."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from deploy.demo.secure_sum import Helper
from sfumato.analyst import Client
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan
from tests.clients.js.devices import (
    NodeDevice,
    add,
    make_code,
    make_exact_plan,
    make_report,
)
from tests.clients.js.node import MISSING, NODE
from tests.device_agent.daemons import wait_until
from tests.system.agents import CONFIG, Agent
from tests.system.servers import start_server

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)


def sum_up(plan: SketchPlan, records: np.ndarray) -> list[int]:
    accumulator = SketchAccumulator(plan.statistic_of(b""))
    accumulator.add(records)
    return [int(value) for value in accumulator.sums]


def write_csv(path: Path, times: Sequence[float], records: Sequence[Sequence[float]]) -> None:
    rows = [f"{when},{x!r},{y!r}\n" for when, (x, y) in zip(times, records, strict=True)]
    path.write_text("time,x,y\n" + "".join(rows))


def test_devices_in_both_languages_make_one_secure_sum_that_two_servers_open_exactly(
    tmp_path: Path,
) -> None:
    draft = make_exact_plan(
        "secure sum",
        release="sum.v1",
        least_reports=2,
        most_reports=2,
        most_records=20,
        most_sketches_per_device=None,
        most_sketches=None,
    )
    helper = Helper.start(tmp_path / "helper", draft)
    leader = None
    try:
        settings = {"SFUMATO_HELPER_URL": helper.url, "SFUMATO_HELPER_API_KEY": helper.key}
        leader = start_leader(tmp_path, settings)
        with Client(leader.url, key=leader.key) as client:
            check_secure_sum(tmp_path, leader, client, helper.plan)
    finally:
        if leader is not None:
            leader.stop()
        helper.stop()


def start_leader(folder: Path, settings: dict[str, str]) -> Aggregator:
    with mock.patch.dict(os.environ, settings):
        return start_server(folder, worker=True)


def check_secure_sum(folder: Path, leader: Aggregator, client: Client, plan: SketchPlan) -> None:
    study_id = client.create_study("secure sum", plan).study_id
    fingerprint = plan.helper.fingerprint.hex()
    records = np.random.default_rng(9).normal(scale=4.0, size=(6, 2))
    times = [plan.window.origin + i for i in range(3)]
    write_csv(folder / "records.csv", times, records[:3].tolist())
    agent = folder / "agent.toml"
    agent.write_text(
        CONFIG.replace('[labels]\nsite = "{site}"\n', "").format(
            state=folder / "state",
            url=leader.url,
            study_id=study_id,
            data=folder / "records.csv",
        )
        + f'[policy]\nreleases = ["sum.v1"]\nhelpers = ["{fingerprint}"]\n'
    )
    python = Agent(config=agent)
    done = python.run("init", "--token", client.create_token(study_id))
    assert done.returncode == 0, done.stderr
    assert python.once()["sent"] == 1
    device = NodeDevice(folder=folder / "device")
    code = make_code(client, leader.url, study_id)
    # An owner must allow it, and trust this very helper.
    (refused,) = device.run(("enrol", code))
    assert refused["field"] == "secureSum"
    (refused,) = device.run(("enrol", code), helpers=["00" * 32])
    assert f"whose identity is {fingerprint}" in refused["error"]
    calls = [("enrol", code), *add(records[3:].tolist(), times), ("flush",)]
    *_, flushed = device.run(*calls, helpers=[fingerprint])
    assert flushed == make_report(released=1, sent=1)
    # It is full, so the worker closes it, and both servers open it.
    wait_until(lambda: [each.state for each in client.batches(study_id)] == ["acknowledged"])
    snapshot = client.snapshot(study_id)
    assert snapshot.n_records == len(records)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == sum_up(plan, records)
