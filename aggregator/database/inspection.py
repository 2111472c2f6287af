"""Inspection: read a whole database and name the contradictions in it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import Row, Select, Table, and_, case, func, or_, select

from sfumato.aggregator.base.sums.payloads import BATCH
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.database.tables import METADATA
from sfumato.aggregator.resources.batches.store.batches import BATCHES
from sfumato.aggregator.resources.devices.store import DEVICES, RETIRED_KEYS
from sfumato.aggregator.resources.jobs.store import ANALYSES, DECODES
from sfumato.aggregator.resources.sketches.record import list_columns
from sfumato.aggregator.resources.sketches.store.entries import leaves
from sfumato.aggregator.resources.sketches.store.sketches import SIGNED, to_header
from sfumato.aggregator.resources.sketches.store.tables import (
    LEAVING_DEVICES,
    PENDING_SKETCHES,
    SKETCHES,
)
from sfumato.aggregator.resources.studies.store import CELL_ROOTS, STUDIES
from sfumato.shared.errors import SignatureError, WireError
from sfumato.shared.wire import decode_header, verify_header


async def count_rows(transaction: Transaction, table: Table) -> int:
    """Count the rows of a table."""
    return int(await transaction.scalar(select(func.count()).select_from(table)))


async def count_all_rows(transaction: Transaction) -> int:
    """Count the rows of all tables."""
    return sum([await count_rows(transaction, table) for table in METADATA.sorted_tables])


async def list_study_ids(transaction: Transaction) -> Sequence[bytes]:
    """Return the identities of the studies that were not withdrawn."""
    kept = select(STUDIES.c.study_id).where(STUDIES.c.state != "withdrawn")
    found = await transaction.connection.execute(kept.order_by(STUDIES.c.study_id))
    return list(found.scalars())


async def find_file_faults(transaction: Transaction) -> AsyncIterator[str]:
    """Run the integrity check of SQLite; Postgres checks its pages as it reads them."""
    if transaction.connection.dialect.name != "sqlite":
        return
    found = await transaction.connection.exec_driver_sql("PRAGMA integrity_check(100)")
    for (line,) in found:
        if line != "ok":
            yield str(line)


async def find_plan_faults(transaction: Transaction) -> AsyncIterator[str]:
    """Compare the digests of plans with the plans."""
    rows = await transaction.connection.execute(
        select(STUDIES.c.study_id, STUDIES.c.plan, STUDIES.c.plan_digest)
    )
    for row in rows:
        if hashlib.sha256(row.plan).digest() != row.plan_digest:
            yield f"study {row.study_id.hex()}: the plan does not have its digest"


async def find_sketch_faults(transaction: Transaction) -> AsyncIterator[str]:
    """Compare each payload with its digest, and each row with its signed header."""
    signed = select(*SKETCHES.c, STUDIES.c.plan_digest).join(
        STUDIES, STUDIES.c.study_id == SKETCHES.c.study_id
    )
    async for rows in _list_pages(transaction, signed):
        for row in rows:
            for fault in _check_sketch(row):
                yield f"sketch {row.sketch_id.hex()}: {fault}"


async def find_signature_faults(transaction: Transaction) -> AsyncIterator[str]:
    """Verify each header with its device's keys: a retired one up to its last sequences."""
    columns = (
        *SIGNED,
        *(SKETCHES.c.sketch_id, SKETCHES.c.stream, SKETCHES.c.sequence, SKETCHES.c.signature),
        DEVICES.c.public_key,
    )
    signed = (
        select(*columns)
        .join(DEVICES, DEVICES.c.device_id == SKETCHES.c.device_id)
        .join(STUDIES, STUDIES.c.study_id == SKETCHES.c.study_id)
    )
    async for rows in _list_pages(transaction, signed):
        retired = await _read_retired(transaction, {row.device_id for row in rows})
        for row in rows:
            older = [
                key.public_key
                for key in retired.get(row.device_id, ())
                if row.sequence <= key.last_sequences.get(row.stream, -1)
            ]
            if not any(_is_signed_by(key, row) for key in (row.public_key, *older)):
                yield f"sketch {row.sketch_id.hex()}: no key of its device signed it"


async def _list_pages(
    transaction: Transaction, sketches: Select[*tuple[Any, ...]]
) -> AsyncIterator[Sequence[Row[Any]]]:
    statement = page = sketches.order_by(SKETCHES.c.sketch_id).limit(BATCH)
    while rows := (await transaction.connection.execute(statement)).all():
        yield rows
        statement = page.where(SKETCHES.c.sketch_id > rows[-1].sketch_id)


async def _read_retired(
    transaction: Transaction, device_ids: Collection[bytes]
) -> dict[bytes, list[Any]]:
    columns = (
        RETIRED_KEYS.c.device_id,
        RETIRED_KEYS.c.public_key,
        RETIRED_KEYS.c.last_sequences,
    )
    statement = select(*columns).where(RETIRED_KEYS.c.device_id.in_(device_ids))
    found: dict[bytes, list[Any]] = {}
    for row in await transaction.connection.execute(statement):
        found.setdefault(row.device_id, []).append(row)
    return found


async def find_count_faults(transaction: Transaction) -> AsyncIterator[str]:
    """Compare the counters of studies and devices with the rows."""
    # Leaving sketches are still in cells, and no longer counted.
    counts = or_(
        and_(
            SKETCHES.c.state == "stored",
            or_(DEVICES.c.excluded.is_(None), SKETCHES.c.payload.is_(None)),
        ),
        and_(SKETCHES.c.batch_id.is_not(None), SKETCHES.c.state != "excluded"),
    )
    stored = case((counts, 1), else_=0)
    sizes = case((counts, func.coalesce(SKETCHES.c.n_records, 0)), else_=0)
    statement = (
        select(
            STUDIES.c.study_id,
            STUDIES.c.n_sketches,
            STUDIES.c.n_records,
            func.coalesce(func.sum(stored), 0).label("found_sketches"),
            func.coalesce(func.sum(sizes), 0).label("found_records"),
        )
        .outerjoin(SKETCHES, SKETCHES.c.study_id == STUDIES.c.study_id)
        .outerjoin(DEVICES, DEVICES.c.device_id == SKETCHES.c.device_id)
        # A withdrawn study is removed batch by batch.
        .where(STUDIES.c.state != "withdrawn")
        .group_by(STUDIES.c.study_id, STUDIES.c.n_sketches, STUDIES.c.n_records)
    )
    for row in await transaction.connection.execute(statement):
        for what in ("sketches", "records"):
            says, found = getattr(row, f"n_{what}"), int(getattr(row, f"found_{what}"))
            if says != found:
                yield f"study {row.study_id.hex()}: says {says} {what}, and has {found}"
    devices = (
        select(
            DEVICES.c.device_id,
            DEVICES.c.n_sketches,
            func.count(SKETCHES.c.sketch_id).label("found"),
        )
        .outerjoin(SKETCHES, SKETCHES.c.device_id == DEVICES.c.device_id)
        .join(STUDIES, STUDIES.c.study_id == DEVICES.c.study_id)
        .where(STUDIES.c.state != "withdrawn")
        .group_by(DEVICES.c.device_id, DEVICES.c.n_sketches)
    )
    for row in await transaction.connection.execute(devices):
        if row.n_sketches != row.found:
            yield (
                f"device {row.device_id.hex()}: says {row.n_sketches} sketches, and has {row.found}"
            )


async def find_orphans(transaction: Transaction) -> AsyncIterator[str]:
    """Find dangling references, and rows in a wrong state."""
    for table in METADATA.sorted_tables:
        for column, target in _references(table):
            parent = target.table.alias()
            statement = (
                select(*table.primary_key.columns)
                .outerjoin(parent, parent.c[target.name] == column)
                .where(column.is_not(None), parent.c[target.name].is_(None))
            )
            for row in await transaction.connection.execute(statement):
                yield f"{table.name} {_name(row)}: its {column.name} is missing"
    async for fault in _find_misplaced(transaction):
        yield fault


async def _find_misplaced(transaction: Transaction) -> AsyncIterator[str]:
    # The cells of a withdrawn study go as a whole.
    kept = (
        select(DEVICES.c.device_id)
        .join(STUDIES, STUDIES.c.study_id == DEVICES.c.study_id)
        .outerjoin(LEAVING_DEVICES, LEAVING_DEVICES.c.device_id == DEVICES.c.device_id)
        .where(STUDIES.c.state != "withdrawn")
    )
    is_leaving = LEAVING_DEVICES.c.device_id.is_not(None)
    held = select(SKETCHES.c.sketch_id).where(
        SKETCHES.c.device_id == DEVICES.c.device_id, *leaves()
    )
    contradictions: tuple[tuple[Select[Any], str], ...] = (
        (
            select(SKETCHES.c.sketch_id)
            .join(PENDING_SKETCHES, PENDING_SKETCHES.c.sketch_id == SKETCHES.c.sketch_id)
            .where(or_(SKETCHES.c.payload.is_(None), SKETCHES.c.state != "stored")),
            "sketch {}: is pending, and has nothing to add",
        ),
        (
            kept.where(DEVICES.c.excluded.is_not(None), ~is_leaving, held.exists()),
            "device {}: is excluded, and its sketches stay in the sums",
        ),
        (
            kept.where(DEVICES.c.excluded.is_(None), is_leaving),
            "device {}: is not excluded, and leaves the sums",
        ),
        (
            select(STUDIES.c.study_id)
            .outerjoin(CELL_ROOTS, CELL_ROOTS.c.study_id == STUDIES.c.study_id)
            .where(CELL_ROOTS.c.study_id.is_(None), STUDIES.c.state != "withdrawn"),
            "study {}: has no root, so nothing is ever merged",
        ),
        (
            select(BATCHES.c.batch_id).where(
                BATCHES.c.state.in_(("opened", "acknowledged")) != BATCHES.c.sums.is_not(None)
            ),
            "batch {}: its state and its total contradict each other",
        ),
        (
            select(BATCHES.c.batch_id).where(
                (BATCHES.c.state == "acknowledged") != BATCHES.c.standing.is_not(None)
            ),
            "batch {}: its state and its place in the sums contradict each other",
        ),
        (
            select(SKETCHES.c.sketch_id)
            .join(BATCHES, BATCHES.c.batch_id == SKETCHES.c.batch_id)
            .where(
                or_(
                    (SKETCHES.c.state == "opened")
                    & BATCHES.c.state.not_in(("opened", "acknowledged")),
                    SKETCHES.c.state.in_(("waiting", "accepted"))
                    & BATCHES.c.state.not_in(("open", "closing")),
                    SKETCHES.c.state.in_(("waiting", "accepted"))
                    != SKETCHES.c.payload.is_not(None),
                )
            ),
            "sketch {}: its state contradicts that of its batch",
        ),
        (
            select(BATCHES.c.batch_id)
            .outerjoin(
                SKETCHES,
                and_(
                    SKETCHES.c.batch_id == BATCHES.c.batch_id,
                    SKETCHES.c.state.in_(("waiting", "accepted", "opened", "void")),
                ),
            )
            .join(STUDIES, STUDIES.c.study_id == BATCHES.c.study_id)
            .where(STUDIES.c.state != "withdrawn")
            .group_by(BATCHES.c.batch_id, BATCHES.c.n_reports, BATCHES.c.state)
            # A server that was restored may lack rows of a total that the helper has.
            .having(
                or_(
                    func.count(SKETCHES.c.sketch_id) > BATCHES.c.n_reports,
                    (func.count(SKETCHES.c.sketch_id) < BATCHES.c.n_reports)
                    & BATCHES.c.state.not_in(("opened", "acknowledged")),
                )
            ),
            "batch {}: its number of reports is not that of its rows",
        ),
        (
            select(DECODES.c.decode_id).where(
                (DECODES.c.state == "succeeded") != DECODES.c.result.is_not(None)
            ),
            "decode {}: its state and its result contradict each other",
        ),
        (
            select(ANALYSES.c.analysis_id).where(
                (ANALYSES.c.state == "succeeded") != ANALYSES.c.result.is_not(None)
            ),
            "analysis {}: its state and its result contradict each other",
        ),
    )
    for statement, text in contradictions:
        for (identity,) in await transaction.connection.execute(statement):
            yield text.format(identity.hex())


def _is_signed_by(public_key: bytes, row: Any) -> bool:
    try:
        verify_header(
            public_key,
            device=row.device_id,
            header_bytes=to_header(row),
            signature=row.signature,
        )
    except (SignatureError, WireError):
        return False
    return True


def _check_sketch(row: Row[Any]) -> Iterator[str]:
    if row.payload is not None and hashlib.sha256(row.payload).digest() != row.payload_digest:
        yield "the payload does not have its digest"
    try:
        header = decode_header(to_header(row))
    except WireError as error:
        yield f"the header cannot be read ({error})"
        return
    for name, value in list_columns(header).items():
        if getattr(row, name) != value:
            yield f"{name} is not what its device signed"


def _references(table: Table) -> Iterator[tuple[Any, Any]]:
    for key in sorted(table.foreign_keys, key=lambda key: key.parent.name):
        yield key.parent, key.column


def _name(row: Row[Any]) -> str:
    return " ".join(part.hex() if isinstance(part, bytes) else str(part) for part in row)
