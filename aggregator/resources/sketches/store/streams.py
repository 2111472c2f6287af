"""Streams of devices, and the gaps in these.

A gap is a sequence number without a sketch, below one that has a sketch. A device may send in any
order, so a gap alone proves no loss.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Text,
    and_,
    func,
    select,
    text,
    type_coerce,
)

from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.record import MOST_RANGES, StreamRecord
from sfumato.aggregator.resources.sketches.store.tables import SKETCHES
from sfumato.aggregator.resources.studies.store import STUDIES

# Jumps from each stream to the next: DISTINCT would read every sketch of the device.
_COUNT_STREAMS = text(
    "WITH RECURSIVE found(stream) AS ("
    "SELECT min(stream) FROM sketches WHERE device_id = :device_id"
    " UNION ALL SELECT (SELECT min(stream) FROM sketches"
    " WHERE device_id = :device_id AND stream > found.stream)"
    " FROM found WHERE found.stream IS NOT NULL)"
    " SELECT count(stream) FROM found"
)

StreamKey = tuple[bytes, str]
_STREAM = (SKETCHES.c.device_id, SKETCHES.c.stream)


async def find_repeated(
    transaction: Transaction, device_ids: Sequence[bytes]
) -> Mapping[bytes, list[bytes]]:
    """Return the earlier devices whose slots a device fills again, by id of the later one.

    Only where every earlier device of its labels had fallen silent before it enrolled: live
    devices of the same labels share slots as a rule.
    """
    earlier, live = DEVICES.alias(), DEVICES.alias()
    is_live = func.coalesce(live.c.last_seen, live.c.enrolled) >= DEVICES.c.enrolled
    # One is enough, and most live: Postgres would otherwise read all devices of the study first.
    any_live = select(live.c.device_id).where(_is_before(live), is_live)
    latest = any_live.order_by(live.c.enrolled.desc()).limit(1).scalar_subquery()
    alone = select(DEVICES.c.device_id).where(DEVICES.c.device_id.in_(device_ids), latest.is_(None))
    later_ids = (await transaction.connection.execute(alone)).scalars().all()
    statement = (
        select(DEVICES.c.device_id, earlier.c.device_id)
        .join(earlier, _is_before(earlier))
        .where(DEVICES.c.device_id.in_(later_ids))
        .order_by(earlier.c.enrolled, earlier.c.device_id)
    )
    pairs = (await transaction.connection.execute(statement)).all() if later_ids else ()
    spans = await transaction.connection.execute(
        select(
            SKETCHES.c.device_id,
            func.min(SKETCHES.c.first_slot),
            func.max(SKETCHES.c.last_slot),
        )
        .where(SKETCHES.c.device_id.in_({each for pair in pairs for each in pair}))
        .group_by(SKETCHES.c.device_id)
    )
    slots = {
        device: (first, last)
        for device, first, last in spans
        if first is not None and last is not None
    }
    found: dict[bytes, list[bytes]] = {}
    for later, other in pairs:
        if later in slots and other in slots:
            (first, last), (start, stop) = slots[later], slots[other]
            if first <= stop and start <= last:
                found.setdefault(later, []).append(other)
    return found


async def list_streams(transaction: Transaction, device_id: bytes) -> Sequence[StreamRecord]:
    """Return the streams of a device by name."""
    return (await list_streams_of(transaction, [device_id])).get(device_id, [])


async def count_streams(transaction: Transaction, device_id: bytes) -> int:
    """Count the streams of a device, by one index search for each."""
    found = await transaction.connection.execute(_COUNT_STREAMS, {"device_id": device_id})
    return int(found.scalar_one())


async def list_streams_of(
    transaction: Transaction, device_ids: Sequence[bytes]
) -> Mapping[bytes, Sequence[StreamRecord]]:
    """Return the streams of several devices, by id; devices without a stream are absent."""
    last = (
        select(
            SKETCHES.c.device_id,
            SKETCHES.c.stream,
            func.max(SKETCHES.c.sequence).label("sequence"),
            func.count().label("n_stored"),
        )
        .where(SKETCHES.c.device_id.in_(device_ids))
        .group_by(SKETCHES.c.device_id, SKETCHES.c.stream)
        .subquery()
    )
    same = and_(
        SKETCHES.c.device_id == last.c.device_id,
        SKETCHES.c.stream == last.c.stream,
        SKETCHES.c.sequence == last.c.sequence,
    )
    columns = (
        SKETCHES.c.device_id,
        SKETCHES.c.stream,
        SKETCHES.c.sequence,
        SKETCHES.c.last_slot,
    )
    statement = select(*columns, last.c.n_stored).join(last, same)
    rows = (await transaction.connection.execute(statement)).all()
    # Counting is cheap, and most streams have no gap.
    gaps = await _list_gaps(transaction, {r.device_id for r in rows if r.n_stored <= r.sequence})
    streams: dict[bytes, list[StreamRecord]] = {}
    for device_id, stream, sequence, slot, n_stored in rows:
        record = StreamRecord(
            stream=stream,
            last_sequence=sequence,
            last_slot=slot,
            n_missing=sequence + 1 - n_stored,
            missing=tuple(gaps.get((device_id, stream), ())),
        )
        streams.setdefault(device_id, []).append(record)
    return {d: sorted(found, key=lambda r: r.stream) for d, found in streams.items()}


async def _list_gaps(
    transaction: Transaction, device_ids: Collection[bytes]
) -> dict[StreamKey, Sequence[tuple[int, int]]]:
    gaps = _select_gaps(SKETCHES.c.device_id.in_(device_ids)).subquery()
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
    for device_id, stream, first, last in await transaction.connection.execute(statement):
        found.setdefault((device_id, stream), []).append((first, last))
    return dict(found)


async def describe_gaps(transaction: Transaction) -> AsyncIterator[str]:
    """Yield a line for every gap: its stream, its length and its age.

    An end that went with a lost log of SQLite leaves no gap: only devices know of it.
    """
    # Sketches of withdrawn studies are removed in no order.
    kept = (
        select(DEVICES.c.device_id)
        .join(STUDIES, STUDIES.c.study_id == DEVICES.c.study_id)
        .where(STUDIES.c.state != "withdrawn")
    )
    since = func.min(SKETCHES.c.received).over(
        partition_by=_STREAM, order_by=SKETCHES.c.sequence, rows=(0, None)
    )
    gaps = _select_gaps(SKETCHES.c.device_id.in_(kept), since.label("since"))
    order = (gaps.selected_columns.device_id, gaps.selected_columns.stream)
    statement = gaps.order_by(*order, gaps.selected_columns.first)
    async with transaction.connection.stream(statement) as result:
        async for row in result:
            moment = datetime.fromtimestamp(row.since, UTC).isoformat(timespec="seconds")
            yield (
                f"device {row.device_id.hex()}: stream {row.stream!r} lacks "
                f"{row.last - row.first + 1} sketches, sequence {row.first} to {row.last}, "
                f"since {moment}"
            )
    last = select(*_STREAM, func.max(SKETCHES.c.sequence).label("last")).group_by(*_STREAM)
    held = {(r.device_id, r.stream): r.last for r in await transaction.connection.execute(last)}
    beats = select(DEVICES.c.device_id, DEVICES.c.heartbeat).where(DEVICES.c.device_id.in_(kept))
    for device_id, heartbeat in await transaction.connection.execute(beats):
        for stream, acknowledged in (heartbeat or {}).get("acknowledged", {}).items():
            stored = held.get((device_id, stream), -1)
            if acknowledged > stored:
                yield (
                    f"device {device_id.hex()}: stream {stream!r} lacks acknowledged sketches, "
                    f"sequence {stored + 1} to {acknowledged}, by its device's heartbeat"
                )


def _is_before(other: FromClause) -> ColumnElement[bool]:
    """Return whether another device of the same study and labels enrolled before a device."""
    return and_(
        other.c.study_id == DEVICES.c.study_id,
        type_coerce(other.c.labels, Text) == type_coerce(DEVICES.c.labels, Text),
        other.c.enrolled < DEVICES.c.enrolled,
    )


def _select_gaps(among: ColumnElement[bool], *more: ColumnElement[Any]) -> Select[Any]:
    """Select ``device_id, stream, first, last`` of each gap, and more columns."""
    before = func.lag(SKETCHES.c.sequence).over(partition_by=_STREAM, order_by=SKETCHES.c.sequence)
    stored = (
        select(*_STREAM, SKETCHES.c.sequence, func.coalesce(before, -1).label("before"), *more)
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
