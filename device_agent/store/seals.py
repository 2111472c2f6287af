"""A digest in each row that steers a release: SQLite itself would not notice a bit that flipped."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

_SEAL_BYTES = 8

_SEALED = {
    "meta": ("study", "key", "value"),
    "streams": ("study", "name", "next_sequence", "first_record", "floor_slot", "suspended"),
    "open_windows": (
        "study", "stream", "n_records", "n_unsketchable", "first_slot", "last_slot", "sums",
    ),
    "open_slots": ("study", "stream", "slot", "n_records", "sums"),
    "positions": ("study", "stream", "source", "place"),
}  # fmt: skip


def compute_seal(*values: bytes | str | int | None) -> bytes:
    """Return the digest of a row's values, 8 bytes."""
    state = hashlib.sha256()
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8")
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()[:_SEAL_BYTES]


def find_broken_seals(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the tables that hold a row which is not as it was written."""
    for table, columns in _SEALED.items():
        for row in connection.execute(f"SELECT {', '.join(columns)}, seal FROM {table}"):
            if compute_seal(*row[:-1]) != row[-1]:
                yield table
                break
