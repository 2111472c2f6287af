"""What becomes of a state whose files were damaged: real ones, made by the real agent."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from device_agent.store import JOURNAL_NAME
from device_agent.store.journal import read_journal
from device_agent.store.streams import write_stream
from shared.errors import StoreError
from tests.device_agent.conftest import HOUR, Agent
from tests.device_agent.daemons import query

N_SENT, N_WAITING, N_OPEN = 3, 2, 4


@pytest.fixture
def used(enrolled: Agent) -> Agent:
    """A device with sketches that were sent, sketches that wait, and an open window."""
    use(enrolled)
    return enrolled


def use(agent: Agent) -> None:
    agent.append(*range(N_SENT), lines=5)
    agent.once()
    agent.append(*range(N_SENT, N_SENT + N_WAITING), lines=5)
    with agent.records.open("a") as file:
        file.writelines(f"{time.time() + HOUR},1,1\n" for _ in range(N_OPEN))
    agent.once("--no-send")


def events(agent: Agent) -> list[tuple[object, ...]]:
    return query(agent.state, "SELECT * FROM events ORDER BY id")


def bodies(agent: Agent) -> dict[bytes, set[bytes]]:
    found: dict[bytes, set[bytes]] = {}
    for sketch_id, body in agent.server.received:
        found.setdefault(sketch_id, set()).add(body)
    return found


def require_nothing_forgotten(agent: Agent, before: list[tuple[object, ...]]) -> None:
    """Check that the ledger is what it was, and each record in one sketch or still waiting."""
    assert events(agent) == before
    assert all(len(seen) == 1 for seen in bodies(agent).values())
    lost = query(agent.state, "SELECT sequence FROM outbox WHERE problem LIKE 'lost%'")
    stored = {m.header.sequence for m in agent.server.stored.values()}
    assert stored | {number for (number,) in lost} == set(range(N_SENT + N_WAITING))
    ((waits,),) = query(agent.state, "SELECT COALESCE(SUM(n_records), 0) FROM open_windows")
    assert waits == N_OPEN


def set_aside(agent: Agent) -> list[Path]:
    found = sorted(agent.state.glob("agent.sqlite.damaged-*"))
    return [path for path in found if not path.name.endswith(("-wal", "-shm"))]


def overwrite(path: Path) -> None:
    path.write_bytes(b"not a database, and long enough to be looked at" * 100)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def other_application(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 7")
    connection.close()


def other_sqlite(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()


def remove(path: Path) -> None:
    path.unlink()


def tear_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(2048))


def forget_release(path: Path) -> None:
    # As if a damaged log had lost the last transactions.
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER events_stay")
    connection.execute("DELETE FROM events WHERE id = (SELECT MAX(id) FROM events)")
    connection.execute("DELETE FROM outbox WHERE sequence = (SELECT MAX(sequence) FROM outbox)")
    ((name, number, first, floor),) = connection.execute(
        "SELECT name, next_sequence, first_record, floor_slot FROM streams"
    )
    with connection:
        write_stream(
            connection, name=name, next_sequence=number - 1, first_record=first, floor_slot=floor,
            suspended=None,
        )  # fmt: skip
    connection.close()


@pytest.mark.parametrize(
    "harm",
    [overwrite, truncate, other_application, other_sqlite, remove, tear_page, forget_release],
)
def test_a_damaged_or_foreign_database_is_set_aside_and_nothing_spent_is_forgotten(
    harm: Callable[[Path], None], used: Agent
) -> None:
    before = events(used)
    harm(used.state / "agent.sqlite")
    report = used.once()
    (message,) = (m for m in report["messages"] if "made again from" in m)
    assert str(used.state / "agent.sqlite") in message
    assert len(set_aside(used)) == (harm is not remove)
    assert report["released"] == 0
    require_nothing_forgotten(used, before)
    # And it goes on: with the next number, and once.
    used.append(5, lines=5)
    again = used.once()
    assert not any("made again" in message for message in again["messages"])


@pytest.mark.parametrize("harm", [other_application, tear_page, forget_release, remove])
def test_sketches_that_can_still_be_read_are_sent_as_they_were(
    harm: Callable[[Path], None], used: Agent
) -> None:
    rows = query(used.state, "SELECT sketch_id, message FROM outbox")
    kept = {row[0]: row[1] for row in rows}
    harm(used.state / "agent.sqlite")
    used.once()
    for sketch_id, seen in bodies(used).items():
        assert seen == {kept[sketch_id]}
    n_sent = N_SENT if harm is remove else N_SENT + N_WAITING - (harm is forget_release)
    assert len(used.server.stored) == n_sent or harm is tear_page


@pytest.mark.parametrize("harm", [overwrite, truncate, remove])
def test_without_a_journal_to_trust_nothing_is_released_until_the_owner_decides(
    harm: Callable[[Path], None], used: Agent
) -> None:
    overwrite(used.state / JOURNAL_NAME)
    harm(used.state / "agent.sqlite")
    before = {path.name: path.read_bytes() for path in used.state.iterdir()}
    received = len(used.server.received)
    for arguments in (("once",), ("run",), ("init", "--token", "x"), ("forget", "--yes")):
        assert used.run(*arguments) == 3
        assert "the ledger cannot be trusted" in used.err
        assert "--records-may-be-released-again" in used.err
    assert {path.name: path.read_bytes() for path in used.state.iterdir()} == before
    assert len(used.server.received) == received
    used.run("forget", "--yes", "--also-the-ledger", "--records-may-be-released-again")
    assert [path.name for path in used.state.iterdir()] == ["lock"]


@pytest.mark.parametrize("harm", [overwrite, truncate, remove])
def test_a_damaged_journal_is_made_again_from_a_sound_ledger(
    harm: Callable[[Path], None], used: Agent
) -> None:
    before = events(used)
    harm(used.state / JOURNAL_NAME)
    used.once()
    require_nothing_forgotten(used, before)
    # It is as good as the one before.
    remove(used.state / "agent.sqlite")
    used.once()
    assert events(used) == before


def test_a_journal_that_goes_while_it_is_read_is_named(used: Agent) -> None:
    noted = read_journal(used.state)
    assert len(list(noted.iterate_releases())) == noted.n_releases > 0
    (used.state / JOURNAL_NAME).unlink()
    with pytest.raises(StoreError, match=JOURNAL_NAME):
        list(noted.iterate_releases())


def test_a_torn_last_line_of_the_journal_is_a_power_cut_and_no_damage(used: Agent) -> None:
    before = events(used)
    with (used.state / JOURNAL_NAME).open("ab") as file:
        file.write(b"0123456789abcdef {")
    assert not [m for m in used.once()["messages"] if "set aside" in m]
    remove(used.state / "agent.sqlite")
    used.once()
    assert events(used) == before


def test_a_database_of_a_later_release_is_neither_used_nor_set_aside(used: Agent) -> None:
    connection = sqlite3.connect(used.state / "agent.sqlite")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = (used.state / "agent.sqlite").read_bytes()
    assert used.run("once") == 2
    assert "Update this software" in used.err
    assert (used.state / "agent.sqlite").read_bytes() == before


def test_a_foreign_file_in_a_folder_that_never_held_a_device_is_left_alone(agent: Agent) -> None:
    agent.state.mkdir(mode=0o700)
    overwrite(agent.state / "agent.sqlite")
    before = (agent.state / "agent.sqlite").read_bytes()
    assert agent.run("init", "--token", "x") == 3
    assert "the ledger cannot be trusted" in agent.err
    assert (agent.state / "agent.sqlite").read_bytes() == before


def test_a_suspension_outlives_the_database(used: Agent) -> None:
    used.server.extra_sequences["meter"] = 99
    assert used.run("once") == 3
    remove(used.state / "agent.sqlite")
    used.server.stop()
    assert used.once("--send-for", "0", status=3)["released"] == 0
    assert "is suspended" in used.err


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("open_windows", "n_records = n_records + 1"),
        ("open_windows", "sums = zeroblob(length(sums))"),
        ("streams", "first_record = first_record + 1"),
        ("streams", "next_sequence = next_sequence + 1"),
        ("streams", "floor_slot = floor_slot + 1"),
        ("meta", "value = CAST(x'00' || substr(value, 2) AS BLOB) WHERE key = 'plan'"),
        ("meta", "value = 'other' WHERE key = 'device'"),
        ("positions", "place = replace(place, 'offset', 'offsex')"),
    ],
)
def test_a_flipped_bit_in_what_steers_a_release_is_found(
    table: str, change: str, used: Agent
) -> None:
    before = events(used)
    connection = sqlite3.connect(used.state / "agent.sqlite")
    with connection:
        connection.execute(f"UPDATE {table} SET {change}")
    connection.close()
    assert any(f"a row of {table}" in message for message in used.once()["messages"])
    require_nothing_forgotten(used, before)


def test_a_device_that_was_forgotten_keeps_its_tombstone_without_the_database(
    used: Agent,
) -> None:
    used.run("forget", "--yes")
    before = events(used)
    assert len(before) == N_SENT + N_WAITING
    remove(used.state / "agent.sqlite")
    used.server.tokens["sfe_test"] = 1
    used.init()
    assert events(used) == before
    # Those of the open window were erased with it, as `forget` said.
    assert used.once()["records_read"] == 0


def test_forgetting_erases_what_was_set_aside(used: Agent) -> None:
    truncate(used.state / "agent.sqlite")
    used.once()
    assert set_aside(used)
    used.run("forget", "--yes")
    assert not set_aside(used)
