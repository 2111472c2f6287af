"""Where presence is secret: what a device does depends on the clock, never on how much there is."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.device_agent.agent.exchange import clocks
from sfumato.device_agent.agent.reading import slots
from sfumato.device_agent.agent.reading.windows import open_stream_source
from sfumato.device_agent.sources import RecordBatch, RecordSource
from sfumato.shared.errors import RecordError
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.wire import SketchMessage, decode_payload
from tests.device_agent.conftest import Agent, AgentFor, make_plan
from tests.device_agent.driver import keep, put_back
from tests.device_agent.serving import Server, running

LENGTH = 1000
ORIGIN = 1_700_000_000
NOW = ORIGIN + 4 * LENGTH + 500.0
"""Slots 0 to 3 are over, slot 4 is open."""

SECRET: dict[str, Any] = {
    "neighbouring": "add-remove-one",
    "least_records": None,
    "window": WindowRule(kind="time", origin=ORIGIN, length_s=LENGTH),
}
# So much budget that the noise of this mechanism is next to nothing.
LOUD: dict[str, Any] = SECRET | {
    "epsilon": Fraction(10**9),
    "mechanism": "discrete-laplace",
    "most_records": 10_000,
}


class SlotClock:
    """The time of device and server alike."""

    now = NOW
    jumped = 0.0
    """By how much somebody has set it since."""
    started, boot = ORIGIN - 1e6, "first"

    def restart(self) -> None:
        """Start the machine again."""
        self.started, self.boot = self.now - self.jumped, "second"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SlotClock:
    clock = SlotClock()
    monkeypatch.setattr(time, "time", lambda: clock.now)
    monkeypatch.setattr(clocks, "_boot_time", lambda: clock.now - clock.jumped - clock.started)
    monkeypatch.setattr(clocks, "_boot_id", lambda: clock.boot)
    return clock


@pytest.fixture
def plan() -> SketchPlan:
    return make_plan(**SECRET)


@pytest.fixture
def secret(clock: SlotClock, agent: Agent) -> Agent:
    agent.init()
    return agent


@pytest.fixture
def loud(clock: SlotClock, make_agent: Callable[[Server], Agent]) -> Iterator[Agent]:
    with running(make_plan(**LOUD)) as server:
        agent = make_agent(server)
        agent.write_config(per_record=str(10**9))
        agent.init()
        yield agent


def write(agent: Agent, *times: float | str) -> None:
    with agent.records.open("a") as file:
        file.writelines(f"{t},1.5,-2\n" for t in times)


def at(slot: float) -> float:
    return ORIGIN + slot * LENGTH


def messages(agent: Agent) -> list[SketchMessage]:
    return sorted(agent.server.stored.values(), key=lambda m: m.header.sequence)


def counts(agent: Agent) -> list[int]:
    """Read the number of records off each stored sketch, which has next to no noise."""
    plan, found = agent.server.plan, []
    for message in messages(agent):
        released = decode_payload(
            message.payload, width=plan.payload_width, n_coordinates=plan.n_coordinates
        )
        found.append(round(int(released[-1]) / plan.count_scale))
    return found


def settle(agent: Agent) -> list[int]:
    """Release, and send what was released; return the numbers of records."""
    agent.once()
    agent.once()
    return counts(agent)


def query(agent: Agent, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(agent.state / "agent.sqlite")
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_every_slot_that_is_over_is_released_and_empty_ones_too(secret: Agent) -> None:
    write(secret, at(1.2), at(1.3), at(3.9), at(4.1))
    assert secret.once()["released"] == 4
    assert secret.once()["sent"] == 4
    headers = [message.header for message in messages(secret)]
    assert [(h.sequence, h.slots) for h in headers] == [(i, (i, i)) for i in range(4)]
    assert {(h.n_records, h.n_public) for h in headers} == {(None, False)}
    assert {len(message.payload) for message in messages(secret)} == {
        secret.server.plan.payload_bytes
    }


def test_slots_in_which_the_agent_was_off_are_released_as_empty(
    loud: Agent, clock: SlotClock
) -> None:
    write(loud, at(0.5), at(4.1))
    loud.once()
    clock.now = at(9.5)
    write(loud, at(9.2))
    assert settle(loud) == [1, 0, 0, 0, 1, 0, 0, 0, 0]


def test_each_record_is_in_its_own_slot_and_a_late_one_in_the_lowest_that_is_left(
    loud: Agent, clock: SlotClock
) -> None:
    write(loud, at(4.2), at(1.5), at(-7), at(2.5), "not a time", at(1.6), at(400), at(4.3))
    loud.once()
    clock.now = at(6.5)
    write(loud, at(0.1), at(5.5), "")
    loud.once()
    loud.once()
    # Before the origin and untimed: slot 0. From the future: the open slot. Later ones: slot 4.
    assert counts(loud) == [2, 2, 1, 0, 5, 1]


def test_a_record_that_cannot_be_sketched_counts_in_the_secret_number(loud: Agent) -> None:
    with loud.records.open("a") as file:
        file.write(f"{at(0.5)},nan,1\n{at(0.5)},x,1\n{at(0.5)},1,1\nbroken\n")
    assert settle(loud) == [4, 0, 0, 0]


def test_more_records_than_the_plan_foresees_change_nothing_but_a_saturated_release(
    clock: SlotClock, agent_for: AgentFor
) -> None:
    plan = make_plan(**(LOUD | {"most_records": 10}))
    agent = agent_for(plan)
    agent.write_config(per_record=str(10**9))
    agent.init()
    write(agent, *([at(1.5)] * 50))
    agent.once()
    agent.once()
    assert [m.header.slots for m in messages(agent)] == [(i, i) for i in range(4)]
    limit = plan.coordinate_limits(None)[1][-1] / plan.count_scale
    assert counts(agent) == [0, round(limit), 0, 0]


def test_what_a_run_releases_is_sent_by_the_next_before_anything_is_read(secret: Agent) -> None:
    write(secret, at(0.5))
    asked = [
        "GET /v1/devices/me",
        f"GET /v1/studies/{secret.study}",
        "PUT /v1/devices/me/heartbeat",
    ]
    secret.server.requests.clear()
    report = secret.once()
    assert (report["released"], report["sent"], report["waiting"]) == (4, 0, 4)
    assert secret.server.requests == asked
    # Sent though the source cannot be read at all: reading comes after.
    secret.records.unlink()
    report = secret.once(status=2)
    assert (report["sent"], report["waiting"]) == (4, 0)


def test_waiting_for_the_next_run_is_no_failure_but_an_absent_server_is(secret: Agent) -> None:
    assert secret.run("once") == 0
    assert "4 waiting" in secret.out
    assert "next: the next `once` sends them first" in secret.out
    secret.server.stop()
    assert secret.once("--send-for", "0", status=75)["waiting"] == 4
    assert secret.once("--no-send")["waiting"] == 4


CONTENTS = {
    "no record": "",
    "one record": f"{at(1.5)},1,1\n",
    "many records, some unusable, one unfinished": f"{at(1.5)},1,1\n" * 5000
    + f"{at(2.5)},x,1\n,1,1\n\nbroken\n{at(9.5)},99,99\n" * 7
    + f"{at(1.5)},1",
}


def watch(agent: Agent, template: Path, content: str) -> dict[str, Any]:
    """Return all that a device says, sends and keeps of its releases, for these records."""
    put_back(template, agent.state)
    agent.server.stored.clear()
    agent.server.received.clear()
    agent.server.requests.clear()
    agent.records.write_text("time,x,y\n" + content)
    seen: dict[str, Any] = {}
    for run in ("first", "second"):
        for command in (
            ["check"],
            ["once"] if run == "first" else ["once", "--json"],
            ["status"],
            ["status", "--json"],
            ["budget"],
            ["budget", "--json"],
        ):
            status = agent.run(command[0], *command[1:])
            seen[f"{run} {' '.join(command)}"] = (status, agent.out, agent.err)
        seen[f"{run} requests"] = list(agent.server.requests)
    seen["sizes"] = [len(body) for _, body in agent.server.received]
    kept = query(agent, "SELECT * FROM outbox ORDER BY sequence")
    seen["kept"] = [[v for v in row if not isinstance(v, bytes)] for row in kept]
    seen["events"] = query(agent, "SELECT * FROM events")
    seen["streams"] = query(agent, "SELECT * FROM streams")
    return seen


def test_nothing_that_a_device_says_sends_or_keeps_tells_how_many_records_there_are(
    secret: Agent, tmp_path: Path
) -> None:
    template = tmp_path / "template"
    keep(secret.state, template)
    seen = {name: watch(secret, template, content) for name, content in CONTENTS.items()}
    reference = seen.pop("no record")
    assert reference["first once"][0] == 0
    assert reference["sizes"] == [reference["sizes"][0]] * 4
    for name, other in seen.items():
        for what, expected in reference.items():
            assert other[what] == expected, (name, what)


@pytest.mark.parametrize("error", ["missing", "replaced"])
def test_a_source_that_cannot_be_read_holds_up_no_slot_and_loses_nothing(
    error: str, loud: Agent, clock: SlotClock
) -> None:
    write(loud, at(0.5), at(4.1))
    loud.once()
    away = loud.records.rename(loud.folder / "away.csv")
    if error == "replaced":
        loud.records.write_text("time,x,y\n" + "1,1,1\n" * 9)
    clock.now = at(6.5)
    assert loud.once(status=2 if error == "missing" else 3)["released"] == 2
    away.rename(loud.records)
    write(loud, at(5.5))
    clock.now = at(7.5)
    assert settle(loud) == [1, 0, 0, 0, 1, 0, 1]


def test_where_a_source_breaks_off_decides_nothing(
    loud: Agent, clock: SlotClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(loud, *([at(3.5)] * 5000))

    class Broken:
        """Breaks off behind its first batch."""

        def __init__(self, source: RecordSource) -> None:
            self.report, self.close, self._source = source.report, source.close, source

        def read(self) -> Iterator[RecordBatch]:
            yield next(iter(self._source.read()))
            raise RecordError("broke off", field="source")

    right = open_stream_source
    with monkeypatch.context() as patch:
        patch.setattr(slots, "open_stream_source", lambda *a: Broken(right(*a)))
        assert loud.once(status=2)["released"] == 4
    assert query(loud, "SELECT * FROM positions") == []
    clock.now = at(5.5)
    assert settle(loud) == [0, 0, 0, 0, 5000]


def test_how_long_reading_takes_is_noted_nowhere(
    secret: Agent, clock: SlotClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(secret, at(0.5))

    def open_slowly(*arguments: Any) -> RecordSource:
        clock.now += 300.0
        return open_stream_source(*arguments)

    monkeypatch.setattr(slots, "open_stream_source", open_slowly)
    assert secret.once()["released"] == 4
    for table in ("outbox", "events"):
        assert query(secret, f"SELECT DISTINCT released_at FROM {table}") == [(NOW,)]


def test_records_of_more_slots_than_memory_holds_are_each_in_their_own(
    loud: Agent, clock: SlotClock
) -> None:
    clock.now = at(20.5)
    rng = np.random.default_rng(7)
    places = rng.permutation(np.repeat(np.arange(20), 3) + 0.5)
    write(loud, *(at(place) for place in places.tolist()))
    assert settle(loud) == [3] * 20


def test_a_budget_that_does_not_pay_for_every_slot_that_is_due_releases_and_reads_nothing(
    secret: Agent,
) -> None:
    secret.write_config(lifetime="3")
    write(secret, at(0.5))
    before = secret.dump()
    assert secret.once(status=3)["released"] == 0
    assert "budget.lifetime" in secret.err
    assert secret.run("check") == 3
    assert secret.dump() == before


def test_what_the_budget_can_never_release_joins_the_last_slot_that_it_pays_for(
    loud: Agent, clock: SlotClock
) -> None:
    loud.write_config(per_record=str(10**9), lifetime=str(4 * 10**9))
    write(loud, at(0.5), at(4.1), at(4.2))
    assert loud.once()["released"] == 4
    assert query(loud, "SELECT * FROM open_slots") == []
    write(loud, at(4.3))
    assert loud.once(status=3)["sent"] == 4
    assert counts(loud) == [1, 0, 0, 2]
    assert query(loud, "SELECT * FROM open_slots") == []


def test_when_clocks_differ_records_are_kept_and_no_slot_is_released(loud: Agent) -> None:
    loud.server.clock_offset = -7 * 86400.0
    write(loud, at(0.5), at(2.5))
    report = loud.once()
    assert report["released"] == 0
    assert any("the server (" in message for message in report["messages"])
    loud.server.clock_offset = 0.0
    assert loud.once()["released"] == 4
    loud.once()
    assert sum(counts(loud)) == 2


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("lifetime", [None, "5"])
def test_without_the_server_a_clock_that_is_set_forward_releases_and_spends_nothing(
    lifetime: str | None, restarts: bool, secret: Agent, clock: SlotClock
) -> None:
    secret.write_config(lifetime=lifetime)
    secret.once()
    secret.once()
    spent = query(secret, "SELECT COUNT(*) FROM events")
    assert spent == [(4,)]
    secret.server.stop()
    if restarts:
        clock.restart()
    clock.now, clock.jumped = at(4000.5), 3996.0 * LENGTH
    write(secret, at(4.1))
    for _ in range(2):
        assert secret.once("--send-for", "0")["released"] == 0
        assert "server" in secret.out
    assert query(secret, "SELECT COUNT(*) FROM events") == spent
    secret.server.start()
    clock.now, clock.jumped = at(5.5), 0.0
    secret.once()
    assert query(secret, "SELECT COUNT(*) FROM events") == [(5,)]


def test_without_the_server_slots_are_released_as_time_passes(
    secret: Agent, clock: SlotClock
) -> None:
    secret.once()
    secret.once()
    secret.server.stop()
    for slot in (5, 6, 9):
        clock.now = at(slot + 0.5)
        secret.run("once", "--send-for", "0")
        assert query(secret, "SELECT MAX(sequence) FROM events") == [(slot - 1,)]


def test_a_device_that_never_agreed_with_its_server_releases_no_slot_without_it(
    secret: Agent, clock: SlotClock
) -> None:
    connection = sqlite3.connect(secret.state / "agent.sqlite")
    with connection:
        connection.execute("DELETE FROM agreed_time")
    connection.close()
    secret.server.stop()
    report = secret.once("--send-for", "0")
    assert report["released"] == 0
    assert any("have never agreed on the time" in text for text in report["messages"])


def test_nothing_is_released_before_the_study_begins(loud: Agent, clock: SlotClock) -> None:
    clock.now = at(-5.5)
    write(loud, at(-5.6))
    assert loud.once()["released"] == 0
    clock.now = at(1.5)
    assert settle(loud) == [1]


def test_a_released_sum_is_nowhere_on_the_disk(secret: Agent, clock: SlotClock) -> None:
    write(secret, *(at(4.1 + i / 100) for i in range(10)))
    secret.once()
    ((kept,),) = query(secret, "SELECT sums FROM open_slots")
    assert kept in _files(secret)
    clock.now = at(5.5)
    secret.once()
    assert kept not in _files(secret)
    assert query(secret, "SELECT * FROM open_slots") == []


def _files(agent: Agent) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(agent.state.glob("agent.sqlite*")))


def test_how_records_arrive_in_runs_and_batches_changes_no_sum(
    loud: Agent, clock: SlotClock
) -> None:
    rng = np.random.default_rng(3)
    timestamps = rng.uniform(at(4), at(5), 9000)
    for part in np.array_split(timestamps, 3):
        write(loud, *part.tolist())
        loud.once()
    ((n_records, sums),) = query(loud, "SELECT n_records, sums FROM open_slots")
    assert n_records == 9000
    feature = np.frombuffer(sums, dtype="<i8") // 9000
    assert np.array_equal(feature * 9000, np.frombuffer(sums, dtype="<i8"))


def test_the_status_of_an_open_slot_is_secret(secret: Agent) -> None:
    write(secret, at(4.1))
    secret.once()
    secret.run("status", "--json", "--value-counts")
    document = json.loads(secret.out)
    (stream,) = document["streams"]
    assert stream["open_window"] == {"n_records": None, "unsketchable": None, "slots": None}
    assert {sketch["n_records"] for sketch in document["sketches"]} == {None}


def test_many_slots_are_announced_before_they_are_released_and_counted_on_the_way(
    clock: SlotClock, secret: Agent
) -> None:
    clock.now = at(110.5)
    secret.run("check")
    assert "would release 110 sketch(es) of about" in secret.out
    secret.once()
    assert secret.err.splitlines()[:2] == [
        "sfumato-agent: note: stream meter: releases 110 sketch(es) of about 468 bytes, one for "
        "each slot that is over, also where it has no records; it takes 0.0 to 0.1 minutes",
        "sfumato-agent: note: stream meter: 100 of 110 are released",
    ]
    secret.once()
    assert not secret.err
