"""One sum of four devices in three languages: an agent, Node, Chromium, and C in an emulator.

The device in C sends through a relay, which is killed, and whose power fails before it has settled.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import PayloadForm, decode_message, decode_payload
from tests.aggregator.ui.browser import MISSING as NO_BROWSER, PROGRAM
from tests.clients.c.building import HAS_ARM, IN_CI, NO_ARM, ON_ARM
from tests.clients.c.conftest import Compile
from tests.clients.c.test_real_server import OK, Device, build_device
from tests.clients.js.devices import (
    LENGTH,
    LIMITS,
    NodeDevice,
    add,
    make_code,
    make_exact_plan,
    make_report,
)
from tests.clients.js.node import MISSING, NODE
from tests.clients.js.tabs import Browser
from tests.clients.js.test_real_server import sum_up, write_csv
from tests.device_agent.relay.sensors import Relay, relay_in
from tests.system.agents import make_agent

pytestmark = [
    pytest.mark.skipif(NODE is None, reason=MISSING),
    pytest.mark.skipif(PROGRAM is None, reason=NO_BROWSER),
    pytest.mark.skipif(not (HAS_ARM or IN_CI), reason=NO_ARM),
]
NAMES = ("python", "node", "chromium", "c")
LABELS = [{"name": "site", "values": list(NAMES)}]


def read_payloads(server: Aggregator, study: str) -> dict[bytes, bytes]:
    """Return the stored payloads of a study, by the sketch's identity."""
    connection = sqlite3.connect(server.log.parent / "aggregator.sqlite")
    try:
        rows = connection.execute(
            "SELECT sketch_id, payload FROM sketches WHERE study_id = ?", (bytes.fromhex(study),)
        )
        return dict(rows.fetchall())
    finally:
        connection.close()


def send_by_relay(device: Device, relay: Relay, records: Sequence[tuple[float, Any]]) -> bytes:
    """Add records of one window, release and send it, with accidents; return the message."""
    device.switch_on()
    assert device.call("check") == device.call("format") == device.call("start") == [OK]
    assert device.call("confirm", device.find_last()) == [OK]
    for when, (x, y) in records:
        assert device.call("record", when, x.hex(), y.hex()) == [OK]
    assert device.call("tick", records[-1][0] + LENGTH) == [OK]
    _, _, message = device.call("waiting")
    assert device.send().status_code == 201
    # Both fail: the device sends the same again, and the relay still has the receipt.
    relay.kill()
    device.switch_off()
    relay.start()
    device.switch_on()
    assert device.call("start") == [OK]
    assert device.call("confirm", device.find_last()) == [OK]
    device.settle()
    assert device.call("waiting") == [OK]
    device.switch_off()
    return bytes.fromhex(message)


def test_four_devices_make_one_sum_that_is_exact(
    tmp_path: Path, library: Compile, server: Aggregator, client: Client, browser: Browser
) -> None:
    plan: SketchPlan = make_exact_plan("four clients", labels=LABELS)
    study = client.create_study("four clients", plan).study_id
    records = np.random.default_rng(11).normal(scale=4.0, size=(48, 2))
    own = {name: records[i::4] for i, name in enumerate(NAMES)}
    times = [plan.window.origin + i for i in range(12)]

    write_csv(tmp_path / "python.csv", times, own["python"].tolist())
    agent = make_agent(
        tmp_path / "python", client, study, data=tmp_path / "python.csv", site="python"
    )
    assert agent.once()["sent"] == 1

    code = make_code(client, server.url, study, n_devices=2)

    def take_part(name: str) -> list[Any]:
        named = [dict(zip("xy", record, strict=True)) for record in own[name].tolist()]
        return [("enrol", code, {"site": name}), *add(named, times), ("flush",), ("flush",)]

    once = make_report(released=1, sent=1)
    nothing = make_report()
    *_, flushed, again = NodeDevice(folder=tmp_path / "node").run(*take_part("node"))
    assert [flushed, again] == [once, nothing]
    tab = browser.open_tab()
    *_, flushed, again = tab.run(*take_part("chromium"), options={"limits": LIMITS, "name": study})
    assert [flushed, again] == [once, nothing]
    tab.close()

    with relay_in(tmp_path / "relay", server.url) as relay:
        relay.start()
        # The plan comes through the relay too, and is verified by the study's identity.
        device = build_device(
            tmp_path / "c", library, ON_ARM, replace(server, url=relay.url), study
        )
        device.url = server.url
        device.enrol(client.create_token(study), {"site": "c"})
        device.url = relay.url
        rows = list(zip(times, own["c"].tolist(), strict=True))
        message = decode_message(send_by_relay(device, relay, rows))

    snapshot = client.snapshot(study)
    assert (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records) == (4, 4, 48)
    total = client.snapshot_sums(snapshot.snapshot_id).sums
    assert total == sum_up(plan, records)
    # Bit for bit the sum of the messages that are stored, that of the relay as it was signed.
    payloads = read_payloads(server, study)
    assert payloads[message.header.sketch_id] == message.payload
    form = PayloadForm.of(plan)
    stored = [
        decode_payload(each, width=form.width, n_coordinates=form.n_coordinates)
        for each in payloads.values()
    ]
    assert total == np.sum(stored, axis=0).tolist()
    sketches = client.sketches(study)
    assert set(Counter(sketch.device_id for sketch in sketches).values()) == {1}
    for name in NAMES:
        part = client.snapshot(study, labels={"site": name})
        assert part.n_sketches == 1
        assert client.snapshot_sums(part.snapshot_id).sums == sum_up(plan, own[name])
    assert not client.refusals(study).items
