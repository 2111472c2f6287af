"""Sketches as they are read for sums: those that wait for a cell, and those that leave theirs."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Row, select

from aggregator.ports import Selection
from aggregator.storage.cells import Cell
from aggregator.storage.merging import Entry, Layout, encode_labels
from aggregator.storage.models import Device, LeavingDevice, PendingSketch, Sketch
from aggregator.storage.sql.rows import Rows
from aggregator.storage.summing import BATCH, PayloadSum
from aggregator.storage.summing import Row as SketchRow


class EntryRows(Rows):
    """Statements on sketches that are added up; see the port for their meaning."""

    async def _sum_entries(self, statement: Any, selection: Selection, layout: Layout) -> Cell:
        """Add up those of some sketches that a selection holds."""
        running = PayloadSum(width=layout.width, n_coordinates=layout.n_coordinates)
        async with self._connection.stream(statement.where(*inside(selection))) as result:
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


def select_pending(study_id: bytes) -> Any:
    """Select the sketches of a study that are in no cell yet."""
    return (
        select_entries()
        .join(PendingSketch, PendingSketch.sketch_id == Sketch.sketch_id)
        .where(PendingSketch.study_id == study_id)
    )


def select_leaving(study_id: bytes) -> Any:
    """Select the sketches of a study that are in cells still, and count no more."""
    waits = select(PendingSketch.sketch_id).where(PendingSketch.study_id == study_id)
    return (
        select_entries()
        .join(LeavingDevice, LeavingDevice.device_id == Sketch.device_id)
        .where(LeavingDevice.study_id == study_id, *leaves())
        .where(Sketch.sketch_id.not_in(waits))
    )


def leaves() -> list[ColumnElement[bool]]:
    """Return the conditions for a sketch of an excluded device to leave, not to stay or be gone."""
    return [Sketch.state == "stored", Sketch.payload.is_not(None)]


def stays() -> list[ColumnElement[bool]]:
    """Return the conditions for a sketch of an excluded device to stay: its payload is gone."""
    return [Sketch.state == "stored", Sketch.payload.is_(None)]


def select_entries() -> Any:
    """Select sketches with what :func:`to_entry` needs."""
    return (
        select(
            Sketch.sketch_id,
            Sketch.payload_digest,
            Sketch.n_records,
            Sketch.payload,
            Sketch.first_slot,
            Sketch.last_slot,
            Device.number,
            Device.labels.label("device_labels"),
        )
        .select_from(Sketch)
        .join(Device, Device.device_id == Sketch.device_id)
    )


def to_entry(row: Row[Any], *, dropped: bytes = b"") -> Entry:
    """Make an entry of a row; ``dropped`` stands for a payload that is not there."""
    return Entry(
        row=SketchRow(
            row.sketch_id, row.payload_digest, row.number, row.n_records, row.payload or dropped
        ),
        labels=encode_labels(row.device_labels),
        first_slot=row.first_slot,
        last_slot=row.last_slot,
    )


def order_of(first_slot: int | None) -> int:
    """Return where a sketch stands among others; those without slots are first."""
    return -(1 << 62) if first_slot is None else first_slot


def inside(selection: Selection) -> list[ColumnElement[bool]]:
    """Return the conditions for all slots of a sketch to be in a selection."""
    conditions: list[ColumnElement[bool]] = []
    if selection.first_slot is not None:
        conditions.append(Sketch.first_slot >= selection.first_slot)
    if selection.last_slot is not None:
        conditions.append(Sketch.last_slot <= selection.last_slot)
    return conditions
