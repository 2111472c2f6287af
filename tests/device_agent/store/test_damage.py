"""Files of the state damaged anywhere, as disks do it: what the agent must keep in any case."""

import functools
import hashlib
import importlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings, strategies as st

from sfumato.device_agent.store import journal, rebuild, streams
from sfumato.device_agent.store.database import DATABASE_NAME
from sfumato.device_agent.store.journal import JOURNAL_NAME, Noted, read_journal
from sfumato.device_agent.store.positions import PLACES_NAME, Places, read_places, write_positions
from sfumato.device_agent.store.streams import StreamState
from sfumato.shared.errors import LedgerError, SketchError, StoreError
from tests.device_agent.conftest import make_plan
from tests.device_agent.daemons import query
from tests.device_agent.driver import BASE, HOUR, Driver
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
    "identity": "SELECT key, value FROM meta ORDER BY key",
}


class StillServer(Server):
    """A server at whose place no time passes."""

    def now(self) -> float:
        return NOW


class Template:
    """A used device's folder, to be copied and damaged again and again.

    Three of its sketches were sent, two wait, and a window is open; the last of it is in the log.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        folder.mkdir(exist_ok=True)
        self.driver = Driver(folder, server, clock=lambda: NOW)
        self.driver.enrol()
        self.driver.append(*range(N_SENT), lines=5)
        self.driver.once()
        self.older = (self.driver.state / DATABASE_NAME).read_bytes()
        self.older_places = (self.driver.state / PLACES_NAME).read_bytes()
        self.driver.append(N_SENT, lines=5)
        self.driver.once(send=False)
        # The log is not moved into the database as long as another has that open.
        watcher = sqlite3.connect(self.driver.state / DATABASE_NAME)
        watcher.execute("SELECT COUNT(*) FROM meta").fetchall()
        self.driver.append(N_SENT + 1, lines=5)
        self.driver.append(1001, lines=N_OPEN)
        with pytest.MonkeyPatch.context() as patch:
            for module in (streams, repair):
                patch.setattr(module, "truncate_log", lambda _: None)
            self.driver.once(send=False)
        self.kept = self.read()
        rows = query(self.driver.state, "SELECT sketch_id, message FROM outbox")
        self.messages: dict[Any, Any] = {row[0]: row[1] for row in rows}
        self.noted = list(read_journal(self.driver.state).iterate_releases())
        ((place,),) = query(self.driver.state, "SELECT place FROM positions")
        ((sums,),) = query(self.driver.state, "SELECT sums FROM open_windows")
        ((plan,),) = query(self.driver.state, "SELECT value FROM meta WHERE key = 'plan'")
        self.steering: list[Any] = [str(place).encode(), sums, plan, *self.messages.values()]
        self.saved = folder / "saved"
        shutil.copytree(self.driver.state, self.saved)
        watcher.close()
        self.stored = dict(server.stored)
        self.received = list(server.received)

    def restore(self) -> None:
        shutil.rmtree(self.driver.state)
        shutil.copytree(self.saved, self.driver.state)
        self.driver.server.stored = dict(self.stored)
        self.driver.server.received = list(self.received)

    def read(self) -> dict[str, Any]:
        """Read what must be kept, less the counter that says how often it was written."""
        found: dict[str, Any] = {
            name: query(self.driver.state, statement) for name, statement in KEPT.items()
        }
        found["identity"] = {
            key: json.loads(str(value))[1:] if key == "keys" else value
            for key, value in found["identity"]
        }
        return found


@contextmanager
def damaging(folder: Path) -> Iterator[Template]:
    """Give a device to be damaged."""
    server = StillServer(make_plan())
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        # Reading the system's certificates takes longer than all the rest of a run.
        patch.setattr(httpx, "Client", functools.partial(httpx.Client, verify=False))
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
    assert [len(template.kept[name]) for name in KEPT] == [5, 1, 1, 1, 7]
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
    if kind == "older" and name == PLACES_NAME:
        path.write_bytes(template.older_places)
        return
    if kind == "older":
        (template.driver.state / f"{DATABASE_NAME}-wal").write_bytes(b"")
        (template.driver.state / DATABASE_NAME).write_bytes(template.older)
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


def require_sound(template: Template) -> None:
    """Check that the agent, run twice, has forgotten, doubled and drawn again nothing."""
    driver = template.driver
    try:
        driver.once()
    except StoreError as error:
        # A flipped bit may say that the file is of a later release: refused, and nothing done.
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert "Update this software" in refusal
        assert driver.server.received == template.received
        return
    report = driver.once()
    assert not [m for m in report.messages if "made again" in m]
    assert report.errors == []
    require_kept(template)
    # Each is at the server, once, or shelved with the reason.
    rows = query(driver.state, "SELECT sequence, state, problem, n_records FROM outbox ORDER BY 1")
    assert [(row[0], row[3]) for row in rows] == [(i, 5) for i in range(N_SENT + N_WAITING)]
    stored = {m.header.sequence for m in driver.server.stored.values()}
    for sequence, state, problem, _ in rows:
        assert sequence in stored if state == "sent" else (state == "shelved" and problem)


def require_kept(template: Template) -> None:
    """Check the ledger, the open window to the bit, and that no other bytes were sent."""
    driver = template.driver
    found = template.read()
    for name, rows in template.kept.items():
        assert found[name] == rows, name
    for sketch_id, body in driver.server.received:
        assert body == template.messages[sketch_id]
    noted = read_journal(driver.state)
    assert noted.damage is None
    known = [{**release, "digest": ..., "n_records": ...} for release in template.noted]
    found_releases = noted.iterate_releases()
    assert [{**release, "digest": ..., "n_records": ...} for release in found_releases] == known


def require_decided_by_the_owner(template: Template) -> None:
    """Check that nothing sent is forgotten, or that nothing is done since neither can be trusted.

    What was never sent may be drawn again: whoever damages both files can make the device forget
    it, and nobody has seen it.
    """
    noted = (template.driver.state / JOURNAL_NAME).read_bytes()
    refusal: SketchError | None
    try:
        template.driver.once()
        report = template.driver.once()
    except (LedgerError, StoreError) as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        trusts_none = isinstance(refusal, LedgerError)
        why = "nothing is released until you decide" if trusts_none else "Update this software"
        assert why in str(refusal)
        assert template.driver.server.received == template.received
        assert (template.driver.state / JOURNAL_NAME).read_bytes() == noted
        return
    assert report.errors == []
    assert template.read()["events"][:N_SENT] == template.kept["events"][:N_SENT]
    bodies: dict[bytes, bytes] = {}
    for sketch_id, body in template.driver.server.received:
        assert bodies.setdefault(sketch_id, body) == body
    rows = query(template.driver.state, "SELECT sequence, n_records FROM outbox ORDER BY sequence")
    assert rows == [(i, 5) for i in range(N_SENT + N_WAITING)]
    assert query(template.driver.state, "SELECT n_records FROM open_windows") == [(N_OPEN,)]


def explore(
    strategy: st.SearchStrategy[Any],
    check: Callable[[Any], None],
    *,
    n_examples: int,
    **choices: Any,
) -> None:
    """Check many examples."""
    settings(
        max_examples=n_examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **choices,
    )(given(strategy)(check))()


def explore_database(template: Template, **choices: Any) -> None:
    def check(harms: Sequence[Harm]) -> None:
        template.restore()
        for harm in harms:
            damage(template, harm)
        require_sound(template)

    explore(of_the_database, check, **choices)


def explore_journal(template: Template, **choices: Any) -> None:
    def check(harm: Harm) -> None:
        template.restore()
        damage(template, harm)
        require_sound(template)

    explore(beside_the_database, check, **choices)


def explore_both(template: Template, **choices: Any) -> None:
    def check(example: tuple[Sequence[Harm], bool, Harm]) -> None:
        harms, is_gone, harm = example
        template.restore()
        for each in harms:
            damage(template, each)
        if is_gone:
            for name in _FILES:
                (template.driver.state / name).unlink(missing_ok=True)
        path = template.driver.state / harm[0]
        whole = path.read_bytes()
        damage(template, harm)
        # Cut behind a line a journal is whole by all that can be known of it.
        left = path.read_bytes()
        assume(left not in {whole[: i + 1] for i, octet in enumerate(whole) if octet == 10})
        assume(left not in (b"", whole))
        require_decided_by_the_owner(template)

    explore(st.tuples(of_the_database, st.booleans(), beside_the_database), check, **choices)


def explore_places(template: Template, **choices: Any) -> None:
    def check(harm: Harm) -> None:
        template.restore()
        for name in _FILES:
            (template.driver.state / name).unlink(missing_ok=True)
        path = template.driver.state / PLACES_NAME
        whole = path.read_bytes()
        damage(template, harm)
        assume(path.read_bytes() not in (b"", whole))
        require_decided_by_the_owner(template)

    explore(of_the_places, check, **choices)


few_and_many = small_and_soak(
    "choices", {"n_examples": 15, "derandomize": True}, {"n_examples": 300}
)


@small_and_soak("choices", {"n_examples": 30, "derandomize": True}, {"n_examples": 1500})
def test_whatever_is_damaged_in_the_database_nothing_is_forgotten_doubled_or_drawn_again(
    choices: dict[str, Any], template: Template
) -> None:
    explore_database(template, **choices)


@few_and_many
def test_whatever_is_damaged_in_journal_or_places_it_is_made_again(
    choices: dict[str, Any], template: Template
) -> None:
    explore_journal(template, **choices)


@few_and_many
def test_whatever_is_damaged_in_both_nothing_sent_is_forgotten_or_nothing_is_done(
    choices: dict[str, Any], template: Template
) -> None:
    explore_both(template, **choices)


@few_and_many
def test_without_a_database_nothing_is_done_by_damaged_places(
    choices: dict[str, Any], template: Template
) -> None:
    explore_places(template, **choices)


def _believe_every_page(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(repair, "_find_contradiction", lambda *_: None)


def _believe_every_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(repair, "find_broken_seals", lambda _: ())


def _miss_no_release(patch: pytest.MonkeyPatch) -> None:
    # An older database, or one whose log was cut, is whole by itself.
    patch.setattr(repair, "zip_longest", lambda *_: ())


@contextmanager
def saying(releases: list[dict[str, Any]]) -> Iterator[None]:
    """Let every journal say that these were released."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noted, "iterate_releases", lambda _: iter(releases))
        yield


def _forget_what_was_spent(patch: pytest.MonkeyPatch) -> None:
    def build(folder: Path, noted: Noted, places: Places, **options: Any) -> int:
        with saying([]):
            n_lost: int = real(folder, noted, places, **options)
        return n_lost

    real = repair.build_database
    patch.setattr(repair, "build_database", build)


def _forget_how_far_was_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebuild, "insert_positions", lambda *_: None)


def _believe_bytes_without_their_digest(patch: pytest.MonkeyPatch) -> None:
    def find(salvage: Any, sketch_id: bytes, digest: str) -> dict[str, Any]:
        row = salvage._read(sketch_id)
        is_there = row is not None and isinstance(row["message"], bytes)
        found = hashlib.sha256(row["message"]).hexdigest() if is_there else digest
        kept: dict[str, Any] = real(salvage, sketch_id, found)
        return kept

    real = rebuild._Salvage.find
    patch.setattr(rebuild._Salvage, "find", find)


def _release_again_what_cannot_be_read(patch: pytest.MonkeyPatch) -> None:
    def build(folder: Path, noted: Noted, _: Places, **options: Any) -> int:
        whole = [r for r in noted.iterate_releases() if r["sequence"] < N_SENT]
        stood = {name: {**row, "next_sequence": N_SENT} for name, row in noted.streams.items()}
        kept = replace(noted, streams=stood)
        with saying(whole):
            n_lost: int = real(folder, kept, Places(), **options)
        return n_lost

    real = repair.build_database
    patch.setattr(repair, "build_database", build)


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


def _believe_a_journal_up_to_its_damage(patch: pytest.MonkeyPatch) -> None:
    def read(folder: Path) -> Noted:
        return replace(real(folder), damage=None, is_torn=False)

    real = journal.read_journal
    patch.setattr(repair, "read_journal", read)


def _believe_older_places(patch: pytest.MonkeyPatch) -> None:
    def load(folder: Path, _: Noted) -> Places | None:
        return read_places(folder)

    patch.setattr(repair, "_load_places", load)


Explore = Callable[..., None]


@pytest.mark.parametrize(
    ("plant", "explore_it"),
    [
        (_believe_every_page, explore_database),
        (_believe_every_row, explore_database),
        (_miss_no_release, explore_database),
        (_forget_what_was_spent, explore_database),
        (_forget_how_far_was_read, explore_database),
        (_believe_bytes_without_their_digest, explore_database),
        (_release_again_what_cannot_be_read, explore_database),
        (_checkpoint_in_two_halves, explore_database),
        (_take_a_damaged_journal_for_none, explore_both),
        (_believe_a_journal_up_to_its_damage, explore_both),
        (_believe_older_places, explore_places),
    ],
)
def test_a_planted_mistake_is_found_where_there_is_damage_and_not_seen_without(
    plant: Callable[[pytest.MonkeyPatch], None],
    explore_it: Explore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with damaging(tmp_path / "planted") as template:
        template.restore()
        require_sound(template)
        with pytest.raises(Exception) as caught:  # noqa: PT011
            explore_it(
                template,
                n_examples=100,
                derandomize=True,
                phases=[Phase.generate],
                report_multiple_bugs=False,
            )
        # One that breaks by itself proves nothing.
        assert not isinstance(caught.value, TypeError | AttributeError | NameError)
