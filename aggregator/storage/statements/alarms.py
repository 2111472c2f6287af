"""Webhooks, and the messages to them: an outbox with leases, and a log."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update

from sfumato.aggregator.job_records import DeliveryRecord
from sfumato.aggregator.storage.statements.schedules import LONGEST_LEASE_S
from sfumato.aggregator.storage.tables import ALARMS, DELIVERIES
from sfumato.aggregator.storage.transaction import Transaction, select_records


async def remove_alarm(transaction: Transaction, alarm_id: bytes) -> bool:
    """Remove a webhook with its messages; false if there is none."""
    await transaction.run(delete(DELIVERIES).where(DELIVERIES.c.alarm_id == alarm_id))
    return await transaction.run(delete(ALARMS).where(ALARMS.c.alarm_id == alarm_id)) > 0


async def list_due_alarms(transaction: Transaction, *, now: float) -> Sequence[tuple[bytes, str]]:
    """Return identity and address of each webhook with due messages, the longest due first."""
    statement = (
        select(ALARMS.c.alarm_id, ALARMS.c.url)
        .join(DELIVERIES, DELIVERIES.c.alarm_id == ALARMS.c.alarm_id)
        .where(_due(now))
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
        .where(_due(now), DELIVERIES.c.alarm_id.in_(alarm_ids))
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


def _due(now: float) -> ColumnElement[bool]:
    is_free = or_(
        DELIVERIES.c.lease_expires.is_(None),
        DELIVERIES.c.lease_expires < now,
        DELIVERIES.c.lease_expires > now + LONGEST_LEASE_S,
    )
    return and_(DELIVERIES.c.state == "pending", DELIVERIES.c.next_at <= now, is_free)
