"""Files of the state damaged anywhere, as disks do it: what the agent must keep in any case."""

import importlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings, strategies as st

from sfumato.device_agent.agent.once import OnceReport
from sfumato.device_agent.store import journal, streams
from sfumato.device_agent.store.database import DATABASE_NAME
from sfumato.device_agent.store.journal import JOURNAL_NAME, Noted, read_journal
from sfumato.device_agent.store.positions import PLACES_NAME, Places, read_places, write_positions
from sfumato.device_agent.store.streams import StreamState
from sfumato.shared.errors import LedgerError, SketchError, StoreError
from tests.device_agent.conftest import BASE, HOUR, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.driver import Driver, put_back
from tests.device_agent.serving import Server
from tests.soak import small_and_soak

# The package has a function of the same name.
repair = importlib.import_module("sfumato.device_agent.store.repair")

N_SENT, N_WAITING, N_OPEN = 3, 2, 4
NOW = BASE + 1000.0 * HOUR

# What must be as it was, whatever was damaged.
KEPT = {
    "events": "SELECT * FROM events ORDER BY id",
    "streams": "SELECT * FROM streams",
    "positions": "SELECT * FROM positions",
    "open_windows": "SELECT * FROM open_windows",
    "identity": "SELECT key, value FROM meta WHERE key NOT LIKE 'ledger %' ORDER BY key",
}


class Template:
    """A used device's folder, to be copied and damaged again and again.

    Three of its sketches were sent, two wait, and a window is open; the last of it is in the log.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        self.driver = Driver(folder, server, clock=lambda: NOW)
        self.driver.enrol()
        self.driver.append(*range(N_SENT), lines=5)
        self.driver.once()
        self.older = {
            name: (self.driver.state / name).read_bytes() for name in (DATABASE_NAME, PLACES_NAME)
        } | {f"{DATABASE_NAME}-wal": b""}
        self.driver.append(N_SENT, lines=5)
        self.driver.once(send=False)
        # The log is not moved into the database as long as another has that open.
        watcher = sqlite3.connect(self.driver.state / DATABASE_NAME)
        watcher.execute("SELECT COUNT(*) FROM meta").fetchall()
        self.driver.append(N_SENT + 1, lines=5)
        self.driver.append(1000, lines=N_OPEN)
        with pytest.MonkeyPatch.context() as patch:
            for module in (streams, repair):
                patch.setattr(module, "truncate_log", lambda _: None)
            self.driver.once(send=False)
        self.kept = self.read()
        self.messages = dict(query(self.driver.state, "SELECT sketch_id, message FROM outbox"))
        self.noted = self.read_noted()
        ((place,),) = query(self.driver.state, "SELECT place FROM positions")
        ((sums,),) = query(self.driver.state, "SELECT sums FROM open_windows")
        ((plan,),) = query(self.driver.state, "SELECT value FROM meta WHERE key = 'plan'")
        self.steering: list[bytes] = [place.encode(), sums, plan, *self.messages.values()]
        self.saved = folder / "saved"
        shutil.copytree(self.driver.state, self.saved)
        watcher.close()
        self.stored = dict(server.stored)
        self.received = list(server.received)

    def restore(self) -> None:
        put_back(self.saved, self.driver.state)
        self.driver.server.stored = dict(self.stored)
        self.driver.server.received = list(self.received)

    def read(self) -> dict[str, Any]:
        """Read what must be kept, less the counter that says how often it was written."""
        found: dict[str, Any] = {
            name: query(self.driver.state, statement) for name, statement in KEPT.items()
        }
        found["identity"] = {
            key: json.loads(value)[1:] if key == "keys" else value
            for key, value in found["identity"]
        }
        return found

    def read_noted(self) -> list[dict[str, Any]]:
        """Read the releases of the journal, less what is not noted of one that was read again."""
        noted = read_journal(self.driver.state)
        assert noted.damage is None
        return [{**each, "digest": ..., "n_records": ...} for each in noted.iterate_releases()]


@contextmanager
def damaging(folder: Path) -> Iterator[Template]:
    """Give a device to be damaged."""
    server = Server(make_plan(), clock=lambda: NOW)
    server.start()
    try:
        yield Template(folder, server)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    with damaging(tmp_path_factory.mktemp("template")) as template:
        yield template


def test_the_template_has_all_that_can_be_damaged(template: Template) -> None:
    names = {path.name for path in template.saved.iterdir()}
    assert {DATABASE_NAME, f"{DATABASE_NAME}-wal", JOURNAL_NAME} <= names
    assert (template.saved / f"{DATABASE_NAME}-wal").stat().st_size > 4096
    assert [len(template.kept[name]) for name in KEPT] == [5, 1, 1, 1, 8]
    assert len(template.messages) == len(template.noted) == N_SENT + N_WAITING


Harm = tuple[str, str, float, int]
_FILES = (DATABASE_NAME, f"{DATABASE_NAME}-wal")
_KINDS = ("flip", "tear", "cut", "garbage")
# What was written last is torn most often.
_WHERE = st.floats(0, 1, exclude_max=True) | st.floats(0.9, 1, exclude_max=True)
_BIT = st.integers(0, 7)
of_the_database = st.lists(
    st.tuples(st.sampled_from(_FILES), st.sampled_from(("older", "row", *_KINDS)), _WHERE, _BIT),
    min_size=1,
    max_size=3,
)
of_the_journal = st.tuples(st.just(JOURNAL_NAME), st.sampled_from(_KINDS), _WHERE, _BIT)
of_the_places = st.tuples(st.just(PLACES_NAME), st.sampled_from(("older", *_KINDS)), _WHERE, _BIT)
beside_the_database = of_the_journal | of_the_places


def damage(template: Template, harm: Harm) -> None:
    """Damage a file of the folder as disks do: a bit, a sector, the end, all since some time."""
    name, kind, where, bit = harm
    path = template.driver.state / name
    if kind == "older":
        for each in (name,) if name == PLACES_NAME else _FILES:
            (template.driver.state / each).write_bytes(template.older[each])
        return
    if kind == "row":
        flip_in_row(template, where, bit)
        return
    if not path.exists():
        return
    data = bytearray(path.read_bytes())
    at = int(where * len(data))
    match kind:
        case "flip":
            data[at : at + 1] = bytes([data[at] ^ (1 << bit)]) if data else b""
        case "tear":
            start = at // 512 * 512
            data[start : start + 512] = bytes(len(data[start : start + 512]))
        case "cut":
            del data[at:]
        case _:
            data[at : at + 64] = bytes(range(64))[: len(data[at : at + 64])]
    path.write_bytes(data)


def flip_in_row(template: Template, where: float, bit: int) -> None:
    """Flip a bit where SQLite itself does not notice: in what a row of the database says."""
    path = template.driver.state / DATABASE_NAME
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    data = bytearray(path.read_bytes())
    text = template.steering[int(where * 1000) % len(template.steering)]
    if (start := data.find(text)) >= 0:
        data[start + int(where * len(text))] ^= 1 << bit
        path.write_bytes(data)


def remove_database(template: Template) -> None:
    for name in _FILES:
        (template.driver.state / name).unlink(missing_ok=True)


def damage_beside(template: Template, harm: Harm) -> None:
    """Damage journal or places, unless they are whole afterwards by all that can be known."""
    path = template.driver.state / harm[0]
    whole = path.read_bytes()
    damage(template, harm)
    left = path.read_bytes()
    # A journal is whole when it is cut behind a line, and places are one line.
    assume(left not in {whole[: i + 1] for i, octet in enumerate(whole) if octet == 10})
    assume(left not in (b"", whole))


def run_twice(driver: Driver) -> OnceReport | SketchError:
    """Return the second report, or why nothing was done."""
    try:
        driver.once()
        return driver.once()
    except (LedgerError, StoreError) as error:
        return error


def require_sound(template: Template) -> None:
    """Check that the agent, run twice, has forgotten, doubled and drawn again nothing."""
    driver = template.driver
    report = run_twice(driver)
    if isinstance(report, StoreError):
        # A flipped bit may say that the file is of a later release: refused, and nothing done.
        assert "Update this software" in str(report)
        assert driver.server.received == template.received
        return
    assert isinstance(report, OnceReport), report
    assert not [m for m in report.messages if "made again" in m]
    assert report.errors == []
    # The ledger, and the open window to the bit.
    found = template.read()
    for name, kept in template.kept.items():
        assert found[name] == kept, name
    for sketch_id, body in driver.server.received:
        assert body == template.messages[sketch_id]
    assert template.read_noted() == template.noted
    # Each is at the server, once, or shelved with the reason.
    rows = query(driver.state, "SELECT sequence, state, problem, n_records FROM outbox ORDER BY 1")
    assert [(row[0], row[3]) for row in rows] == [(i, 5) for i in range(N_SENT + N_WAITING)]
    stored = {m.header.sequence for m in driver.server.stored.values()}
    for sequence, state, problem, _ in rows:
        assert sequence in stored if state == "sent" else (state == "shelved" and problem)


def require_decided_by_the_owner(template: Template) -> None:
    """Check that nothing sent is forgotten, or that nothing is done since neither can be trusted.

    What was never sent may be drawn again: whoever damages both files can make the device forget
    it, and nobody has seen it.
    """
    driver = template.driver
    noted = (driver.state / JOURNAL_NAME).read_bytes()
    report = run_twice(driver)
    if isinstance(report, SketchError):
        trusts_none = isinstance(report, LedgerError)
        why = "nothing is released until you decide" if trusts_none else "Update this software"
        assert why in str(report)
        assert driver.server.received == template.received
        assert (driver.state / JOURNAL_NAME).read_bytes() == noted
        return
    assert report.errors == []
    assert template.read()["events"][:N_SENT] == template.kept["events"][:N_SENT]
    bodies: dict[bytes, bytes] = {}
    for sketch_id, body in driver.server.received:
        assert bodies.setdefault(sketch_id, body) == body
    rows = query(driver.state, "SELECT sequence, n_records FROM outbox ORDER BY sequence")
    assert rows == [(i, 5) for i in range(N_SENT + N_WAITING)]
    assert query(driver.state, "SELECT n_records FROM open_windows") == [(N_OPEN,)]


def explore(
    template: Template,
    strategy: st.SearchStrategy[Any],
    check: Callable[[Template, Any], None],
    **choices: Any,
) -> None:
    """Check many examples, each of a state that is whole before."""

    @settings(deadline=None, suppress_health_check=list(HealthCheck), **choices)
    @given(strategy)
    def examine(example: Any) -> None:
        template.restore()
        check(template, example)

    examine()


def check_harms(template: Template, harms: Sequence[Harm]) -> None:
    for harm in harms:
        damage(template, harm)
    require_sound(template)


def check_both(template: Template, example: tuple[Sequence[Harm], bool, Harm]) -> None:
    harms, is_gone, harm = example
    for each in harms:
        damage(template, each)
    if is_gone:
        remove_database(template)
    damage_beside(template, harm)
    require_decided_by_the_owner(template)


def check_places(template: Template, harm: Harm) -> None:
    remove_database(template)
    damage_beside(template, harm)
    require_decided_by_the_owner(template)


BOTH = st.tuples(of_the_database, st.booleans(), beside_the_database)
few_and_many = small_and_soak(
    "choices", {"max_examples": 15, "derandomize": True}, {"max_examples": 300}
)


@small_and_soak("choices", {"max_examples": 20, "derandomize": True}, {"max_examples": 1500})
def test_whatever_is_damaged_in_the_database_nothing_is_forgotten_doubled_or_drawn_again(
    choices: dict[str, Any], template: Template
) -> None:
    explore(template, of_the_database, check_harms, **choices)


@few_and_many
def test_whatever_is_damaged_in_journal_or_places_it_is_made_again(
    choices: dict[str, Any], template: Template
) -> None:
    explore(template, beside_the_database.map(lambda harm: [harm]), check_harms, **choices)


@few_and_many
def test_whatever_is_damaged_in_both_nothing_sent_is_forgotten_or_nothing_is_done(
    choices: dict[str, Any], template: Template
) -> None:
    explore(template, BOTH, check_both, **choices)


@few_and_many
def test_without_a_database_nothing_is_done_by_damaged_places(
    choices: dict[str, Any], template: Template
) -> None:
    explore(template, of_the_places, check_places, **choices)


def set_byte(template: Template, at: int, value: int) -> None:
    path = template.driver.state / DATABASE_NAME
    data = bytearray(path.read_bytes())
    data[at] = value
    path.write_bytes(data)


def count_lost(template: Template) -> int:
    """Repair the state, as each start does; return how many sketches are lost."""
    repair.repair(template.driver.state)
    found = query(template.driver.state, "SELECT COUNT(*) FROM outbox WHERE problem LIKE 'lost%'")
    return int(found[0][0])


def check_byte(template: Template, example: tuple[float, int]) -> None:
    """Check that one byte costs one sketch at most, also where the repair was interrupted."""
    where, value = example
    state = template.driver.state
    set_byte(template, int(where * (state / DATABASE_NAME).stat().st_size), value)
    try:
        n_lost = count_lost(template)
    except StoreError as error:
        assume("Update this software" not in str(error))
        raise
    assert n_lost <= 1
    assert count_lost(template) == n_lost
    if repair.list_set_aside(state):
        # As a run leaves it that was killed between setting aside and building.
        remove_database(template)
        assert count_lost(template) == n_lost


@few_and_many
def test_one_damaged_byte_costs_one_sketch_at_most_and_a_killed_repair_no_more(
    choices: dict[str, Any], template: Template
) -> None:
    places = st.floats(0, 1, exclude_max=True)
    explore(template, st.tuples(places, st.integers(0, 255)), check_byte, **choices)


@pytest.mark.parametrize("name", ["outbox", "meta"])
def test_a_letter_of_the_schema_that_is_no_text_costs_no_sketch(
    name: str, template: Template
) -> None:
    template.restore()
    data = (template.driver.state / DATABASE_NAME).read_bytes()
    set_byte(template, data.index(f"CREATE TABLE {name} (".encode()) + 7, 0xFF)
    lines = repair.repair(template.driver.state)
    assert lines[1:3] == [
        f"releases in the ledger: {N_SENT + N_WAITING} saved, none lost",
        f"sketches in the outbox: {N_SENT + N_WAITING} saved, 0 lost",
    ]
    assert (
        query(template.driver.state, "SELECT state, problem FROM outbox WHERE sequence > 2")
        == [("waiting", None)] * N_WAITING
    )


def list_text_columns(template: Template) -> list[tuple[str, str]]:
    tables = query(template.driver.state, "SELECT name FROM sqlite_master WHERE type = 'table'")
    columns = "SELECT name FROM pragma_table_info('{}') WHERE type = 'TEXT'"
    return [
        (table, column)
        for (table,) in tables
        for (column,) in query(template.driver.state, columns.format(table))
    ]


def test_text_of_any_column_that_is_no_text_loses_nothing(template: Template) -> None:
    template.restore()
    columns = list_text_columns(template)
    assert len(columns) > 20
    for table, column in columns:
        template.restore()
        with closing(sqlite3.connect(template.driver.state / DATABASE_NAME)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for trigger in ("events_do_not_change", "origins_do_not_change"):
                connection.execute(f"DROP TRIGGER {trigger}")
            one = f"WHERE rowid = (SELECT MIN(rowid) FROM {table})"
            connection.execute(f"UPDATE {table} SET {column} = CAST(x'ff6d' AS TEXT) {one}")
            connection.commit()
        assert count_lost(template) == 0, (table, column)
        assert query(template.driver.state, "SELECT message FROM outbox ORDER BY 1") == sorted(
            (message,) for message in template.messages.values()
        )
        for name in ("events", "streams"):
            assert template.read()[name] == template.kept[name], (table, column)


def _believe_every_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(repair, "find_broken_seals", lambda _: ())


def _miss_no_release(patch: pytest.MonkeyPatch) -> None:
    # An older database, or one whose log was cut, is whole by itself.
    patch.setattr(repair, "zip_longest", lambda *_: ())


def _checkpoint_in_two_halves(patch: pytest.MonkeyPatch) -> None:
    # The window first, its position behind it: what is torn off counts records twice.
    def write_both(connection: sqlite3.Connection, state: StreamState) -> None:
        window(connection, state)
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        positions(connection, *held.pop())

    held: list[Any] = []
    window, positions = streams._write_open_window, write_positions
    patch.setattr(streams, "write_positions", lambda _, *these: held.append(these))
    patch.setattr(streams, "_write_open_window", write_both)


def _take_a_damaged_journal_for_none(patch: pytest.MonkeyPatch) -> None:
    def read(folder: Path) -> Noted:
        noted = real(folder)
        return noted if noted.damage is None else Noted()

    real = journal.read_journal
    patch.setattr(repair, "read_journal", read)


def _believe_older_places(patch: pytest.MonkeyPatch) -> None:
    def load(folder: Path, _: Noted) -> Places | None:
        return read_places(folder)

    patch.setattr(repair, "_load_places", load)


@pytest.mark.parametrize(
    ("plant", "strategy", "check"),
    [
        (_believe_every_row, of_the_database, check_harms),
        *(
            pytest.param(*each, marks=pytest.mark.soak)
            for each in (
                (_miss_no_release, of_the_database, check_harms),
                (_checkpoint_in_two_halves, of_the_database, check_harms),
                (_take_a_damaged_journal_for_none, BOTH, check_both),
                (_believe_older_places, of_the_places, check_places),
            )
        ),
    ],
)
def test_a_planted_mistake_is_found_where_there_is_damage_and_not_seen_without(
    plant: Callable[[pytest.MonkeyPatch], None],
    strategy: st.SearchStrategy[Any],
    check: Callable[[Template, Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with damaging(tmp_path) as template:
        template.restore()
        require_sound(template)
        choices = {"max_examples": 100, "derandomize": True, "report_multiple_bugs": False}
        with pytest.raises(Exception) as caught:  # noqa: PT011
            explore(template, strategy, check, phases=[Phase.generate], **choices)
        # One that breaks by itself proves nothing.
        assert not isinstance(caught.value, TypeError | AttributeError | NameError)
