"""Positions of streams in their sources, in the database and in a small file beside the journal.

After a loss of the database the journal alone could not say where to go on, and a history of places
would tell how much was read at each run. So the places at the last release stand in one file,
replaced as a whole before the journal notes their release.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.device_agent.sources import KnownPosition, Position, SourceChanges
from sfumato.device_agent.store.ledger import study_of
from sfumato.device_agent.store.schema import write_sealed
from sfumato.shared.durable_files import replace_file

PLACES_NAME = "places"
_DIGEST_CHARACTERS = 64

StreamKey = tuple[str, str]
"""Study in hexadecimal, and the stream's name."""


def load_positions(connection: sqlite3.Connection) -> list[KnownPosition]:
    """Load the positions of all streams of the study."""
    rows = connection.execute(
        "SELECT stream, source, place FROM positions WHERE study = ?", (study_of(connection),)
    )
    return [
        KnownPosition(
            stream=row["stream"],
            position=Position(source=row["source"], place=json.loads(row["place"])),
        )
        for row in rows
    ]


def write_positions(
    connection: sqlite3.Connection, stream: str, positions: Iterable[Position]
) -> None:
    """Note positions of a stream; to be called inside a transaction."""
    study = study_of(connection)
    insert_positions(
        connection,
        [(study, stream, p.source, json.dumps(dict(p.place), sort_keys=True)) for p in positions],
    )


def note_source_changes(
    connection: sqlite3.Connection, stream: str, changes: SourceChanges
) -> None:
    """Delete positions that are gone, and note seen ones beyond the known; in a transaction."""
    study = study_of(connection)
    connection.executemany(
        "DELETE FROM positions WHERE study = ? AND stream = ? AND source = ?",
        [(study, stream, source) for source in changes.gone],
    )
    known = {
        k.position.source: _offset_of(k.position)
        for k in load_positions(connection)
        if k.stream == stream
    }
    news = [p for p in changes.seen if known.get(p.source, -1) < _offset_of(p)]
    write_positions(connection, stream, news)


def _offset_of(position: Position) -> int:
    return int(position.place.get("offset", 0))


def insert_positions(
    connection: sqlite3.Connection, rows: Iterable[tuple[bytes, str, str, str]]
) -> None:
    """Note positions as (study, stream, source, place); to be called inside a transaction."""
    write_sealed(connection, "positions", rows)


@dataclass(kw_only=True)
class Places:
    """The places of every stream, and their release.

    Parameters
    ----------
    n_releases
        Number of releases so far, of all streams.
    rows
        By stream and source: the place, as the database holds it.
    """

    n_releases: int = 0
    rows: dict[StreamKey, dict[str, str]] = field(default_factory=dict)

    def take(self, connection: sqlite3.Connection, streams: Iterable[StreamKey]) -> None:
        """Replace the places of some streams with those of the database."""
        for study, stream in streams:
            found = connection.execute(
                "SELECT source, place FROM positions WHERE study = ? AND stream = ?"
                " ORDER BY source",
                (bytes.fromhex(study), stream),
            )
            self.rows[study, stream] = {row["source"]: row["place"] for row in found}


def collect_places(connection: sqlite3.Connection, n_releases: int) -> Places:
    """Return the places that a database holds, of all streams."""
    places = Places(n_releases=n_releases)
    keys = connection.execute("SELECT DISTINCT study, stream FROM positions").fetchall()
    places.take(connection, [(row["study"].hex(), row["stream"]) for row in keys])
    return places


def read_places(folder: Path) -> Places | None:
    """Read the places of a folder; None if they are missing or damaged. May raise ``OSError``."""
    try:
        data = (folder / PLACES_NAME).read_bytes()
    except FileNotFoundError:
        return None
    digest, _, text = data.partition(b" ")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return None
    document = json.loads(text)
    rows: dict[StreamKey, dict[str, str]] = {}
    for study, stream, source, place in document["places"]:
        rows.setdefault((study, stream), {})[source] = place
    return Places(n_releases=document["releases"], rows=rows)


def write_places(folder: Path, places: Places) -> None:
    """Replace the file; raises ``OSError`` as ``replace_file``."""
    rows = [
        [study, stream, source, place]
        for (study, stream), found in places.rows.items()
        for source, place in found.items()
    ]
    document = {"releases": places.n_releases, "places": rows}
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    replace_file(folder / PLACES_NAME, digest + b" " + text)
