"""Rebuild a database from the journal, with every sketch that can still be read."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sfumato.device_agent.store.database import (
    DATABASE_NAME,
    connect,
    create_tables,
    decode_text,
    transaction,
)
from sfumato.device_agent.store.identity import write_meta
from sfumato.device_agent.store.journal import Noted, untag
from sfumato.device_agent.store.ledger import append_origins
from sfumato.device_agent.store.positions import Places, insert_positions
from sfumato.device_agent.store.streams import write_stream
from sfumato.shared.durable_files import sync_folder
from sfumato.shared.privacy import Origin
from sfumato.shared.spending.rows import insert_row

_PART_NAME = f"{DATABASE_NAME}.part"
LOST = "lost-with-the-database"
"""The problem of a sketch whose bytes could not be read any more."""

_EVENT = (
    "study", "stream", "plan_digest", "sequence", "neighbouring", "epsilon", "delta", "rho",
    "released_at", "count", "copy",
)  # fmt: skip
_SKETCH = (
    "sketch_id", "study", "stream", "sequence", "n_records", "first_slot", "last_slot",
    "released_at", "n_bytes",
)  # fmt: skip
_KEPT = ("message", "state", "problem", "attempts", "last_attempt", "not_before", "sent_at")
_BINARY = ("study", "plan_digest", "sketch_id")
_N_PAGES = slice(28, 32)
"""Place of the number of pages in the header of a SQLite file."""
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError, MemoryError, OSError)
"""SQLite's message about a damaged schema need not be text, and then Python refuses it."""


def build_database(
    folder: Path, noted: Noted, places: Places, *, damaged: Sequence[Path]
) -> list[str]:
    """Make the database of a folder that has none; it appears whole or not at all.

    Open windows are empty: their records are read again from the last release on, or lost if a
    source cannot be read again.

    Parameters
    ----------
    noted
        A journal without damage.
    places
        Places at its last release, or later ones.
    damaged
        Databases that were set aside, the latest first, also by a run that was interrupted.
        Sketches with the journal's digest are taken from them.

    Returns
    -------
    list of str
        A line for each kind of row: saved or lost.
    """
    part = folder / _PART_NAME
    for suffix in ("", "-wal", "-shm"):
        Path(f"{part}{suffix}").unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(connect(part)) as connection:
        with transaction(connection):
            create_tables(connection)
            _insert_state(connection, noted, places)
            n_saved, n_lost = _insert_releases(connection, noted, damaged)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    part.rename(folder / DATABASE_NAME)
    sync_folder(folder)
    lost = f"{n_lost} lost"
    if n_lost:
        lost += (
            ", whether or not they were sent; their cost stays spent, and `sfumato-agent status` "
            "shows them"
        )
    n_places = sum(len(found) for found in places.rows.values())
    return [
        f"releases in the ledger: {noted.n_releases} saved, none lost",
        f"sketches in the outbox: {n_saved} saved, {lost}",
        f"places in the sources: {n_places} saved, as they were at the last release",
        "open windows: none saved; their records are read again where the source still has them",
    ]


def _insert_state(connection: sqlite3.Connection, noted: Noted, places: Places) -> None:
    for study, meta in noted.meta.items():
        write_meta(connection, bytes.fromhex(study), [(k, untag(v)) for k, v in meta.items()])
    for row in noted.streams.values():
        write_stream(connection, **{**row, "study": bytes.fromhex(row["study"])})
    for study, stream, kind, name, part, times in noted.origins:
        origin = Origin(kind=kind, name=name, part=part, times=times)
        append_origins(connection, (bytes.fromhex(study), stream), [origin])
    rows = [
        (bytes.fromhex(study), stream, source, place)
        for (study, stream), found in places.rows.items()
        for source, place in found.items()
    ]
    insert_positions(connection, rows)


def _insert_releases(
    connection: sqlite3.Connection, noted: Noted, damaged: Sequence[Path]
) -> tuple[int, int]:
    salvage = _Salvage(damaged, noted.n_releases)
    n_saved = n_lost = 0
    for release in noted.iterate_releases():
        values = {key: _from_plain(key, release[key]) for key in {*_EVENT, *_SKETCH}}
        insert_row(connection, "events", {key: values[key] for key in _EVENT})
        if release["sketch_id"] is None:
            continue  # of a device that was forgotten, or of a copy of this one
        kept = salvage.find(values["sketch_id"], release["digest"])
        n_lost += kept["problem"] == LOST
        n_saved += kept["problem"] != LOST
        # When it was offered is not noted; taken for offered, it accuses no device of being a copy.
        offered = {"offered_at": release["released_at"]}
        insert_row(connection, "outbox", {key: values[key] for key in _SKETCH} | kept | offered)
    salvage.close()
    return n_saved, n_lost


class _Salvage:
    """Reader of damaged databases, row by row; it believes bytes by their digest alone.

    Nothing in them is changed: they may be all that their owner has.
    """

    def __init__(self, paths: Sequence[Path], n_releases: int) -> None:
        self._n_rows = n_releases
        # Few need a copy, which is in memory: it is made where the file itself lacks a sketch.
        opened = (how(path) for path in paths for how in (_open_as_it_is, _open_with_whole_schema))
        self._unread = (connection for connection in opened if connection is not None)
        self._read: list[tuple[sqlite3.Connection, Mapping[object, int]]] = []

    def find(self, sketch_id: bytes, digest: str | None) -> dict[str, Any]:
        """Return the outbox row of a sketch; if its bytes are gone, it is shelved as lost."""
        lost = dict.fromkeys(_KEPT) | {
            "state": "shelved", "problem": LOST, "attempts": 0, "not_before": 0.0,
        }  # fmt: skip
        for row in self._list_rows(digest, sketch_id):
            message, state, sent_at = row["message"], row["state"], _number(row["sent_at"])
            if message is None and state == "sent":
                return {**lost, "state": state, "problem": None, "sent_at": sent_at}
            if not isinstance(message, bytes) or hashlib.sha256(message).hexdigest() != digest:
                continue
            # A state that cannot be believed is that of a sketch to be sent: the same bytes do no
            # harm.
            known = state if state in ("sent", "shelved") else "waiting"
            if known == "sent" and sent_at is None:
                known = "waiting"
            problem = row["problem"] if isinstance(row["problem"], str) else None
            return {
                **lost, "message": message, "state": known, "problem": problem, "sent_at": sent_at,
            }  # fmt: skip
        return lost

    def _list_rows(self, *keys: object) -> Iterator[sqlite3.Row]:
        for connection, rowids in self._iterate():
            for rowid in (rowids[key] for key in keys if key in rowids):
                with suppress(*_UNREADABLE):
                    yield connection.execute(
                        "SELECT message, state, problem, sent_at FROM outbox WHERE rowid = ?",
                        (rowid,),
                    ).fetchone()

    def _iterate(self) -> Iterator[tuple[sqlite3.Connection, Mapping[object, int]]]:
        yield from self._read
        for connection in self._unread:
            self._read.append((connection, _list_rowids(connection, self._n_rows)))
            yield self._read[-1]

    def close(self) -> None:
        for connection, _ in self._read:
            connection.close()


def _open_as_it_is(path: Path) -> sqlite3.Connection | None:
    with suppress(*_UNREADABLE):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        connection.row_factory, connection.text_factory = sqlite3.Row, decode_text
        return connection
    return None


def _open_with_whole_schema(path: Path) -> sqlite3.Connection | None:
    """Open a copy in memory whose header and schema are those of a new database.

    SQLite reads no table at all where one letter of the schema is wrong. The pages of the schema
    are the same in every database of a version, because one transaction makes them.
    """
    connection = sqlite3.connect(":memory:")
    connection.row_factory, connection.text_factory = sqlite3.Row, decode_text
    # A library may be built without copies in memory.
    with suppress(*_UNREADABLE, AttributeError):
        create_tables(connection)
        new = connection.serialize()
        ((page_bytes,),) = connection.execute("PRAGMA page_size")
        roots = {row[0] for row in connection.execute("SELECT rootpage FROM sqlite_master")}
        data = bytearray(path.read_bytes())
        for number in range(1, len(new) // page_bytes + 1):
            if number not in roots:
                page = slice((number - 1) * page_bytes, number * page_bytes)
                data[page] = new[page]
        # Without a number of pages, the length of the file counts.
        data[_N_PAGES] = bytes(4)
        connection.deserialize(bytes(data))
        return connection
    connection.close()
    return None


def _list_rowids(connection: sqlite3.Connection, n_rows: int) -> Mapping[object, int]:
    """Return the rows of the outbox that can be read, by digest and by identity.

    Each is looked up by itself: a scan would end at the first damaged page.
    """
    found: dict[object, int] = {}
    for rowid in range(1, n_rows + 1):
        with suppress(*_UNREADABLE):
            row = connection.execute(
                "SELECT sketch_id, message FROM outbox WHERE rowid = ?", (rowid,)
            ).fetchone()
            if row is not None:
                found[row["sketch_id"]] = rowid
                if isinstance(row["message"], bytes):
                    found[hashlib.sha256(row["message"]).hexdigest()] = rowid
    return found


def _from_plain(key: str, value: Any) -> Any:
    return bytes.fromhex(value) if key in _BINARY and value is not None else value


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
