"""Sketches as the sums read them: pending ones, and leaving ones, of excluded devices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import await_, greenlet_spawn

from sfumato.aggregator.base.sums.addition import Entry, encode_labels
from sfumato.aggregator.base.sums.cells import Cell, subtract_cell, to_bits
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import BATCH, PayloadSum, Row as SketchRow
from sfumato.aggregator.base.sums.removal import Kept
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.store.tables import (
    LEAVING_DEVICES,
    PENDING_SKETCHES,
    SKETCHES,
)

T = TypeVar("T")

_EVERYTHING = Selection()
_SLICE_S = 0.002
_REST = 3.0


async def sum_entries(
    connection: AsyncConnection, statement: Any, selection: Selection, layout: Layout
) -> Cell:
    """Add up the sketches of a statement that are in a selection."""
    running = PayloadSum(layout)
    async with connection.stream(statement.where(*inside(selection))) as result:
        try:
            async for rows in result.partitions(BATCH):
                running.add(
                    [
                        to_entry(row).row
                        for row in rows
                        if selection.matches_labels(row.device_labels)
                    ]
                )
        finally:
            # The block closes the server's cursor only where no error leaves it.
            await result.close()
    return running.total()


async def subtract_leaving(
    connection: AsyncConnection, study_id: bytes, selection: Selection, total: Cell, layout: Layout
) -> Cell:
    """Subtract the leaving sketches of a selection from its total."""
    leaving = await read_leaving(connection, study_id)
    if not leaving:
        return total
    less = await sum_entries(connection, select_leaving(study_id), selection, layout)
    kept = to_bits(place.device for place in await list_kept(connection, study_id, selection))
    return subtract_cell(total, replace(less, devices=leaving), keep=kept)


async def read_leaving(connection: AsyncConnection, study_id: bytes) -> int:
    """Return the leaving devices of a study, as bits."""
    statement = (
        select(DEVICES.c.ordinal)
        .join(LEAVING_DEVICES, LEAVING_DEVICES.c.device_id == DEVICES.c.device_id)
        .where(LEAVING_DEVICES.c.study_id == study_id)
    )
    return to_bits((await connection.execute(statement)).scalars())


async def list_kept(
    connection: AsyncConnection, study_id: bytes, selection: Selection = _EVERYTHING
) -> Sequence[Kept]:
    """Return the places of sketches of leaving devices that stay."""
    statement = (
        select(
            SKETCHES.c.first_slot,
            SKETCHES.c.last_slot,
            DEVICES.c.ordinal,
            DEVICES.c.labels.label("device_labels"),
        )
        .distinct()
        .select_from(LEAVING_DEVICES)
        .join(DEVICES, DEVICES.c.device_id == LEAVING_DEVICES.c.device_id)
        .join(SKETCHES, SKETCHES.c.device_id == LEAVING_DEVICES.c.device_id)
        .where(LEAVING_DEVICES.c.study_id == study_id, *stays(), *inside(selection))
    )
    return [
        Kept(row.first_slot, row.last_slot, encode_labels(row.device_labels), row.ordinal)
        for row in await connection.execute(statement)
        if selection.matches_labels(row.device_labels)
    ]


def select_pending(study_id: bytes) -> Any:
    """Select the pending sketches of a study."""
    return (
        select_entries()
        .join(PENDING_SKETCHES, PENDING_SKETCHES.c.sketch_id == SKETCHES.c.sketch_id)
        .where(PENDING_SKETCHES.c.study_id == study_id)
    )


def select_leaving(study_id: bytes) -> Any:
    """Select the leaving sketches of a study: still in cells, and no longer counted."""
    waits = select(PENDING_SKETCHES.c.sketch_id).where(PENDING_SKETCHES.c.study_id == study_id)
    return (
        select_entries()
        .join(LEAVING_DEVICES, LEAVING_DEVICES.c.device_id == SKETCHES.c.device_id)
        .where(LEAVING_DEVICES.c.study_id == study_id, *leaves())
        .where(SKETCHES.c.sketch_id.not_in(waits))
    )


def leaves() -> list[ColumnElement[bool]]:
    """Return the conditions for a sketch of an excluded device to be leaving."""
    return [SKETCHES.c.state == "stored", SKETCHES.c.payload.is_not(None)]


def stays() -> list[ColumnElement[bool]]:
    """Return the conditions for a sketch of an excluded device to stay: no payload."""
    return [SKETCHES.c.state == "stored", SKETCHES.c.payload.is_(None)]


def select_entries() -> Any:
    """Select the columns that :func:`to_entry` needs."""
    return (
        select(
            SKETCHES.c.sketch_id,
            SKETCHES.c.payload_digest,
            SKETCHES.c.n_records,
            SKETCHES.c.block,
            SKETCHES.c.payload,
            SKETCHES.c.first_slot,
            SKETCHES.c.last_slot,
            DEVICES.c.ordinal,
            DEVICES.c.labels.label("device_labels"),
        )
        .select_from(SKETCHES)
        .join(DEVICES, DEVICES.c.device_id == SKETCHES.c.device_id)
    )


def to_entry(row: Row[Any], *, dropped: bytes = b"") -> Entry:
    """Make an entry of a row; ``dropped`` stands for a dropped payload."""
    return Entry(
        row=SketchRow(
            row.sketch_id,
            row.payload_digest,
            1 << row.ordinal,
            row.n_records,
            row.block,
            row.payload or dropped,
        ),
        labels=encode_labels(row.device_labels),
        first_slot=row.first_slot,
        last_slot=row.last_slot,
    )


def order_of(first_slot: int | None) -> int:
    """Return the sort key of a sketch; those without slots are first."""
    return -(1 << 62) if first_slot is None else first_slot


def inside(selection: Selection) -> list[ColumnElement[bool]]:
    """Return the conditions for all slots of a sketch to be in a selection."""
    conditions: list[ColumnElement[bool]] = []
    if selection.first_slot is not None:
        conditions.append(SKETCHES.c.first_slot >= selection.first_slot)
    if selection.last_slot is not None:
        conditions.append(SKETCHES.c.last_slot <= selection.last_slot)
    return conditions


async def in_turns(compute: Callable[[Callable[[], None]], T]) -> T:
    """Run a computation in the event loop, a quarter of the time and a few ms at once.

    Not in a thread: NumPy releases the interpreter at each of its steps, and a thread waits up to
    five milliseconds to get it back from a busy event loop, as the loop waits for the thread.

    Parameters
    ----------
    compute
        Calls its argument between pieces of its work.
    """
    since, slice_s = time.perf_counter(), _SLICE_S

    def rest() -> None:
        nonlocal since, slice_s
        worked = time.perf_counter() - since
        if worked < slice_s:
            return
        await_(asyncio.sleep(_REST * worked))
        rested = time.perf_counter() - since - worked
        # Where others took longer than that, the next slice is longer too: it must keep up.
        since, slice_s = time.perf_counter(), max(_SLICE_S, rested / _REST)

    return await greenlet_spawn(compute, rest)
