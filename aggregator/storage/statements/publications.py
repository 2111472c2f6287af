"""Published results, and the keys that sign them."""

from __future__ import annotations

from sqlalchemy import select

from sfumato.aggregator.job_records import PublicationRecord
from sfumato.aggregator.storage.tables import PUBLICATIONS, STUDIES
from sfumato.aggregator.storage.transaction import Transaction, select_records, to_record


async def find_last_publication(
    transaction: Transaction, study_id: bytes, *, lock: bool = False
) -> PublicationRecord | None:
    """Return the latest published result of a study; ``lock`` keeps others from adding one."""
    if lock:  # the study's row, for there may be no publication yet
        study = select(STUDIES.c.study_id).where(STUDIES.c.study_id == study_id).with_for_update()
        await transaction.connection.execute(study)
    statement = (
        select_records(PublicationRecord)
        .where(PUBLICATIONS.c.study_id == study_id)
        .order_by(PUBLICATIONS.c.sequence.desc())
        .limit(1)
    )
    return to_record(PublicationRecord, (await transaction.connection.execute(statement)).first())
