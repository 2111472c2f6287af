"""Published results, and the keys that sign them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from sfumato.aggregator.job_records import PublicationRecord, ResultKeyRecord
from sfumato.aggregator.records import PageKey
from sfumato.aggregator.storage.statements.rows import Rows, select_records, to_record
from sfumato.aggregator.storage.tables import PUBLICATIONS, RESULT_KEYS, STUDIES


class PublicationRows(Rows):
    """Statements on published results and result keys."""

    async def add_result_key(self, record: ResultKeyRecord) -> bool:
        """Store a result key; false if another has its number."""
        return await self._add(record)

    async def list_result_keys(self) -> Sequence[ResultKeyRecord]:
        """Return all result keys, the first one first."""
        statement = select_records(ResultKeyRecord).order_by(RESULT_KEYS.c.number)
        return await self._list(statement, ResultKeyRecord)

    async def add_publication(self, record: PublicationRecord) -> bool:
        """Store a published result; false if its number is taken."""
        return await self._add(record)

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

    async def list_publications(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[PublicationRecord]:
        """Return the published results of a study, the oldest first."""
        order = (PUBLICATIONS.c.sequence, PUBLICATIONS.c.decode_id)
        which = PUBLICATIONS.c.study_id == study_id
        return await self._list_page(PublicationRecord, order, which, after=after, limit=limit)
