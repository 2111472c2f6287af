"""Taking sketches out again, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aggregator.ports import ExcludedSketches, SketchRecord
from aggregator.storage.cells import has_device, subtract_cell
from aggregator.storage.memory.cells import CellPart
from aggregator.storage.merging import Layout, encode_labels, list_homes, roll_up


class ExclusionPart(CellPart):
    """What leaves the sums; see the port for the methods' meaning."""

    async def exclude_device(
        self, device_id: bytes, *, now: float, reason: str, width: int, n_coordinates: int
    ) -> bool:
        """Take the sketches of a device out of all cells."""
        device = self._tables.devices.get(device_id)
        if device is None or device.excluded is not None:
            return False
        self._tables.devices.change(device_id, excluded=now, reason=reason)
        root = self._tables.roots.get(device.study_id)
        stored = [r for r in self._list_of(device_id) if r.state == "stored"]
        dropped = [r for r in stored if self._tables.payloads.rows[r.sketch_id] is None]
        leaving = [r for r in stored if r not in dropped]
        merged = [r for r in leaving if self._tables.pending.get(r.sketch_id) is None]
        slots = [(r.first_slot, r.last_slot) for r in dropped]
        stay = list_homes(slots, encode_labels(device.labels), root)
        layout = Layout(width=width, n_coordinates=n_coordinates)
        present = self._cells(device.study_id)
        for key, part in roll_up(map(self._to_entry, merged), root, layout).items():
            less = subtract_cell(present[key], part, keep_devices=key in stay)
            self._save(device.study_id, {key: less})
        for record in leaving:
            self._leave(record)
        return True

    def _list_of(self, device_id: bytes) -> list[SketchRecord]:
        return [r for r in self._tables.sketches.rows.values() if r.device_id == device_id]

    def _leave(self, record: SketchRecord) -> None:
        self._tables.sketches.change(record.sketch_id, state="excluded")
        if self._tables.pending.get(record.sketch_id) is not None:
            self._tables.pending.remove(record.sketch_id)
        study = self._tables.studies.rows[record.study_id]
        self._tables.studies.put(
            record.study_id,
            replace(
                study,
                n_sketches=study.n_sketches - 1,
                n_records=study.n_records - (record.n_records or 0),
            ),
        )

    async def count_excluded(self, device_id: bytes) -> ExcludedSketches:
        """Count the sketches of a device by state."""
        states = [record.state for record in self._list_of(device_id)]
        return ExcludedSketches(
            n_subtracted=states.count("excluded"), n_kept=states.count("stored")
        )

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
        """Drop old payloads that are in cells."""
        old = [
            sketch_id
            for sketch_id, record in self._tables.sketches.rows.items()
            if record.received < received_before
            and self._tables.payloads.rows[sketch_id] is not None
            and self._tables.pending.get(sketch_id) is None
        ][:most]
        for sketch_id in old:
            self._tables.payloads.put(sketch_id, None)
        return len(old)
