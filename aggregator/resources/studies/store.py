"""Studies, and the roots of their running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from sqlalchemy import BigInteger, Column, Index, func, select, update

from sfumato.aggregator.base.columns import KEY, StudyId
from sfumato.aggregator.base.tables import CanonicalJson, derive_table
from sfumato.aggregator.base.transaction import PageKey, Transaction, select_records
from sfumato.aggregator.resources.studies.record import StudyRecord


class _CellRoot:
    """The root of a study's cells, null before the first; writers of cells lock it."""

    study_id: Annotated[StudyId, KEY]
    level: int | None
    first: int | None


STUDIES = derive_table(
    "studies",
    StudyRecord,
    Column("n_ordinals", BigInteger, nullable=False, default=0),
    Column("accepted", CanonicalJson, nullable=False, default=list),
    Index(None, "created", "study_id"),
    order=("created", "study_id"),
)
CELL_ROOTS = derive_table("cell_roots", _CellRoot)


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
    transaction: Transaction,
    *,
    after: PageKey | None,
    limit: int,
    beginning: str = "",
    study_id: bytes | None = None,
) -> Sequence[StudyRecord]:
    """Return studies that are not withdrawn in the order of creation.

    Parameters
    ----------
    beginning
        First characters of their names; the empty text for all.
    study_id
        The only one to return; None for all.
    """
    which = [STUDIES.c.state != "withdrawn"]
    if study_id is not None:
        which.append(STUDIES.c.study_id == study_id)
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


async def link_next(transaction: Transaction, study_id: bytes, next_study: bytes) -> bool:
    """Store which study follows; false, and nothing changes, where another does already."""
    statement = (
        update(STUDIES)
        .where(STUDIES.c.study_id == study_id, STUDIES.c.next_study.is_(None))
        .values(next_study=next_study, version=STUDIES.c.version + 1)
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
