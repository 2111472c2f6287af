"""Sketches, refusals and snapshots in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from aggregator.ports import (
    PageKey,
    RefusalRecord,
    SketchRecord,
    SnapshotRecord,
)
from aggregator.storage.cells import sketch_taken
from aggregator.storage.memory.tables import Tables


class SketchPart:
    """Sketches, refusals and snapshots; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get_sketch(self, sketch_id: bytes) -> SketchRecord | None:
        """Return a sketch without its payload."""
        return self._tables.sketches.get(sketch_id)

    async def add_sketch(self, record: SketchRecord, payload: bytes) -> bool:
        """Store a sketch."""
        stream = (record.device_id, record.stream)
        present = self._tables.streams.get(stream) or {}
        if record.sequence in present or not self._tables.sketches.add(record.sketch_id, record):
            return False
        self._tables.streams.put(stream, present | {record.sequence: record.sketch_id})
        self._tables.payloads.put(record.sketch_id, payload)
        self._tables.pending.put(record.sketch_id, record.study_id)
        return True

    async def get_sketches(self, sketch_ids: Collection[bytes]) -> Mapping[bytes, SketchRecord]:
        """Return those of some sketches that there are."""
        rows = self._tables.sketches.rows
        return {identity: rows[identity] for identity in sketch_ids if identity in rows}

    async def add_sketches(self, sketches: Sequence[tuple[SketchRecord, bytes]]) -> None:
        """Store sketches."""
        for record, payload in sketches:
            if not await self.add_sketch(record, payload):
                raise sketch_taken()

    async def count_sketch(
        self,
        study_id: bytes,
        *,
        n_records: int,
        most_sketches: int,
        now: float,
        n_sketches: int = 1,
    ) -> bool:
        """Add sketches to the counts of a study."""
        study = self._tables.studies.get(study_id)
        if study is None or not study.accepts_sketches(now):
            return False
        if study.n_sketches + n_sketches > most_sketches:
            return False
        self._tables.studies.put(
            study_id,
            replace(
                study,
                n_sketches=study.n_sketches + n_sketches,
                n_records=study.n_records + n_records,
            ),
        )
        return True

    async def find_neighbours(
        self, device_id: bytes, stream: str, sequence: int
    ) -> tuple[SketchRecord | None, SketchRecord | None]:
        """Return the nearest sketches below and above."""
        present = self._tables.streams.get((device_id, stream)) or {}
        below = max((n for n in present if n < sequence), default=None)
        above = min((n for n in present if n > sequence), default=None)
        return (
            None if below is None else self._tables.sketches.rows[present[below]],
            None if above is None else self._tables.sketches.rows[present[above]],
        )

    async def list_neighbours(
        self, places: Sequence[tuple[bytes, str, int]]
    ) -> Sequence[tuple[SketchRecord | None, SketchRecord | None]]:
        """Return the neighbours of each place."""
        return [await self.find_neighbours(*place) for place in places]

    async def list_sketches(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[SketchRecord]:
        """Return sketches in the order of arrival."""
        records = [r for r in self._tables.sketches.rows.values() if r.study_id == study_id]
        records.sort(key=lambda r: (r.received, r.sketch_id))
        return [r for r in records if after is None or (r.received, r.sketch_id) > after][:limit]

    async def find_last_arrival(self, study_id: bytes) -> float | None:
        """Return when the latest sketch arrived."""
        rows = self._tables.sketches.rows.values()
        return max((r.received for r in rows if r.study_id == study_id), default=None)

    async def count_refusal(self, study_id: bytes, problem: str, *, count: int = 1) -> None:
        """Count refusals."""
        before = self._tables.refusals.get((study_id, problem)) or 0
        self._tables.refusals.put((study_id, problem), before + count)

    async def list_refusals(self, study_id: bytes) -> Sequence[RefusalRecord]:
        """Return the refusals of a study."""
        found = [
            RefusalRecord(problem=problem, count=count)
            for (study, problem), count in self._tables.refusals.rows.items()
            if study == study_id
        ]
        return sorted(found, key=lambda record: (-record.count, record.problem))

    async def add_snapshot(self, record: SnapshotRecord) -> bool:
        """Store a snapshot."""
        return self._tables.snapshots.add(record.snapshot_id, record)

    async def get_snapshot(self, snapshot_id: bytes) -> SnapshotRecord | None:
        """Return a snapshot."""
        return self._tables.snapshots.get(snapshot_id)
