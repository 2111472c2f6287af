"""Sketches and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from sqlalchemy import Row, TextClause, and_, bindparam, insert, or_, select, text, update

from sfumato.aggregator.base.transaction import Transaction, insert_into
from sfumato.aggregator.resources.sketches.record import RefusalRecord, SketchRecord
from sfumato.aggregator.resources.sketches.store.tables import PENDING_SKETCHES, REFUSALS, SKETCHES
from sfumato.aggregator.resources.studies.store import STUDIES
from sfumato.shared.errors import StoreError
from sfumato.shared.wire import restore_header

# Every upload runs these: building one takes as long as running it.
_ADD_PENDING = insert(PENDING_SKETCHES)
_ACCEPTS = or_(
    STUDIES.c.state == "open",
    and_(STUDIES.c.state == "closed", STUDIES.c.accept_until > bindparam("now")),
)
_COUNT = (
    update(STUDIES)
    .where(
        STUDIES.c.study_id == bindparam("of_study"),
        STUDIES.c.n_sketches <= bindparam("most_before"),
        _ACCEPTS,
    )
    .values(
        n_sketches=STUDIES.c.n_sketches + bindparam("more_sketches"),
        n_records=STUDIES.c.n_records + bindparam("more_records"),
    )
    .returning(STUDIES.c.n_sketches)
)


SIGNED = (
    *(SKETCHES.c.header, SKETCHES.c.study_id, SKETCHES.c.device_id, SKETCHES.c.payload_digest),
    STUDIES.c.plan_digest,
)
"""Columns of which :func:`to_header` makes a signed header."""


def to_header(row: Row[Any]) -> bytes:
    """Return the signed header of a row."""
    return restore_header(
        row.header,
        study=row.study_id,
        plan_digest=row.plan_digest,
        device=row.device_id,
        payload_digest=row.payload_digest,
    )


async def add_sketches(
    transaction: Transaction, sketches: Sequence[tuple[SketchRecord, bytes]]
) -> None:
    """Store sketches with their payloads; reports of a batch are never merged one by one.

    Raises
    ------
    StoreError
        An identity, or a place in a stream, is taken.
    """
    names = [f.name for f in fields(SketchRecord)]
    rows = [
        {name: getattr(record, name) for name in names} | {"payload": payload}
        for record, payload in sketches
    ]
    added = await transaction.connection.execute(
        _add_many(transaction.connection.dialect.name), rows
    )
    stored = added.all()
    waiting = [
        {"sketch_id": row.sketch_id, "study_id": row.study_id}
        for row in stored
        if row.batch_id is None
    ]
    if waiting:
        await transaction.connection.execute(_ADD_PENDING, waiting)
    if len(stored) != len(sketches):
        raise StoreError("is stored already", field="sequence")


async def count_sketch(
    transaction: Transaction,
    study_id: bytes,
    *,
    n_records: int,
    most_sketches: int,
    now: float,
    n_sketches: int = 1,
) -> bool:
    """Add sketches to a study's counts; false if they do not fit or it accepts none now."""
    given = {
        "of_study": study_id,
        "most_before": most_sketches - n_sketches,
        "now": now,
        "more_sketches": n_sketches,
        "more_records": n_records,
    }
    return (await transaction.connection.execute(_COUNT, given)).first() is not None


async def list_neighbours(
    transaction: Transaction, places: Sequence[tuple[bytes, str, int]]
) -> Sequence[tuple[SketchRecord | None, SketchRecord | None]]:
    """Return the neighbours of each device, stream and sequence: two index searches each."""
    # Padded to a power of two with the last place: few statements have to be prepared.
    size = 1 << (len(places) - 1).bit_length()
    filled = [*places, *[places[-1]] * (size - len(places))]
    given = {
        f"{name}{i}": value
        for i, place in enumerate(filled)
        for name, value in zip("dsq", place, strict=True)
    }
    found = await transaction.connection.execute(_select_neighbours(size), given)
    both = [(row[0], row[1]) for row in found][: len(places)]
    wanted = {identity for pair in both for identity in pair if identity is not None}
    known = await transaction.get_many(SketchRecord, wanted) if wanted else {}
    return [(known.get(below), known.get(above)) for below, above in both]


async def count_refusal(
    transaction: Transaction, study_id: bytes, problem: str, *, count: int = 1
) -> None:
    """Count refusals."""
    statement = transaction.insert_into(REFUSALS).values(
        study_id=study_id, problem=problem, count=count
    )
    await transaction.connection.execute(
        statement.on_conflict_do_update(
            index_elements=["study_id", "problem"], set_={"count": REFUSALS.c.count + count}
        )
    )


async def list_refusals(transaction: Transaction, study_id: bytes) -> Sequence[RefusalRecord]:
    """Return the refusals of a study, most frequent first."""
    statement = (
        select(REFUSALS.c.problem, REFUSALS.c.count)
        .where(REFUSALS.c.study_id == study_id)
        .order_by(REFUSALS.c.count.desc(), REFUSALS.c.problem)
    )
    return await transaction.list_records(statement, RefusalRecord)


@cache
def _add_many(dialect: str) -> Any:
    statement = insert_into(SKETCHES, dialect).on_conflict_do_nothing()
    return statement.returning(SKETCHES.c.sketch_id, SKETCHES.c.study_id, SKETCHES.c.batch_id)


@cache
def _select_neighbours(size: int) -> TextClause:
    """Return the statement for ``size`` places: as text, which is faster than a list of values."""
    given = ", ".join(f"({i}, :d{i}, :s{i}, :q{i})" for i in range(size))
    same = (
        "SELECT sketch_id FROM sketches WHERE sketches.device_id = places.device_id"
        " AND sketches.stream = places.stream AND sketches.sequence"
    )
    return text(
        f"WITH places(number, device_id, stream, sequence) AS (VALUES {given})"
        f" SELECT ({same} < places.sequence ORDER BY sketches.sequence DESC LIMIT 1),"
        f" ({same} > places.sequence ORDER BY sketches.sequence LIMIT 1)"
        " FROM places ORDER BY number"
    )


async def find_last_arrivals(
    transaction: Transaction, study_ids: Sequence[bytes]
) -> Mapping[bytes, float]:
    """Return when the latest sketch of some studies arrived; those without are absent."""
    # One search of the index for each: GROUP BY would read every sketch.
    latest = (
        select(SKETCHES.c.received)
        .where(SKETCHES.c.study_id == STUDIES.c.study_id)
        .order_by(SKETCHES.c.received.desc())
        .limit(1)
        .scalar_subquery()
    )
    found = await transaction.connection.execute(
        select(STUDIES.c.study_id, latest).where(STUDIES.c.study_id.in_(study_ids))
    )
    return {study_id: received for study_id, received in found if received is not None}
