"""Devices in TypeScript under a real server: with agents in Python, in sums that are exact."""

from __future__ import annotations

import json
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
    LENGTH,
    NodeDevice,
    add,
    make_code,
    make_exact_plan,
    make_report,
)
from tests.clients.js.node import MISSING, NODE
from tests.device_agent.daemons import wait_until
from tests.system.agents import CONFIG, Agent, make_agent
from tests.system.servers import start_server

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)


def sum_up(plan: SketchPlan, records: np.ndarray) -> list[int]:
    accumulator = SketchAccumulator(plan.statistic_of(b""))
    accumulator.add(records)
    return [int(value) for value in accumulator.sums]


def write_csv(path: Path, times: Sequence[float], records: Sequence[Sequence[float]]) -> None:
    rows = [f"{when},{x!r},{y!r}\n" for when, (x, y) in zip(times, records, strict=True)]
    path.write_text("time,x,y\n" + "".join(rows))


def test_an_agent_in_python_and_a_device_in_typescript_make_one_exact_sum(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    plan = make_exact_plan("one sum", labels=[{"name": "site", "values": ["north", "south"]}])
    study_id = client.create_study("one sum", plan).study_id
    rng = np.random.default_rng(7)
    records = rng.normal(scale=4.0, size=(60, 2))
    # Half of each device's records in either slot, in the order of their times.
    times = plan.window.origin + np.sort(rng.integers(0, 2, 60)) * LENGTH + np.arange(60)
    write_csv(tmp_path / "north.csv", times[::2].tolist(), records[::2].tolist())
    agent = make_agent(
        tmp_path / "north",
        data=tmp_path / "north.csv",
        url=server.url,
        study_id=study_id,
        site="north",
        token=client.create_token(study_id),
    )
    assert agent.once()["sent"] == 2
    device = NodeDevice(folder=tmp_path / "south")
    code = make_code(client, server.url, study_id)
    named = [dict(zip("xy", record, strict=True)) for record in records[1::2].tolist()]
    *_, flushed, again, status = device.run(
        ("enrol", code, {"site": "south"}),
        *add(named, times[1::2].tolist()),
        ("flush",),
        ("flush",),
        ("status",),
    )
    assert flushed == make_report(released=2, sent=2)
    assert again == make_report()
    assert (status["sent"], status["released"], status["shelved"]) == (2, 2, 0)
    snapshot = client.snapshot(study_id)
    assert (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records) == (4, 2, 60)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == sum_up(plan, records)
    south = client.snapshot(study_id, labels={"site": "south"}, first_slot=1)
    inside = (times[1::2] - plan.window.origin) // LENGTH == 1
    assert client.snapshot_sums(south.snapshot_id).sums == sum_up(plan, records[1::2][inside])
    assert json.loads(agent.run("status", "--json").stdout)


def test_devices_in_both_languages_make_one_secure_sum_that_two_servers_open_exactly(
    tmp_path: Path,
) -> None:
    draft = make_exact_plan(
        "secure sum",
        release="sum.v1",
        least_reports=3,
        most_reports=3,
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
    records = np.random.default_rng(9).normal(scale=4.0, size=(9, 2))
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
    for i in range(2):
        device = NodeDevice(folder=folder / f"device {i}")
        code = make_code(client, leader.url, study_id)
        # An owner must allow it, and trust this very helper.
        (refused,) = device.run(("enrol", code))
        assert refused["field"] == "secureSum"
        (refused,) = device.run(("enrol", code), helpers=["00" * 32])
        assert f"whose identity is {fingerprint}" in refused["error"]
        own = records[3 * i + 3 : 3 * i + 6].tolist()
        calls = [("enrol", code), *add(own, times), ("flush",)]
        *_, flushed = device.run(*calls, helpers=[fingerprint])
        assert flushed == make_report(released=1, sent=1)
    # It is full, so the worker closes it, and both servers open it.
    wait_until(lambda: [each.state for each in client.batches(study_id)] == ["acknowledged"])
    snapshot = client.snapshot(study_id)
    assert snapshot.n_records == len(records)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == sum_up(plan, records)
