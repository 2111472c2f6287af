"""The agent is killed before every statement that writes, and then run again."""

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from shared.plan import WindowRule
from shared.wire import decode_payload
from tests.device_agent.conftest import HOUR, Agent, make_plan
from tests.device_agent.server import Server, running

# Runs the real command, and kills itself when SQLite is about to execute the n-th write. What the
# statement before it did is then done, so every gap between two writes is tried.
_DRIVER = """
import os, signal, sqlite3, sys
kill_at = int(sys.argv[1])
count = 0

def trace(statement):
    global count
    if statement.lstrip().split(" ", 1)[0].upper() in WRITES or "wal_checkpoint" in statement:
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

WRITES = {"BEGIN", "INSERT", "UPDATE", "DELETE", "COMMIT", "--"}
connect = sqlite3.connect

def traced(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.set_trace_callback(trace)
    return connection

sqlite3.connect = traced
from device_agent.cli import main
sys.exit(main(sys.argv[2:]))
"""
_PARTS = 4
_N_RECORDS = 21


def run_and_kill(agent: Agent, kill_at: int) -> int:
    arguments = [str(kill_at), "once", "--json", "--config", str(agent.config)]
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def query(agent: Agent, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(agent.state / "agent.sqlite")
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("part", range(_PARTS))
def test_killed_anywhere_either_nothing_was_released_or_the_same_bytes_are_sent(
    part: int, enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, 1, lines=10)
    with enrolled.records.open("a") as file:
        file.write(f"{time.time() + HOUR},1,1\n")
    template = tmp_path / "template"
    shutil.copytree(enrolled.state, template)
    kill_at, status = part + 1, -signal.SIGKILL
    while status == -signal.SIGKILL:
        shutil.rmtree(enrolled.state)
        shutil.copytree(template, enrolled.state)
        enrolled.server.stored.clear()
        enrolled.server.received.clear()
        status = run_and_kill(enrolled, kill_at)
        require_ledger_and_outbox_agree(enrolled)
        report = enrolled.once()
        assert (report["waiting"], report["shelved"]) == (0, 0)
        require_each_record_once(enrolled)
        require_no_second_draw(enrolled)
        kill_at += _PARTS
    # The last round must have been one that nothing interrupted.
    assert report["released"] == 0
    assert kill_at > 3 * _PARTS


@pytest.mark.parametrize("part", range(2))
def test_killed_anywhere_every_slot_is_released_once_and_each_record_is_in_one(
    part: int, make_agent: Callable[[Server], Agent], tmp_path: Path
) -> None:
    # Where presence is secret. So much budget that the counts can be read off the sketches.
    length = 10**7
    plan = make_plan(
        neighbouring="add-remove-one",
        least_records=None,
        mechanism="discrete-laplace",
        epsilon=Fraction(10**9),
        window=WindowRule(kind="time", origin=int(time.time() - 2.5 * length), length_s=length),
    )
    with running(plan) as server:
        agent = make_agent(server)
        agent.write_config(per_record=str(10**9))
        agent.init()
        with agent.records.open("a") as file:
            file.writelines(f"{time.time() - age * length},1,1\n" for age in (2, 2, 1, 0))
        template = tmp_path / "template"
        shutil.copytree(agent.state, template)
        kill_at, status = part + 1, -signal.SIGKILL
        while status == -signal.SIGKILL:
            shutil.rmtree(agent.state)
            shutil.copytree(template, agent.state)
            server.stored.clear()
            server.received.clear()
            status = run_and_kill(agent, kill_at)
            agent.once()
            assert agent.once()["waiting"] == 0
            require_secret_counts(agent, [2, 1])
            require_no_second_draw(agent)
            kill_at += 2
        assert kill_at > 8


def require_secret_counts(agent: Agent, expected: list[int]) -> None:
    plan, scaled = agent.server.plan, []
    for message in sorted(agent.server.stored.values(), key=lambda m: m.header.sequence):
        assert message.header.slots == (message.header.sequence, message.header.sequence)
        released = decode_payload(
            message.payload, width=plan.payload_width, n_coordinates=plan.n_coordinates
        )
        scaled.append(round(int(released[-1]) / plan.release.count_scale))
    assert scaled == expected
    assert query(agent, "SELECT slot, n_records FROM open_slots") == [(len(expected), 1)]


def require_ledger_and_outbox_agree(agent: Agent) -> None:
    released = query(agent, "SELECT stream, sequence FROM events ORDER BY sequence")
    assert released == query(agent, "SELECT stream, sequence FROM outbox ORDER BY sequence")
    streams = query(agent, "SELECT next_sequence, first_record FROM streams") or [(0, 0)]
    assert streams == [(len(released), 10 * len(released))]


def require_each_record_once(agent: Agent) -> None:
    headers = [message.header for message in agent.server.stored.values()]
    assert sorted(header.sequence for header in headers) == [0, 1]
    ((still_open,),) = query(agent, "SELECT n_records FROM open_windows")
    assert isinstance(still_open, int)
    assert sum(header.n_records or 0 for header in headers) + still_open == _N_RECORDS


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
        file.write(f"{time.time() + HOUR},1,1\n")
    enrolled.server.clock_offset = -30 * 365 * 86400.0
    enrolled.once()
    ((kept,),) = query(enrolled, "SELECT sums FROM open_windows")
    assert isinstance(kept, bytes)
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
        query(enrolled, statement)


def test_a_full_disk_releases_nothing_and_says_so(
    enrolled: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrolled.append(0, lines=5)
    before = enrolled.dump()
    connect = sqlite3.connect

    def limited(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)  # type: ignore[call-overload]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", limited)
        enrolled.append(*range(1, 200), lines=1)
        enrolled.once("--no-send", status=2)
    assert "full" in enrolled.err
    released = query(enrolled, "SELECT COUNT(*) FROM events")
    assert released == query(enrolled, "SELECT COUNT(*) FROM outbox")
    assert len(before) <= len(enrolled.dump())
    assert enrolled.once()["waiting"] == 0
    assert sum(m.header.n_records or 0 for m in enrolled.server.stored.values()) == 204
