"""Look up ids by their first digits, and studies by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import select

from sfumato.aggregator.records import StudyRecord
from sfumato.aggregator.storage.models import (
    Alarm,
    Analysis,
    Batch,
    Decode,
    Device,
    Schedule,
    Snapshot,
    Study,
    Token,
)
from sfumato.aggregator.storage.statements.rows import Rows, select_records

Identified = Literal[
    "study", "device", "batch", "snapshot", "decode", "analysis", "schedule", "alarm", "token"
]
"""Kinds of what people refer to by first digits."""
_COLUMNS: dict[Identified, Any] = {
    "study": Study.study_id,
    "device": Device.device_id,
    "batch": Batch.batch_id,
    "snapshot": Snapshot.snapshot_id,
    "decode": Decode.decode_id,
    "analysis": Analysis.analysis_id,
    "schedule": Schedule.schedule_id,
    "alarm": Alarm.alarm_id,
    "token": Token.token_hash,
}
_DIGITS = 64


class ReferenceRows(Rows):
    """Statements on ids."""

    async def find_identities(
        self, kind: Identified, digits: str, *, limit: int
    ) -> Sequence[bytes]:
        """Return ids that begin with some hexadecimal digits, in order."""
        column = _COLUMNS[kind]
        first, last = (bytes.fromhex(digits.ljust(_DIGITS, fill)) for fill in "0f")
        statement = select(column).where(column.between(first, last)).order_by(column).limit(limit)
        return list((await self._connection.execute(statement)).scalars())

    async def find_studies(self, name: str, *, limit: int) -> Sequence[StudyRecord]:
        """Return the studies of a name that are not withdrawn, the oldest first."""
        statement = (
            select_records(Study, StudyRecord)
            .where(Study.name == name, Study.state != "withdrawn")
            .order_by(Study.created, Study.study_id)
            .limit(limit)
        )
        return await self._list(statement, StudyRecord)
