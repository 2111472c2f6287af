"""A real server behind a network that fails in every way: nothing lost, doubled or drawn again."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.device_agent.agent.enrol import enrol_device
from sfumato.device_agent.agent.once import run_once
from sfumato.device_agent.server import http_connection
from sfumato.device_agent.settings.agent_settings import Settings, load_settings
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.wire.objects.studies import SketchBody
from tests.device_agent.daemons import query
from tests.soak import small_and_soak
from tests.system.agents import CONFIG
from tests.system.proxy import FAULTS, FaultyProxy
from tests.system.test_daemon import SPEC, require_the_same_bytes

SLOT_S = 500
UNANSWERED = (
    "reset before the request", "reset in the request", "reset before the response",
    "reset in the response", "end in the response", "half-open",
)  # fmt: skip

ASKED_TO_WAIT = ("429", "503")


class Device:
    """A device that was enrolled directly, and then sees the server through the proxy alone."""

    def __init__(self, folder: Path, server: Aggregator, name: str) -> None:
        self.folder = folder
        self.server = server
        self.state = folder / "state"
        self.records = folder / "records.csv"
        self.records.write_text("time,x,y\n", encoding="utf-8")
        self.n_slots = 0
        with Client(server.url, key=server.key) as client:
            self.study_id = str(
                client.create_study(name, plan_from_spec(SPEC), allow_same_plan=True).study_id
            )
            token = client.create_token(self.study_id)
        enrol_device(self._settings(server.url), token=token, clock=time.time)

    def _settings(self, url: str) -> Settings:
        config = self.folder / "agent.toml"
        config.write_text(
            CONFIG.format(
                state=self.state, url=url, study_id=self.study_id, site="north", data=self.records
            ),
            encoding="utf-8",
        )
        return load_settings(config, {})

    def append(self, n_slots: int) -> None:
        with self.records.open("a", encoding="utf-8") as file:
            for slot in range(self.n_slots, self.n_slots + n_slots):
                file.writelines(f"{slot * SLOT_S + i},{i % 7},{i % 5}\n" for i in range(12))
        self.n_slots += n_slots

    def once(self, port: int) -> Any:
        settings = self._settings(f"http://127.0.0.1:{port}")
        return run_once(settings, send=True, send_for_s=0.0, clock=time.time)

    def stored(self) -> list[SketchBody]:
        with Client(self.server.url, key=self.server.key) as client:
            return list(client.sketches(self.study_id))

    def require_each_once(self) -> None:
        stored = self.stored()
        assert sorted(sketch.sequence for sketch in stored) == list(range(self.n_slots))
        assert {sketch.n_records for sketch in stored} == {12}
        require_the_same_bytes(self.state, stored)
        events = query(self.state, "SELECT sequence FROM events ORDER BY id")
        assert events == [(i,) for i in range(self.n_slots)]

    def hurry(self) -> None:
        """Let what was asked to wait be due, as after that time."""
        time.sleep(1.1)


@pytest.fixture
def device(tmp_path: Path, server: Aggregator) -> Device:
    return Device(tmp_path, server, f"network {uuid.uuid4().hex}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    # So that a connection on which nothing ever comes does not last half a minute.
    monkeypatch.setattr(http_connection, "_TIMEOUT", httpx.Timeout(1.5))


def port_of(server: Aggregator) -> int:
    return int(server.url.rpartition(":")[2])


def test_each_fault_at_every_upload_once_loses_doubles_and_changes_nothing(device: Device) -> None:
    for fault in FAULTS:
        hit: set[str] = set()

        def choose(line: str, fault: str = fault, hit: set[str] = hit) -> str | None:
            if "/sketches/" not in line or line in hit:
                return None
            hit.add(line)
            return fault

        device.append(2)
        with FaultyProxy(port_of(device.server), choose) as proxy:
            for _ in range(20):
                report = device.once(proxy.port)
                if not report.outbox.waiting:
                    break
                if fault in ASKED_TO_WAIT:
                    device.hurry()
            assert (report.outbox.waiting, report.outbox.shelved) == (0, 0), fault
            assert proxy.met == [fault] * 2
    device.require_each_once()


# Of faults that the agent takes alike one is tried.
@small_and_soak("faults", ("reset in the response", "half-open", "429"), FAULTS)
def test_a_sketch_that_always_meets_a_fault_keeps_no_other_waiting(
    faults: Sequence[str], device: Device
) -> None:
    for fault in faults:
        first: list[str] = []

        def choose(line: str, fault: str = fault, first: list[str] = first) -> str | None:
            if "/sketches/" not in line:
                return None
            first.append(line)
            return fault if line == first[0] else None

        device.append(3)
        others = {device.n_slots - 2, device.n_slots - 1}
        with FaultyProxy(port_of(device.server), choose) as proxy:
            for _ in range(3):
                device.once(proxy.port)
            assert others <= {sketch.sequence for sketch in device.stored()}, fault
        if fault in ASKED_TO_WAIT:
            device.hurry()
        assert device.once(port_of(device.server)).outbox.waiting == 0, fault
    device.require_each_once()


def test_whoever_gets_no_answer_about_the_device_says_what_cannot_be_checked(
    device: Device,
) -> None:
    for fault in UNANSWERED:
        device.append(1)
        before = device.stored()
        choose = {"GET": fault}
        with FaultyProxy(
            port_of(device.server),
            lambda line, choose=choose: choose.get(line.split(" ", 1)[0]),  # type: ignore[misc]
        ) as proxy:
            report = device.once(proxy.port)
            assert "cannot be checked whether this device was cloned" in " ".join(report.messages)
            # Nothing is offered while that is so: another noise may be at the server.
            assert (report.outbox.waiting, device.stored()) == (1, before), fault
            choose.clear()
            assert device.once(proxy.port).outbox.waiting == 0, fault
    device.require_each_once()


def test_a_network_that_fails_half_the_time_costs_time_and_nothing_else(device: Device) -> None:
    draw = random.Random(9)
    quick = [fault for fault in FAULTS if fault not in ("half-open", *ASKED_TO_WAIT)]

    def choose(_: str) -> str | None:
        return draw.choice(quick) if draw.random() < 0.5 else None

    with FaultyProxy(port_of(device.server), choose) as proxy:
        for _ in range(10):
            device.append(2)
            device.once(proxy.port)
        while device.once(proxy.port).outbox.waiting:
            pass
        assert len(set(proxy.met)) == len(quick)
    device.require_each_once()
