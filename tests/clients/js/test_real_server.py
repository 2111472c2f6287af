"""Devices in TypeScript under a real server: with agents in Python, in sums that are exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst import Client
from deploy.demo.cluster import Aggregator
from shared.core import SketchAccumulator
from shared.plan import SketchPlan
from tests.clients.js.devices import LENGTH, NodeDevice, add, make_code, make_exact_plan
from tests.clients.js.node import MISSING, NODE
from tests.system.agents import make_agent

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)


def sum_up(plan: SketchPlan, records: np.ndarray) -> list[int]:
    accumulator = SketchAccumulator(plan.statistic_of(b""))
    accumulator.add(records)
    return [int(value) for value in accumulator.sums]


def test_an_agent_in_python_and_a_device_in_typescript_make_one_exact_sum(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    plan = make_exact_plan("one sum", labels=[{"name": "site", "values": ["north", "south"]}])
    study_id = client.create_study("one sum", plan).study_id
    rng = np.random.default_rng(7)
    records = rng.normal(scale=4.0, size=(60, 2))
    # Half of each device's records in either slot, in the order of their times.
    times = plan.window.origin + np.sort(rng.integers(0, 2, 60)) * LENGTH + np.arange(60)
    with (tmp_path / "north.csv").open("w") as file:
        file.write("time,x,y\n")
        file.writelines(
            f"{when},{x!r},{y!r}\n"
            for when, (x, y) in zip(times[::2].tolist(), records[::2].tolist(), strict=True)
        )
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
    assert flushed == {"released": 2, "sent": 2, "waiting": 0, "problems": []}
    assert again == {"released": 0, "sent": 0, "waiting": 0, "problems": []}
    assert (status["sent"], status["released"], status["shelved"]) == (2, 2, 0)
    snapshot = client.snapshot(study_id)
    assert (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records) == (4, 2, 60)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == sum_up(plan, records)
    south = client.snapshot(study_id, labels={"site": "south"}, first_slot=1)
    inside = (times[1::2] - plan.window.origin) // LENGTH == 1
    assert client.snapshot_sums(south.snapshot_id).sums == sum_up(plan, records[1::2][inside])
    assert json.loads(agent.run("status", "--json").stdout)


def test_a_device_under_every_kind_of_plan_is_taken_by_the_server(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    numbers: dict[str, Any] = {
        "dimensions": [
            {"name": "x", "unit": "m", "lower": -10.0, "upper": 10.0},
            {"name": "y", "unit": "m", "lower": -10.0, "upper": 10.0},
        ],
        "statistic": "histogram",
        "n_frequencies": None,
        "seed": None,
        "bins_log2": 3,
    }
    plain = {"epsilon": "1", "mechanism": None}
    kinds: dict[str, dict[str, Any]] = {
        "knorm": plain,
        "laplace": plain | {"mechanism": "discrete-laplace"},
        "masks": plain | {"measurements_per_record": 3, "mechanism": "discrete-laplace"},
        "split": plain | {"frequencies_per_sketch": 3},
        "count": plain | {"window": {"kind": "count", "length": 4}},
        "devices": plain | {"unit": "device", "least_records": None},
        "phases": plain
        | {"release": "phase.v1", "least_records": None, "most_records": None}
        | {"frequencies_per_sketch": 2},
        "presence": plain | {"neighbouring": "add-remove-one", "least_records": None},
        "bins": plain | numbers,
        "split bins": plain | numbers | {"dimensions_per_sketch": 1},
        "secret bins": plain | numbers | {"neighbouring": "add-remove-one", "least_records": None},
        "reported bins": plain
        | numbers
        | {"release": "phase.v1", "least_records": None, "most_records": None},
    }
    for name, changes in kinds.items():
        plan = make_exact_plan(name, **changes)
        study_id = client.create_study(name, plan).study_id
        device = NodeDevice(folder=tmp_path / name, options={})
        origin = plan.window.origin
        times = [origin + slot * LENGTH + i for slot in range(2) for i in range(4)]
        records = [[0.5 * i - 2, None if i == 3 else i] for i in range(8)]
        enrolled, *_, flushed = device.run(
            ("enrol", make_code(client, server.url, study_id)), *add(records, times), ("flush",)
        )
        assert enrolled == {"problems": []}, (name, enrolled)
        assert flushed == {"released": 2, "sent": 2, "waiting": 0, "problems": []}, name
        sketches = sorted(client.sketches(study_id), key=lambda sketch: sketch.sequence)
        expected = None if plan.releases_count else 1 if plan.protects_devices else 4
        assert [sketch.n_records for sketch in sketches] == [expected] * 2, name
        slots = None if plan.window.kind == "count" else [(0, 0), (1, 1)]
        assert [sketch.slots for sketch in sketches] == (slots or [None, None]), name
