"""Alarms by webhook, for operators: their server sends requests to the addresses given here."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response

from sfumato.aggregator.api.dependencies import (
    OPERATOR,
    AlarmId,
    Operator,
    Page,
    ServicesDep,
    StudyId,
)
from sfumato.aggregator.api.responses import OF_STUDY, WITH_BODY, WITH_KEY, describe_problems
from sfumato.aggregator.services.alarms.webhooks import show_secret
from sfumato.shared.wire.objects.alarms import (
    AlarmBody,
    AlarmChange,
    AlarmRequest,
    DeliveryBody,
    NewAlarmBody,
)
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.studies import Paged

router = APIRouter(
    prefix="/v1",
    tags=["alarms"],
    dependencies=OPERATOR,
    responses=describe_problems(*WITH_KEY, *OF_STUDY),
)


@router.post("/studies/{study}/alarms", status_code=201, responses=describe_problems(*WITH_BODY))
async def create_alarm(
    study: StudyId,
    body: AlarmRequest,
    services: ServicesDep,
    operator: Operator,
    response: Response,
) -> NewAlarmBody:
    """Send the alarms of a study to a webhook; its secret is shown this once.

    Messages are JSON, signed as Standard Webhooks specifies, sent at least once and repeated for
    three days.
    """
    record = await services.alarms.create(
        bytes.fromhex(study), url=body.url, secret=body.secret, actor=operator.key_id
    )
    response.headers["Location"] = f"/v1/alarms/{record.alarm_id.hex()}"
    return make_body(NewAlarmBody, record, secret=show_secret(record.secret))


@router.get("/studies/{study}/alarms")
async def list_alarms(study: StudyId, services: ServicesDep, page: Page) -> Paged[AlarmBody]:
    """List the webhooks of a study, the oldest first."""
    found = await services.alarms.list_page(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )
    return page.make(
        found,
        show=partial(make_body, AlarmBody),
        key=lambda record: (record.created, record.alarm_id),
    )


@router.get("/alarms/{alarm}")
async def get_alarm(alarm: AlarmId, services: ServicesDep) -> AlarmBody:
    """Show a webhook, and why it was disabled if it was."""
    return make_body(AlarmBody, await services.alarms.get(bytes.fromhex(alarm)))


@router.patch("/alarms/{alarm}", responses=describe_problems(*WITH_BODY))
async def enable_alarm(
    alarm: AlarmId, body: AlarmChange, services: ServicesDep, operator: Operator
) -> AlarmBody:
    """Enable a webhook that was disabled; messages that were given up are not sent."""
    del body  # there is one state to ask for
    enabled = await services.alarms.enable(bytes.fromhex(alarm), actor=operator.key_id)
    return make_body(AlarmBody, enabled)


@router.delete("/alarms/{alarm}")
async def remove_alarm(alarm: AlarmId, services: ServicesDep, operator: Operator) -> AlarmBody:
    """Remove a webhook with its messages, sent or not."""
    removed = await services.alarms.remove(bytes.fromhex(alarm), actor=operator.key_id)
    return make_body(AlarmBody, removed)


@router.post("/alarms/{alarm}/test", status_code=202, responses=describe_problems("store-conflict"))
async def test_alarm(alarm: AlarmId, services: ServicesDep) -> DeliveryBody:
    """Send a test message; the list of messages shows what came of it."""
    return make_body(DeliveryBody, await services.alarms.test(bytes.fromhex(alarm)))


@router.get("/alarms/{alarm}/deliveries")
async def list_deliveries(alarm: AlarmId, services: ServicesDep, page: Page) -> Paged[DeliveryBody]:
    """List the messages to a webhook, the newest first; those of 90 days are kept."""
    found = await services.alarms.list_deliveries(
        bytes.fromhex(alarm), after=page.after, limit=page.n_wanted
    )
    return page.make(
        found,
        show=partial(make_body, DeliveryBody),
        key=lambda record: (record.created, record.delivery_id),
    )
