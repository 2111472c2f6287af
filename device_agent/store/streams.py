"""Streams, their open windows or slots, and the transaction that releases one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.device_agent.sources import Position
from sfumato.device_agent.store.database import note_later, transaction, truncate_log
from sfumato.device_agent.store.ledger import append_event, append_origins, load_copied, study_of
from sfumato.device_agent.store.outbox import insert_sketch
from sfumato.device_agent.store.positions import write_positions
from sfumato.device_agent.store.schema import write_sealed
from sfumato.device_agent.windows import WindowState
from sfumato.shared.arrays import Integers
from sfumato.shared.errors import LedgerError, StoreError
from sfumato.shared.privacy import Origin, PrivacyEvent


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """State of a stream.

    Parameters
    ----------
    name
        The stream.
    next_sequence
        The number of its next sketch.
    first_record
        The record counter at the beginning of the open or next window; it decides masks.
    window
        The open window: counts and slots.
    n_unsketchable
        Records of the open window that added zero.
    block
        The open window's block of features.
    sums
        The open window's exact sums, shape ``(2 r,)``; None when no window is open. Not private.
    suspended
        Why nothing more is released, or None.
    """

    name: str
    next_sequence: int = 0
    first_record: int = 0
    window: WindowState = field(default_factory=WindowState)
    n_unsketchable: int = 0
    block: int = 0
    # Kept out of messages and tracebacks.
    sums: Integers | None = field(default=None, repr=False)
    suspended: str | None = None

    def require_not_suspended(self) -> None:
        """Refuse a stream that was stopped, with a ``LedgerError``."""
        if self.suspended:
            raise LedgerError(
                f"is suspended: {self.suspended}",
                field=f"stream {self.name}",
                fix=f"find out why, then see `sfumato-agent resume {self.name}`",
            )


@dataclass(frozen=True, kw_only=True)
class SlotSum:
    """Number and sum, shape ``(2 r,)``, of one slot's records so far. Not private."""

    slot: int
    n_records: int = field(repr=False)
    # Kept out of messages and tracebacks, as is the number.
    sums: Integers = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class NewRelease:
    """Content of the transaction that releases a window.

    Parameters
    ----------
    sketch_id, message, n_records, slots
        The sketch: identity, signed bytes, and fields of its header; ``n_records`` is None if the
        number is secret.
    event
        Its cost.
    released_at
        Seconds since 1970-01-01 UTC.
    state
        The stream afterwards: no window open.
    positions
        Positions after the last record of the window, one for each file.
    origins
        Origins of its records.
    """

    sketch_id: bytes
    message: bytes
    n_records: int | None
    slots: tuple[int, int] | None
    event: PrivacyEvent
    released_at: float
    state: StreamState
    positions: tuple[Position, ...]
    origins: tuple[Origin, ...]


def list_streams(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the streams that were ever read."""
    rows = connection.execute(
        "SELECT name FROM streams WHERE study = ? ORDER BY name", (study_of(connection),)
    )
    return [row["name"] for row in rows]


def load_stream(connection: sqlite3.Connection, name: str) -> StreamState:
    """Load a stream; an unknown one is at its beginning."""
    key = (study_of(connection), name)
    row = connection.execute("SELECT * FROM streams WHERE study = ? AND name = ?", key).fetchone()
    if row is None:
        return StreamState(name=name)
    opened = connection.execute(
        "SELECT * FROM open_windows WHERE study = ? AND stream = ?", key
    ).fetchone()
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
        block=opened["block"] if opened else 0,
        sums=np.frombuffer(opened["sums"], dtype="<i8").astype(np.int64) if opened else None,
        suspended=row["suspended"],
    )


def checkpoint(
    connection: sqlite3.Connection,
    state: StreamState,
    positions: Iterable[Position],
    origins: Iterable[Origin],
) -> None:
    """Checkpoint an open window: its sums, the positions after its last record, its origins."""
    with transaction(connection):
        note_origins(connection, state.name, origins)
        _write_state(connection, state)
        write_positions(connection, state.name, positions)
        _write_open_window(connection, state)
    truncate_log(connection)


def commit_release(connection: sqlite3.Connection, release: NewRelease) -> None:
    """Commit a release: bytes, ledger, positions and the end of the sums, in one transaction.

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
        append_origins(connection, release.event.reader, release.origins)
        _write_state(connection, release.state)
        write_positions(connection, release.event.stream, release.positions)
        _write_open_window(connection, release.state)
        if release.n_records is None and release.slots is not None:
            erase_slot(connection, release.event.stream, release.slots[1])
    truncate_log(connection)


def note_origins(connection: sqlite3.Connection, name: str, origins: Iterable[Origin]) -> None:
    """Note the origins of an open window's records; to be called inside a transaction.

    When it is released the file may be elsewhere.
    """
    note_later(connection)
    append_origins(connection, (study_of(connection), name), origins)


def suspend_stream(connection: sqlite3.Connection, name: str, reason: str) -> None:
    """Suspend a stream until its owner acts; to be called inside a transaction."""
    note_later(connection)
    _write_row(connection, load_stream(connection, name), reason)


def resume_stream(connection: sqlite3.Connection, name: str) -> None:
    """Resume a suspended stream; to be called inside a transaction.

    It goes on behind the numbers that another copy of this state has used. If these are slots,
    their records were released there; what was added to them here is dropped rather than counted
    twice.
    """
    state, used = load_stream(connection, name), load_copied(connection).get(name, [])
    first_free = max([state.next_sequence, *(last + 1 for _, last in used)])
    note_later(connection)
    _write_row(connection, replace(state, next_sequence=first_free), None)
    erase_slots_before(connection, name, first_free)


def write_stream(
    connection: sqlite3.Connection,
    *,
    study: bytes,
    name: str,
    next_sequence: int,
    first_record: int,
    floor_slot: int | None,
    suspended: str | None,
) -> None:
    """Write a stream's row, without its open window; to be called inside a transaction."""
    row = (study, name, next_sequence, first_record, floor_slot, suspended)
    write_sealed(connection, "streams", [row])


def _write_state(connection: sqlite3.Connection, state: StreamState) -> None:
    stored = load_stream(connection, state.name)
    if state.next_sequence < stored.next_sequence:
        raise StoreError(
            "cannot be saved: a later window was released meanwhile; nothing was saved",
            field=f"stream {state.name}",
            fix="restart the agent; it continues after the release",
        )
    # Not the state's suspension: an answer may have suspended the stream since it was loaded.
    _write_row(connection, state, stored.suspended)


def _write_row(connection: sqlite3.Connection, state: StreamState, suspended: str | None) -> None:
    write_stream(
        connection,
        study=study_of(connection),
        name=state.name,
        next_sequence=state.next_sequence,
        first_record=state.first_record,
        floor_slot=state.window.floor_slot,
        suspended=suspended,
    )


def _write_open_window(connection: sqlite3.Connection, state: StreamState) -> None:
    if state.sums is None:
        connection.execute(
            "DELETE FROM open_windows WHERE study = ? AND stream = ?",
            (study_of(connection), state.name),
        )
        return
    window = state.window
    row = (
        study_of(connection),
        state.name,
        window.n_records,
        state.n_unsketchable,
        window.first_slot,
        window.last_slot,
        state.block,
        state.sums.astype("<i8").tobytes(),
    )
    write_sealed(connection, "open_windows", [row])


def load_slot(connection: sqlite3.Connection, stream: str, slot: int) -> SlotSum | None:
    """Load the sum of a slot; None if it has no records."""
    row = connection.execute(
        "SELECT n_records, sums FROM open_slots WHERE study = ? AND stream = ? AND slot = ?",
        (study_of(connection), stream, slot),
    ).fetchone()
    if row is None:
        return None
    sums = np.frombuffer(row["sums"], dtype="<i8").astype(np.int64)
    return SlotSum(slot=slot, n_records=row["n_records"], sums=sums)


@contextmanager
def adding_to_slots(connection: sqlite3.Connection) -> Iterator[None]:
    """Add records to slots and note their positions: all of it happens, or nothing."""
    with transaction(connection):
        yield
    truncate_log(connection)


def write_slot(connection: sqlite3.Connection, stream: str, slot: SlotSum) -> None:
    """Write the sum of a slot; to be called inside :func:`adding_to_slots` only."""
    sums = slot.sums.astype("<i8").tobytes()
    row = (study_of(connection), stream, slot.slot, slot.n_records, sums)
    write_sealed(connection, "open_slots", [row])


def erase_slot(connection: sqlite3.Connection, stream: str, slot: int) -> None:
    """Erase the sum of a slot; to be called inside the release transaction only."""
    connection.execute(
        "DELETE FROM open_slots WHERE study = ? AND stream = ? AND slot = ?",
        (study_of(connection), stream, slot),
    )


def erase_slots_before(connection: sqlite3.Connection, stream: str, slot: int) -> None:
    """Erase the sums of the slots before one; to be called inside a transaction."""
    connection.execute(
        "DELETE FROM open_slots WHERE study = ? AND stream = ? AND slot < ?",
        (study_of(connection), stream, slot),
    )
