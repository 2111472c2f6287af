"""Devices and their streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, func, select, update

from aggregator.ports import DeviceRecord, StreamRecord
from aggregator.storage.heartbeats import count_rules
from aggregator.storage.models import Device, Sketch, Study
from aggregator.storage.sql.rows import Rows, columns_of, to_record


class DeviceRows(Rows):
    """Statements on devices; see the port for their meaning."""

    async def add_device(self, record: DeviceRecord) -> bool:
        """Store a device."""
        # Counted in the study, for two that took the highest number so far would collide.
        number = await self._connection.execute(
            update(Study)
            .where(Study.study_id == record.study_id)
            .values(n_numbers=Study.n_numbers + 1)
            .returning(Study.n_numbers)
        )
        return await self._add(Device, record, number=number.scalar_one() - 1)

    async def get_device(self, device_id: bytes, *, lock: bool = False) -> DeviceRecord | None:
        """Return a device."""
        statement = select(*columns_of(Device, DeviceRecord)).where(Device.device_id == device_id)
        if lock:  # written by Postgres alone: a writer of SQLite is alone anyway
            statement = statement.with_for_update()
        return to_record(DeviceRecord, (await self._connection.execute(statement)).first())

    async def touch_device(self, device_id: bytes, *, now: float, n_sketches: int = 0) -> None:
        """Note when a device was last seen."""
        await self._connection.execute(
            update(Device)
            .where(Device.device_id == device_id)
            .values(last_seen=now, n_sketches=Device.n_sketches + n_sketches)
        )

    async def note_heartbeat(
        self, device_id: bytes, heartbeat: Mapping[str, Any], *, now: float
    ) -> None:
        """Keep what a device says of itself."""
        said = {
            "heartbeat": heartbeat,
            "heartbeat_at": now,
            "last_seen": now,
            "n_plan_refusals": len(heartbeat["plan_refusals"]),
        }
        await self._connection.execute(
            update(Device).where(Device.device_id == device_id).values(said)
        )

    async def count_plan_refusals(self, study_id: bytes) -> Mapping[str, int]:
        """Count the devices that refuse the plan."""
        statement = select(Device.heartbeat).where(
            Device.study_id == study_id, Device.n_plan_refusals > 0
        )
        found = await self._connection.execute(statement)
        return count_rules(heartbeat or {} for heartbeat in found.scalars())

    async def list_devices(self, study_id: bytes) -> Sequence[DeviceRecord]:
        """Return the devices of a study."""
        statement = (
            select(*columns_of(Device, DeviceRecord))
            .where(Device.study_id == study_id)
            .order_by(Device.enrolled, Device.device_id)
        )
        found = await self._connection.execute(statement)
        return [DeviceRecord(**row._mapping) for row in found]

    async def list_streams(self, device_id: bytes) -> Sequence[StreamRecord]:
        """Return the streams of a device, each with its last sketch."""
        last = (
            select(Sketch.stream, func.max(Sketch.sequence).label("sequence"))
            .where(Sketch.device_id == device_id)
            .group_by(Sketch.stream)
            .subquery()
        )
        same = and_(Sketch.stream == last.c.stream, Sketch.sequence == last.c.sequence)
        statement = (
            select(Sketch.stream, Sketch.sequence, Sketch.last_slot)
            .join(last, same)
            .where(Sketch.device_id == device_id)
        )
        found = await self._connection.execute(statement)
        streams = [StreamRecord(stream=s, last_sequence=n, last_slot=slot) for s, n, slot in found]
        return sorted(streams, key=lambda record: record.stream)
