"""Webhooks of a study: create, list, test, enable, remove, and their log."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.alarms.record import AlarmRecord, DeliveryRecord
from sfumato.aggregator.resources.alarms.service.events import Event
from sfumato.aggregator.resources.alarms.service.outbox import make_delivery
from sfumato.aggregator.resources.alarms.service.webhooks import (
    make_secret,
    read_secret,
    require_webhook,
)
from sfumato.aggregator.resources.alarms.store import remove_alarm
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.shared.errors import NotFoundError, StoreError
from sfumato.shared.hosts import HostList

_ID_BYTES = 32
_TEST_BYTES = 8


class AlarmService(Service):
    """Keeps webhooks; :class:`.delivering.Deliverer` sends to them."""

    async def create(
        self, study_id: bytes, *, url: str, secret: str | None, actor: str = LOCAL_ACTOR
    ) -> AlarmRecord:
        """Create a webhook; without a secret one is drawn.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        ConfigError
            The address or the secret is malformed, or the address's host is not permitted.
        """
        now = self._clock.now()
        record = AlarmRecord(
            alarm_id=secrets.token_bytes(_ID_BYTES),
            study_id=study_id,
            url=require_webhook(url, HostList(self._settings.webhook_hosts)),
            secret=make_secret() if secret is None else read_secret(secret),
            created=now,
        )
        async with self._store.begin(write=True) as transaction:
            await require_study(transaction, study_id)
            await transaction.add(record)
            target = record.alarm_id.hex()
            # Without the address, whose path may be a secret.
            about = {"study": study_id.hex()}
            await write_entry(transaction, now, actor, "alarm.create", target, **about)
        return record

    async def get(self, alarm_id: bytes) -> AlarmRecord:
        """Return a webhook.

        Raises
        ------
        NotFoundError
            There is none with this identity.
        """
        async with self._store.begin() as transaction:
            return await _require_alarm(transaction, alarm_id)

    async def list_page(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[AlarmRecord]:
        """Return the webhooks of a study, the oldest first."""
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return await transaction.list_page(
                AlarmRecord, study_id=study_id, after=after, limit=limit
            )

    async def list_deliveries(
        self, alarm_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[DeliveryRecord]:
        """Return the messages to a webhook, the newest first."""
        async with self._store.begin() as transaction:
            await _require_alarm(transaction, alarm_id)
            return await transaction.list_page(
                DeliveryRecord, alarm_id=alarm_id, after=after, limit=limit
            )

    async def test(self, alarm_id: bytes) -> DeliveryRecord:
        """Queue a message that says that it is a test.

        Raises
        ------
        StoreError
            The webhook is disabled.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            alarm = await _require_alarm(transaction, alarm_id)
            study = await require_study(transaction, alarm.study_id)
            if alarm.state == "disabled":
                raise StoreError(
                    f"is disabled: {alarm.problem}", field="alarm", fix="enable it first"
                )
            data = {
                "study_id": study.study_id.hex(),
                "study": study.name,
                "words": ["This is a test; nothing has happened."],
            }
            name = f"test:{secrets.token_hex(_TEST_BYTES)}"
            delivery = make_delivery(alarm, Event(name=name, kind="alarm.test", data=data), now=now)
            await transaction.add(delivery)
        return delivery

    async def enable(self, alarm_id: bytes, *, actor: str = LOCAL_ACTOR) -> AlarmRecord:
        """Enable a webhook that was disabled; messages that were given up are not sent."""
        async with self._store.begin(write=True) as transaction:
            alarm = await _require_alarm(transaction, alarm_id)
            if alarm.state == "disabled":
                await transaction.change(
                    AlarmRecord, alarm_id, state="active", n_failures=0, problem=None
                )
                now, target = self._clock.now(), alarm_id.hex()
                await write_entry(transaction, now, actor, "alarm.enable", target)
            return await _require_alarm(transaction, alarm_id)

    async def remove(self, alarm_id: bytes, *, actor: str = LOCAL_ACTOR) -> AlarmRecord:
        """Remove a webhook with its messages, sent or not."""
        async with self._store.begin(write=True) as transaction:
            alarm = await _require_alarm(transaction, alarm_id)
            await remove_alarm(transaction, alarm_id)
            about, target = {"study": alarm.study_id.hex()}, alarm_id.hex()
            now = self._clock.now()
            await write_entry(transaction, now, actor, "alarm.remove", target, **about)
        return alarm


async def _require_alarm(transaction: Transaction, alarm_id: bytes) -> AlarmRecord:
    found = await transaction.get(AlarmRecord, alarm_id)
    if found is None:
        raise NotFoundError("is unknown", field="alarm", fix="see `sfumato alarm list STUDY`")
    await require_study(transaction, found.study_id)
    return found
