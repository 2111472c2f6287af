"""Gaps: sequence numbers of a stream without a sketch, below one that has a sketch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from aggregator.records import MOST_RANGES
from aggregator.storage.models import Device, Sketch, Study
from aggregator.storage.statements.rows import Rows

StreamKey = tuple[bytes, str]
_STREAM = (Sketch.device_id, Sketch.stream)


class GapRows(Rows):
    """Statements on gaps; a device may send in any order, so a gap alone proves no loss."""

    async def _list_gaps(
        self, device_ids: Collection[bytes]
    ) -> dict[StreamKey, Sequence[tuple[int, int]]]:
        """Return the lowest gaps of each stream of some devices."""
        gaps = _select_gaps(Sketch.device_id.in_(device_ids)).subquery()
        rank = func.row_number().over(
            partition_by=(gaps.c.device_id, gaps.c.stream), order_by=gaps.c.first
        )
        ranked = select(gaps, rank.label("rank")).subquery()
        statement = (
            select(ranked.c.device_id, ranked.c.stream, ranked.c.first, ranked.c.last)
            .where(ranked.c.rank <= MOST_RANGES)
            .order_by(ranked.c.first)
        )
        found: dict[StreamKey, list[tuple[int, int]]] = {}
        for device_id, stream, first, last in await self._connection.execute(statement):
            found.setdefault((device_id, stream), []).append((first, last))
        return dict(found)

    async def describe_gaps(self) -> AsyncIterator[str]:
        """Yield a line for every gap: its stream and length, and since when there is one."""
        # What a withdrawn study held is removed in no order.
        kept = (
            select(Device.device_id)
            .join(Study, Study.study_id == Device.study_id)
            .where(Study.state != "withdrawn")
        )
        since = func.min(Sketch.received).over(
            partition_by=_STREAM, order_by=Sketch.sequence, rows=(0, None)
        )
        gaps = _select_gaps(Sketch.device_id.in_(kept), since.label("since"))
        order = (gaps.selected_columns.device_id, gaps.selected_columns.stream)
        statement = gaps.order_by(*order, gaps.selected_columns.first)
        async with self._connection.stream(statement) as result:
            async for row in result:
                moment = datetime.fromtimestamp(row.since, UTC).isoformat(timespec="seconds")
                yield (
                    f"device {row.device_id.hex()}: stream {row.stream!r} lacks "
                    f"{row.last - row.first + 1} sketches, sequence {row.first} to {row.last}, "
                    f"since {moment}"
                )


def _select_gaps(among: ColumnElement[bool], *more: ColumnElement[Any]) -> Select[Any]:
    """Select ``device_id, stream, first, last`` of each gap, and what else is asked for."""
    before = func.lag(Sketch.sequence).over(partition_by=_STREAM, order_by=Sketch.sequence)
    stored = (
        select(*_STREAM, Sketch.sequence, func.coalesce(before, -1).label("before"), *more)
        .where(among)
        .subquery()
    )
    columns = [stored.c[one.name] for one in more]
    return select(
        stored.c.device_id,
        stored.c.stream,
        (stored.c.before + 1).label("first"),
        (stored.c.sequence - 1).label("last"),
        *columns,
    ).where(stored.c.sequence > stored.c.before + 1)
