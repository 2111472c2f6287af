"""Look up ids by their first digits, and studies by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import select

from sfumato.aggregator.records import StudyRecord
from sfumato.aggregator.storage.tables import (
    ALARMS,
    ANALYSES,
    BATCHES,
    DECODES,
    DEVICES,
    SCHEDULES,
    SNAPSHOTS,
    STUDIES,
    TOKENS,
)
from sfumato.aggregator.storage.transaction import Transaction, select_records

Identified = Literal[
    "study", "device", "batch", "snapshot", "decode", "analysis", "schedule", "alarm", "token"
]
"""Kinds of what people refer to by first digits."""
_COLUMNS: dict[Identified, Any] = {
    "study": STUDIES.c.study_id,
    "device": DEVICES.c.device_id,
    "batch": BATCHES.c.batch_id,
    "snapshot": SNAPSHOTS.c.snapshot_id,
    "decode": DECODES.c.decode_id,
    "analysis": ANALYSES.c.analysis_id,
    "schedule": SCHEDULES.c.schedule_id,
    "alarm": ALARMS.c.alarm_id,
    "token": TOKENS.c.token_hash,
}
_DIGITS = 64


async def find_identities(
    transaction: Transaction, kind: Identified, digits: str, *, limit: int
) -> Sequence[bytes]:
    """Return ids that begin with some hexadecimal digits, in order."""
    column = _COLUMNS[kind]
    first, last = (bytes.fromhex(digits.ljust(_DIGITS, fill)) for fill in "0f")
    statement = select(column).where(column.between(first, last)).order_by(column).limit(limit)
    return list((await transaction.connection.execute(statement)).scalars())


async def find_studies(transaction: Transaction, name: str, *, limit: int) -> Sequence[StudyRecord]:
    """Return the studies of a name that are not withdrawn, the oldest first."""
    statement = (
        select_records(StudyRecord)
        .where(STUDIES.c.name == name, STUDIES.c.state != "withdrawn")
        .order_by(STUDIES.c.created, STUDIES.c.study_id)
        .limit(limit)
    )
    return await transaction.list_records(statement, StudyRecord)
