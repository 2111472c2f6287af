"""The agent is killed before statements that write, and then run again.

Before one of each kind here, before every one in `make soak`.
"""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.wire import PayloadForm, SketchMessage, decode_payload
from tests.device_agent.conftest import Agent, AgentFor, make_other_plan, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.driver import keep, put_back
from tests.device_agent.killing import Victim, victim_in
from tests.soak import small_and_soak

_N_RECORDS = 21


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    with victim_in(tmp_path) as victim:
        yield victim


# So much budget that the sums can be read off the sketches.
LOUD: dict[str, Any] = {"epsilon": Fraction(10**9), "mechanism": "discrete-laplace"}
PLANS = {
    "fourier": make_plan(**LOUD),
    "histogram": make_other_plan("histogram", dimensions_per_sketch=1, **LOUD),
    "moments": make_other_plan("moments", **LOUD),
    "clusters": make_other_plan("clusters", **LOUD),
}


# What a release does to the disk is the same for all.
@small_and_soak("every", False, True)
@pytest.mark.parametrize(
    "statistic",
    [
        "histogram",
        pytest.param("fourier", marks=pytest.mark.soak),
        pytest.param("moments", marks=pytest.mark.soak),
        pytest.param("clusters", marks=pytest.mark.soak),
    ],
)
def test_killed_anywhere_either_nothing_was_released_or_the_same_bytes_are_sent(
    statistic: str,
    every: bool,
    agent_for: AgentFor,
    victim: Victim,
    tmp_path: Path,
) -> None:
    agent = agent_for(PLANS[statistic])
    agent.write_config(per_record=str(10**9))
    agent.init()
    agent.append(0, 1, lines=10)
    with agent.records.open("a") as file:
        file.write(f"{time.time()},1,1\n")
    template = tmp_path / "template"
    keep(agent.state, template)
    kills = victim.list_kills(agent, every=every)
    for kill_at in kills:
        reset(agent, template)
        is_killed = victim.run(agent, kill_at)
        require_ledger_and_outbox_agree(agent)
        report = agent.once()
        assert (report["waiting"], report["shelved"]) == (0, 0)
        require_each_record_once(agent)
        require_no_second_draw(agent)
    # The last round must have been one that nothing interrupted.
    assert not is_killed
    assert report["released"] == 0
    assert len(kills) > 12


@small_and_soak("every", False, True)
def test_killed_anywhere_every_slot_is_released_once_and_each_record_is_in_one(
    every: bool, agent_for: AgentFor, victim: Victim, tmp_path: Path
) -> None:
    # Where presence is secret.
    length = 10**7
    plan = make_other_plan(
        "grid",
        neighbouring="add-remove-one",
        least_records=None,
        window=WindowRule(kind="time", origin=int(time.time() - 2.5 * length), length_s=length),
        **LOUD,
    )
    agent = agent_for(plan)
    agent.write_config(per_record=str(10**9))
    agent.init()
    with agent.records.open("a") as file:
        file.writelines(f"{time.time() - age * length},1,1\n" for age in (2, 2, 1, 0))
    template = tmp_path / "template"
    keep(agent.state, template)
    kills = victim.list_kills(agent, every=every)
    for kill_at in kills:
        reset(agent, template)
        is_killed = victim.run(agent, kill_at)
        agent.once()
        assert agent.once()["waiting"] == 0
        require_secret_counts(agent, [2, 1])
        require_no_second_draw(agent)
    assert not is_killed
    assert len(kills) > 8


def require_secret_counts(agent: Agent, expected: list[int]) -> None:
    plan, scaled = agent.server.plan, []
    for message in sorted(agent.server.stored.values(), key=lambda m: m.header.sequence):
        assert message.header.slots == (message.header.sequence, message.header.sequence)
        released = decode_payload(
            message.payload, width=plan.payload_width, n_coordinates=plan.n_coordinates
        )
        scaled.append(round(int(released[-1]) / plan.count_scale))
        # Every record is in one cell.
        assert released[:-1].sum() == released[-1]
    assert scaled == expected
    assert query(agent.state, "SELECT slot, n_records FROM open_slots") == [(len(expected), 1)]


def require_ledger_and_outbox_agree(agent: Agent) -> None:
    released = query(agent.state, "SELECT stream, sequence FROM events ORDER BY sequence")
    assert released == query(agent.state, "SELECT stream, sequence FROM outbox ORDER BY sequence")
    streams = query(agent.state, "SELECT next_sequence, first_record FROM streams") or [(0, 0)]
    assert streams == [(len(released), 10 * len(released))]


def require_each_record_once(agent: Agent) -> None:
    headers = [message.header for message in agent.server.stored.values()]
    assert sorted(header.sequence for header in headers) == [0, 1]
    ((still_open,),) = query(agent.state, "SELECT n_records FROM open_windows")
    assert sum(header.n_records or 0 for header in headers) + still_open == _N_RECORDS
    for message in agent.server.stored.values():
        require_sums(agent.server.plan, message)


def require_sums(plan: SketchPlan, message: SketchMessage) -> None:
    """Check that a sketch holds the ten records of its slot, each once."""
    header = message.header
    statistic = plan.statistic_of(header.device + b"/meter", block=header.block or 0)
    exact = SketchAccumulator(statistic, first_record=10 * header.sequence)
    exact.add(np.array([[float(f"{i % 7 - 3}.5"), header.sequence] for i in range(10)]))
    (released,) = PayloadForm.of(plan).decode(message.payload)
    assert np.abs(released - exact.sums).max() <= (50 if plan.value_range[0] else 0)


def require_no_second_draw(agent: Agent) -> None:
    bodies = defaultdict(set)
    for sketch_id, body in agent.server.received:
        bodies[sketch_id].add(body)
    assert {len(seen) for seen in bodies.values()} == {1}


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_released_sum_is_nowhere_on_the_disk(is_watched: bool, enrolled: Agent) -> None:
    # Whoever else has the database open keeps SQLite from tidying up when the agent ends.
    watcher = sqlite3.connect(enrolled.state / "agent.sqlite")
    if is_watched:
        watcher.execute("SELECT COUNT(*) FROM meta").fetchall()
    enrolled.append(0, lines=10)
    with enrolled.records.open("a") as file:
        file.write(f"{time.time()},1,1\n")
    enrolled.server.clock_offset = -30 * 365 * 86400.0
    enrolled.once()
    ((kept,),) = query(enrolled.state, "SELECT sums FROM open_windows")
    assert kept in files(enrolled)
    enrolled.server.clock_offset = 0.0
    enrolled.append(1, lines=10)
    enrolled.once()
    assert kept not in files(enrolled)
    watcher.close()


def files(agent: Agent) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(agent.state.glob("agent.sqlite*")))


@pytest.mark.parametrize("statement", ["DELETE FROM events", "UPDATE events SET epsilon = '0'"])
def test_the_ledger_cannot_be_rewritten(enrolled: Agent, statement: str) -> None:
    enrolled.append(0)
    enrolled.once()
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        query(enrolled.state, statement)


def reset(agent: Agent, template: Path) -> None:
    """Put back state and server as they were before the first run."""
    put_back(template, agent.state)
    agent.server.stored.clear()
    agent.server.received.clear()
