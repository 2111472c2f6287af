"""The outbox: a message is stored in the transaction that finds its event."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable

from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.alarms.record import AlarmRecord, DeliveryRecord
from sfumato.aggregator.resources.alarms.service.events import Event
from sfumato.shared.wire.objects.declaration import to_rfc3339

_ID_BYTES = 32


async def queue_events(
    transaction: Transaction, study_id: bytes, events: Iterable[Event], *, now: float
) -> int:
    """Queue a message of each event to each active webhook; return the number queued.

    An event that was queued before is not queued again.
    """
    events = list(events)
    if not events:
        return 0
    alarms = await transaction.list_all(AlarmRecord, study_id=study_id, state="active")
    n_queued = 0
    for alarm in alarms:
        for event in events:
            n_queued += await transaction.add(make_delivery(alarm, event, now=now))
    return n_queued


def make_delivery(alarm: AlarmRecord, event: Event, *, now: float) -> DeliveryRecord:
    """Return the message of an event to a webhook."""
    body = {"type": event.kind, "timestamp": to_rfc3339(now), "data": dict(event.data)}
    return DeliveryRecord(
        delivery_id=secrets.token_bytes(_ID_BYTES),
        alarm_id=alarm.alarm_id,
        study_id=alarm.study_id,
        event=event.name,
        kind=event.kind,
        body=json.dumps(body, separators=(",", ":")),
        created=now,
        next_at=now,
    )
