"""Places that each stream had read to at its last release; the journal's companion.

After a loss of the database the journal alone could not say where to go on, and a history of places
would tell how much was read at each run. So the last places stand in one small file, replaced as a
whole before the journal notes their release.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from device_agent.store.disk import replace_file

PLACES_NAME = "places"
_DIGEST_CHARACTERS = 64

StreamKey = tuple[str, str]
"""Study in hexadecimal, and the stream's name."""


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
