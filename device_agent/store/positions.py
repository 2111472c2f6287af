"""Positions of streams in their sources."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from device_agent.store.ledger import study_of
from device_agent.store.schema import compute_seal


@dataclass(frozen=True, kw_only=True)
class StoredPosition:
    """A stream's position in one of its sources; see ``device_agent.sources``."""

    stream: str
    source: str
    place: Mapping[str, int | str]


def load_positions(connection: sqlite3.Connection) -> list[StoredPosition]:
    """Load the positions of all streams of the study."""
    rows = connection.execute(
        "SELECT stream, source, place FROM positions WHERE study = ?", (study_of(connection),)
    )
    return [
        StoredPosition(stream=row["stream"], source=row["source"], place=json.loads(row["place"]))
        for row in rows
    ]


def write_positions(connection: sqlite3.Connection, positions: Iterable[StoredPosition]) -> None:
    """Note positions; to be called inside a transaction."""
    study = study_of(connection)
    insert_positions(
        connection,
        [(study, p.stream, p.source, json.dumps(dict(p.place), sort_keys=True)) for p in positions],
    )


def note_source_changes(
    connection: sqlite3.Connection, gone: Iterable[tuple[str, str]], seen: Iterable[StoredPosition]
) -> None:
    """Delete positions that are gone, and note seen ones beyond the known; in a transaction.

    Parameters
    ----------
    gone
        Stream and source of each position to delete.
    seen
        Positions of files that were seen.
    """
    study = study_of(connection)
    connection.executemany(
        "DELETE FROM positions WHERE study = ? AND stream = ? AND source = ?",
        [(study, *one) for one in gone],
    )
    known = {(p.stream, p.source): _offset_of(p) for p in load_positions(connection)}
    news = [p for p in seen if known.get((p.stream, p.source), -1) < _offset_of(p)]
    write_positions(connection, news)


def _offset_of(position: StoredPosition) -> int:
    return int(position.place.get("offset", 0))


def insert_positions(
    connection: sqlite3.Connection, rows: Iterable[tuple[bytes, str, str, str]]
) -> None:
    """Note positions as (study, stream, source, place); to be called inside a transaction."""
    connection.executemany(
        "INSERT INTO positions (study, stream, source, place, seal) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (study, stream, source) DO UPDATE"
        " SET place = excluded.place, seal = excluded.seal",
        [(*row, compute_seal(*row)) for row in rows],
    )
