"""Running sums in memory, and the sketches that are not in them yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aggregator.ports import PreparedMerge, Selection, SketchRecord, SketchTotals
from aggregator.storage.cells import Cell, add_cells, to_bits
from aggregator.storage.checking import describe_differences, describe_key
from aggregator.storage.dyadic import cover
from aggregator.storage.leaving import Kept, subtract_leaving
from aggregator.storage.memory.tables import Tables
from aggregator.storage.merging import (
    Addition,
    CellKey,
    Entry,
    Layout,
    encode_labels,
    is_shown,
    raise_root,
    roll_up,
    sum_up,
)
from aggregator.storage.summing import Row


class CellPart:
    """Cells; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def list_unmerged(self) -> Sequence[bytes]:
        """Return the studies with sketches that wait."""
        return sorted(set(self._tables.pending.rows.values()))

    async def merge_sketches(
        self, study_id: bytes, *, width: int, n_coordinates: int, most: int
    ) -> int:
        """Add waiting sketches to the cells."""
        prepared = await self.prepare_merge(
            study_id, width=width, n_coordinates=n_coordinates, most=most
        )
        return 0 if prepared is None else await self.apply_merge(prepared)

    async def prepare_merge(
        self, study_id: bytes, *, width: int, n_coordinates: int, most: int
    ) -> Addition | None:
        """Sum waiting sketches."""
        entries = [self._to_entry(record) for record in self._list_pending(study_id)[:most]]
        if not entries:
            return None
        layout = Layout(width=width, n_coordinates=n_coordinates)
        return sum_up(study_id, entries, self._tables.roots.get(study_id), layout)

    async def apply_merge(self, prepared: PreparedMerge) -> int:
        """Add what was summed to the cells."""
        assert isinstance(prepared, Addition)
        study_id, old, new = prepared.study_id, prepared.old, prepared.new
        if self._tables.roots.get(study_id) != old:
            return 0
        if not all(identity in self._tables.pending.rows for identity in prepared.sketch_ids):
            return 0
        if new is not None and new != old:
            if old is not None:
                top = {key: cell for key, cell in self._cells(study_id).items() if key[0] == old}
                self._save(study_id, raise_root(top, old, new))
            self._tables.roots.put(study_id, new)
        present = self._cells(study_id)
        for key, cell in prepared.cells.items():
            before = [present[key]] if key in present else []
            total = add_cells([*before, cell], prepared.layout.n_coordinates)
            self._save(study_id, {key: total})
        for identity in prepared.sketch_ids:
            self._tables.pending.remove(identity)
        return len(prepared.sketch_ids)

    async def sum_sketches(
        self, study_id: bytes, selection: Selection, *, width: int, n_coordinates: int
    ) -> SketchTotals:
        """Add up the cells of a selection and what waits, but for what leaves."""
        root = self._tables.roots.get(study_id)
        chosen = cover(root, selection.first_slot, selection.last_slot)
        cells = [
            cell
            for (node, labels), cell in self._cells(study_id).items()
            if is_shown(labels, selection) and (node in chosen.nodes or chosen.takes(node))
        ]
        layout = Layout(width=width, n_coordinates=n_coordinates)
        total = subtract_leaving(
            add_cells(cells, n_coordinates),
            self._sum_records(self._list_leaving(study_id), selection, layout),
            leaving=self._mark_leaving(study_id),
            kept=to_bits(place.device for place in self._list_kept(study_id, selection)),
        )
        counted = [r for r in self._list_pending(study_id) if not self._is_excluded(r)]
        waiting = self._sum_records(counted, selection, layout)
        return add_cells([total, waiting], n_coordinates).to_totals()

    def _sum_records(
        self, records: Iterable[SketchRecord], selection: Selection, layout: Layout
    ) -> Cell:
        return layout.sum_rows(
            self._to_entry(record).row for record in records if self._is_in(record, selection)
        )

    def _is_in(self, record: SketchRecord, selection: Selection) -> bool:
        labels = self._tables.devices.rows[record.device_id].labels
        in_range = selection.contains_slots(record.first_slot, record.last_slot)
        return in_range and selection.matches_labels(labels)

    async def check_sums(self, study_id: bytes, *, width: int, n_coordinates: int) -> Sequence[str]:
        """Compare every cell with the sum of its sketches."""
        layout = Layout(width=width, n_coordinates=n_coordinates)
        merged = [
            self._to_entry(record, dropped=layout.empty_payload)
            for record in self._tables.sketches.rows.values()
            if record.study_id == study_id
            and record.state == "stored"
            and record.sketch_id not in self._tables.pending.rows
        ]
        expected = roll_up(merged, self._tables.roots.get(study_id), layout)
        found = self._cells(study_id)
        has_all = not any(
            record.study_id == study_id
            and record.state == "stored"
            and self._tables.payloads.rows[sketch_id] is None
            for sketch_id, record in self._tables.sketches.rows.items()
        )
        extra = [
            describe_key(key)
            for key, cell in found.items()
            if key not in expected and cell.moments.n_sketches
        ]
        unsure = self._mark_leaving(study_id)
        return describe_differences(expected, found, sums_known=has_all, unsure=unsure) + extra

    def _cells(self, study_id: bytes) -> Mapping[CellKey, Cell]:
        return {
            key: cell for (study, key), cell in self._tables.cells.rows.items() if study == study_id
        }

    def _save(self, study_id: bytes, cells: Mapping[CellKey, Cell]) -> None:
        for key, cell in cells.items():
            self._tables.cells.put((study_id, key), cell)

    def _list_pending(self, study_id: bytes) -> list[SketchRecord]:
        return [
            self._tables.sketches.rows[sketch_id]
            for sketch_id, study in sorted(self._tables.pending.rows.items())
            if study == study_id
        ]

    def _is_excluded(self, record: SketchRecord) -> bool:
        return self._tables.devices.rows[record.device_id].excluded is not None

    def _mark_leaving(self, study_id: bytes) -> int:
        """Return the devices of a study that leave, as bits."""
        leaving = self._tables.leaving.rows.items()
        return to_bits(self._tables.numbers.rows[d] for d, study in leaving if study == study_id)

    def _list_in_cells(self, study_id: bytes) -> list[SketchRecord]:
        """Return the sketches in cells of devices that leave."""
        return [
            record
            for sketch_id, record in sorted(self._tables.sketches.rows.items())
            if self._tables.leaving.get(record.device_id) == study_id
            and record.state == "stored"
            and sketch_id not in self._tables.pending.rows
        ]

    def _list_leaving(self, study_id: bytes) -> list[SketchRecord]:
        payloads = self._tables.payloads.rows
        return [r for r in self._list_in_cells(study_id) if payloads[r.sketch_id] is not None]

    def _list_kept(self, study_id: bytes, selection: Selection) -> list[Kept]:
        payloads, tables = self._tables.payloads.rows, self._tables
        return [
            Kept(
                record.first_slot,
                record.last_slot,
                encode_labels(tables.devices.rows[record.device_id].labels),
                tables.numbers.rows[record.device_id],
            )
            for record in self._list_in_cells(study_id)
            if payloads[record.sketch_id] is None and self._is_in(record, selection)
        ]

    def _to_entry(self, record: SketchRecord, *, dropped: bytes = b"") -> Entry:
        payload = self._tables.payloads.rows[record.sketch_id]
        row = Row(
            record.sketch_id,
            record.payload_digest,
            self._tables.numbers.rows[record.device_id],
            record.n_records,
            dropped if payload is None else payload,
        )
        return Entry(
            row=row,
            labels=encode_labels(self._tables.devices.rows[record.device_id].labels),
            first_slot=record.first_slot,
            last_slot=record.last_slot,
        )
