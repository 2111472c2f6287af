"""Studies, tokens and devices in memory."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aggregator.ports import (
    DeviceRecord,
    PageKey,
    StreamRecord,
    StudyRecord,
    TokenRecord,
)
from aggregator.ports.records import StudyState
from aggregator.storage.heartbeats import count_rules
from aggregator.storage.memory.tables import Tables


class StudyPart:
    """Studies, tokens and devices; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get_generation(self) -> bytes:
        """Return the generation."""
        return self._tables.generation

    async def renew_generation(self) -> bytes:
        """Draw a new generation."""
        tables, before = self._tables, self._tables.generation
        tables.undo.append(lambda: setattr(tables, "generation", before))
        tables.generation = secrets.token_bytes(16)
        return tables.generation

    async def add_study(self, record: StudyRecord) -> bool:
        """Store a study."""
        return self._tables.studies.add(record.study_id, record)

    async def get_study(self, study_id: bytes) -> StudyRecord | None:
        """Return a study."""
        return self._tables.studies.get(study_id)

    async def list_studies(self, *, after: PageKey | None, limit: int) -> Sequence[StudyRecord]:
        """Return studies in the order of creation."""
        records = [r for r in self._tables.studies.rows.values() if r.state != "withdrawn"]
        records.sort(key=lambda r: (r.created, r.study_id))
        return [r for r in records if after is None or (r.created, r.study_id) > after][:limit]

    async def set_study_state(
        self,
        study_id: bytes,
        state: StudyState,
        *,
        accept_until: float | None = None,
        expected_version: int,
    ) -> bool:
        """Change the state if the version is the expected one."""
        study = self._tables.studies.get(study_id)
        if study is None or study.version != expected_version:
            return False
        self._tables.studies.change(
            study_id, state=state, accept_until=accept_until, version=study.version + 1
        )
        return True

    async def count_devices(self, study_id: bytes) -> int:
        """Count the devices of a study."""
        return len(await self.list_devices(study_id))

    async def add_token(self, record: TokenRecord) -> bool:
        """Store a token."""
        return self._tables.tokens.add(record.token_hash, record)

    async def get_token(self, token_hash: bytes, *, lock: bool = False) -> TokenRecord | None:
        """Return a token."""
        return self._tables.tokens.get(token_hash)

    async def use_token(self, token_hash: bytes, *, now: float) -> bool:
        """Count one use, where one is left."""
        token = self._tables.tokens.get(token_hash)
        if token is None or token.uses >= token.max_uses or token.expires <= now:
            return False
        self._tables.tokens.put(token_hash, replace(token, uses=token.uses + 1))
        return True

    async def add_device(self, record: DeviceRecord) -> bool:
        """Store a device."""
        if not self._tables.devices.add(record.device_id, record):
            return False
        self._tables.numbers.put(record.device_id, len(self._tables.numbers.rows))
        return True

    async def get_device(self, device_id: bytes, *, lock: bool = False) -> DeviceRecord | None:
        """Return a device; transactions that write are alone, so nothing is to be locked."""
        return self._tables.devices.get(device_id)

    async def touch_device(self, device_id: bytes, *, now: float, n_sketches: int = 0) -> None:
        """Note when a device was last seen."""
        device = self._tables.devices.get(device_id)
        if device is not None:
            total = device.n_sketches + n_sketches
            self._tables.devices.put(device_id, replace(device, last_seen=now, n_sketches=total))

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
        return count_rules(d.heartbeat or {} for d in await self.list_devices(study_id))

    async def list_devices(self, study_id: bytes) -> Sequence[DeviceRecord]:
        """Return the devices of a study."""
        records = [r for r in self._tables.devices.rows.values() if r.study_id == study_id]
        return sorted(records, key=lambda r: (r.enrolled, r.device_id))

    async def list_streams(self, device_id: bytes) -> Sequence[StreamRecord]:
        """Return the streams of a device, each with its last sketch."""
        found = []
        for (device, stream), sketches in sorted(self._tables.streams.rows.items()):
            if device == device_id:
                last = self._tables.sketches.rows[sketches[max(sketches)]]
                found.append(
                    StreamRecord(
                        stream=stream, last_sequence=last.sequence, last_slot=last.last_slot
                    )
                )
        return found
