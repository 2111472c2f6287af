"""Schedules, alarms and deliveries, and the leases of servers on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Index,
    Table,
    UniqueConstraint,
    and_,
    delete,
    func,
    or_,
    select,
    update,
)

from sfumato.aggregator.base.tables import derive_table
from sfumato.aggregator.base.transaction import Transaction, select_records
from sfumato.aggregator.resources.alarms.record import AlarmRecord, DeliveryRecord, ScheduleRecord

SCHEDULES = derive_table(
    "schedules",
    ScheduleRecord,
    Index(None, "state", "next_at"),
    Index(None, "study_id", "created", "schedule_id"),
    order=("created", "schedule_id"),
)
ALARMS = derive_table(
    "alarms",
    AlarmRecord,
    Index(None, "study_id", "created", "alarm_id"),
    order=("created", "alarm_id"),
)
DELIVERIES = derive_table(
    "deliveries",
    DeliveryRecord,
    UniqueConstraint("alarm_id", "event"),
    Index(None, "state", "next_at"),
    Index(None, "alarm_id", "created", "delivery_id"),
    order=("created", "delivery_id"),
    is_newest_first=True,
)

_LONGEST_LEASE_S = 3600.0
_LEEWAY_S = 300.0


async def list_running_schedules(transaction: Transaction) -> Sequence[ScheduleRecord]:
    """Return the schedules with a job under way."""
    statement = select_records(ScheduleRecord).where(SCHEDULES.c.job_id.is_not(None))
    return await transaction.list_records(statement, ScheduleRecord)


async def has_due_schedule(transaction: Transaction, *, now: float) -> bool:
    """Return whether a schedule waits to be started."""
    return await transaction.exists(select(SCHEDULES.c.schedule_id).where(_is_schedule_due(now)))


async def lease_schedule(
    transaction: Transaction, *, token: bytes, now: float, expires: float
) -> ScheduleRecord | None:
    """Lease the schedule that is due for longest."""
    due = select(SCHEDULES.c.schedule_id).where(_is_schedule_due(now)).order_by(SCHEDULES.c.next_at)
    return await transaction.lease(ScheduleRecord, due, lease_token=token, lease_expires=expires)


async def finish_schedule(
    transaction: Transaction, schedule_id: bytes, job_id: bytes, **values: Any
) -> bool:
    """Note that the job under way has ended; false if another server did."""
    which = and_(SCHEDULES.c.schedule_id == schedule_id, SCHEDULES.c.job_id == job_id)
    done = values | {"job_id": None}
    return await transaction.run(update(SCHEDULES).where(which).values(done)) > 0


def _is_schedule_due(now: float) -> ColumnElement[bool]:
    # The next start is at most one period away, unless the clock was ahead when it was set.
    is_beyond = SCHEDULES.c.next_at > now + 2.0 * SCHEDULES.c.every_s + _LEEWAY_S
    is_idle = and_(SCHEDULES.c.state == "active", SCHEDULES.c.job_id.is_(None))
    return and_(is_idle, or_(SCHEDULES.c.next_at <= now, is_beyond), _is_free(SCHEDULES, now))


async def remove_alarm(transaction: Transaction, alarm_id: bytes) -> bool:
    """Remove a webhook with its messages; false if there is none."""
    await transaction.run(delete(DELIVERIES).where(DELIVERIES.c.alarm_id == alarm_id))
    return await transaction.run(delete(ALARMS).where(ALARMS.c.alarm_id == alarm_id)) > 0


async def list_due_alarms(transaction: Transaction, *, now: float) -> Sequence[tuple[bytes, str]]:
    """Return identity and address of each webhook with due messages, the longest due first."""
    statement = (
        select(ALARMS.c.alarm_id, ALARMS.c.url)
        .join(DELIVERIES, DELIVERIES.c.alarm_id == ALARMS.c.alarm_id)
        .where(_is_delivery_due(now))
        .group_by(ALARMS.c.alarm_id, ALARMS.c.url)
        .order_by(func.min(DELIVERIES.c.next_at))
    )
    return [(row.alarm_id, row.url) for row in await transaction.connection.execute(statement)]


async def lease_deliveries(
    transaction: Transaction,
    alarm_ids: Sequence[bytes],
    *,
    token: bytes,
    now: float,
    expires: float,
    most: int,
) -> Sequence[DeliveryRecord]:
    """Lease the messages that are due for longest; of two servers one gets each."""
    oldest = (
        select(DELIVERIES.c.delivery_id)
        .where(_is_delivery_due(now), DELIVERIES.c.alarm_id.in_(alarm_ids))
        .order_by(DELIVERIES.c.next_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    # The attempt counts before it is made: a server that it kills does not repeat it for ever.
    taken = {
        "lease_token": token,
        "lease_expires": expires,
        "attempts": DELIVERIES.c.attempts + 1,
    }
    statement = update(DELIVERIES).where(DELIVERIES.c.delivery_id.in_(oldest)).values(taken)
    columns = select_records(DeliveryRecord).selected_columns
    found = await transaction.connection.execute(statement.returning(*columns))
    return [DeliveryRecord(**row._mapping) for row in found]


async def give_up_deliveries(
    transaction: Transaction, alarm_id: bytes, *, now: float, problem: str
) -> int:
    """Give up all waiting messages to a webhook; return the number."""
    which = and_(DELIVERIES.c.alarm_id == alarm_id, DELIVERIES.c.state == "pending")
    given_up = {"state": "failed", "ended": now, "problem": problem}
    return await transaction.run(update(DELIVERIES).where(which).values(given_up))


async def drop_deliveries(transaction: Transaction, *, ended_before: float) -> int:
    """Remove messages that ended long ago; return the number."""
    which = and_(DELIVERIES.c.state != "pending", DELIVERIES.c.ended < ended_before)
    return await transaction.run(delete(DELIVERIES).where(which))


def _is_delivery_due(now: float) -> ColumnElement[bool]:
    is_waiting = and_(DELIVERIES.c.state == "pending", DELIVERIES.c.next_at <= now)
    return and_(is_waiting, _is_free(DELIVERIES, now))


def _is_free(table: Table, now: float) -> ColumnElement[bool]:
    ends = table.c.lease_expires
    # A lease that ends later than that was taken by a clock that was wrong.
    return or_(ends.is_(None), ends < now, ends > now + _LONGEST_LEASE_S)
