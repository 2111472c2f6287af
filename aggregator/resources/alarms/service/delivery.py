"""Delivery of messages to webhooks: a background task of each server.

Each target, a host and its port, has a queue: a slow or dead one delays only its own messages.
A message is sent at least once: if its server was killed before it noted the answer, it is sent
again under the same identity, by which a receiver tells. Pauses between attempts grow to a day;
after the last the message is given up, and after several of these in a row the webhook is disabled.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from typing import Any

import structlog

from sfumato.aggregator.base.clock import wait_for_stop
from sfumato.aggregator.base.readiness import Readiness
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.alarms.record import AlarmRecord, DeliveryRecord
from sfumato.aggregator.resources.alarms.service.targets import AT_ONCE, MOST_TARGETS, find_target
from sfumato.aggregator.resources.alarms.service.webhooks import Attempt, Sender
from sfumato.aggregator.resources.alarms.store import (
    drop_deliveries,
    give_up_deliveries,
    lease_deliveries,
    list_due_alarms,
)
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.shared.errors import TransportError
from sfumato.shared.hosts import HostList

PAUSES_S = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Pauses after the first attempt, the second, and so on, as Standard Webhooks advises."""
MOST_FAILURES = 3
"""Messages in a row that may be given up before the webhook is disabled."""
KEEP_S = 90 * 86_400.0
"""How long the log keeps a message that has ended."""
_PERIOD_S = 1.0
_LEASE_S = 60.0
_DROP_PERIOD_S = 3600.0
_JITTER = 0.1
_TOKEN_BYTES = 16

log = structlog.get_logger("aggregator.alarms")


class Deliverer(Service):
    """Sends the messages of the outbox."""

    def __init__(self, parts: Parts, readiness: Readiness) -> None:
        super().__init__(parts)
        self._readiness = readiness
        self._next_drop = 0.0
        self._busy: dict[tuple[str, int], asyncio.Task[int]] = {}
        self._is_crowded = False

    async def run(self, stop: asyncio.Event) -> None:
        """Send messages when they are due until ``stop``, while the database can be used."""
        async with Sender(HostList(self._settings.webhook_hosts)) as sender:
            while not stop.is_set():
                await wait_for_stop(stop, _PERIOD_S)
                if stop.is_set() or not self._readiness.is_open:
                    continue
                try:
                    await self._start_due(sender, stop)
                    await self._drop_now_and_then()
                except TransportError as error:
                    log.warning("alarms wait for the database", reason=describe_cause(error))
                except Exception as error:
                    # Or the task would end, and with it all alarms.
                    log.error("unforeseen error", exc_info=error)
            await asyncio.gather(*self._busy.values())

    async def send_due(self, sender: Sender) -> int:
        """Send the messages that are due; return the number of attempts.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        n_sent, never = 0, asyncio.Event()
        while started := await self._start_due(sender, never):
            n_sent += sum(await asyncio.gather(*started))
        return n_sent

    async def _start_due(self, sender: Sender, stop: asyncio.Event) -> list[asyncio.Task[int]]:
        """Start sending to the targets with due messages, those that wait longest first."""
        async with self._store.begin() as transaction:
            due = await list_due_alarms(transaction, now=self._clock.now())
        alarms: dict[tuple[str, int], list[bytes]] = {}
        for alarm_id, url in due:
            alarms.setdefault(find_target(url), []).append(alarm_id)
        waiting = [target for target in alarms if target not in self._busy]
        n_free = MOST_TARGETS - len(self._busy)
        self._is_crowded = len(waiting) > n_free
        for target in waiting[:n_free]:
            queue = self._send_to(target, alarms[target], sender, stop)
            self._busy[target] = asyncio.create_task(queue)
        return [self._busy[target] for target in waiting[:n_free]]

    async def _send_to(
        self,
        target: tuple[str, int],
        alarm_ids: Sequence[bytes],
        sender: Sender,
        stop: asyncio.Event,
    ) -> int:
        """Send what is due to one target; return the number of attempts."""
        n_sent = 0
        try:
            while leased := await self._take(alarm_ids):
                await asyncio.gather(*(self._send(sender, delivery) for delivery in leased))
                n_sent += len(leased)
                if stop.is_set() or self._is_crowded:
                    break  # others have waited longer
        except TransportError as error:
            log.warning("alarms wait for the database", reason=describe_cause(error))
        except Exception as error:
            log.error("unforeseen error", exc_info=error)
        finally:
            del self._busy[target]
        return n_sent

    async def _take(self, alarm_ids: Sequence[bytes]) -> Sequence[DeliveryRecord]:
        now, token = self._clock.now(), secrets.token_bytes(_TOKEN_BYTES)
        async with self._store.begin(write=True) as transaction:
            return await lease_deliveries(
                transaction, alarm_ids, token=token, now=now, expires=now + _LEASE_S, most=AT_ONCE
            )

    async def _send(self, sender: Sender, delivery: DeliveryRecord) -> None:
        async with self._store.begin() as transaction:
            alarm = await transaction.get(AlarmRecord, delivery.alarm_id)
        if alarm is None:
            return  # removed meanwhile, and its messages with it
        if alarm.state == "active":
            attempt = await sender.send(
                alarm.url,
                alarm.secret,
                message_id=message_id_of(delivery),
                body=delivery.body,
                now=self._clock.now(),
            )
        else:
            attempt = Attempt(problem="the webhook is disabled")
        await self._note(delivery, attempt, was_active=alarm.state == "active")

    async def _note(self, delivery: DeliveryRecord, attempt: Attempt, *, was_active: bool) -> None:
        now, identity = self._clock.now(), delivery.delivery_id
        values: dict[str, Any] = {"status": attempt.status, "problem": attempt.problem}
        is_last = attempt.is_gone or not was_active or delivery.attempts > len(PAUSES_S)
        if attempt.problem is None:
            values |= {"state": "delivered", "ended": now}
        elif is_last:
            values |= {"state": "failed", "ended": now}
        else:
            values |= {"next_at": now + find_pause(delivery.attempts, attempt.retry_after_s)}
        async with self._store.begin(write=True) as transaction:
            held = await transaction.settle(
                DeliveryRecord, identity, delivery.lease_token or b"", **values
            )
            alarm = await transaction.get(AlarmRecord, delivery.alarm_id, lock=True)
            if not held or alarm is None or alarm.state == "disabled":
                return
            if attempt.problem is None:
                if alarm.n_failures:
                    await transaction.change(AlarmRecord, alarm.alarm_id, n_failures=0)
            elif is_last:
                await self._note_failure(transaction, alarm, attempt, now=now)

    async def _note_failure(
        self, transaction: Transaction, alarm: AlarmRecord, attempt: Attempt, *, now: float
    ) -> None:
        n_failures = alarm.n_failures + 1
        values: dict[str, Any] = {"n_failures": n_failures}
        if attempt.is_gone or n_failures >= MOST_FAILURES:
            problem = (
                "the receiver wants no more messages (status 410)"
                if attempt.is_gone
                else f"{n_failures} messages in a row could not be delivered; the last: "
                f"{attempt.problem}"
            )
            values |= {"state": "disabled", "problem": problem}
            await give_up_deliveries(
                transaction, alarm.alarm_id, now=now, problem="the webhook is disabled"
            )
            target, about = alarm.alarm_id.hex(), {"problem": problem}
            await write_entry(transaction, now, LOCAL_ACTOR, "alarm.disable", target, **about)
            log.error("webhook disabled", alarm=target, reason=problem)
        await transaction.change(AlarmRecord, alarm.alarm_id, **values)

    async def _drop_now_and_then(self) -> None:
        now = self._clock.now()
        if now >= self._next_drop:
            self._next_drop = now + _DROP_PERIOD_S
            async with self._store.begin(write=True) as transaction:
                await drop_deliveries(transaction, ended_before=now - KEEP_S)


def message_id_of(delivery: DeliveryRecord) -> str:
    """Return the header ``webhook-id``, which is the same at every attempt."""
    return f"msg_{delivery.delivery_id.hex()}"


def find_pause(n_attempts: int, retry_after_s: float) -> float:
    """Return the seconds to wait after some attempts; a receiver may ask for more.

    Jitter is added, because messages that failed together would be sent again together.
    """
    pause = PAUSES_S[min(n_attempts, len(PAUSES_S)) - 1]
    return max(pause, retry_after_s) * (1.0 + _JITTER * random.random())
