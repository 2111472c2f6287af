"""One second look of three devices: an agent, Node, and C, whose power fails before it settles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.clients.c.building import SANITISED
from tests.clients.c.conftest import Compile
from tests.clients.c.test_real_server import OK, Device, build_device
from tests.clients.js.devices import (
    LENGTH,
    NodeDevice,
    add,
    make_code,
    make_exact_plan,
    make_report,
)
from tests.clients.js.node import MISSING, NODE
from tests.clients.js.test_real_server import sum_up
from tests.interop.test_every_plan import CLUSTERS
from tests.system.agents import make_agent

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)
EPSILON = "22800"
"""100 times what one record changes: a sum gets noise with a probability of at most exp(-100)."""
NAMES = ("python", "node", "c")


def send_from_c(device: Device, times: list[int], records: np.ndarray) -> None:
    """Add and send the records of one window; the answer gets lost with the power."""
    device.switch_on()
    assert device.call("check") == device.call("format") == device.call("start") == [OK]
    assert device.call("confirm", device.find_last()) == [OK]
    for when, (x, y) in zip(times, records.tolist(), strict=True):
        assert device.call("record", when, x.hex(), y.hex()) == [OK]
    assert device.call("tick", times[-1] + LENGTH) == [OK]
    assert device.send().status_code == 201
    device.switch_off()
    device.switch_on()
    assert device.call("start") == [OK]
    assert device.call("confirm", device.find_last()) == [OK]
    device.settle()
    assert device.call("waiting") == [OK]
    device.switch_off()


def test_three_devices_measure_the_same_clusters_and_their_sum_is_exact(
    tmp_path: Path, library: Compile, server: Aggregator, client: Client
) -> None:
    labels = [{"name": "site", "values": list(NAMES)}]
    plan = make_exact_plan("one look", **CLUSTERS, labels=labels, epsilon=EPSILON)
    study = client.create_study("one look", plan).study_id
    records = np.random.default_rng(12).normal(scale=4.0, size=(60, 2))
    # A summed value that is missing counts in no presence; an assigned one, in no cluster.
    records[[3, *range(1, 60, 6), *range(2, 60, 9)], 1] = np.nan
    records[[4, 5, 16, 29], 0] = np.nan
    own = {name: records[i::3] for i, name in enumerate(NAMES)}
    times = [plan.window.origin + i for i in range(20)]
    rows = [
        [None if np.isnan(value) else value for value in record] for record in own["node"].tolist()
    ]

    lines = [
        f"{when},{','.join('' if np.isnan(value) else repr(value) for value in record)}\n"
        for when, record in zip(times, own["python"].tolist(), strict=True)
    ]
    (tmp_path / "python.csv").write_text("time,x,y\n" + "".join(lines))
    agent = make_agent(
        tmp_path / "agent", client, study, data=tmp_path / "python.csv", site="python"
    )
    assert agent.once()["sent"] == 1

    calls = add([dict(zip("xy", row, strict=True)) for row in rows], times)
    enrol = ("enrol", make_code(client, server.url, study), {"site": "node"})
    *_, flushed = NodeDevice(folder=tmp_path / "node").run(enrol, *calls, ("flush",))
    n_unsketchable = int(np.isnan(own["node"][:, 0]).sum())
    assert flushed == make_report(released=1, sent=1) | {"unsketchable": n_unsketchable}

    device = build_device(tmp_path / "c", library, SANITISED, server, study)
    device.enrol(client.create_token(study), {"site": "c"})
    send_from_c(device, times, own["c"])

    snapshot = client.snapshot(study)
    assert (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records) == (3, 3, 60)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == sum_up(plan, records)
    for name in NAMES:
        part = client.snapshot(study, labels={"site": name})
        assert client.snapshot_sums(part.snapshot_id).sums == sum_up(plan, own[name])
    assert not client.refusals(study).items
