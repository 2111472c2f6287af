"""Delivery of messages to webhooks: a background task of each server.

A message is sent at least once: if its server was killed before it noted the answer, it is sent
again under the same identity, by which a receiver tells. Pauses between attempts grow to a day;
after the last the message is given up, and after several of these in a row the webhook is disabled.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import Any

import structlog

from sfumato.aggregator.job_records import AlarmRecord, DeliveryRecord
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.records import LOCAL_ACTOR, wait_for_stop
from sfumato.aggregator.services.alarms.webhooks import Attempt, Sender
from sfumato.aggregator.services.audit import write_entry
from sfumato.aggregator.services.readiness import Readiness
from sfumato.aggregator.services.service import Parts, Service
from sfumato.aggregator.storage import Transaction
from sfumato.shared.errors import TransportError

PAUSES_S = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Pauses after the first attempt, the second, and so on, as Standard Webhooks advises."""
MOST_FAILURES = 3
"""Messages in a row that may be given up before the webhook is disabled."""
KEEP_S = 90 * 86_400.0
"""How long the log keeps a message that has ended."""
_PERIOD_S = 1.0
_LEASE_S = 60.0
_LONGEST_S = 30.0
_AT_ONCE = 8
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

    async def run(self, stop: asyncio.Event) -> None:
        """Send messages when they are due until ``stop``, while the database can be used."""
        async with Sender() as sender:
            while not stop.is_set():
                await wait_for_stop(stop, _PERIOD_S)
                if stop.is_set() or not self._readiness.is_open:
                    continue
                try:
                    await self.send_due(sender)
                    await self._drop_now_and_then()
                except TransportError as error:
                    log.warning("alarms wait for the database", reason=describe_cause(error))
                except Exception as error:
                    # Or the task would end, and with it all alarms.
                    log.error("unforeseen error", exc_info=error)

    async def send_due(self, sender: Sender) -> int:
        """Send the messages that are due, some at once; return the number of attempts.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        n_sent = 0
        while leased := await self._take():
            await asyncio.gather(*(self._send(sender, delivery) for delivery in leased))
            n_sent += len(leased)
        return n_sent

    async def _take(self) -> list[DeliveryRecord]:
        now = self._clock.now()
        async with self._store.begin() as transaction:
            # Servers look often: without the lock of a writer first.
            if not await transaction.has_due_delivery(now=now):
                return []
        token = secrets.token_bytes(_TOKEN_BYTES)
        async with self._store.begin(write=True) as transaction:
            leased = await transaction.lease_deliveries(
                token=token, now=now, expires=now + _LEASE_S, most=_AT_ONCE
            )
        return list(leased)

    async def _send(self, sender: Sender, delivery: DeliveryRecord) -> None:
        async with self._store.begin() as transaction:
            alarm = await transaction.get_alarm(delivery.alarm_id)
        if alarm is None:
            return  # removed meanwhile, and its messages with it
        if alarm.state == "active":
            try:
                async with asyncio.timeout(_LONGEST_S):
                    attempt = await sender.send(
                        alarm.url,
                        alarm.secret,
                        message_id=message_id_of(delivery),
                        body=delivery.body,
                        now=self._clock.now(),
                    )
            except TimeoutError:
                attempt = Attempt(problem=f"no answer within {_LONGEST_S:g} s")
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
            held = await transaction.settle_delivery(
                identity, delivery.lease_token or b"", **values
            )
            alarm = await transaction.get_alarm(delivery.alarm_id, lock=True)
            if not held or alarm is None or alarm.state == "disabled":
                return
            if attempt.problem is None:
                if alarm.n_failures:
                    await transaction.change_alarm(alarm.alarm_id, n_failures=0)
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
            await transaction.give_up_deliveries(
                alarm.alarm_id, now=now, problem="the webhook is disabled"
            )
            target, about = alarm.alarm_id.hex(), {"problem": problem}
            await write_entry(transaction, now, LOCAL_ACTOR, "alarm.disable", target, **about)
            log.error("webhook disabled", alarm=target, reason=problem)
        await transaction.change_alarm(alarm.alarm_id, **values)

    async def _drop_now_and_then(self) -> None:
        now = self._clock.now()
        if now >= self._next_drop:
            self._next_drop = now + _DROP_PERIOD_S
            async with self._store.begin(write=True) as transaction:
                await transaction.drop_deliveries(ended_before=now - KEEP_S)


def message_id_of(delivery: DeliveryRecord) -> str:
    """Return the header ``webhook-id``, which is the same at every attempt."""
    return f"msg_{delivery.delivery_id.hex()}"


def find_pause(n_attempts: int, retry_after_s: float) -> float:
    """Return the seconds to wait after some attempts; a receiver may ask for more.

    Jitter is added, because messages that failed together would be sent again together.
    """
    pause = PAUSES_S[min(n_attempts, len(PAUSES_S)) - 1]
    return max(pause, retry_after_s) * (1.0 + _JITTER * random.random())
