"""Where presence is secret: the exact sums of the slots that are not released yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from device_agent.store.database import transaction, truncate_log
from device_agent.store.positions import StoredPosition, write_position


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
        "SELECT n_records, sums FROM open_slots WHERE stream = ? AND slot = ?", (stream, slot)
    ).fetchone()
    if row is None:
        return None
    sums = np.frombuffer(row["sums"], dtype="<i8").astype(np.int64)
    return SlotSum(slot=slot, n_records=row["n_records"], sums=sums)


def save_slots(
    connection: sqlite3.Connection,
    stream: str,
    slots: Iterable[SlotSum],
    position: StoredPosition | None,
) -> None:
    """Save slots and the position behind the records that were added to them, together.

    ``slots`` is consumed one at a time inside the transaction, so that memory holds one sum.
    """
    with transaction(connection):
        for slot in slots:
            connection.execute(
                "INSERT OR REPLACE INTO open_slots (stream, slot, n_records, sums)"
                " VALUES (?, ?, ?, ?)",
                (stream, slot.slot, slot.n_records, slot.sums.astype("<i8").tobytes()),
            )
        write_position(connection, position)
    truncate_log(connection)


def erase_slot(connection: sqlite3.Connection, stream: str, slot: int) -> None:
    """Forget what a slot held; to be called inside the release transaction only."""
    connection.execute("DELETE FROM open_slots WHERE stream = ? AND slot = ?", (stream, slot))
