import itertools
from collections.abc import Iterator
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.device_agent.store.database import Connection, create_database, sum_ledger, transaction
from sfumato.device_agent.store.ledger import append_event, load_entries
from sfumato.shared.privacy import PrivacyEvent


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with closing(create_database(tmp_path)) as connection:
        yield connection


def event(
    sequence: int, *, stream: str = "a", epsilon: int = 1, relation: str = "replace-one"
) -> PrivacyEvent:
    return PrivacyEvent(
        stream=stream,
        plan_digest=b"p",
        sequence=sequence,
        neighbouring=relation,
        epsilon=Fraction(epsilon, 3),
    )


def release(connection: Connection, *events: PrivacyEvent) -> None:
    with transaction(connection):
        for one in events:
            append_event(connection, one, 0.0)


def count_steps(connection: Connection) -> int:
    """Count what SQLite does to sum the ledger, in hundreds of steps of its machine."""
    steps = itertools.count()
    connection.set_progress_handler(lambda: next(steps) < 0, 100)
    sum_ledger(connection)
    connection.set_progress_handler(None, 100)
    return next(steps)


def test_releases_of_one_cost_are_one_event(connection: Connection) -> None:
    for sequence in range(5):
        release(connection, event(sequence), event(sequence, stream="b"))
        sum_ledger(connection)
    release(connection, event(5, epsilon=2))
    found = {(e.stream, e.epsilon): (e.count, e.sequence) for e in sum_ledger(connection)}
    assert found == {
        ("a", Fraction(1, 3)): (5, 4),
        ("b", Fraction(1, 3)): (5, 4),
        ("a", Fraction(2, 3)): (1, 5),
    }
    assert sum(e.count for e in sum_ledger(connection)) == len(load_entries(connection)) == 11


def test_releases_under_two_relations_are_two_events_and_none_is_without(
    connection: Connection,
) -> None:
    release(connection, event(0), event(1, relation="add-remove-one"), event(2))
    found = {e.neighbouring: e.count for e in sum_ledger(connection)}
    assert found == {"replace-one": 2, "add-remove-one": 1}
    entries = [entry.event.neighbouring for entry in load_entries(connection)]
    assert entries == ["replace-one", "add-remove-one", "replace-one"]
    columns = connection.execute("PRAGMA table_info(events)").fetchall()
    (column,) = (row for row in columns if row["name"] == "neighbouring")
    assert (column["notnull"], column["dflt_value"]) == (1, None)


def test_a_release_that_is_taken_back_is_counted_only_until_then(connection: Connection) -> None:
    release(connection, event(0))
    with suppress(KeyboardInterrupt), transaction(connection):
        append_event(connection, event(1, epsilon=9), 0.0)
        assert sum(e.count for e in sum_ledger(connection)) == 2
        raise KeyboardInterrupt
    release(connection, event(1))
    assert [(e.epsilon, e.count) for e in sum_ledger(connection)] == [(Fraction(1, 3), 2)]


def test_a_long_past_is_read_once(connection: Connection) -> None:
    release(connection, *(event(sequence) for sequence in range(2000)))
    first = count_steps(connection)
    release(connection, event(2000))
    then = count_steps(connection)
    assert then < 5
    assert first > 50
    assert [e.count for e in sum_ledger(connection)] == [2001]
