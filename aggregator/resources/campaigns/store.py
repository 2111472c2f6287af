"""Phases of campaigns, and the devices that have not finished one."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Index, exists, func, select

from sfumato.aggregator.base.tables import derive_table
from sfumato.aggregator.base.transaction import Transaction, select_records
from sfumato.aggregator.resources.campaigns.record import PhaseRecord
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.store.tables import SKETCHES
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.plan import Campaign

PHASES = derive_table(
    "phases",
    PhaseRecord,
    Index(None, "first", "number"),
    Index(None, "next_at"),
    order=("number", "study_id"),
)


async def list_due(transaction: Transaction, *, now: float) -> Sequence[PhaseRecord]:
    """Return the phases that are to be looked at."""
    statement = select_records(PhaseRecord).where(
        PHASES.c.next_at <= now,
        PHASES.c.is_automatic | PHASES.c.is_asked,
        PHASES.c.ended.is_(None),
    )
    return await transaction.list_records(statement.order_by(PHASES.c.next_at), PhaseRecord)


async def find_sketch_study(
    transaction: Transaction, study_id: bytes, terms: Campaign
) -> StudyRecord | None:
    """Return the study of the sketches of a study's campaign, once it is published."""
    phase = await transaction.get(PhaseRecord, study_id)
    if phase is None:
        return None
    number = [each.statistic for each in terms.phases].index("fourier")
    phases = await transaction.list_all(PhaseRecord, first=phase.first, number=number)
    return await transaction.get(StudyRecord, phases[0].study_id) if phases else None


async def count_finished(
    transaction: Transaction, study_id: bytes, *, last_slot: int
) -> tuple[int, int]:
    """Count the devices with a sketch of the last slot, and those that may still send one."""
    has_sent = exists().where(
        SKETCHES.c.device_id == DEVICES.c.device_id, SKETCHES.c.last_slot >= last_slot
    )
    taken = DEVICES.c.revoked.is_(None) & DEVICES.c.excluded.is_(None)
    counts = []
    for which in (has_sent, taken & ~has_sent):
        statement = select(func.count()).select_from(DEVICES)
        counts.append(
            int(await transaction.scalar(statement.where(DEVICES.c.study_id == study_id, which)))
        )
    return counts[0], counts[1]
