"""Which of the sketches that wait is next."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sfumato.device_agent.store.database import create_database, transaction
from sfumato.device_agent.store.outbox import (
    due_sketches,
    first_due,
    insert_sketch,
    mark_attempt,
    mark_sent,
)
from sfumato.device_agent.store.streams import suspend_stream

DAY = 86400.0


@pytest.fixture
def state(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(create_database(tmp_path)) as connection:
        yield connection


def insert(state: sqlite3.Connection, *numbers: int, stream: str = "meter") -> None:
    with transaction(state):
        for number in numbers:
            insert_sketch(
                state,
                sketch_id=stream.encode() + number.to_bytes(8, "big"),
                stream=stream,
                sequence=number,
                n_records=1,
                slots=None,
                released_at=float(number),
                message=b"signed",
            )


def attempt(state: sqlite3.Connection, number: int, *, now: float, until: float = 0.0) -> None:
    sketch_id = b"meter" + number.to_bytes(8, "big")
    mark_attempt(state, sketch_id, now=now, problem="no-answer", not_before=until)


def due(state: sqlite3.Connection, *, now: float) -> list[int]:
    return [s.sequence for s in due_sketches(state, now=now, longest_hold_s=DAY)]


def drain(state: sqlite3.Connection, *, now: float) -> list[int]:
    """Send one after the other, as the daemon does."""
    sent, tried = [], False
    while sketch := first_due(state, now=now, longest_hold_s=DAY, tried=tried):
        sent.append(sketch.sequence)
        mark_sent(state, sketch.sketch_id, now=now)
        tried = not tried
    return sent


def test_what_got_no_answer_once_takes_turns_with_a_whole_backlog(
    state: sqlite3.Connection,
) -> None:
    insert(state, *range(20))
    attempt(state, 0, now=100.0)
    attempt(state, 1, now=101.0)
    assert due(state, now=200.0)[:5] == [2, 0, 3, 1, 4]
    assert drain(state, now=200.0)[:5] == [2, 0, 3, 1, 4]


def test_what_never_gets_an_answer_keeps_no_other_waiting(state: sqlite3.Connection) -> None:
    insert(state, *range(40))
    for number in range(30):
        attempt(state, number, now=100.0 + number)
    order = due(state, now=1000.0)
    assert [order.index(number) for number in range(30, 40)] == list(range(0, 20, 2))


def test_what_is_held_waits_until_then_and_for_ever_after_no_clock(
    state: sqlite3.Connection,
) -> None:
    insert(state, 0, 1)
    attempt(state, 0, now=100.0, until=500.0)
    assert due(state, now=200.0) == [1]
    assert due(state, now=500.0) == [1, 0]
    # Held by a clock of the next century, which was set right since.
    attempt(state, 0, now=4e9, until=4e9 + 10)
    assert due(state, now=600.0) == [1, 0]


def test_nothing_of_a_suspended_stream_is_due(state: sqlite3.Connection) -> None:
    insert(state, 0)
    insert(state, 0, stream="other")
    with transaction(state):
        suspend_stream(state, "meter", "stopped by this test")
    (sketch,) = due_sketches(state, now=1.0, longest_hold_s=DAY)
    assert sketch.stream == "other"
    assert first_due(state, now=1.0, longest_hold_s=DAY, tried=True) == sketch
