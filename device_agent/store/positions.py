"""How far streams have read their sources."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from device_agent.store.seals import compute_seal


@dataclass(frozen=True, kw_only=True)
class StoredPosition:
    """Where a stream stands in one of its sources; see ``device_agent.sources``."""

    stream: str
    source: str
    place: Mapping[str, int | str]


def load_positions(connection: sqlite3.Connection) -> list[StoredPosition]:
    """Load the positions of all streams."""
    return [
        StoredPosition(stream=row["stream"], source=row["source"], place=json.loads(row["place"]))
        for row in connection.execute("SELECT stream, source, place FROM positions")
    ]


def write_positions(connection: sqlite3.Connection, positions: Iterable[StoredPosition]) -> None:
    """Note positions; to be called inside a transaction."""
    insert_positions(
        connection,
        [(p.stream, p.source, json.dumps(dict(p.place), sort_keys=True)) for p in positions],
    )


def insert_positions(connection: sqlite3.Connection, rows: Iterable[tuple[str, str, str]]) -> None:
    """Note positions as (stream, source, place); to be called inside a transaction."""
    connection.executemany(
        "INSERT INTO positions (stream, source, place, seal) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (stream, source) DO UPDATE"
        " SET place = excluded.place, seal = excluded.seal",
        [(*row, compute_seal(*row)) for row in rows],
    )
