"""A pilot and its main study over one file: no record is in both, and the budget knows it."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.device_agent.agent.exchange import clocks
from sfumato.shared.plan import Dimension, WindowRule
from sfumato.shared.wire import PayloadForm
from tests.device_agent.conftest import HOUR, Agent, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.serving import running

START = 1_700_000_000 // HOUR * HOUR
TURN = START + 2 * HOUR
"""The pilot has two slots, and the main study begins behind them."""
LOUD = 10**9
"""So much epsilon that there is next to no noise."""
N_BINS = 64

RELATIONS: dict[str, dict[str, Any]] = {
    "replace-one": {"least_records": 1},
    "add-remove-one": {"least_records": None, "neighbouring": "add-remove-one"},
    "unit device": {"least_records": 1, "unit": "device", "most_records": 1},
}


@dataclass
class Pair:
    """A device in two studies: one state folder, one file, one budget."""

    pilot: Agent
    main: Agent
    written: int = 0

    def write(self, *times: float | str) -> None:
        """Append records with the values 0.5, 1.5, ..., each in a bin of its own."""
        with self.pilot.records.open("a") as file:
            for text in times:
                file.write(f"{text},{self.written}.5\n")
                self.written += 1

    def release(self, *agents: Agent) -> None:
        for agent in agents:
            # Where presence is hidden, the next run sends what this one releases.
            agent.once()
            agent.once()

    def count(self) -> list[list[int]]:
        """Return how often each study has counted each record, next to exactly."""
        found = []
        for agent in (self.pilot, self.main):
            plan, total = agent.server.plan, np.zeros(N_BINS, dtype=np.int64)
            for message in agent.server.stored.values():
                (sums,) = PayloadForm.of(plan).decode(message.payload)
                total += sums[:N_BINS]
            found.append(total[: self.written].tolist())
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the time of device and server alike."""
    now = [START - 1.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(clocks, "_boot_time", lambda: now[0] - START + 1e6)
    monkeypatch.setattr(clocks, "_boot_id", lambda: "first")

    def set_to(value: float) -> None:
        now[0] = value

    return set_to


def make_times(origin: int, end: int | None, *, bounded: bool) -> dict[str, Any]:
    """Return the windows of a study, and its rule for records of other times."""
    end = end if bounded else None
    return {
        "window": WindowRule(kind="time", origin=origin, length_s=HOUR, end=end),
        "late_rule": "leave-out-outside" if bounded else "open-window",
    }


@pytest.fixture
def make_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], clock: Callable[[float], None]
) -> Iterator[Callable[..., Pair]]:
    servers = []

    def make(
        relation: str, *, bounded: bool, main_bounded: bool = True, per_record: int = LOUD
    ) -> Pair:
        choices: dict[str, Any] = {
            "dimensions": (Dimension(name="x", unit="1", lower=0.0, upper=float(N_BINS)),),
            "statistic": "histogram",
            "bins_log2": 6,
            "n_frequencies": None,
            "seed": None,
            "epsilon": Fraction(LOUD),
            **RELATIONS[relation],
        }
        agents = []
        for name, times in (
            ("pilot", make_times(START, TURN, bounded=bounded)),
            ("main", make_times(TURN, None, bounded=bounded and main_bounded)),
        ):
            folder = tmp_path / name
            folder.mkdir()
            server = running(make_plan(**(choices | times)))
            servers.append(server)
            agent = Agent(folder, server.__enter__(), capsys)
            agent.state, agent.records = tmp_path / "state", tmp_path / "records.csv"
            agent.write_config(
                path="../records.csv", state_dir="../state", per_record=str(per_record)
            )
            # So that such a file may join at all.
            limits = "unseen = true\nunreadable_times = 1.0\ntimes_outside = 1.0"
            agent.config.write_text(agent.config.read_text().replace("unseen = true", limits))
            agents.append(agent)
        agents[0].records.write_text("time,x\n")
        pilot, main = agents
        return Pair(pilot, main)

    yield make
    for server in servers:
        server.__exit__(None, None, None)


def live(pair: Pair, clock: Callable[[float], None]) -> None:
    """Run both studies over records that are late, early, and without a readable time."""
    clock(START + 1.5 * HOUR)
    pair.pilot.init()
    pair.write(START - 1, START + 10, "no time", TURN + 20, START + 1.2 * HOUR)
    pair.release(pair.pilot)
    clock(TURN + 1.5 * HOUR)
    pair.main.init()
    pair.write(TURN + 10, START + 20, "", TURN - 1, TURN, TURN + 1.4 * HOUR, TURN + 90 * HOUR)
    pair.release(pair.pilot, pair.main)
    clock(TURN + 3.5 * HOUR)
    # The pilot is over, and a record of its times is too late for it.
    pair.write(START + 30, TURN + 3.1 * HOUR, "nan", START - 9)
    pair.release(pair.pilot, pair.main)
    clock(TURN + 5.5 * HOUR)
    pair.release(pair.pilot, pair.main)


@pytest.mark.parametrize("relation", RELATIONS)
def test_each_record_is_in_one_of_the_two_studies_at_most(
    relation: str, make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair(relation, bounded=True)
    live(pair, clock)
    pilot, main = pair.count()
    #           before, in,   NaN, main, in | main, late, NaN, late, main, main, future | late, main
    of_main = [*(0, 0, 0, 1, 0), *(1, 0, 0, 0, 1, 1, 1), *(0, 1, 0, 0)]
    if relation == "unit device":
        # A slot counts its first record; the late ones find theirs closed.
        assert all(a + b <= 1 for a, b in zip(pilot, main, strict=True))
        assert all(b <= most for b, most in zip(main, of_main, strict=True))
        assert sum(pilot) == 2
        assert sum(main) == 3
        return
    assert main == of_main
    # Those that come after its last slot was released are lost to the pilot.
    in_time = {"replace-one": [1, 4, 6, 8], "add-remove-one": [1, 4, 6, 8]}[relation]
    assert [i for i, n in enumerate(pilot) if n] == in_time
    assert max(pilot) == 1
    # What was left out is nowhere.
    assert query(pair.pilot.state, "SELECT slot FROM open_slots WHERE slot < 0") == []
    # No slot is behind its end.
    slots = [message.header.slots for message in pair.pilot.server.stored.values()]
    assert all(last < 2 for _, last in filter(None, slots))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_under_the_other_rule_records_are_counted_in_both(
    relation: str, make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair(relation, bounded=False, per_record=2 * LOUD)
    live(pair, clock)
    pilot, main = pair.count()
    twice = [i for i, (a, b) in enumerate(zip(pilot, main, strict=True)) if a + b == 2]
    assert {0, 1, 2, 3, 4, 6, 8} <= set(twice)


def read_budget(agent: Agent) -> list[dict[str, Any]]:
    assert agent.run("budget", "--json") == 0, agent.err
    streams: list[dict[str, Any]] = json.loads(agent.out)["streams"]
    return streams


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_the_budget_counts_the_larger_epsilon_of_times_apart(
    relation: str, make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair(relation, bounded=True)
    live(pair, clock)
    for agent in (pair.pilot, pair.main):
        for stream in read_budget(agent):
            assert stream["epsilon_spent_per_record"] == str(LOUD)
            assert stream["shared_with"] == []
        assert agent.run("check") == 0, agent.out + agent.err
        assert "the larger of their epsilons, not the sum" in agent.out + agent.err


@pytest.mark.parametrize("bounded", [False, True])
def test_where_either_leaves_nothing_out_the_same_budget_refuses_the_main_study(
    bounded: bool, make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair("replace-one", bounded=bounded, main_bounded=False)
    clock(START + 1.5 * HOUR)
    pair.pilot.init()
    pair.write(START + 10, START + 1.2 * HOUR)
    pair.release(pair.pilot)
    clock(TURN + 1.5 * HOUR)
    assert pair.main.run("init", "--token", "sfe_test") == 3
    assert "budget.per_record" in pair.main.err


@pytest.mark.parametrize("setting", ['timestamp_zone = "Asia/Tokyo"', 'delimiter = ";"'])
def test_a_main_study_that_reads_times_otherwise_is_counted_with_its_pilot(
    setting: str, make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair("replace-one", bounded=True)
    clock(START + 1.5 * HOUR)
    pair.pilot.init()
    pair.write(START + 10, START + 1.2 * HOUR)
    pair.release(pair.pilot)
    clock(TURN + 1.5 * HOUR)
    pair.main.config.write_text(f"{pair.main.config.read_text()}\n{setting}\n")
    assert pair.main.run("init", "--token", "sfe_test") == 3
    assert "budget.per_record" in pair.main.err


def test_a_window_that_was_begun_with_times_read_otherwise_stays_counted_with_the_pilot(
    make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair("replace-one", bounded=True, per_record=2 * LOUD)
    clock(START + 1.5 * HOUR)
    pair.pilot.init()
    pair.write(START + 10, TURN + 10)
    pair.release(pair.pilot)
    clock(TURN + 0.5 * HOUR)
    plain = pair.main.config.read_text()
    pair.main.config.write_text(f'{plain}\ntimestamp_zone = "Asia/Tokyo"\n')
    pair.main.init()
    # Read, and kept in the open window.
    assert pair.main.once()["released"] == 0
    pair.main.config.write_text(plain)
    pair.main.rejoin()
    clock(TURN + 1.5 * HOUR)
    assert pair.main.once()["released"] == 1
    spent = {s["study"]: s["epsilon_spent_per_record"] for s in read_budget(pair.main)}
    assert spent == {agent.study: str(2 * LOUD) for agent in (pair.pilot, pair.main)}


def test_an_owners_ledger_too_counts_a_window_that_was_begun_with_times_read_otherwise(
    make_pair: Callable[..., Pair], clock: Callable[[float], None], tmp_path: Path
) -> None:
    pair = make_pair("replace-one", bounded=True)
    pair.main.state = tmp_path / "other-state"
    for agent, state in ((pair.pilot, "../state"), (pair.main, "../other-state")):
        agent.write_config(path="../records.csv", state_dir=state, per_record=str(LOUD))
        text = agent.config.read_text().replace("[budget]", '[budget]\nledger = "../ledger.db"')
        limits = "unseen = true\nunreadable_times = 1.0\ntimes_outside = 1.0"
        agent.config.write_text(text.replace("unseen = true", limits))
    plain = pair.main.config.read_text()
    # Read otherwise, and kept in the open window, before the pilot has released anything.
    clock(TURN - 0.5 * HOUR)
    pair.write(START + 10, TURN - 10)
    clock(TURN + 0.5 * HOUR)
    pair.main.config.write_text(f'{plain}\ntimestamp_zone = "Asia/Tokyo"\n')
    pair.write(TURN + 10)
    pair.main.init()
    assert pair.main.once()["released"] == 0
    pair.main.config.write_text(plain)
    pair.main.rejoin()
    clock(TURN + 1.5 * HOUR)
    pair.pilot.init()
    assert pair.pilot.once()["released"] > 0
    document = pair.main.once(status=3)
    assert "budget.per_record" in json.dumps(document)


def test_the_owner_is_told_how_many_records_were_left_out(
    make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair("replace-one", bounded=True)
    clock(START + 1.5 * HOUR)
    pair.pilot.init()
    pair.write(START - 1, START + 10, "no time", TURN + 20)
    report = pair.pilot.once()
    assert any(text.startswith("stream meter: 3 record(s)") for text in report["messages"]), report


def test_a_main_study_joins_over_a_file_with_the_records_of_its_pilot_alone(
    make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair("replace-one", bounded=True)
    text = pair.main.config.read_text()
    pair.main.config.write_text(text.replace("times_outside = 1.0", "times_outside = 0.0"))
    clock(TURN + 0.5 * HOUR)
    pair.write(*(START + 60 * i for i in range(20)))
    pair.main.init()
    assert pair.main.run("check", "--values") == 0, pair.main.err
    assert "100.0% before the study, left out" in pair.main.out
    assert pair.main.once()["released"] == 0


def test_a_main_study_that_joined_unseen_does_not_wait_for_the_records_of_its_pilot_to_go(
    make_pair: Callable[..., Pair], clock: Callable[[float], None]
) -> None:
    pair = make_pair("replace-one", bounded=True)
    clock(TURN + 0.5 * HOUR)
    pair.main.init()
    pair.write(*(START + 60 * i for i in range(20)), TURN + 10)
    assert pair.main.once()["errors"] == []
    clock(TURN + 1.5 * HOUR)
    assert pair.main.once()["released"] == 1
    assert pair.count()[1] == [*([0] * 20), 1]
