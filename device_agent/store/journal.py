"""The journal: a second record of every release, in a plain file beside the database.

The database alone cannot show that it has lost something: SQLite drops a damaged tail of its log
without a word, and an unreadable page takes the ledger with it. So whatever may leave the device is
noted here too, after its commit and before a byte of it is sent::

    commit in SQLite  ->  one line here, on the disk  ->  the sketch may be sent

Therefore a ledger that lacks what the journal holds has lost something, and from a journal without
a gap the ledger can be made again. Its lines are those of ``sfumato.shared.spending.lines``. No sum
stands in them, no value of a record, no number that is secret, and no history of how far sources
were read (see ``sfumato.device_agent.store.positions``).
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from sfumato.device_agent.store.disk import naming_file
from sfumato.device_agent.store.positions import (
    Places,
    collect_places,
    read_places,
    write_places,
)
from sfumato.shared.durable_files import sync_folder
from sfumato.shared.errors import StoreError
from sfumato.shared.spending.lines import (
    DIGEST_CHARACTERS,
    START,
    decode_line,
    encode_line,
    write_line,
)

JOURNAL_NAME = "spent.journal"

_RELEASES = (
    "SELECT e.id, e.study, e.stream, e.plan_digest, e.sequence, e.neighbouring, e.epsilon, e.delta,"
    " e.rho, e.released_at, e.count, e.copy, o.sketch_id, o.n_records, o.first_slot, o.last_slot,"
    " o.n_bytes, o.message FROM events AS e LEFT JOIN outbox AS o"
    " ON o.study = e.study AND o.stream = e.stream AND o.sequence = e.sequence AND e.copy = 0"
    " WHERE e.id > ? ORDER BY e.id"
)
_STREAMS = "SELECT study, name, next_sequence, first_record, floor_slot, suspended FROM streams"
_ORIGINS = (
    "SELECT study, stream, kind, name, part, times FROM origins ORDER BY id LIMIT -1 OFFSET ?"
)

Meta = dict[str, dict[str, str]]
"""By study in hexadecimal: what the database says of its identity, or that it was forgotten."""


@dataclass(kw_only=True)
class Noted:
    """The content of a journal.

    Parameters
    ----------
    meta
        The identity in each study, or that it was forgotten there.
    n_releases
        Number of releases, of all streams.
    streams
        By study and name: the stream's state after its last release.
    origins
        Origins of each stream's records, oldest first.
    damage
        Description of the first line that cannot be read; None without one.
    is_torn
        Whether only the last line is damaged, as a power cut leaves it.
    n_bytes, digest
        Length and digest of the lines that can be read.
    path
        The file itself; None if nothing was read.
    """

    meta: Meta = field(default_factory=dict)
    n_releases: int = 0
    streams: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    origins: list[list[str]] = field(default_factory=list)
    damage: str | None = None
    is_torn: bool = False
    n_bytes: int = 0
    digest: str = START
    path: Path | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing was ever noted."""
        return not self.n_bytes

    def apply(self, entry: dict[str, Any]) -> None:
        """Add the content of one line."""
        self.meta = entry.get("meta", self.meta)
        self.n_releases += len(entry["releases"])
        self.streams.update({(row["study"], row["name"]): row for row in entry["streams"]})
        self.origins += entry["origins"]

    def iterate_releases(self) -> Iterator[dict[str, Any]]:
        """Read the releases again, oldest first: after years they do not fit in memory.

        Raises
        ------
        StoreError
            The file cannot be read any more.
        """
        if self.path is None:
            return
        n_left = self.n_bytes
        with _naming(self.path.parent), self.path.open("rb") as file:
            for line in file:
                n_left -= len(line)
                if n_left < 0:
                    return
                yield from json.loads(line[DIGEST_CHARACTERS + 1 :])["releases"]


def read_journal(folder: Path) -> Noted:
    """Read the journal of a folder up to the first damaged line.

    Raises
    ------
    StoreError
        The file exists and cannot be opened.
    """
    path = folder / JOURNAL_NAME
    noted = Noted(path=path)
    with _naming(folder):
        if not path.exists():
            return Noted()
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    digest, entry = decode_line(noted.digest, line)
                    noted.apply(entry)
                except (ValueError, KeyError, TypeError, IndexError, AttributeError):
                    noted.damage = f"line {number} cannot be read"
                    noted.is_torn = not file.read(1)
                    break
                noted.digest = digest
                noted.n_bytes += len(line)
    return noted


class Journal:
    """The journal of a folder; only the holder of the folder's lock appends to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / JOURNAL_NAME
        self._noted: Noted | None = None
        self._places: Places | None = None
        self.is_behind = False
        """True if the database may hold what is not noted yet."""

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Append what the database holds beyond the journal, and wait until it is on the disk.

        Raises
        ------
        StoreError
            It cannot be written; the journal is unchanged and stays behind.
        """
        noted = self._load()
        entry = _collect(connection, noted, n_known=noted.n_releases)
        if entry is not None:
            self._note_places(connection, noted, entry["releases"])
            self._append(noted, entry)
        self.is_behind = False

    def rewrite_places(self, connection: sqlite3.Connection) -> None:
        """Write the database's places of every stream."""
        n_releases = int(connection.execute("SELECT COUNT(*) FROM events").fetchone()[0])
        self._places = collect_places(connection, n_releases)
        with _naming(self._folder):
            write_places(self._folder, self._places)

    def rewrite(self, connection: sqlite3.Connection) -> None:
        """Replace the journal by one that is made from the database."""
        noted = Noted()
        self.rewrite_places(connection)
        entry = _collect(connection, noted, n_known=0)
        part = self._folder / f"{JOURNAL_NAME}.part"
        with _naming(self._folder):
            part.unlink(missing_ok=True)
            if entry is not None:
                _write(part, 0, encode_line(noted.digest, entry))
                part.rename(self._path)
            else:
                self._path.unlink(missing_ok=True)
            sync_folder(self._folder)
        self._noted = None
        self.is_behind = False

    def _load(self) -> Noted:
        if self._noted is None:
            noted = read_journal(self._folder)
            if noted.damage is not None and not noted.is_torn:
                raise StoreError(
                    f"was damaged while the agent ran: {noted.damage}",
                    field=str(self._path),
                    fix="restart the agent, which sets it aside",
                )
            if noted.is_torn:
                # Half a line that a power cut left: what it was to say is in the database.
                with _naming(self._folder):
                    os.truncate(self._path, noted.n_bytes)
            self._noted = noted
        return self._noted

    def _note_places(
        self, connection: sqlite3.Connection, noted: Noted, releases: list[dict[str, Any]]
    ) -> None:
        """Note the released streams' places before the releases, so that they are never behind."""
        if not releases:
            return
        # Where writing fails they are read anew.
        places, self._places = self._places, None
        with _naming(self._folder):
            places = places or read_places(self._folder)
            if places is None or places.n_releases < noted.n_releases:
                places = collect_places(connection, 0)
            places.take(connection, {(row["study"], row["stream"]) for row in releases})
            places.n_releases = noted.n_releases + len(releases)
            write_places(self._folder, places)
        self._places = places

    def _append(self, noted: Noted, entry: dict[str, Any]) -> None:
        is_new = not self._path.exists()
        line = encode_line(noted.digest, entry)
        with _naming(self._folder):
            _write(self._path, noted.n_bytes, line)
            if is_new:
                sync_folder(self._folder)
        noted.digest = line[:DIGEST_CHARACTERS].decode()
        noted.n_bytes += len(line)
        noted.apply(entry)


_journals: WeakValueDictionary[Path, Journal] = WeakValueDictionary()


def open_journal(folder: Path) -> Journal:
    """Return the journal of a folder: one for all connections of this process."""
    key = folder.resolve()
    journal = _journals.get(key)
    if journal is None:
        journal = _journals[key] = Journal(folder)
    return journal


def describe_release(row: sqlite3.Row) -> dict[str, Any]:
    """Return the journal's entry of a release: its cost, its sketch, and its bytes' digest."""
    found = {key: row[key] for key in row.keys() if key not in ("id", "message")}  # noqa: SIM118
    digest = None if row["message"] is None else hashlib.sha256(row["message"]).hexdigest()
    return {key: _plain(value) for key, value in found.items()} | {"digest": digest}


def iterate_releases(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Yield the journal's entry of each release of a database, oldest first."""
    for row in connection.execute(_RELEASES, (0,)):
        yield describe_release(row)


def load_meta(connection: sqlite3.Connection) -> Meta:
    """Return the identities that a database states, bytes in hexadecimal."""
    found: Meta = {}
    for row in connection.execute("SELECT study, key, value FROM meta ORDER BY study, key"):
        found.setdefault(row["study"].hex(), {})[row["key"]] = _tagged(row["value"])
    return found


def untag(value: str) -> bytes | str:
    """Return a value of ``meta`` as the database holds it."""
    kind, _, text = value.partition(":")
    return bytes.fromhex(text) if kind == "hex" else text


def _collect(
    connection: sqlite3.Connection, noted: Noted, *, n_known: int
) -> dict[str, Any] | None:
    """Return what the database holds and the journal does not; None if nothing."""
    releases = [describe_release(row) for row in connection.execute(_RELEASES, (n_known,))]
    streams = [
        {key: _plain(row[key]) for key in row.keys()}  # noqa: SIM118
        for row in connection.execute(_STREAMS)
    ]
    entry: dict[str, Any] = {
        "releases": releases,
        "streams": [
            row for row in streams if noted.streams.get((row["study"], row["name"])) != row
        ],
        "origins": list_origins(connection, len(noted.origins)),
    }
    meta = load_meta(connection)
    if meta != noted.meta:
        entry["meta"] = meta
    return entry if len(entry) > 3 or any(entry.values()) else None


def list_origins(connection: sqlite3.Connection, n_known: int = 0) -> list[list[str]]:
    """Return the origins in the journal's form, after the first few."""
    rows = connection.execute(_ORIGINS, (n_known,))
    return [[_plain(value) for value in row] for row in rows]


def _write(path: Path, offset: int, line: bytes) -> None:
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        write_line(file, offset, line)
    finally:
        os.close(file)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _tagged(value: bytes | str) -> str:
    return f"hex:{value.hex()}" if isinstance(value, bytes) else f"text:{value}"


def _naming(folder: Path) -> AbstractContextManager[None]:
    fix = "make it writable for this user; nothing is sent that is not noted there"
    return naming_file(folder / JOURNAL_NAME, fix=fix)
