"""Sketches and refusals."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, or_, select, update

from aggregator.ports import PageKey, RefusalRecord, SketchRecord
from aggregator.storage.models import PendingSketch, Refusal, Sketch, Study
from aggregator.storage.sql.rows import Rows, columns_of, follows, to_record


class SketchRows(Rows):
    """Statements on sketches; see the port for their meaning."""

    async def get_sketch(self, sketch_id: bytes) -> SketchRecord | None:
        """Return a sketch without its payload."""
        statement = select(*columns_of(Sketch, SketchRecord)).where(Sketch.sketch_id == sketch_id)
        return to_record(SketchRecord, (await self._connection.execute(statement)).first())

    async def add_sketch(self, record: SketchRecord, payload: bytes) -> bool:
        """Store a sketch."""
        if not await self._add(Sketch, record, payload=payload):
            return False
        waiting = {"sketch_id": record.sketch_id, "study_id": record.study_id}
        await self._connection.execute(self._insert(PendingSketch).values(waiting))
        return True

    async def count_sketch(
        self, study_id: bytes, *, n_records: int, most_sketches: int, now: float
    ) -> bool:
        """Add one sketch to the counts of a study."""
        accepts = or_(
            Study.state == "open", and_(Study.state == "closed", Study.accept_until > now)
        )
        statement = (
            update(Study)
            .where(Study.study_id == study_id, Study.n_sketches < most_sketches, accepts)
            .values(n_sketches=Study.n_sketches + 1, n_records=Study.n_records + n_records)
            .returning(Study.n_sketches)
        )
        return (await self._connection.execute(statement)).first() is not None

    async def find_neighbours(
        self, device_id: bytes, stream: str, sequence: int
    ) -> tuple[SketchRecord | None, SketchRecord | None]:
        """Return the nearest sketches below and above."""
        same = (
            select(*columns_of(Sketch, SketchRecord))
            .where(Sketch.device_id == device_id, Sketch.stream == stream)
            .limit(1)
        )
        below = same.where(Sketch.sequence < sequence).order_by(Sketch.sequence.desc())
        above = same.where(Sketch.sequence > sequence).order_by(Sketch.sequence)
        return (
            to_record(SketchRecord, (await self._connection.execute(below)).first()),
            to_record(SketchRecord, (await self._connection.execute(above)).first()),
        )

    async def list_sketches(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[SketchRecord]:
        """Return sketches in the order of arrival."""
        statement = (
            select(*columns_of(Sketch, SketchRecord))
            .where(Sketch.study_id == study_id, *follows(Sketch.received, Sketch.sketch_id, after))
            .order_by(Sketch.received, Sketch.sketch_id)
            .limit(limit)
        )
        found = await self._connection.execute(statement)
        return [SketchRecord(**row._mapping) for row in found]

    async def count_refusal(self, study_id: bytes, problem: str, *, count: int = 1) -> None:
        """Count refusals."""
        statement = self._insert(Refusal).values(study_id=study_id, problem=problem, count=count)
        await self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["study_id", "problem"], set_={"count": Refusal.count + count}
            )
        )

    async def list_refusals(self, study_id: bytes) -> Sequence[RefusalRecord]:
        """Return the refusals of a study."""
        statement = (
            select(Refusal.problem, Refusal.count)
            .where(Refusal.study_id == study_id)
            .order_by(Refusal.count.desc(), Refusal.problem)
        )
        found = await self._connection.execute(statement)
        return [RefusalRecord(problem=problem, count=count) for problem, count in found]
