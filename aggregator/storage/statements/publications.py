"""Published results, and the keys that sign them."""

from __future__ import annotations

from sqlalchemy import select

from sfumato.aggregator.job_records import PublicationRecord
from sfumato.aggregator.storage.statements.rows import Rows, select_records, to_record
from sfumato.aggregator.storage.tables import PUBLICATIONS, STUDIES


class PublicationRows(Rows):
    """Statements on published results and result keys."""

    async def find_last_publication(
        self, study_id: bytes, *, lock: bool = False
    ) -> PublicationRecord | None:
        """Return the latest published result of a study; ``lock`` keeps others from adding one."""
        if lock:  # the study's row, for there may be no publication yet
            study = (
                select(STUDIES.c.study_id).where(STUDIES.c.study_id == study_id).with_for_update()
            )
            await self._connection.execute(study)
        statement = (
            select_records(PublicationRecord)
            .where(PUBLICATIONS.c.study_id == study_id)
            .order_by(PUBLICATIONS.c.sequence.desc())
            .limit(1)
        )
        return to_record(PublicationRecord, (await self._connection.execute(statement)).first())
