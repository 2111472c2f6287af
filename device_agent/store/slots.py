"""Exact sums of the slots that are not released yet, if presence is secret."""

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
    """Number and sum, shape ``(2 m,)``, of one slot's records so far. Not private."""

    slot: int
    n_records: int = field(repr=False)
    # Kept out of messages and tracebacks, as is the number.
    sums: NDArray[np.int64] = field(repr=False)


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
    connection.execute(
        "INSERT OR REPLACE INTO open_slots (study, stream, slot, n_records, sums, seal)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*row, compute_seal(*row)),
    )


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
