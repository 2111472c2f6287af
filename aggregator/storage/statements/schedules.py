"""Schedules, and the leases of servers on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, update

from sfumato.aggregator.job_records import ScheduleRecord
from sfumato.aggregator.storage.tables import SCHEDULES
from sfumato.aggregator.storage.transaction import Transaction, select_records

LONGEST_LEASE_S = 3600.0
"""A lease that ends later was taken by a clock that was wrong."""
_LEEWAY_S = 300.0


async def list_running_schedules(transaction: Transaction) -> Sequence[ScheduleRecord]:
    """Return the schedules with a job under way."""
    statement = select_records(ScheduleRecord).where(SCHEDULES.c.job_id.is_not(None))
    return await transaction.list_records(statement, ScheduleRecord)


async def has_due_schedule(transaction: Transaction, *, now: float) -> bool:
    """Return whether a schedule waits to be started."""
    return await transaction.exists(select(SCHEDULES.c.schedule_id).where(_due(now)))


async def lease_schedule(
    transaction: Transaction, *, token: bytes, now: float, expires: float
) -> ScheduleRecord | None:
    """Lease the schedule that is due for longest."""
    due = select(SCHEDULES.c.schedule_id).where(_due(now)).order_by(SCHEDULES.c.next_at)
    return await transaction.lease(ScheduleRecord, due, lease_token=token, lease_expires=expires)


async def finish_schedule(
    transaction: Transaction, schedule_id: bytes, job_id: bytes, **values: Any
) -> bool:
    """Note that the job under way has ended; false if another server did."""
    which = and_(SCHEDULES.c.schedule_id == schedule_id, SCHEDULES.c.job_id == job_id)
    done = values | {"job_id": None}
    return await transaction.run(update(SCHEDULES).where(which).values(done)) > 0


def _due(now: float) -> ColumnElement[bool]:
    # The next start is at most one period away, unless the clock was ahead when it was set.
    is_beyond = SCHEDULES.c.next_at > now + 2.0 * SCHEDULES.c.every_s + _LEEWAY_S
    is_free = or_(
        SCHEDULES.c.lease_expires.is_(None),
        SCHEDULES.c.lease_expires < now,
        SCHEDULES.c.lease_expires > now + LONGEST_LEASE_S,
    )
    is_idle = and_(SCHEDULES.c.state == "active", SCHEDULES.c.job_id.is_(None))
    return and_(is_idle, or_(SCHEDULES.c.next_at <= now, is_beyond), is_free)
