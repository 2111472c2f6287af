"""Sketches of some of the features: which block a device chooses, and what it sums."""

import sqlite3
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.device_agent.agent.reading import windows as reading
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.wire import SketchMessage, decode_payload
from tests.device_agent.conftest import BASE, HOUR, Agent, make_plan
from tests.device_agent.serving import Server, running
from tests.ledgers import use_new_ledger

SLOT = BASE // HOUR
BY_COUNT = WindowRule(kind="count", length=10)
MakeAgent = Callable[[Server], Agent]


def make_split_plan(**changes: Any) -> SketchPlan:
    """8 features, 2 in a sketch; so much budget that the noise is next to nothing."""
    loud: dict[str, Any] = {"epsilon": Fraction(10**9), "mechanism": "discrete-laplace"}
    return make_plan(**(loud | {"frequencies_per_sketch": 2} | changes))


def start(make_agent: MakeAgent, server: Server, ordinal: int = 0) -> Agent:
    server.first_ordinal = ordinal
    agent = make_agent(server)
    use_new_ledger()
    agent.write_config(per_record=str(10**9))
    agent.init()
    return agent


def messages(server: Server) -> list[SketchMessage]:
    return sorted(server.stored.values(), key=lambda message: message.header.sequence)


def choose(plan: SketchPlan, turn: int, ordinal: int = 0) -> int:
    return plan.blocks.choose(ordinal=ordinal, stream="meter", turn=turn)


@pytest.mark.parametrize("ordinal", [0, 3, 1001])
def test_each_slot_has_the_block_of_its_number_and_of_the_devices_ordinal(
    ordinal: int, make_agent: MakeAgent
) -> None:
    plan = make_split_plan()
    with running(plan) as server:
        agent = start(make_agent, server, ordinal)
        agent.append(0, 1, 2, 3, 5, lines=10)
        agent.once()
        headers = [message.header for message in messages(server)]
    turns = [SLOT + i for i in (0, 1, 2, 3, 5)]
    assert [h.block for h in headers] == [choose(plan, turn, ordinal) for turn in turns]
    assert {h.block for h in headers} == {0, 1, 2, 3}


def test_windows_by_count_take_turns_by_their_number(make_agent: MakeAgent) -> None:
    plan = make_split_plan(window=BY_COUNT)
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0, lines=60)
        agent.once()
        blocks = [message.header.block for message in messages(server)]
    assert blocks == [choose(plan, turn) for turn in range(6)]


def test_a_sketch_is_the_sum_of_its_blocks_features_plus_noise_for_these(
    make_agent: MakeAgent,
) -> None:
    plan = make_split_plan(window=BY_COUNT)
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0, lines=40)
        agent.once()
        released = messages(server)
    records = np.array([[i % 7 - 3 + (0.5 if i % 7 >= 3 else -0.5), 0.0] for i in range(40)])
    m = plan.n_frequencies
    for message in released:
        header = message.header
        assert header.block is not None
        part = records[10 * header.sequence : 10 * header.sequence + 10]
        whole = SketchAccumulator(make_plan(window=BY_COUNT).statistic_of(b""))
        whole.add(part)
        members = plan.blocks.members[header.block]
        exact = np.concatenate([whole.sums[members], whole.sums[members + m]])
        sums = decode_payload(message.payload, width=plan.payload_width, n_coordinates=4)
        assert np.abs(sums - exact).max() <= 50


def test_an_open_window_keeps_its_block_from_run_to_run(make_agent: MakeAgent) -> None:
    plan = make_split_plan(window=WindowRule(kind="count", length=1000))
    values = np.round(np.random.default_rng(5).normal(size=(1650, 2)), 3)
    with running(plan) as server:
        agent = start(make_agent, server, 2)
        for part in np.array_split(values, 7):
            with agent.records.open("a") as file:
                file.writelines(f"0,{x!r},{y!r}\n" for x, y in part.tolist())
            agent.once()
        (device,) = server.devices
    block = choose(plan, 1, 2)
    expected = SketchAccumulator(plan.statistic_of(device + b"/meter", block=block))
    expected.add(values[1000:])
    connection = sqlite3.connect(agent.state / "agent.sqlite")
    row = connection.execute("SELECT block, sums, n_records FROM open_windows").fetchone()
    connection.close()
    assert (row[0], row[2]) == (block, 650)
    assert np.array_equal(np.frombuffer(row[1], dtype="<i8"), expected.sums)


def test_a_window_carried_over_keeps_the_block_of_its_first_slot(make_agent: MakeAgent) -> None:
    plan = make_split_plan(least_records=25)
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0, 1, 2, 7, 8, 9, lines=10)
        agent.once()
        found = [(m.header.slots, m.header.block) for m in messages(server)]
    assert found == [
        ((SLOT, SLOT + 2), choose(plan, SLOT)),
        ((SLOT + 7, SLOT + 9), choose(plan, SLOT + 7)),
    ]


def test_a_window_whose_first_time_cannot_be_read_is_released_all_the_same(
    make_agent: MakeAgent,
) -> None:
    plan = make_split_plan()
    with running(plan) as server:
        agent = start(make_agent, server)
        with agent.records.open("a") as file:
            file.write("soon,1,1\n")
        agent.append(0, 1, lines=5)
        agent.once()
        first, second = (message.header for message in messages(server))
    assert (first.slots, first.n_records) == ((SLOT, SLOT), 6)
    assert second.block == choose(plan, SLOT + 1)


def list_blocks(make_agent: MakeAgent) -> list[list[tuple[Any, int | None]]]:
    """Return slots and blocks for neighbours: one record has other values, or none to sketch."""
    plan, found = make_split_plan(), []
    for values in ("1,1", "-4.5,0.25", "none,1"):
        with running(plan) as server:
            agent = start(make_agent, server)
            with agent.records.open("a") as file:
                file.write(f"{BASE + 10},{values}\n")
            agent.append(0, 1, 2, lines=3)
            agent.once()
            found.append([(m.header.slots, m.header.block) for m in messages(server)])
        for path in sorted(agent.state.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        agent.records.write_text("time,x,y\n")
    return found


def test_values_decide_no_block(make_agent: MakeAgent) -> None:
    first, second, third = list_blocks(make_agent)
    assert first == second == third
    assert len(first) == 3


def test_a_block_that_follows_from_a_value_is_found(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant: a window whose first record cannot be sketched takes the next block."""
    right, add = reading.choose_block, reading.WindowReader.add
    unusable = [False]

    def note(self: Any, batch: Any) -> None:
        unusable[0] = bool(np.isnan(batch.values[0]).any())
        add(self, batch)

    def choose_by_value(device: Any, stream: Any, *, turn: int) -> int:
        return (right(device, stream, turn=turn) + unusable[0]) % 4

    monkeypatch.setattr(reading.WindowReader, "add", note)
    monkeypatch.setattr(reading, "choose_block", choose_by_value)
    first, second, third = list_blocks(make_agent)
    assert first == second != third
