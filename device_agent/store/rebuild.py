"""Rebuild a database from the journal, with every sketch that can still be read."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sfumato.device_agent.store.database import DATABASE_NAME, connect, create_tables, transaction
from sfumato.device_agent.store.disk import sync_folder
from sfumato.device_agent.store.identity import write_meta
from sfumato.device_agent.store.journal import Noted, untag
from sfumato.device_agent.store.ledger import append_origins
from sfumato.device_agent.store.positions import Places, insert_positions
from sfumato.device_agent.store.streams import write_stream
from sfumato.shared.privacy import Origin

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


def build_database(folder: Path, noted: Noted, places: Places, *, damaged: Path | None) -> int:
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
        Database that was set aside; sketches with the journal's digest are taken from it.

    Returns
    -------
    int
        Number of sketches that waited, or may have, and cannot be read any more.
    """
    part = folder / _PART_NAME
    for suffix in ("", "-wal", "-shm"):
        Path(f"{part}{suffix}").unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(connect(part)) as connection:
        with transaction(connection):
            create_tables(connection)
            _insert_state(connection, noted, places)
            n_lost = _insert_releases(connection, noted, damaged)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    part.rename(folder / DATABASE_NAME)
    sync_folder(folder)
    return n_lost


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


def _insert_releases(connection: sqlite3.Connection, noted: Noted, damaged: Path | None) -> int:
    salvage = _Salvage(damaged)
    n_lost = 0
    for release in noted.iterate_releases():
        values = {key: _from_plain(key, release[key]) for key in {*_EVENT, *_SKETCH}}
        _insert(connection, "events", {key: values[key] for key in _EVENT})
        if release["sketch_id"] is None:
            continue  # of a device that was forgotten, or of a copy of this one
        kept = salvage.find(values["sketch_id"], release["digest"])
        n_lost += kept["problem"] == LOST
        # When it was offered is not noted; taken for offered, it accuses no device of being a copy.
        offered = {"offered_at": release["released_at"]}
        _insert(connection, "outbox", {key: values[key] for key in _SKETCH} | kept | offered)
    salvage.close()
    return n_lost


class _Salvage:
    """Reader of a damaged database; it believes bytes by their digest alone."""

    def __init__(self, path: Path | None) -> None:
        self._connection: sqlite3.Connection | None = None
        if path is not None:
            try:
                # Nothing in it is changed: it may be all that its owner has.
                self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
                self._connection.row_factory = sqlite3.Row
            except sqlite3.Error:
                self._connection = None

    def find(self, sketch_id: bytes, digest: str | None) -> dict[str, Any]:
        """Return the outbox row of a sketch; if its bytes are gone, it is shelved as lost."""
        lost = dict.fromkeys(_KEPT) | {
            "state": "shelved", "problem": LOST, "attempts": 0, "not_before": 0.0,
        }  # fmt: skip
        row = self._read(sketch_id)
        if row is None:
            return lost
        message, state = row["message"], row["state"]
        if message is None and state == "sent":
            return {**lost, "state": state, "problem": None, "sent_at": _number(row["sent_at"])}
        if not isinstance(message, bytes) or hashlib.sha256(message).hexdigest() != digest:
            return lost
        # A state that cannot be believed is that of a sketch to be sent: the same bytes do no harm.
        known = state if state in ("sent", "shelved") else "waiting"
        sent_at = _number(row["sent_at"])
        if known == "sent" and sent_at is None:
            known = "waiting"
        problem = row["problem"] if isinstance(row["problem"], str) else None
        return {**lost, "message": message, "state": known, "problem": problem, "sent_at": sent_at}

    def _read(self, sketch_id: bytes) -> Mapping[str, Any] | None:
        if self._connection is None:
            return None
        # The index may be what is damaged.
        for how in ("", "NOT INDEXED"):
            with suppress(sqlite3.Error):
                row: sqlite3.Row | None = self._connection.execute(
                    f"SELECT message, state, problem, sent_at FROM outbox {how}"
                    " WHERE sketch_id = ? LIMIT 1",
                    (sketch_id,),
                ).fetchone()
                if row is not None:
                    return dict(row)
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _insert(connection: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> None:
    marks = ", ".join("?" for _ in values)
    connection.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values())
    )


def _from_plain(key: str, value: Any) -> Any:
    return bytes.fromhex(value) if key in _BINARY and value is not None else value


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
