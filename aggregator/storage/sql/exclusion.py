"""Taking sketches out again: those of an excluded device, and the payloads of old ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, select, update

from aggregator.ports import ExcludedSketches
from aggregator.storage.cells import has_device, subtract_cell
from aggregator.storage.merging import (
    CellKey,
    Layout,
    encode_labels,
    list_homes,
    roll_up,
)
from aggregator.storage.models import Device, PendingSketch, Sketch, Study
from aggregator.storage.sql.cells import CellRows, select_entries, to_entry, to_root

_BATCH = 256


class ExclusionRows(CellRows):
    """Statements on what leaves the sums; see the port for their meaning."""

    async def exclude_device(
        self, device_id: bytes, *, now: float, reason: str, width: int, n_coordinates: int
    ) -> bool:
        """Take the sketches of a device out of all cells, in one transaction."""
        marked = await self._connection.execute(
            update(Device)
            .where(Device.device_id == device_id, Device.excluded.is_(None))
            .values(excluded=now, reason=reason)
            .returning(Device.study_id, Device.labels)
        )
        device = marked.first()
        if device is None:
            return False
        root = to_root(await self._lock_root(device.study_id))
        of_device = select(Sketch.sketch_id).where(Sketch.device_id == device_id)
        # Locked, so that no payload is dropped between finding it and taking it out.
        await self._connection.execute(of_device.with_for_update())
        waiting = await self._connection.execute(
            delete(PendingSketch)
            .where(PendingSketch.sketch_id.in_(of_device))
            .returning(PendingSketch.sketch_id)
        )
        await self._mark(Sketch.sketch_id.in_(list(waiting.scalars())), device.study_id)
        kept = await self._connection.execute(
            select(Sketch.first_slot, Sketch.last_slot).where(
                Sketch.device_id == device_id, Sketch.state == "stored", Sketch.payload.is_(None)
            )
        )
        slots = [(row.first_slot, row.last_slot) for row in kept]
        stay = list_homes(slots, encode_labels(device.labels), root)
        layout = Layout(width=width, n_coordinates=n_coordinates)
        while await self._subtract_batch(device.study_id, device_id, root, layout, stay):
            pass
        return True

    async def _subtract_batch(
        self, study_id: bytes, device_id: bytes, root: Any, layout: Layout, stay: set[CellKey]
    ) -> bool:
        statement = (
            select_entries()
            .where(Sketch.device_id == device_id, Sketch.state == "stored")
            .where(Sketch.payload.is_not(None))
            .limit(_BATCH)
        )
        entries = [to_entry(row) for row in await self._connection.execute(statement)]
        if not entries:
            return False
        parts = roll_up(entries, root, layout)
        present = await self._load(study_id, {node for node, _ in parts})
        # A device has its bit until its last sketch has left; with later batches it leaves anyway.
        less = {
            key: subtract_cell(present[key], part, keep_devices=key in stay)
            for key, part in parts.items()
        }
        await self._save(study_id, less)
        ids = [entry.row.sketch_id for entry in entries]
        await self._mark(Sketch.sketch_id.in_(ids), study_id)
        return True

    async def _mark(self, which: Any, study_id: bytes) -> None:
        """Mark sketches as excluded, and take them from what the study holds."""
        marked = await self._connection.execute(
            update(Sketch).where(which).values(state="excluded").returning(Sketch.n_records)
        )
        sizes = [n or 0 for n in marked.scalars()]
        await self._connection.execute(
            update(Study)
            .where(Study.study_id == study_id)
            .values(
                n_sketches=Study.n_sketches - len(sizes), n_records=Study.n_records - sum(sizes)
            )
        )

    async def count_excluded(self, device_id: bytes) -> ExcludedSketches:
        """Count the sketches of a device by state."""
        statement = (
            select(Sketch.state, func.count())
            .where(Sketch.device_id == device_id)
            .group_by(Sketch.state)
        )
        found = {row[0]: row[1] for row in await self._connection.execute(statement)}
        return ExcludedSketches(
            n_subtracted=found.get("excluded", 0), n_kept=found.get("stored", 0)
        )

    async def find_excluded(self, study_id: bytes, devices: bytes) -> Sequence[bytes]:
        """Return excluded devices whose bit is set."""
        statement = (
            select(Device.device_id, Device.number)
            .where(Device.study_id == study_id, Device.excluded.is_not(None))
            .order_by(Device.device_id)
        )
        found = await self._connection.execute(statement)
        return [row.device_id for row in found if has_device(devices, row.number)]

    async def drop_payloads(self, *, received_before: float, most: int) -> int:
        """Drop old payloads that are in cells, or out of them for good."""
        waits = select(PendingSketch.sketch_id)
        old = (
            select(Sketch.sketch_id)
            .where(Sketch.received < received_before, Sketch.payload.is_not(None))
            .where(Sketch.sketch_id.not_in(waits))
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        dropped = await self._connection.execute(
            update(Sketch)
            .where(Sketch.sketch_id.in_(old), Sketch.payload.is_not(None))
            .values(payload=None)
            .returning(Sketch.sketch_id)
        )
        return len(dropped.all())
