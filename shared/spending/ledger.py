"""The owner's ledger: one privacy budget in a file, shared by programs with separate state.

Agents with different state folders, and ``sfumato sketch``, share one budget through it. Two files
cannot change in one transaction, so a release is *reserved* here before its noise is drawn, and
*confirmed* once its bytes are stored. A crash between the two leaves a reservation; a retry of the
same sketch uses it and costs nothing more. If the ledger has confirmed a sketch that the program's
own state does not know, that state was restored from a backup, and nothing is released.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

from sfumato.shared.errors import (
    BudgetExceededError,
    ConfigError,
    DiskError,
    LedgerError,
    PrivacyError,
    StoreError,
)
from sfumato.shared.privacy import (
    Budget,
    Origin,
    OriginIndex,
    PrivacyEvent,
    PrivacyLoss,
    Reader,
    compose,
    require_within_budget,
)
from sfumato.shared.privacy.accounting import select_per_record
from sfumato.shared.spending.rows import event_to_row, insert_row, read_event, read_origin

APPLICATION_ID = 0x5366_754C
"""Marks the file as an owner's ledger (``SfuL``)."""
VERSION = 2

_TABLES = (
    """
    CREATE TABLE entries (
        sketch_id BLOB PRIMARY KEY,
        holder BLOB NOT NULL,
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        plan_digest BLOB NOT NULL,
        sequence INTEGER NOT NULL,
        neighbouring TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        rho TEXT,
        reserved_at REAL NOT NULL,
        is_confirmed INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE origins (
        holder BLOB NOT NULL,
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        part TEXT NOT NULL,
        times TEXT NOT NULL,
        UNIQUE (holder, study, stream, kind, name, part, times)
    )
    """,
    "CREATE INDEX entries_by_reader ON entries (holder, study, stream, sequence)",
    "CREATE TABLE identity (id BLOB NOT NULL)",
    "CREATE TRIGGER entries_stay BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER origins_stay BEFORE DELETE ON origins"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)
_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA temp_store = MEMORY",
)

LEDGER_SETTINGS = "[budget] ledger, --ledger or SFUMATO_LEDGER"
_NAME_ANOTHER = f"name a file in a folder of this user by {LEDGER_SETTINGS}"

_PASSING = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
)


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """A release about to be drawn, or drawn.

    Parameters
    ----------
    sketch_id
        32 bytes, the same at every attempt.
    holder
        Identity of the state folder: 16 random bytes, fixed for its life.
    event
        The cost; its ``count`` is 1.
    origins
        Where the records come from.
    """

    sketch_id: bytes
    holder: bytes
    event: PrivacyEvent
    origins: tuple[Origin, ...]

    @property
    def reader(self) -> Reader:
        """The stream, with its holder: streams of other states may have the same name."""
        return _name_reader(self.holder, self.event.study, self.event.stream)


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Joint cost of releases of the same records.

    Parameters
    ----------
    n_releases
        Number of the releases.
    loss
        Loss of one record; None if no bound holds at the delta.
    """

    n_releases: int
    loss: PrivacyLoss | None

    def describe(self) -> str:
        """Return it in words."""
        if self.n_releases == 1:
            return "the first release of these records"
        ending = "th"
        if self.n_releases % 100 not in (11, 12, 13):
            ending = {1: "st", 2: "nd", 3: "rd"}.get(self.n_releases % 10, ending)
        return f"the {self.n_releases}{ending} release of these records{self.describe_loss()}"

    def describe_loss(self) -> str:
        """Return what all of them have cost, in words that follow their number."""
        if self.loss is None:
            return "; no bound on their loss together holds"
        at = f", delta {float(self.loss.delta):.3g}" if self.loss.delta else ""
        return f": together epsilon {float(self.loss.epsilon):.6g}{at}"


class OwnersLedger:
    """The ledger in one file, created if missing.

    Parameters
    ----------
    path
        The file.
    known
        The identity of the ledger that was used there before; None the first time.

    Every call opens the file, runs one transaction and closes it, so that many programs can share
    it. Do not share a ledger on a network file system without locks.

    Raises
    ------
    LedgerError
        The known ledger is not there, or a row states an impossible cost.
    ConfigError
        The file cannot be created or written, others may read it, or it is not a ledger.
    StoreError
        The file is damaged, or the disk is full; nothing was changed.
    """

    def __init__(self, path: Path, *, known: bytes | None = None) -> None:
        self.path = path
        self._field = f"ledger {path}"
        if known is not None and not path.exists():
            raise self._lost("is missing")
        with self._open() as connection:
            found = connection.execute("SELECT id FROM identity").fetchone()
        self.identity: bytes = found["id"]
        """Identity of the ledger: 16 random bytes, fixed for its life."""
        if known not in (None, self.identity):
            raise self._lost("is not the one that was used here before")

    def _lost(self, rule: str) -> LedgerError:
        return LedgerError(
            rule,
            field=self._field,
            fix="mount its disk, or put the file back. If it is gone for good, name another file "
            f"by {LEDGER_SETTINGS}: what this state has released is counted there",
        )

    def require_affordable(self, reservation: Reservation, budget: Budget) -> None:
        """Check that the budget covers a release, and reserve nothing.

        Raises
        ------
        BudgetExceededError
            The budget does not cover it.
        LedgerError
            It was confirmed before.
        """
        with self._open() as connection:
            self._require_new(connection, reservation)
            self._require_within(connection, reservation, budget)

    def reserve(self, reservation: Reservation, budget: Budget, *, now: float) -> None:
        """Reserve a release durably; a repeated reservation costs nothing more.

        Raises
        ------
        BudgetExceededError
            The budget does not cover it; nothing was changed.
        LedgerError
            It was confirmed before, or reserved at another cost.
        """
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            is_new = self._require_new(connection, reservation)
            # The origins of a repeated reservation may have changed.
            self._require_within(connection, reservation, budget)
            if is_new:
                _insert(connection, reservation, now, is_confirmed=False)
            _insert_origins(connection, reservation)
            connection.execute("COMMIT")

    def confirm(self, reservations: Iterable[Reservation], *, now: float) -> None:
        """Record that the bytes of these releases are stored; add those that were not reserved.

        The budget is not checked: what has happened is counted.
        """
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for reservation in reservations:
                if not _is_counted(connection, reservation):
                    _insert(connection, reservation, now, is_confirmed=True)
                _insert_origins(connection, reservation)
            connection.execute("COMMIT")

    def find_confirmed(self, holder: bytes) -> list[tuple[Reader, int]]:
        """Return study, stream and number of every confirmed release from one state."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT study, stream, sequence FROM entries WHERE holder = ? AND is_confirmed"
                " ORDER BY study, stream, sequence",
                (holder,),
            )
            return [((row["study"], row["stream"]), row["sequence"]) for row in rows]

    def sum_up(self, reservation: Reservation, budget: Budget) -> Spent:
        """Return what all releases that may hold the records of one have cost, it included."""
        events, index = self.load()
        near = index.find_near(reservation.reader, reservation.origins)
        return _sum_up(events, {reservation.reader, *near}, budget)

    def load(self) -> tuple[list[PrivacyEvent], OriginIndex]:
        """Return every release, with readers that distinguish states, and their shared origins."""
        with self._open() as connection:
            return _load(connection)

    def _require_new(self, connection: sqlite3.Connection, reservation: Reservation) -> bool:
        """Return True if the release is new, False if it was reserved before."""
        row = connection.execute(
            "SELECT * FROM entries WHERE sketch_id = ?", (reservation.sketch_id,)
        ).fetchone()
        if row is None:
            return True
        event = reservation.event
        where = f"sketch {event.sequence} of stream {event.stream!r}"
        if row["is_confirmed"]:
            raise LedgerError(
                f"{where} was released before, by a state that this one does not know: it was "
                "restored from a backup, or copied; nothing was released",
                field=self._field,
                fix="use the state_dir that released it, or enrol a new device",
            )
        if _cost(_to_event(row)) != _cost(event):
            raise LedgerError(
                f"{where} was reserved at another cost",
                field=self._field,
                fix="put back the plan that it was reserved under",
            )
        return False

    def _require_within(
        self, connection: sqlite3.Connection, reservation: Reservation, budget: Budget
    ) -> None:
        events, index = _load(connection, but=reservation.sketch_id)
        near = index.find_near(reservation.reader, reservation.origins)
        study, stream = reservation.reader
        new = replace(reservation.event, study=study, stream=stream)
        try:
            people = index.find_same_people(reservation.reader, reservation.origins)
            require_within_budget(events, new, budget, readers=near, people=people)
        except BudgetExceededError as error:
            error.rule = error.rule.replace(stream, reservation.event.stream)
            own = f" of {reservation.holder.hex()}"
            others = {reader for reader in near if not reader[1].endswith(own)}
            if (spent := _sum_up(events, others, budget)).n_releases:
                error.rule += (
                    f". {spent.n_releases} of the releases are of an earlier state folder or "
                    f"another program{spent.describe_loss()}; they are counted in {self.path}"
                )
                error.fix = f"{error.fix}, or declare sources disjoint that share no record"
            raise

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            # SQLite would leave the mode to the umask. A file that exists is not opened here:
            # closing it would release the locks of other threads of this process.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            mode = os.stat(self.path).st_mode
            # The journal lies beside it.
            for path in (self.path, self.path.parent):
                if not os.access(path, os.R_OK | os.W_OK):
                    raise PermissionError(errno.EACCES, f"{path} is read-only")
        except OSError as error:
            raise ConfigError(
                f"cannot be opened ({error.strerror})", field=self._field, fix=_NAME_ANOTHER
            ) from error
        if mode & 0o077:
            raise ConfigError(
                "must be closed to others", field=self._field, fix=f"run `chmod 600 {self.path}`"
            )
        try:
            connection = sqlite3.connect(self.path, isolation_level=None)
            try:
                connection.row_factory = sqlite3.Row
                self._prepare(connection)
                yield connection
            finally:
                # Closing rolls back an open transaction.
                connection.close()
        except _ImpossibleError as error:
            raise LedgerError(
                f"must state a possible cost of {error}; nothing was released",
                field=self._field,
                fix="put the ledger back from a copy, never from an older one",
            ) from error
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", -1) & 0xFF in _PASSING:
                raise DiskError(
                    f"cannot be written now ({error})",
                    field=self._field,
                    fix="free space on its disk, or end what locks it; nothing is lost. "
                    f"On a disk without locks, {_NAME_ANOTHER}",
                ) from error
            raise StoreError(
                f"cannot be read or written ({error})",
                field=self._field,
                fix="put a damaged ledger back from a copy, never from an older one",
            ) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for pragma in _PRAGMAS:
            connection.execute(pragma).fetchall()
        application = _pragma(connection, "application_id")
        version = _pragma(connection, "user_version")
        if (application, version) == (APPLICATION_ID, VERSION):
            return
        is_empty = not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if (application, version) != (0, 0) or not is_empty:
            raise ConfigError(
                "is not an owner's ledger of this version",
                field=self._field,
                fix=f"{_NAME_ANOTHER}, or update this software",
            )
        connection.execute("BEGIN IMMEDIATE")
        # Another program may have created the tables meanwhile.
        if not _pragma(connection, "user_version"):
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("INSERT INTO identity (id) VALUES (?)", (os.urandom(16),))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _sum_up(events: Iterable[PrivacyEvent], readers: set[Reader], budget: Budget) -> Spent:
    found = [event for event in events if event.reader in readers]
    selected = select_per_record(found, readers)
    has_delta = any(event.delta for event in selected)
    loss = compose(selected, delta=budget.delta if has_delta else Fraction(0))
    return Spent(n_releases=sum(event.count for event in found), loss=loss)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _name_reader(holder: bytes, study: bytes, stream: str) -> Reader:
    return study, f"{stream} of {holder.hex()}"


def _cost(event: PrivacyEvent) -> tuple[object, ...]:
    return event.plan_digest, event.neighbouring, event.epsilon, event.delta, event.rho


def _is_counted(connection: sqlite3.Connection, reservation: Reservation) -> bool:
    """Return whether the release is stored under another identity of a device since forgotten."""
    event = reservation.event
    row = connection.execute(
        "SELECT 1 FROM entries WHERE holder = ? AND study = ? AND stream = ? AND sequence = ?"
        " AND sketch_id != ?",
        (
            reservation.holder,
            event.study,
            event.stream,
            event.sequence,
            reservation.sketch_id,
        ),
    ).fetchone()
    return row is not None


def _load(
    connection: sqlite3.Connection, *, but: bytes = b""
) -> tuple[list[PrivacyEvent], OriginIndex]:
    index = OriginIndex()
    for row in connection.execute("SELECT * FROM origins"):
        reader = _name_reader(row["holder"], row["study"], row["stream"])
        index.add(reader, read_origin(row))
    # Grouped by cost: years of entries are read for each release.
    rows = connection.execute(
        "SELECT holder, study, stream, plan_digest, MAX(sequence) AS sequence, neighbouring,"
        " epsilon, delta, rho, COUNT(*) AS n FROM entries WHERE sketch_id != ?"
        " GROUP BY holder, study, stream, plan_digest, neighbouring, epsilon, delta, rho",
        (but,),
    )
    return [_to_event(row, count=row["n"], apart=True) for row in rows], index


class _ImpossibleError(Exception):
    """A row that no release has written; it names the release."""


def _to_event(row: sqlite3.Row, *, count: int = 1, apart: bool = False) -> PrivacyEvent:
    """Return the release of a row; one that costs less than nothing would give budget back."""
    with suppress(ValueError, TypeError, AttributeError, ArithmeticError, PrivacyError):
        stream = row["stream"]
        if apart:
            _, stream = _name_reader(row["holder"], row["study"], stream)
        event = read_event(row, stream=stream, sequence=int(row["sequence"]), count=count)
        if event.epsilon > 0 and 0 <= event.delta < 1 and (event.rho is None or event.rho > 0):
            return event
    raise _ImpossibleError(f"sketch {row['sequence']} of stream {row['stream']!r}")


def _insert(
    connection: sqlite3.Connection, reservation: Reservation, now: float, *, is_confirmed: bool
) -> None:
    insert_row(
        connection,
        "entries",
        {
            "sketch_id": reservation.sketch_id,
            "holder": reservation.holder,
            **event_to_row(reservation.event),
            "reserved_at": now,
            "is_confirmed": is_confirmed,
        },
        conflict="ON CONFLICT (sketch_id) DO UPDATE SET"
        " is_confirmed = MAX(is_confirmed, excluded.is_confirmed)",
    )


def _insert_origins(connection: sqlite3.Connection, reservation: Reservation) -> None:
    event = reservation.event
    reader = {"holder": reservation.holder, "study": event.study, "stream": event.stream}
    for origin in reservation.origins:
        insert_row(connection, "origins", reader | asdict(origin), verb="INSERT OR IGNORE")
