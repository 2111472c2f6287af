"""Where presence is secret: the exact sums of the slots that are not released yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from device_agent.store.database import transaction, truncate_log
from device_agent.store.ledger import study_of
from device_agent.store.schema import compute_seal


@dataclass(frozen=True, kw_only=True)
class SlotSum:
    """The records of one slot so far: how many, and their sum, shape ``(2 m,)``. Not private."""

    slot: int
    n_records: int = field(repr=False)
    # Kept out of messages and tracebacks, as is the number.
    sums: NDArray[np.int64] = field(repr=False)


def load_slot(connection: sqlite3.Connection, stream: str, slot: int) -> SlotSum | None:
    """Load what a slot holds; None if nothing."""
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
    """Add records to slots and note the position behind them: all of it happens, or nothing."""
    with transaction(connection):
        yield
    truncate_log(connection)


def write_slot(connection: sqlite3.Connection, stream: str, slot: SlotSum) -> None:
    """Write what a slot holds; to be called inside :func:`adding_to_slots` only."""
    sums = slot.sums.astype("<i8").tobytes()
    row = (study_of(connection), stream, slot.slot, slot.n_records, sums)
    connection.execute(
        "INSERT OR REPLACE INTO open_slots (study, stream, slot, n_records, sums, seal)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*row, compute_seal(*row)),
    )


def erase_slot(connection: sqlite3.Connection, stream: str, slot: int) -> None:
    """Forget what a slot held; to be called inside the release transaction only."""
    connection.execute(
        "DELETE FROM open_slots WHERE study = ? AND stream = ? AND slot = ?",
        (study_of(connection), stream, slot),
    )


def erase_slots_before(connection: sqlite3.Connection, stream: str, slot: int) -> None:
    """Forget what the slots before one held; to be called inside a transaction."""
    connection.execute(
        "DELETE FROM open_slots WHERE study = ? AND stream = ? AND slot < ?",
        (study_of(connection), stream, slot),
    )
