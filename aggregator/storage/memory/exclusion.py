"""Taking sketches out again, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aggregator.ports import ExcludedSketches, PreparedMerge, Selection, SketchRecord
from aggregator.storage.cells import has_device
from aggregator.storage.leaving import Removal, sum_removal
from aggregator.storage.memory.cells import CellPart
from aggregator.storage.merging import Layout


class ExclusionPart(CellPart):
    """Removal of sketches from the sums; see the port for the methods' meaning."""

    async def exclude_device(
        self, device_id: bytes, *, now: float, reason: str
    ) -> ExcludedSketches | None:
        """Let the sketches of a device count no more."""
        device = self._tables.devices.get(device_id)
        if device is None or device.excluded is not None:
            return None
        self._tables.devices.change(device_id, excluded=now, reason=reason)
        leaving = [r for r in self._list_of(device_id) if self._leaves(r)]
        if leaving:
            self._tables.leaving.put(device_id, device.study_id)
            study = self._tables.studies.rows[device.study_id]
            self._tables.studies.put(
                device.study_id,
                replace(
                    study,
                    n_sketches=study.n_sketches - len(leaving),
                    n_records=study.n_records - sum(r.n_records or 0 for r in leaving),
                ),
            )
        return await self.count_excluded(device_id)

    def _list_of(self, device_id: bytes) -> list[SketchRecord]:
        return [r for r in self._tables.sketches.rows.values() if r.device_id == device_id]

    def _leaves(self, record: SketchRecord) -> bool:
        """Return whether a sketch of an excluded device leaves, or does not stay or is gone."""
        held = self._tables.payloads.rows[record.sketch_id] is not None
        return record.state == "stored" and held

    async def count_excluded(self, device_id: bytes) -> ExcludedSketches:
        """Count the sketches of a device that stay, and the others."""
        records = self._list_of(device_id)
        n_kept = sum(r.state == "stored" and not self._leaves(r) for r in records)
        return ExcludedSketches(n_subtracted=len(records) - n_kept, n_kept=n_kept)

    async def list_leaving(self) -> Sequence[bytes]:
        """Return the studies with sketches that leave."""
        return sorted(set(self._tables.leaving.rows.values()))

    async def prepare_removal(
        self, study_id: bytes, *, width: int, n_coordinates: int, most: int
    ) -> Removal | None:
        """Sum sketches that leave."""
        entries = [self._to_entry(record) for record in self._list_leaving(study_id)[:most]]
        if not entries:
            return None
        root, layout = (
            self._tables.roots.get(study_id),
            Layout(width=width, n_coordinates=n_coordinates),
        )
        kept = self._list_kept(study_id, Selection())
        return sum_removal(study_id, entries, kept, root, layout)

    async def apply_removal(self, prepared: PreparedMerge) -> int:
        """Take what was summed out of the cells."""
        assert isinstance(prepared, Removal)
        study_id, tables = prepared.study_id, self._tables
        still = {record.sketch_id for record in self._list_leaving(study_id)}
        if tables.roots.get(study_id) != prepared.root or not still.issuperset(prepared.sketch_ids):
            return 0
        self._save(study_id, prepared.take_out(self._cells(study_id)))
        for sketch_id in prepared.sketch_ids:
            tables.sketches.change(sketch_id, state="excluded")
        for device_id in [d for d, study in tables.leaving.rows.items() if study == study_id]:
            if not any(map(self._leaves, self._list_of(device_id))):
                tables.leaving.remove(device_id)
        return len(prepared.sketch_ids)

    async def find_excluded(self, study_id: bytes, devices: bytes) -> Sequence[bytes]:
        """Return excluded devices whose bit is set."""
        return sorted(
            device_id
            for device_id, record in self._tables.devices.rows.items()
            if record.study_id == study_id
            and record.excluded is not None
            and has_device(devices, self._tables.numbers.rows[device_id])
        )

    async def drop_payloads(self, *, received_before: float, most: int) -> int:
        """Drop old payloads that are in cells to stay, or out of them for good."""
        old = [
            sketch_id
            for sketch_id, record in self._tables.sketches.rows.items()
            if record.received < received_before
            and self._tables.payloads.rows[sketch_id] is not None
            and self._tables.pending.get(sketch_id) is None
            and not (self._is_excluded(record) and record.state == "stored")
        ][:most]
        for sketch_id in old:
            self._tables.payloads.put(sketch_id, None)
        return len(old)
