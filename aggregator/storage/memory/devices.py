"""Devices in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aggregator.ports import MOST_RANGES, DeviceRecord, PageKey, RetiredKeyRecord, StreamRecord
from aggregator.storage.heartbeats import count_rules
from aggregator.storage.memory.tables import Tables


class DevicePart:
    """Devices, their keys and streams; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add_device(self, record: DeviceRecord) -> bool:
        """Store a device."""
        if not self._tables.devices.add(record.device_id, record):
            return False
        self._tables.numbers.put(record.device_id, len(self._tables.numbers.rows))
        return True

    async def get_device(self, device_id: bytes, *, lock: bool = False) -> DeviceRecord | None:
        """Return a device; transactions that write are alone, so nothing is to be locked."""
        return self._tables.devices.get(device_id)

    async def get_devices(
        self, device_ids: Collection[bytes], *, lock: bool = False
    ) -> Mapping[bytes, DeviceRecord]:
        """Return those of some devices that there are."""
        rows = self._tables.devices.rows
        return {identity: rows[identity] for identity in device_ids if identity in rows}

    async def touch_devices(
        self, device_ids: Collection[bytes], *, now: float, n_sketches: int = 0
    ) -> None:
        """Note when devices were last seen."""
        for identity, device in (await self.get_devices(device_ids)).items():
            total = device.n_sketches + n_sketches
            self._tables.devices.put(identity, replace(device, last_seen=now, n_sketches=total))

    async def note_heartbeat(
        self, device_id: bytes, heartbeat: Mapping[str, Any], *, now: float
    ) -> None:
        """Keep what a device says of itself."""
        if self._tables.devices.get(device_id) is not None:
            self._tables.devices.change(
                device_id, heartbeat=heartbeat, heartbeat_at=now, last_seen=now
            )

    async def count_plan_refusals(self, study_id: bytes) -> Mapping[str, int]:
        """Count the devices that refuse the plan."""
        return count_rules(
            d.heartbeat or {} for d in self._tables.devices.rows.values() if d.study_id == study_id
        )

    async def list_devices(
        self, study_id: bytes | None, *, after: PageKey | None, limit: int
    ) -> Sequence[DeviceRecord]:
        """Return devices in the order of enrolment."""
        tables = self._tables
        gone = {s for s, record in tables.studies.rows.items() if record.state == "withdrawn"}
        records = [
            r
            for r in tables.devices.rows.values()
            if (r.study_id not in gone if study_id is None else r.study_id == study_id)
        ]
        records.sort(key=lambda r: (r.enrolled, r.device_id))
        return [r for r in records if after is None or (r.enrolled, r.device_id) > after][:limit]

    async def rotate_key(self, retired: RetiredKeyRecord, *, public_key: bytes) -> bool:
        """Give a device another key."""
        if not self._tables.retired_keys.add(retired.key_id, retired):
            return False
        self._tables.devices.change(retired.device_id, public_key=public_key)
        return True

    async def list_retired_keys(self, device_id: bytes) -> Sequence[RetiredKeyRecord]:
        """Return the keys that a device has replaced."""
        records = [r for r in self._tables.retired_keys.rows.values() if r.device_id == device_id]
        return sorted(records, key=lambda r: (r.retired, r.key_id))

    async def change_retired_key(self, record: RetiredKeyRecord) -> None:
        """Store anew what a retired key verifies."""
        self._tables.retired_keys.change(
            record.key_id, last_sequences=record.last_sequences, revoked=record.revoked
        )

    async def revoke_device(self, device_id: bytes, *, now: float) -> bool:
        """Take nothing more from a device."""
        device = self._tables.devices.get(device_id)
        if device is None or device.revoked is not None:
            return False
        self._tables.devices.change(device_id, revoked=now)
        return True

    async def list_streams(self, device_id: bytes) -> Sequence[StreamRecord]:
        """Return the streams of a device."""
        return (await self.list_streams_of([device_id])).get(device_id, [])

    async def count_streams(self, device_id: bytes) -> int:
        """Count the streams of a device."""
        return sum(device == device_id for device, _ in self._tables.streams.rows)

    async def list_streams_of(
        self, device_ids: Sequence[bytes]
    ) -> Mapping[bytes, Sequence[StreamRecord]]:
        """Return the streams of devices, each with its last sketch."""
        found: dict[bytes, list[StreamRecord]] = {}
        for (device_id, stream), sketches in sorted(self._tables.streams.rows.items()):
            if device_id in device_ids:
                last = self._tables.sketches.rows[sketches[max(sketches)]]
                record = StreamRecord(
                    stream=stream,
                    last_sequence=last.sequence,
                    last_slot=last.last_slot,
                    n_missing=last.sequence + 1 - len(sketches),
                    missing=tuple(_find_gaps(sketches))[:MOST_RANGES],
                )
                found.setdefault(device_id, []).append(record)
        return found


def _find_gaps(sequences: Iterable[int]) -> Iterator[tuple[int, int]]:
    expected = 0
    for sequence in sorted(sequences):
        if sequence > expected:
            yield expected, sequence - 1
        expected = sequence + 1
