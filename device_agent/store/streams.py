"""Streams, their open windows, and the one transaction that releases a window."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from device_agent.store.database import note_later, transaction, truncate_log
from device_agent.store.ledger import append_event
from device_agent.store.outbox import insert_sketch
from device_agent.store.positions import StoredPosition, write_positions
from device_agent.store.seals import compute_seal
from device_agent.store.slots import erase_slot
from device_agent.windows import WindowState
from shared.privacy import PrivacyEvent


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """Where a stream stands.

    Parameters
    ----------
    name
        The stream.
    next_sequence
        The number of its next sketch.
    first_record
        The record counter where the open window, or the next one, begins; it decides masks.
    window
        The open window: counts and slots.
    n_unsketchable
        Records of the open window that added zero.
    sums
        The open window's exact sums, shape ``(2 m,)``; None when no window is open. Not private.
    suspended
        Why nothing more is released, or None.
    """

    name: str
    next_sequence: int = 0
    first_record: int = 0
    window: WindowState = field(default_factory=WindowState)
    n_unsketchable: int = 0
    # Kept out of messages and tracebacks.
    sums: NDArray[np.int64] | None = field(default=None, repr=False)
    suspended: str | None = None


@dataclass(frozen=True, kw_only=True)
class NewRelease:
    """Everything that is written when a window is released.

    Parameters
    ----------
    sketch_id, message, n_records, slots
        The sketch: its identity, signed bytes, and what its header says; ``n_records`` is None
        where the number is secret.
    event
        What it costs.
    released_at
        Seconds since 1970-01-01 UTC.
    state
        The stream afterwards: no window open.
    positions
        The positions behind the last record of the window, one for each file it was read from.
    """

    sketch_id: bytes
    message: bytes
    n_records: int | None
    slots: tuple[int, int] | None
    event: PrivacyEvent
    released_at: float
    state: StreamState
    positions: tuple[StoredPosition, ...]


def list_streams(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the streams that were ever read."""
    return [row["name"] for row in connection.execute("SELECT name FROM streams ORDER BY name")]


def load_stream(connection: sqlite3.Connection, name: str) -> StreamState:
    """Load a stream; one that is not stored stands at its beginning."""
    row = connection.execute("SELECT * FROM streams WHERE name = ?", (name,)).fetchone()
    if row is None:
        return StreamState(name=name)
    opened = connection.execute("SELECT * FROM open_windows WHERE stream = ?", (name,)).fetchone()
    window = WindowState(
        n_records=opened["n_records"] if opened else 0,
        first_slot=opened["first_slot"] if opened else None,
        last_slot=opened["last_slot"] if opened else None,
        floor_slot=row["floor_slot"],
    )
    return StreamState(
        name=name,
        next_sequence=row["next_sequence"],
        first_record=row["first_record"],
        window=window,
        n_unsketchable=opened["n_unsketchable"] if opened else 0,
        sums=np.frombuffer(opened["sums"], dtype="<i8").astype(np.int64) if opened else None,
        suspended=row["suspended"],
    )


def checkpoint(
    connection: sqlite3.Connection, state: StreamState, positions: Iterable[StoredPosition]
) -> None:
    """Save an open window and the positions behind its last record, together."""
    with transaction(connection):
        _write_state(connection, state)
        write_positions(connection, positions)
        _write_open_window(connection, state)
    truncate_log(connection)


def commit_release(connection: sqlite3.Connection, release: NewRelease) -> None:
    """Release a window: bytes, ledger, position and the end of its sums, in one transaction.

    Guarantees
    ----------
    After a crash at any point either nothing of it is stored, or all: the same bytes are sent then,
    and the sums they were made from are gone. None of it is sent before the journal holds it too.
    """
    with transaction(connection):
        note_later(connection)
        insert_sketch(
            connection,
            sketch_id=release.sketch_id,
            stream=release.event.stream,
            sequence=release.event.sequence,
            n_records=release.n_records,
            slots=release.slots,
            released_at=release.released_at,
            message=release.message,
        )
        append_event(connection, release.event, release.released_at)
        _write_state(connection, release.state)
        write_positions(connection, release.positions)
        _write_open_window(connection, release.state)
        if release.n_records is None and release.slots is not None:
            erase_slot(connection, release.event.stream, release.slots[1])
    truncate_log(connection)


def suspend_stream(connection: sqlite3.Connection, name: str, reason: str) -> None:
    """Stop a stream until its owner acts; to be called inside a transaction."""
    _set_suspended(connection, name, reason)


def resume_stream(connection: sqlite3.Connection, name: str) -> None:
    """Let a suspended stream go on; to be called inside a transaction."""
    _set_suspended(connection, name, None)


def write_stream(
    connection: sqlite3.Connection,
    *,
    name: str,
    next_sequence: int,
    first_record: int,
    floor_slot: int | None,
    suspended: str | None,
) -> None:
    """Write where a stream stands but for its open window; to be called inside a transaction."""
    row = (name, next_sequence, first_record, floor_slot, suspended)
    connection.execute(
        "INSERT OR REPLACE INTO streams"
        " (name, next_sequence, first_record, floor_slot, suspended, seal)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*row, compute_seal(*row)),
    )


def _write_state(connection: sqlite3.Connection, state: StreamState) -> None:
    # Not the state's suspension: an answer may have suspended the stream since it was loaded.
    _write_row(connection, state, load_stream(connection, state.name).suspended)


def _set_suspended(connection: sqlite3.Connection, name: str, reason: str | None) -> None:
    note_later(connection)
    _write_row(connection, load_stream(connection, name), reason)


def _write_row(connection: sqlite3.Connection, state: StreamState, suspended: str | None) -> None:
    write_stream(
        connection,
        name=state.name,
        next_sequence=state.next_sequence,
        first_record=state.first_record,
        floor_slot=state.window.floor_slot,
        suspended=suspended,
    )


def _write_open_window(connection: sqlite3.Connection, state: StreamState) -> None:
    if state.sums is None:
        connection.execute("DELETE FROM open_windows WHERE stream = ?", (state.name,))
        return
    window = state.window
    row = (
        state.name,
        window.n_records,
        state.n_unsketchable,
        window.first_slot,
        window.last_slot,
        state.sums.astype("<i8").tobytes(),
    )
    connection.execute(
        "INSERT OR REPLACE INTO open_windows"
        " (stream, n_records, n_unsketchable, first_slot, last_slot, sums, seal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*row, compute_seal(*row)),
    )
