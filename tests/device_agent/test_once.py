import json
import shutil
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import (
    ImplausibleSketchError,
    TooEarlyError,
    TransportError,
)
from sfumato.shared.plan import WindowRule
from sfumato.shared.wire import PayloadForm
from tests.device_agent.conftest import BASE, HOUR, Agent, AgentFor, make_other_plan, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.driver import Driver, put_back
from tests.device_agent.serving import TOKEN, Server, running


def test_complete_windows_are_released_and_arrive_verified(enrolled: Agent) -> None:
    enrolled.append(0, 1, 2, lines=10)
    report = enrolled.once()
    assert (report["records_read"], report["released"], report["sent"]) == (30, 3, 3)
    assert (report["waiting"], report["shelved"], report["unsketchable"]) == (0, 0, 0)
    assert report["raw_bytes_read"] == enrolled.records.stat().st_size - len("time,x,y\n")
    assert (report["epsilon_spent_per_record"], report["epsilon_spent_lifetime"]) == ("1", "3")
    assert report["bytes_sent"] == sum(len(body) for _, body in enrolled.server.received)
    headers = [message.header for message in enrolled.server.stored.values()]
    slot = BASE // HOUR
    assert [(h.sequence, h.slots, h.n_records) for h in headers] == [
        (i, (slot + i, slot + i), 10) for i in range(3)
    ]


def test_a_second_run_releases_nothing(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once()
    before = enrolled.dump()
    report = enrolled.once()
    assert (report["records_read"], report["released"], report["sent"]) == (0, 0, 0)
    assert enrolled.dump() == before


# So much budget that the noise of this mechanism is next to nothing.
LOUD: dict[str, Any] = {"epsilon": Fraction(10**9), "mechanism": "discrete-laplace"}
LEVELS = {"a": 0.0, "é": 1.0, '"1, or 2"': 2.0, " a ": 0.0}


@pytest.mark.parametrize(
    "statistic", ["fourier", "histogram", "grid", "moments", "clusters", "columns"]
)
def test_released_sums_are_the_exact_sums_plus_noise_of_the_planned_size(
    statistic: str, agent_for: AgentFor
) -> None:
    plan = make_plan(**LOUD) if statistic == "fourier" else make_other_plan(statistic, **LOUD)
    fields = [(f"{i % 7 - 3}.5", f"{i % 5}") for i in range(50)]
    if statistic == "columns":
        texts = [*LEVELS, "A", "e\u0301", "nan", "", '""', "1"]
        fields = [("" if i % 4 == 0 else x, texts[i % 10]) for i, (x, _) in enumerate(fields)]
    agent = agent_for(plan)
    server = agent.server
    agent.write_config(per_record=str(10**9))
    agent.init()
    lines = [f"{BASE + i},{','.join(record)}\n" for i, record in enumerate(fields)]
    agent.records.write_text("time,x,y\n" + "".join(lines), encoding="utf-8")
    agent.once()
    (message,) = server.stored.values()
    exact = SketchAccumulator(plan.statistic_of(message.header.device + b"/meter"))
    read = float if statistic != "columns" else lambda text: LEVELS.get(text, np.nan)
    exact.add(np.array([(float(x or "nan"), read(y)) for x, y in fields]))
    (released,) = PayloadForm.of(plan).decode(message.payload)
    assert np.abs(released - exact.sums).max() <= (50 if plan.value_range[0] else 0)


@pytest.mark.parametrize("measurements", [8, 2])
def test_an_open_window_is_carried_from_run_to_run_bit_for_bit(
    measurements: int, agent_for: AgentFor
) -> None:
    plan = make_plan(
        window=WindowRule(kind="count", length=1000), measurements_per_record=measurements
    )
    rng = np.random.default_rng(5)
    values = np.round(rng.normal(size=(1650, 2)), 3)
    agent = agent_for(plan)
    server = agent.server
    agent.init()
    for part in np.array_split(values, 7):
        with agent.records.open("a") as file:
            file.writelines(f"0,{x!r},{y!r}\n" for x, y in part.tolist())
        agent.once()
    (device,) = server.devices
    expected = SketchAccumulator(plan.statistic_of(device + b"/meter"), first_record=1000)
    expected.add(values[1000:])
    ((sums, n_records),) = query(agent.state, "SELECT sums, n_records FROM open_windows")
    assert n_records == 650
    assert np.array_equal(np.frombuffer(sums, dtype="<i8"), expected.sums)
    assert [m.header.slots for m in server.stored.values()] == [None]


def test_the_current_slot_stays_open_until_it_is_over(enrolled: Agent) -> None:
    with enrolled.records.open("a") as file:
        file.write(f"{time.time()},1,1\n{time.time() + 10 * HOUR},1,1\n")
    assert enrolled.once()["released"] == 0
    assert enrolled.run("status", "--json") == 0
    (stream,) = json.loads(enrolled.out)["streams"]
    assert stream["open_window"]["n_records"] == 2
    assert stream["open_window"]["slots"][0] <= time.time() // HOUR


def test_a_refused_budget_changes_nothing_and_other_sketches_are_still_sent(
    enrolled: Agent,
) -> None:
    enrolled.write_config(lifetime="2")
    enrolled.append(0, 1, 2, 3, lines=5)
    report = enrolled.once(status=3)
    assert (report["released"], report["sent"], report["epsilon_spent_lifetime"]) == (2, 2, "2")
    assert "budget.lifetime" in enrolled.err
    before = enrolled.dump()
    assert enrolled.once(status=3)["released"] == 0
    assert enrolled.dump() == before
    assert not [line for line in before if line.startswith('INSERT INTO "open_windows"')]
    enrolled.write_config(lifetime="4")
    report = enrolled.once()
    assert (report["released"], report["records_read"]) == (2, 10)


def test_gaussian_releases_are_judged_at_the_delta_of_the_budget(
    agent_for: AgentFor,
) -> None:
    agent = agent_for(make_plan(delta=Fraction(1, 10**6)))
    agent.write_config(delta="1e-9")
    assert agent.run("init", "--token", TOKEN) == 3
    assert "at delta 1e-09, above the owner's limit 1" in agent.err
    agent.write_config(lifetime="19/10", delta="1e-5")
    agent.init()
    agent.append(0, 1, 2, 3, lines=10)
    report = agent.once(status=3)
    assert "budget.lifetime" in agent.err
    # Sums of epsilon would allow one release; by concentrated losses three fit in 1.9.
    assert report["released"] == 3
    assert (report["epsilon_spent_lifetime"], report["delta_spent_lifetime"]) == ("3", "3/1000000")


def test_without_a_server_sketches_wait_and_the_same_bytes_arrive_later(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.server.stop()
    report = enrolled.once("--send-for", "0", status=75)
    assert (report["released"], report["sent"], report["waiting"]) == (2, 0, 2)
    assert any("cannot be checked" in message for message in report["messages"])
    kept = dict(query(enrolled.state, "SELECT sketch_id, message FROM outbox"))
    enrolled.server.start()
    report = enrolled.once()
    assert (report["released"], report["sent"], report["waiting"]) == (0, 2, 0)
    assert dict(enrolled.server.received) == kept


def test_a_busy_or_strange_server_does_not_hold_up_the_next_sketch_either(enrolled: Agent) -> None:
    # A stranger who answers everything with success is not believed.
    enrolled.server.answers = {0: TransportError("busy"), 1: 429, 2: 200}
    enrolled.append(0, 1, 2, 3)
    report = enrolled.once("--send-for", "0", status=75)
    assert (report["sent"], report["waiting"], report["shelved"]) == (1, 3, 0)


def test_sending_is_tried_again_within_the_time_given(enrolled: Agent) -> None:
    enrolled.append(0)
    enrolled.server.answers[0] = None
    report = enrolled.once("--send-for", "1.5", status=75)
    assert (report["sent"], report["waiting"]) == (0, 1)
    assert len(enrolled.server.received) > 1
    del enrolled.server.answers[0]
    assert enrolled.once()["sent"] == 1
    assert len(set(enrolled.server.received)) == 1


def test_a_refused_sketch_is_shelved_visibly_and_does_not_hold_up_the_next(
    enrolled: Agent,
) -> None:
    enrolled.server.answers = {0: ImplausibleSketchError("is not plausible", field="slots")}
    enrolled.append(0, 1, lines=5)
    report = enrolled.once()
    assert (report["sent"], report["shelved"], report["waiting"]) == (1, 1, 0)
    assert report["epsilon_spent_lifetime"] == "2"
    assert enrolled.run("status") == 0
    assert "implausible-sketch" in enrolled.out
    enrolled.append(2)
    assert enrolled.once()["sent"] == 1


@pytest.mark.parametrize("answer", [429, TooEarlyError("has not begun", field="slots")])
def test_a_server_that_asks_to_wait_is_not_asked_again_before(
    answer: int | TooEarlyError, enrolled: Agent
) -> None:
    enrolled.server.answers = {0: answer}
    enrolled.server.retry_after = "3600"
    enrolled.append(0)
    report = enrolled.once(status=75)
    assert (report["sent"], report["waiting"], report["shelved"]) == (0, 1, 0)
    enrolled.server.answers.clear()
    enrolled.once(status=75)
    assert len(enrolled.server.received) == 1


def test_one_stream_ahead_stops_them_all_though_clocks_differ(enrolled: Agent) -> None:
    enrolled.server.clock_offset = 86400.0
    enrolled.server.extra_sequences["other"] = 0
    enrolled.append(0)
    assert enrolled.run("once") == 3
    assert "stream other: the server holds sketches" in enrolled.err
    assert query(enrolled.state, "SELECT stream, sequence, copy FROM events") == [("other", 0, 1)]


def test_a_server_that_is_ahead_stops_a_restored_backup(enrolled: Agent, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    enrolled.append(0, 1, lines=5)
    shutil.copytree(enrolled.state, backup)
    enrolled.once()
    put_back(backup, enrolled.state)
    received = len(enrolled.server.received)
    assert enrolled.run("once", "--json") == 3
    assert "that this ledger never sent" in enrolled.err
    assert enrolled.run("budget", "--json") == 0
    assert [event["count"] for event in json.loads(enrolled.out)["events"]] == [2]
    # It stays stopped when the server cannot be asked.
    enrolled.server.stop()
    assert enrolled.once("--send-for", "0", status=3)["released"] == 0
    assert len(enrolled.server.received) == received


def test_bytes_sent_more_than_thirty_days_ago_are_dropped_and_nothing_else(
    enrolled: Agent,
) -> None:
    enrolled.append(0, 1)
    enrolled.once()
    age = "UPDATE outbox SET sent_at = sent_at - 31 * 86400 WHERE sequence = 0"
    query(enrolled.state, age)
    kept = "SELECT sequence, message IS NULL FROM outbox ORDER BY sequence"
    # By a clock that has jumped forward it is not that long ago.
    enrolled.server.clock_offset = -20 * 86400.0
    enrolled.once()
    assert query(enrolled.state, kept) == [(0, 0), (1, 0)]
    enrolled.server.clock_offset = 0.0
    enrolled.once()
    assert query(enrolled.state, kept) == [(0, 1), (1, 0)]
    enrolled.server.generation = "b" * 32
    enrolled.server.stored.clear()
    report = enrolled.once()
    assert report["sent"] == 1
    assert any("cannot be sent again" in text and "meter 0" in text for text in report["messages"])


def test_when_clocks_differ_no_window_is_closed_by_the_clock(enrolled: Agent) -> None:
    enrolled.append(0)
    for slot, offset in ((1, -7 * 86400.0), (2, 7 * 86400.0)):
        enrolled.append(slot)
        enrolled.server.clock_offset = offset
        report = enrolled.once()
        assert report["released"] == 1
        assert any("the server (" in message for message in report["messages"])
    enrolled.server.clock_offset = 0.0
    assert enrolled.once()["released"] == 1


def test_a_clock_that_jumps_forth_and_back_is_named_and_no_record_is_lost_or_released_twice(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_now, jump, n_written = BASE + 100.0 * HOUR, 0.0, 0
    monkeypatch.setattr(server, "now", lambda: time_now)
    device = Driver(tmp_path, server, clock=lambda: time_now + jump)
    device.enrol()
    unnamed = []
    for hours in (2, -2, 72, -72, 0, 960, -960, 9600, -9600, 0, 0, 0):
        time_now, jump = time_now + 2 * HOUR, hours * HOUR
        with device.records.open("a") as file:
            file.writelines(f"{time_now + jump - 60 + i},1,1\n" for i in range(3))
        n_written += 3
        time_now += 2 * HOUR
        (stream,) = device.once().streams
        if hours and not any(f"{abs(jump):.0f} s" in message for message in stream.messages):
            unnamed.append(hours)
    assert unnamed == []
    ((n_open,),) = query(device.state, "SELECT COALESCE(SUM(n_records), 0) FROM open_windows")
    stored = [message.header for message in server.stored.values()]
    assert sum(header.n_records or 0 for header in stored) + n_open == n_written
    assert sorted(header.sequence for header in stored) == list(range(len(stored)))


def test_a_record_is_believed_up_to_a_time_that_was_agreed_on_whatever_a_clock_says(
    enrolled: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with enrolled.records.open("a") as file:
        file.write(f"{now - 2 * HOUR},1,1\n{now - HOUR},1,1\n")
    # The battery is empty: it is 1970 after a restart, without a server.
    enrolled.server.stop()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert enrolled.once("--send-for", "0", status=75)["released"] == 1
    (slots,) = query(enrolled.state, "SELECT first_slot, last_slot FROM outbox")
    assert slots == ((now - 2 * HOUR) // HOUR, (now - 2 * HOUR) // HOUR)


@pytest.mark.parametrize("wrong", [0.0, 4294967296.0, -1e9, 1e11])
def test_a_clock_that_is_wrong_at_the_start_costs_nothing_once_it_is_right(
    wrong: float, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time()
    monkeypatch.setattr(agent.server, "now", lambda: right)
    monkeypatch.setattr(time, "time", lambda: wrong)
    agent.init()
    with agent.records.open("a") as file:
        file.writelines(f"{right - back * HOUR},1,1\n" for back in (3, 2))
    for arguments in (("check",), ("once", "--send-for", "0"), ("status",), ("budget",)):
        agent.run(*arguments)
        assert "defect" not in agent.err
        assert "Traceback" not in agent.err
    agent.server.stop()
    agent.run("once", "--send-for", "0")
    agent.server.start()
    monkeypatch.setattr(time, "time", lambda: right)
    agent.once()
    slots = [message.header.slots for message in agent.server.stored.values()]
    first = int(right // HOUR) - 3
    assert slots == [(first, first), (first + 1, first + 1)]


def test_before_the_studys_first_window_nothing_is_read_and_nothing_lost(
    make_agent: Callable[[Server], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    window = WindowRule(kind="time", origin=BASE, length_s=HOUR)
    right = time.time()
    with running(make_plan(window=window)) as server:
        monkeypatch.setattr(server, "now", lambda: right)
        monkeypatch.setattr(time, "time", lambda: 1000.0)
        agent = make_agent(server)
        agent.init()
        agent.append(0, 1, lines=3)
        server.stop()
        assert agent.once(status=2)["released"] == 0
        assert "1970-01-01T00:16:40Z, before the study's first window" in agent.err
        server.start()
        monkeypatch.setattr(time, "time", lambda: right)
        agent.once()
        assert [m.header.slots for m in server.stored.values()] == [(0, 0), (1, 1)]


def test_where_the_servers_clock_is_ahead_of_the_study_either_clock_may_be_wrong(
    make_agent: Callable[[Server], Agent],
) -> None:
    origin = int(time.time()) // HOUR * HOUR + 2 * HOUR
    with running(make_plan(window=WindowRule(kind="time", origin=origin, length_s=HOUR))) as server:
        server.clock_offset = 3.0 * HOUR
        agent = make_agent(server)
        agent.init()
        agent.once(status=2)
        assert "first window. Clock: this device (" in agent.err
        assert "Either may be wrong" in agent.err


def test_when_clocks_differ_the_earlier_one_bounds_the_slots(enrolled: Agent) -> None:
    enrolled.server.clock_offset = -7 * 86400.0
    # Device and server have never agreed on the time.
    query(enrolled.state, "DELETE FROM agreed_time")
    with enrolled.records.open("a") as file:
        file.write(f"{time.time() - 86400},1,1\n{time.time()},1,1\n")
    assert enrolled.once()["released"] == 0
    assert enrolled.run("status", "--json") == 0
    (stream,) = json.loads(enrolled.out)["streams"]
    assert stream["open_window"]["n_records"] == 2
    assert stream["open_window"]["slots"][1] <= enrolled.server.now() // HOUR


def test_a_renamed_file_goes_on_where_it_was_left_and_a_copy_is_another(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once()
    enrolled.records = enrolled.records.rename(enrolled.folder / "renamed.csv")
    enrolled.write_config(path="renamed.csv")
    enrolled.rejoin()
    report = enrolled.once()
    assert (report["records_read"], report["released"]) == (0, 0)
    enrolled.append(2, lines=5)
    assert enrolled.once()["records_read"] == 5
    shutil.copy(enrolled.records, enrolled.folder / "copy.csv")
    enrolled.write_config(path="copy.csv")
    enrolled.rejoin()
    assert enrolled.once()["records_read"] == 15


def test_a_file_under_another_stream_is_refused(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    text = enrolled.config.read_text().replace('"meter"', '"other"')
    enrolled.config.write_text(text)
    assert enrolled.once(status=3)["released"] == 0
    assert "stream 'meter' may have sketched already" in enrolled.err


def test_a_file_whose_beginning_changed_is_refused(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once()
    before = enrolled.dump()
    text = enrolled.records.read_text()
    enrolled.records.write_text(text.replace("5,0", "5,9", 1) + f"{BASE + 9 * HOUR},1,1\n")
    report = enrolled.once(status=3)
    assert report["released"] == 0
    assert "the part that was read has changed" in enrolled.err
    assert enrolled.dump() == before
    enrolled.records.write_text(text)
    assert enrolled.once()["released"] == 0
