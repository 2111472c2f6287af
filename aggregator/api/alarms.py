"""Alarms by webhook, for operators: their server sends requests to the addresses given here."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import AlarmId, Caller, Page, ServicesDep, StudyId
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.alarms.service.webhooks import show_secret
from sfumato.shared.wire.calls.alarms import Alarms
from sfumato.shared.wire.objects.alarms import (
    AlarmBody,
    AlarmChange,
    AlarmRequest,
    DeliveryBody,
    NewAlarmBody,
)
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.studies import Paged

router = APIRouter(tags=["alarms"])


@serves(router, Alarms.create_alarm)
async def create_alarm(
    study: StudyId, body: AlarmRequest, services: ServicesDep, operator: Caller
) -> NewAlarmBody:
    record = await services.alarms.create(
        study, url=body.url, secret=body.secret, actor=operator.key_id
    )
    return make_body(NewAlarmBody, record, secret=show_secret(record.secret))


@serves(router, Alarms.list_alarms)
async def list_alarms(study: StudyId, services: ServicesDep, page: Page) -> Paged[AlarmBody]:
    found = await services.alarms.list_page(study, after=page.after, limit=page.n_wanted)
    return page.make(
        found,
        show=partial(make_body, AlarmBody),
        key=lambda record: (record.created, record.alarm_id),
    )


@serves(router, Alarms.get_alarm)
async def get_alarm(alarm: AlarmId, services: ServicesDep) -> AlarmBody:
    return make_body(AlarmBody, await services.alarms.get(alarm))


@serves(router, Alarms.enable_alarm)
async def enable_alarm(
    alarm: AlarmId, body: AlarmChange, services: ServicesDep, operator: Caller
) -> AlarmBody:
    del body  # there is one state to ask for
    enabled = await services.alarms.enable(alarm, actor=operator.key_id)
    return make_body(AlarmBody, enabled)


@serves(router, Alarms.remove_alarm)
async def remove_alarm(alarm: AlarmId, services: ServicesDep, operator: Caller) -> AlarmBody:
    removed = await services.alarms.remove(alarm, actor=operator.key_id)
    return make_body(AlarmBody, removed)


@serves(router, Alarms.test_alarm)
async def test_alarm(alarm: AlarmId, services: ServicesDep) -> DeliveryBody:
    return make_body(DeliveryBody, await services.alarms.test(alarm))


@serves(router, Alarms.list_deliveries)
async def list_deliveries(alarm: AlarmId, services: ServicesDep, page: Page) -> Paged[DeliveryBody]:
    found = await services.alarms.list_deliveries(alarm, after=page.after, limit=page.n_wanted)
    return page.make(
        found,
        show=partial(make_body, DeliveryBody),
        key=lambda record: (record.created, record.delivery_id),
    )
