"""Running sums in memory, and the sketches that are not in them yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aggregator.ports import Selection, SketchRecord, SketchTotals
from aggregator.storage.cells import Cell, add_cells
from aggregator.storage.checking import describe_differences, describe_key
from aggregator.storage.dyadic import cover
from aggregator.storage.memory.tables import Tables
from aggregator.storage.merging import (
    CellKey,
    Entry,
    Layout,
    encode_labels,
    grow_root,
    is_shown,
    raise_root,
    roll_up,
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
        layout = Layout(width=width, n_coordinates=n_coordinates)
        waiting = self._list_pending(study_id)[:most]
        entries = [self._to_entry(record) for record in waiting]
        old = self._tables.roots.get(study_id)
        root = grow_root(old, entries)
        if root is not None and root != old:
            if old is not None:
                top = {key: cell for key, cell in self._cells(study_id).items() if key[0] == old}
                self._save(study_id, raise_root(top, old, root))
            self._tables.roots.put(study_id, root)
        present = self._cells(study_id)
        for key, cell in roll_up(entries, root, layout).items():
            before = [present[key]] if key in present else []
            self._save(study_id, {key: add_cells([*before, cell], n_coordinates)})
        for record in waiting:
            self._tables.pending.remove(record.sketch_id)
        return len(waiting)

    async def sum_sketches(
        self, study_id: bytes, selection: Selection, *, width: int, n_coordinates: int
    ) -> SketchTotals:
        """Add up the cells of a selection and what waits."""
        root = self._tables.roots.get(study_id)
        chosen = cover(root, selection.first_slot, selection.last_slot)
        cells = [
            cell
            for (node, labels), cell in self._cells(study_id).items()
            if is_shown(labels, selection) and (node in chosen.nodes or chosen.takes(node))
        ]
        waiting = Layout(width=width, n_coordinates=n_coordinates).sum_rows(
            self._to_entry(record).row
            for record in self._list_pending(study_id)
            if selection.contains_slots(record.first_slot, record.last_slot)
            and selection.matches_labels(self._tables.devices.rows[record.device_id].labels)
        )
        return add_cells([*cells, waiting], n_coordinates).to_totals()

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
        return describe_differences(expected, found, sums_known=has_all) + extra

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
