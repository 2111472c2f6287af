"""What becomes of a state whose files were damaged: real ones, made by the real agent."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.device_agent.store import schema
from sfumato.device_agent.store.journal import JOURNAL_NAME, read_journal
from sfumato.device_agent.store.streams import write_stream
from sfumato.shared.errors import StoreError
from tests.device_agent.conftest import Agent
from tests.device_agent.daemons import query
from tests.device_agent.serving import TOKEN
from tests.ledgers import use_new_ledger

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
        file.writelines(f"{time.time()},1,1\n" for _ in range(N_OPEN))
    agent.once("--no-send")


def _allow_the_future(agent: Agent) -> None:
    """Let a stream join whose records are of a window that is still open."""
    text = agent.config.read_text()
    agent.config.write_text(text.replace("[check]", "[check]\ntimes_outside = 1.0"))


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
    ((study, name, number, first, floor),) = connection.execute(
        "SELECT study, name, next_sequence, first_record, floor_slot FROM streams"
    )
    with connection:
        write_stream(
            connection, study=study, name=name, next_sequence=number - 1, first_record=first,
            floor_slot=floor, suspended=None,
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
    before = {p.name: p.read_bytes() for p in used.state.rglob("*") if p.is_file()}
    received = len(used.server.received)
    for arguments in (("once",), ("run",), ("init", "--token", "x"), ("forget", "--yes")):
        assert used.run(*arguments) == 3
        assert "the ledger cannot be trusted" in used.err
        assert "--records-may-be-released-again" in used.err
    assert {p.name: p.read_bytes() for p in used.state.rglob("*") if p.is_file()} == before
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


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (schema.VERSION + 1, "Update this software"),
        (schema.VERSION + 1000, "Update this software"),
        (-1, "nothing was changed"),
    ],
)
def test_a_full_outbox_of_another_release_is_neither_used_nor_set_aside(
    version: int, said: str, used: Agent
) -> None:
    write_version(used, version)
    before = {p.name: p.read_bytes() for p in used.state.rglob("*") if p.is_file()}
    for arguments in (
        ("once",),
        ("run",),
        ("check",),
        ("status",),
        ("budget",),
        ("rotate-key",),
        ("forget", "--yes"),
        ("init", "--token", TOKEN),
        ("resume", "meter", "--i-understand"),
        ("export", "meter", "3", "--to", str(used.folder / "sketch")),
    ):
        assert used.run(*arguments) == 2, arguments
        assert said in used.err
    assert {p.name: p.read_bytes() for p in used.state.rglob("*") if p.is_file()} == before
    write_version(used, schema.VERSION)
    assert used.once()["sent"] == N_WAITING


def write_version(agent: Agent, version: int) -> None:
    connection = sqlite3.connect(agent.state / "agent.sqlite")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_an_older_journal_is_brought_up_to_the_ledger(used: Agent) -> None:
    journal = used.state / JOURNAL_NAME
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    before = events(used)
    used.once()
    require_nothing_forgotten(used, before)
    remove(used.state / "agent.sqlite")
    used.once()
    assert events(used) == before


def test_an_older_database_beside_its_journal_forgets_nothing(
    enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    kept = tmp_path / "older.sqlite"
    shutil.copy(enrolled.state / "agent.sqlite", kept)
    enrolled.append(1, 2, lines=5)
    enrolled.once()
    before = events(enrolled)
    for left in enrolled.state.glob("agent.sqlite*"):
        left.unlink()
    shutil.copy(kept, enrolled.state / "agent.sqlite")
    enrolled.server.stop()
    enrolled.run("once", "--send-for", "0")
    assert events(enrolled) == before
    enrolled.server.start()
    assert enrolled.once()["released"] == 0
    assert all(len(seen) == 1 for seen in bodies(enrolled).values())
    assert len(enrolled.server.stored) == 3


@pytest.mark.parametrize("harm", [remove, None])
def test_the_journal_of_another_device_is_not_believed(
    harm: Callable[[Path], None] | None, used: Agent
) -> None:
    original = used.state
    used.state = used.folder / "other"
    used.write_config(state_dir="other")
    used.server.tokens[TOKEN] = 1
    _allow_the_future(used)
    use_new_ledger()
    used.init()
    foreign = (used.state / JOURNAL_NAME).read_bytes()
    used.state = original
    used.write_config()
    (used.state / JOURNAL_NAME).write_bytes(foreign)
    if harm is not None:
        harm(used.state / "agent.sqlite")
    received = len(used.server.received)
    for command in ("once", "run"):
        assert used.run(command) == 3
    assert len(used.server.received) == received


def test_a_ledger_and_journal_that_are_gone_are_missed_by_the_server_at_once(used: Agent) -> None:
    remove(used.state / "agent.sqlite")
    remove(used.state / JOURNAL_NAME)
    assert used.run("once") == 2
    assert used.run("init", "--token", TOKEN) == 3
    assert "of the releases are of an earlier state folder" in used.err
    use_new_ledger()  # lost as well
    assert used.run("init", "--token", TOKEN) == 3
    assert "this ledger never sent (meter 0-2)" in used.err
    received = len(used.server.received)
    used.server.stop()
    assert used.once("--send-for", "0", status=3)["released"] == 0
    used.server.start()
    assert used.once(status=3)["released"] == 0
    assert len(used.server.received) == received
    ((spent,),) = query(used.state, "SELECT SUM(count) FROM events")
    assert spent == N_SENT


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
    _allow_the_future(used)
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
