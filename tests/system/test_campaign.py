"""A campaign as its operator and the owners of its devices run it, on a real server."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import normalise_database_url
from sfumato.analyst import Client
from sfumato.device_agent.cli import main
from sfumato.device_agent.store.key import key_folder
from sfumato.shared import command
from sfumato.shared.plan import SketchPlan, plan_to_json
from tests.commands import run_inside
from tests.device_agent.daemons import daemon, wait_until
from tests.shared.plan.campaigns import DAY, START, TERMS, make_phase
from tests.system.servers import start_server

CLUSTERS = np.array([[20.0, 2.0], [15.0, 6.0], [24.0, 9.0]])
N_DAYS = 7
PER_DAY = 720


def write_records(path: Path, seed: int) -> None:
    """Write a week of records of three clusters, one for every other minute."""
    rng = np.random.default_rng(seed)
    times = START + np.arange(N_DAYS * PER_DAY) * (DAY // PER_DAY)
    which = rng.choice(3, len(times), p=[0.5, 0.3, 0.2])
    values = CLUSTERS[which] + rng.normal(0.0, [0.6, 0.4], (len(times), 2))
    lines = [f"{t},{x:.4f},{y:.4f}" for t, (x, y) in zip(times, values, strict=True)]
    path.write_text("time,room,load\n" + "\n".join(lines) + "\n")


@dataclass(frozen=True)
class Gateway:
    """An owner's device with a week of records."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "agent.toml"

    @classmethod
    def make(cls, folder: Path, seed: int, more: str = "") -> Gateway:
        folder.mkdir()
        write_records(folder / "records.csv", seed)
        made = cls(folder)
        made.write(more)
        return made

    def write(self, more: str = "", *, spelt: str = "unix") -> None:
        """Write the configuration, with the server and study that a code has put into it."""
        old = self.config.read_text() if self.config.exists() else ""
        head = [line for line in old.splitlines() if line.startswith(("server", "study"))]
        self.config.write_text(
            "\n".join(head) + f'\nstate_dir = "state"\n{more}\n'
            '[budget]\nper_record = "2"\n'
            '[[streams]]\nname = "main"\n[streams.source]\nkind = "csv"\npath = "records.csv"\n'
            f'timestamp = "time"\ntimestamp_format = "{spelt}"\n'
        )

    def run(self, verb: str, *arguments: str, status: int = 0) -> str:
        done = run_inside(main, [verb, "--config", str(self.config), *arguments])
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def once(self) -> list[dict[str, Any]]:
        """Make a pass; return the report of each phase."""
        return [json.loads(line) for line in self.run("once", "--json").splitlines()]

    def phase(self) -> tuple[int, bool]:
        """Return the number of the present phase, and whether the device takes part in it."""
        found = json.loads(self.run("status", "--json"))["phase"]
        return found["number"], found["takes_part"]


class Operator:
    """A server, and the commands of its operator."""

    def __init__(self, folder: Path, *, worker: bool) -> None:
        self.folder, self._worker = folder, worker
        self.server = start_server(folder, worker=worker)

    def run(self, *arguments: str, status: int = 0) -> str:
        given = {"SFUMATO_URL": self.server.url, "SFUMATO_KEY": self.server.key}
        done = run_inside(command.main, arguments, given)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def kill(self) -> None:
        """Kill the server, and start it again on its database."""
        port = int(self.server.url.rpartition(":")[2])
        self.server.process.kill()
        self.server.process.wait()
        self.server = start_server(self.folder, port=port, worker=self._worker)

    def read(self, study: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("campaign", "status", study, "--json"))
        return found

    def publish(self, name: str, plan: SketchPlan, follows: str | None = None) -> str:
        """Publish a study as no honest server would: nothing checks what it follows."""

        async def publish() -> str:
            database = normalise_database_url(str(self.folder / "aggregator.sqlite"))
            store = open_store(database)
            try:
                made, _, _ = await Services(store, SystemClock()).studies.create(
                    name,
                    plan_to_json(plan),
                    follows=None if follows is None else bytes.fromhex(follows),
                )
                return made.study.study_id.hex()
            finally:
                await store.close()

        return asyncio.run(publish())

    def make_code(self, study: str, *, uses: int = 1) -> str:
        return self.run("study", "token", study, "--code", "--uses", str(uses)).splitlines()[0]


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator whose server decodes nothing."""
    made = Operator(tmp_path_factory.mktemp("server"), worker=False)
    yield made
    stop(made.server)


@pytest.fixture
def decoding(tmp_path: Path) -> Iterator[Operator]:
    """An operator whose server decodes, and may be killed."""
    (tmp_path / "server").mkdir()
    made = Operator(tmp_path / "server", worker=True)
    yield made
    stop(made.server)


def stop(server: Aggregator) -> None:
    server.process.send_signal(signal.SIGTERM)
    server.process.wait()


def count_records(client: Client, found: dict[str, Any]) -> list[int]:
    return [
        sum(each.n_records or 0 for each in client.sketches(phase["study_id"]))
        for phase in found["phases"]
    ]


def test_three_commands_and_one_for_each_device_lead_from_nothing_to_a_measured_answer(
    decoding: Operator, tmp_path: Path
) -> None:
    """Through a server that is killed after the pilot, and a device that is killed twice."""
    operator = decoding
    created = operator.run(
        *("campaign", "create", "heating", "--dimensions", "room:degC:-40..60,load:kW:-10..90"),
        *("--clusters", "3", "--devices", "3", "--records", str(3 * PER_DAY), "--epsilon", "1"),
        *("--window", "1d", "--windows", "1,3,3", "--start", "2026-01-01"),
    )
    (code,) = [line for line in created.splitlines() if line.startswith("SFUMATO:")]
    gateways = [Gateway.make(tmp_path / f"g{i}", i) for i in range(3)]
    for gateway in gateways:
        gateway.run("init", "--code", code)
    first, second, third = gateways

    def is_published(number: int) -> bool:
        return operator.read("heating")["phases"][number]["study_id"] is not None

    first.once(), second.once()
    with daemon(third.config) as running:
        wait_until(lambda: operator.read("heating")["phases"][0]["n_finished"] == 3)
        operator.kill()
        wait_until(lambda: is_published(1))
        running.kill()
    assert first.once()[-1]["released"] == 3
    with daemon(third.config) as running:
        wait_until(lambda: third.phase() == (2, True))
        running.kill()
    second.once()
    assert third.once()[-1]["waiting"] == 0
    wait_until(lambda: is_published(2))
    for gateway in gateways:
        assert gateway.once()[-1]["released"] == 3
        assert gateway.once()[-1]["released"] == 0
    wait_until(lambda: operator.read("heating")["phases"][2]["waits"] is None)
    found = operator.read("heating")
    with Client(operator.server.url, key=operator.server.key) as client:
        assert count_records(client, found) == [3 * n * PER_DAY for n in (1, 3, 3)]
        centroids = client.find_result(found["answer"]).centroids
    assert np.abs(centroids[centroids[:, 0].argsort()] - CLUSTERS[[1, 0, 2]]).max() < 0.15
    said = operator.run("campaign", "status", "heating")
    assert f"answer: sfumato campaign show {found['study_id'][:12]}" in said
    assert "Look 1 measured" in operator.run("campaign", "show", "heating", "--wait")
    spent = json.loads(third.run("budget", "--json"))
    assert {each["epsilon_spent_per_record"] for each in spent["streams"]} == {"1"}
    assert {each["epsilon_spent_lifetime"] for each in spent["streams"]} == {"7"}
    assert Counter(each["sequence"] for each in spent["events"]) == {0: 3, 1: 2, 2: 2}
    # An answer whose device was excluded since says so, and how another is made.
    sketch, look = (each["study_id"][:12] for each in found["phases"][1:])
    device = json.loads(operator.run("device", "list", sketch, "--json"))[0]
    operator.run("device", "exclude", device["device_id"], "--reason", "its sensor was broken")
    said = operator.run("campaign", "show", "heating")
    assert said.startswith("Doubt: 1 device in this result was excluded later: do not use it")
    assert said.endswith(f"next: sfumato decode {sketch} -k 3 --look {look}\n")


def join(operator: Operator, folder: Path, name: str, more: str = "") -> tuple[str, Gateway]:
    """Publish a pilot, and let a device join it; return the study and the device."""
    study = operator.publish(name, make_phase(0))
    gateway = Gateway.make(folder / name, 1, more)
    gateway.run("init", "--code", operator.make_code(study))
    return study, gateway


@pytest.mark.parametrize(
    ("after", "rule"),
    [
        (make_phase(1, replace(TERMS, most_records=2000)), "campaign: must be the terms"),
        (replace(make_phase(1), campaign=None), "campaign: must be the terms"),
        (make_phase(1, unit="device"), "release.unit: must stay record"),
    ],
    ids=["other terms", "no terms", "another unit"],
)
def test_a_device_follows_no_server_out_of_the_terms_that_it_joined(
    operator: Operator, tmp_path: Path, request: pytest.FixtureRequest, after: SketchPlan, rule: str
) -> None:
    name = request.node.callspec.id
    study, gateway = join(operator, tmp_path, name)
    other = operator.publish(f"{name} sketch", after, follows=study)
    assert rule in gateway.run("once", status=2)
    assert gateway.phase() == (1, True)
    spent = json.loads(gateway.run("budget", "--json"))
    assert len(spent["events"]) == 1
    with Client(operator.server.url, key=operator.server.key) as client:
        assert not list(client.devices(other))


def test_an_owner_leaves_phases_and_columns_out(operator: Operator, tmp_path: Path) -> None:
    policy = '[policy]\nphases = ["pilot", "look"]\n'
    study, gateway = join(operator, tmp_path, "left out", policy)
    sketch = operator.publish("left out sketch", make_phase(1), follows=study)
    assert [each["released"] for each in gateway.once()] == [1, 0]
    assert gateway.phase() == (2, False)
    assert "takes no part in this phase" in gateway.run("status")
    operator.publish("left out look", make_phase(2), follows=sketch)
    gateway.write(policy + 'columns = ["room"]')
    said = gateway.run("once", status=3)
    assert "policy.columns: do not allow load of the plan" in said
    gateway.write(policy)
    assert [each["released"] for each in gateway.once()] == [0, 2]
    assert gateway.phase() == (3, True)


def test_a_device_that_was_away_for_a_phase_gives_its_records_of_all_phases(
    operator: Operator, tmp_path: Path
) -> None:
    study, gateway = join(operator, tmp_path, "away")
    sketch = operator.publish("away sketch", make_phase(1), follows=study)
    look = operator.publish("away look", make_phase(2), follows=sketch)
    assert [each["released"] for each in gateway.once()] == [1, 2, 2]
    assert [each["released"] for each in gateway.once()] == [0]
    with Client(operator.server.url, key=operator.server.key) as client:
        counts = [
            [each.n_records for each in client.sketches(one)] for one in (study, sketch, look)
        ]
    assert counts == [[PER_DAY], [PER_DAY] * 2, [PER_DAY] * 2]
    gateway.run("forget", "--yes")
    assert not list((gateway.folder / "state").glob("**/device.key"))


def test_a_stream_that_is_read_otherwise_since_it_joined_waits_for_its_owner(
    operator: Operator, tmp_path: Path
) -> None:
    study, gateway = join(operator, tmp_path, "otherwise")
    operator.publish("otherwise sketch", make_phase(1), follows=study)
    gateway.write(spelt="unix_ms")
    said = gateway.run("once", status=2)
    assert "is read in another way than when it joined" in said
    gateway.write()
    assert [each["released"] for each in gateway.once()] == [1, 2]


def test_a_daemon_releases_all_of_a_phase_before_it_goes_on_with_the_settings_it_accepted(
    operator: Operator, tmp_path: Path
) -> None:
    """It is behind: the next phase is there when it starts, and so are all records of both."""
    study, gateway = join(operator, tmp_path, "behind")
    sketch = operator.publish("behind sketch", make_phase(1), follows=study)
    accepted = gateway.config.read_text()
    with daemon(gateway.config) as running:
        log = gateway.folder / "daemon.log"
        wait_until(lambda: "started with" in log.read_text())
        # Nobody has asked for it to be read again, and it is half-written.
        gateway.config.write_text(accepted[: len(accepted) // 2])
        with Client(operator.server.url, key=operator.server.key) as client:
            wait_until(lambda: client.study(sketch).n_records == 2 * PER_DAY)
            assert client.study(study).n_records == PER_DAY
        running.kill()
    gateway.config.write_text(accepted)
    assert gateway.phase() == (2, True)


def test_a_phase_is_not_left_while_its_source_cannot_be_read(
    operator: Operator, tmp_path: Path
) -> None:
    study, gateway = join(operator, tmp_path, "unreadable")
    operator.publish("unreadable sketch", make_phase(1), follows=study)
    records = gateway.folder / "records.csv"
    records.rename(gateway.folder / "away.csv")
    gateway.run("once", status=2)
    assert gateway.phase() == (1, True)
    (gateway.folder / "away.csv").rename(records)
    assert [each["released"] for each in gateway.once()] == [1, 2]


class _KilledError(BaseException):
    """The process has ended here."""


@pytest.mark.parametrize("step", ["save_identity", "_enrol", "carry_joined"])
def test_a_device_killed_while_it_joins_a_phase_joins_it_once(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    study, gateway = join(operator, tmp_path, f"killed at {step}")
    sketch = operator.publish(f"killed at {step} sketch", make_phase(1), follows=study)

    def die(*_: object, **__: object) -> None:
        raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr(f"sfumato.device_agent.agent.enrol.{step}", die)
        with pytest.raises(_KilledError):
            gateway.once()
    assert gateway.phase() == (1, True)
    assert [each["released"] for each in gateway.once()] == [0, 2]
    with Client(operator.server.url, key=operator.server.key) as client:
        assert len(list(client.devices(sketch))) == 1


def test_who_is_forgotten_while_it_joins_a_phase_leaves_no_key(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, gateway = join(operator, tmp_path, "forgotten")
    sketch = operator.publish("forgotten sketch", make_phase(1), follows=study)

    def die(*_: object, **__: object) -> None:
        raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.device_agent.agent.enrol.save_identity", die)
        with pytest.raises(_KilledError):
            gateway.once()
    keys = key_folder(gateway.folder / "state", bytes.fromhex(sketch))
    assert keys.exists()
    gateway.run("forget", "--yes")
    assert not keys.exists()
    assert not list((gateway.folder / "state").rglob("*.key*"))


def test_standard_input_takes_part_in_no_campaign(operator: Operator, tmp_path: Path) -> None:
    study = operator.publish("standard input", make_phase(0))
    gateway = Gateway.make(tmp_path / "stdin", 1)
    text = gateway.config.read_text().replace(
        'kind = "csv"\npath = "records.csv"', 'kind = "stdin"'
    )
    gateway.config.write_text(text)
    said = gateway.run("init", "--code", operator.make_code(study), status=2)
    assert "cannot be standard input in a campaign" in said


def test_a_server_that_names_another_study_of_a_phase_later_leads_nobody_there(
    operator: Operator, tmp_path: Path
) -> None:
    """As one does that was restored from a backup, and has planned the phase anew."""
    study, gateway = join(operator, tmp_path, "anew")
    operator.publish("anew sketch", make_phase(1), follows=study)
    gateway.once()
    again = operator.publish("anew again", make_phase(1, seed="another"))
    before = gateway.run("budget", "--json")

    async def rename() -> None:
        database = normalise_database_url(str(operator.folder / "aggregator.sqlite"))
        store = open_store(database)
        async with store.begin(write=True) as transaction:
            await transaction.change(
                StudyRecord, bytes.fromhex(study), next_study=bytes.fromhex(again), version=9
            )
        await store.close()

    asyncio.run(rename())
    gateway.once()
    assert gateway.phase() == (2, True)
    assert json.loads(gateway.run("budget", "--json"))["events"] == json.loads(before)["events"]


def test_a_drawn_device_takes_part_in_one_phase_which_its_identity_decides(
    operator: Operator, tmp_path: Path
) -> None:
    terms = replace(TERMS, devices="drawn", most_records=1)
    first, second, third = (make_phase(i, terms, unit="device", most_records=1) for i in range(3))
    study = operator.publish("drawn", first)
    sketch = operator.publish("drawn sketch", second, follows=study)
    operator.publish("drawn look", third, follows=sketch)
    code, drawn = operator.make_code(study, uses=4), []
    for i in range(4):
        gateway = Gateway.make(tmp_path / f"g{i}", i)
        gateway.run("init", "--code", code)
        device = bytes.fromhex(json.loads(gateway.run("status", "--json"))["device_id"])
        released = [each["released"] for each in gateway.once()]
        assert released == [n * (terms.draw(device) == i) for i, n in enumerate((1, 2, 2))]
        drawn.append(released)
    assert all(sum(map(bool, released)) == 1 for released in drawn)
