"""Studies, their enrolment tokens, and the generation of the database."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, update

from sfumato.aggregator.records import PageKey, StudyRecord
from sfumato.aggregator.storage.schema import GENERATION_BYTES
from sfumato.aggregator.storage.tables import CELL_ROOTS, DEVICES, SERVER, SKETCHES, STUDIES, TOKENS
from sfumato.aggregator.storage.transaction import Transaction, select_records


async def get_generation(transaction: Transaction) -> bytes:
    """Return the generation: 16 bytes that change when a backup is restored."""
    return bytes(await transaction.scalar(select(SERVER.c.generation)))


async def renew_generation(transaction: Transaction) -> bytes:
    """Draw and store a new generation."""
    generation = secrets.token_bytes(GENERATION_BYTES)
    await transaction.connection.execute(update(SERVER).values(generation=generation))
    return generation


async def add_study(transaction: Transaction, record: StudyRecord) -> bool:
    """Store a study."""
    if not await transaction.add(record):
        return False
    await transaction.connection.execute(
        transaction.insert_into(CELL_ROOTS).values(study_id=record.study_id)
    )
    return True


async def find_studies_of_plan(
    transaction: Transaction, plan_digest: bytes
) -> Sequence[StudyRecord]:
    """Return the studies of a plan that are not withdrawn, the oldest first."""
    statement = (
        select_records(StudyRecord)
        .where(STUDIES.c.plan_digest == plan_digest, STUDIES.c.state != "withdrawn")
        .order_by(STUDIES.c.created, STUDIES.c.study_id)
    )
    return await transaction.list_records(statement, StudyRecord)


async def has_study_of_plan(transaction: Transaction, plan_digest: bytes) -> bool:
    """Return whether a study has a plan, or a withdrawn one had it."""
    return await transaction.exists(
        select(STUDIES.c.study_id).where(STUDIES.c.plan_digest == plan_digest)
    )


async def list_studies(
    transaction: Transaction, *, after: PageKey | None, limit: int, beginning: str = ""
) -> Sequence[StudyRecord]:
    """Return studies that are not withdrawn in the order of creation.

    Parameters
    ----------
    beginning
        First characters of their names; the empty text for all.
    """
    which = [STUDIES.c.state != "withdrawn"]
    if beginning:
        # Not LIKE, which SQLite compares without regard to case.
        which.append(func.substr(STUDIES.c.name, 1, len(beginning)) == beginning)
    return await transaction.list_where(StudyRecord, *which, after=after, limit=limit)


async def change_study(transaction: Transaction, changed: StudyRecord) -> bool:
    """Store the life cycle and search box of a study as its next version.

    Returns
    -------
    bool
        False if the stored version is not ``changed.version``.
    """
    statement = (
        update(STUDIES)
        .where(STUDIES.c.study_id == changed.study_id, STUDIES.c.version == changed.version)
        .values(
            state=changed.state,
            accept_until=changed.accept_until,
            search_box=changed.search_box,
            version=changed.version + 1,
        )
    )
    return await transaction.run(statement) > 0


async def list_accepted(
    transaction: Transaction, study_id: bytes, *, lock: bool = False
) -> list[dict[str, Any]]:
    """Return the accepted changes of a study, in order; ``lock`` keeps others from changing."""
    statement = select(STUDIES.c.accepted).where(STUDIES.c.study_id == study_id)
    return list(await transaction.scalar(statement.with_for_update() if lock else statement))


async def store_accepted(
    transaction: Transaction, study_id: bytes, accepted: Sequence[dict[str, Any]]
) -> None:
    """Store the accepted changes of a study; devices do not see them, so its version stays."""
    statement = update(STUDIES).where(STUDIES.c.study_id == study_id)
    await transaction.run(statement.values(accepted=list(accepted)))


async def count_devices(
    transaction: Transaction, study_ids: Sequence[bytes]
) -> Mapping[bytes, int]:
    """Count the enrolled devices of some studies; those without one are absent."""
    counted = (
        select(DEVICES.c.study_id, func.count())
        .where(DEVICES.c.study_id.in_(study_ids))
        .group_by(DEVICES.c.study_id)
    )
    return {row[0]: int(row[1]) for row in await transaction.connection.execute(counted)}


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


async def use_token(transaction: Transaction, token_hash: bytes, *, now: float) -> bool:
    """Count one use; false if it is used up, expired or revoked."""
    statement = (
        update(TOKENS)
        .where(
            TOKENS.c.token_hash == token_hash,
            TOKENS.c.uses < TOKENS.c.max_uses,
            TOKENS.c.expires > now,
        )
        .where(TOKENS.c.revoked.is_(None))
        .values(uses=TOKENS.c.uses + 1)
    )
    return await transaction.run(statement) > 0
