"""Plans that protect all records of a device together: means of windows, and phase reports."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.mechanisms.phase import find_phases
from sfumato.shared.wire import PayloadForm, SketchMessage
from tests.device_agent.conftest import BASE, HOUR, Agent, make_plan
from tests.device_agent.serving import Server, running
from tests.ledgers import use_new_ledger

SLOT = BASE // HOUR
MakeAgent = Callable[[Server], Agent]


def make_phase_plan(**changes: Any) -> SketchPlan:
    """8 features, 2 in a report, three days of one device."""
    choices: dict[str, Any] = {
        "release": "phase.v1",
        "most_records": None,
        "least_records": None,
        "frequencies_per_sketch": 2,
        "most_sketches_per_device": 72,
    }
    return make_plan(**(choices | changes))


def start(make_agent: MakeAgent, server: Server, *, per_record: str = "1") -> Agent:
    agent = make_agent(server)
    agent.write_config(per_record=per_record)
    agent.init()
    return agent


def messages(server: Server) -> list[SketchMessage]:
    return sorted(server.stored.values(), key=lambda message: message.header.sequence)


def read_sums(plan: SketchPlan, message: SketchMessage) -> Any:
    return PayloadForm.of(plan).decode(message.payload)[0]


def test_a_sketch_is_the_mean_of_its_window_and_counts_as_one_record(
    make_agent: MakeAgent,
) -> None:
    plan = make_plan(unit="device", epsilon=Fraction(10**9), mechanism="discrete-laplace")
    with running(plan) as server:
        agent = start(make_agent, server, per_record=str(10**9))
        agent.append(0, lines=3)
        agent.append(1, lines=30)
        agent.once()
        first, second = messages(server)
    assert [m.header.n_records for m in (first, second)] == [1, 1]
    for message, lines, slot in ((first, 3, 0), (second, 30, 1)):
        values = [[float(f"{i % 7 - 3}.5"), float(slot % 5)] for i in range(lines)]
        whole = SketchAccumulator(plan.statistic_of(b""))
        whole.add(np.array(values))
        # At so much epsilon the noise is a few units.
        assert np.abs(read_sums(plan, message) - whole.sums / lines).max() < 60


def test_a_full_window_leaves_out_what_follows_in_its_slot(make_agent: MakeAgent) -> None:
    plan = make_plan(unit="device", most_records=4)
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0, lines=10)
        agent.append(1, lines=2)
        document = agent.once()
        headers = [message.header for message in messages(server)]
        # Nothing is left of the records that were left out.
        agent.once()
        assert len(server.stored) == 2
    assert [h.slots for h in headers] == [(SLOT, SLOT), (SLOT + 1, SLOT + 1)]
    assert document["released"] == 2


def test_a_phone_reports_the_first_record_of_each_slot_in_four_bytes(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, drawn = make_phase_plan(), []
    right = plan.mechanism.__class__.add_noise

    def spy(self: Any, sums: Any, source: Any) -> Any:
        drawn.append(sums.copy())
        return right(self, sums, source)

    monkeypatch.setattr(plan.mechanism.__class__, "add_noise", spy)
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0, 1, 2, 3, lines=5)
        agent.once()
        released = messages(server)
    assert [len(message.payload) for message in released] == [4] * 4
    assert {message.header.kind for message in released} == {"phase.v1"}
    assert {message.header.n_records for message in released} == {1}
    blocks = [message.header.block for message in released]
    assert blocks == [
        plan.blocks.choose(ordinal=0, stream="meter", turn=SLOT + i) for i in range(4)
    ]
    for i, (sums, block) in enumerate(zip(drawn, blocks, strict=True)):
        first = SketchAccumulator(plan.statistic_of(b"", block=block or 0))
        first.add(np.array([[-3.5, float(i % 5)]]))
        assert np.array_equal(sums, first.sums)


@pytest.mark.parametrize("values", ["none,1", "1,nan", ",", "1"])
def test_a_slot_whose_first_record_is_unusable_reports_it_and_not_the_next(
    values: str, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, uniform = make_phase_plan(), []
    right = plan.mechanism.__class__.add_noise

    def spy(self: Any, sums: Any, source: Any) -> Any:
        uniform.append(not sums.any())
        return right(self, sums, source)

    monkeypatch.setattr(plan.mechanism.__class__, "add_noise", spy)
    with running(plan) as server:
        agent = start(make_agent, server)
        with agent.records.open("a") as file:
            file.write(f"{BASE},{values}\n{BASE + 1},1,1\n")
        agent.append(1, lines=2)
        agent.once()
        headers = [message.header for message in messages(server)]
    assert uniform == [True, False]
    assert [h.slots for h in headers] == [(SLOT, SLOT), (SLOT + 1, SLOT + 1)]


def test_a_device_releases_no_more_than_its_plan_accepts(make_agent: MakeAgent) -> None:
    plan = make_phase_plan(most_sketches_per_device=2)
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0, 1, 2, 3, lines=2)
        assert agent.once()["released"] == 2
        refused = agent.once()
        assert len(server.stored) == 2
    # The budget of what no server takes is not spent.
    assert refused["released"] == 0
    assert refused["epsilon_spent_lifetime"] == "2"
    assert refused["errors"] == []
    assert "allows 2 sketch(es) of a device" in refused["messages"][0]


def test_what_is_sent_of_a_window_does_not_tell_how_many_records_it_has(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours: one window has other records, and more of them; the draw is the same."""
    plan, found = make_plan(unit="device"), []
    silence = np.zeros(plan.n_coordinates, dtype=np.int64)
    monkeypatch.setattr(SketchPlan, "draw_release", lambda *_: silence)
    for lines in (1, 2, 50):
        use_new_ledger()
        with running(plan) as server:
            agent = start(make_agent, server)
            agent.append(0, lines=lines)
            agent.append(1, lines=3)
            agent.once()
            found.append(
                [
                    (m.header.slots, m.header.n_records, m.header.sequence, len(m.payload))
                    for m in messages(server)
                ]
            )
        for path in sorted(agent.state.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        agent.records.write_text("time,x,y\n")
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2


def test_the_payload_of_a_report_is_its_phases(make_agent: MakeAgent) -> None:
    plan = make_phase_plan(frequencies_per_sketch=8)
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0)
        agent.once()
        (message,) = messages(server)
    phases = np.frombuffer(message.payload, dtype="<u2")
    sums = read_sums(plan, message)
    assert len(phases) == 8
    assert message.header.block is None
    assert np.array_equal(find_phases(sums.reshape(2, -1)), find_phases(sums.reshape(2, -1)))
    assert np.abs(np.hypot(*sums.reshape(2, -1)) / plan.amplitude - 1).max() < 3e-4


def test_a_stream_under_another_name_releases_no_second_sketch_of_a_slot(
    make_agent: MakeAgent,
) -> None:
    plan = make_plan(unit="device")
    with running(plan) as server:
        agent = start(make_agent, server)
        agent.append(0, lines=2)
        agent.once()
        renamed = agent.config.read_text().replace('"meter"', '"other"')
        agent.config.write_text(renamed.replace("records.csv", "more.csv"))
        (agent.folder / "more.csv").write_text(f"time,x,y\n{BASE},1,1\n")
        assert "one more than the 1 that the plan accepts" in agent.once(status=3)["errors"][0]
        assert len(server.stored) == 1


def test_no_report_of_the_device_tells_how_many_records_a_window_has(
    make_agent: MakeAgent,
) -> None:
    with running(make_plan(unit="device")) as server:
        agent = start(make_agent, server)
        agent.append(0, lines=37)
        assert agent.run("check") == 0
        shown = agent.out
        document = agent.once("--no-send")
        agent.run("status", "--json", "--value-counts")
        shown += agent.out + str(document)
    assert document["records_read"] is None
    assert not re.search(r"\b37( new)? record|: 37\b", shown)


def test_records_without_a_readable_time_or_of_a_closed_slot_are_left_out(
    make_agent: MakeAgent,
) -> None:
    with running(make_phase_plan()) as server:
        agent = start(make_agent, server)
        with agent.records.open("a") as file:
            file.write("soon,1,1\n")
        agent.append(0, lines=2)
        agent.once()
        agent.append(0, lines=3)
        with agent.records.open("a") as file:
            file.write("later,1,1\n")
        agent.append(5)
        agent.once()
        slots = [message.header.slots for message in messages(server)]
    assert slots == [(SLOT, SLOT), (SLOT + 5, SLOT + 5)]
