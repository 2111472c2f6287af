"""Schedules of decodes and timelines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import Caller, Page, ScheduleId, ServicesDep, StudyId
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.alarms.record import ScheduleRecord
from sfumato.shared.structure import structure
from sfumato.shared.wire import Problem
from sfumato.shared.wire.calls.schedules import Schedules
from sfumato.shared.wire.objects.alarms import ScheduleBody, ScheduleChange, ScheduleRequest
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.studies import Paged

router = APIRouter(tags=["schedules"])

_MEMBERS = {
    "decode": ("n_clusters", "labels", "seed", "decoder", "settings", "publish"),
    "timeline": (
        *("n_clusters", "labels", "seed", "slots_per_window", "false_alarms_per_year"),
        *("smallest_shift", "reference"),
    ),
}


@serves(router, Schedules.create_schedule)
async def create_schedule(
    study: StudyId, body: ScheduleRequest, services: ServicesDep, key: Caller
) -> ScheduleBody:
    members = asdict(body)
    record = await services.schedules.create(
        study,
        kind=body.kind,
        request={name: members[name] for name in _MEMBERS[body.kind]},
        every_s=body.every_s,
        last_s=body.last_s,
        actor=key.key_id,
    )
    return _to_body(record)


@serves(router, Schedules.list_schedules)
async def list_schedules(study: StudyId, services: ServicesDep, page: Page) -> Paged[ScheduleBody]:
    found = await services.schedules.list_page(study, after=page.after, limit=page.n_wanted)
    return page.make(found, show=_to_body, key=lambda record: (record.created, record.schedule_id))


@serves(router, Schedules.get_schedule)
async def get_schedule(schedule: ScheduleId, services: ServicesDep) -> ScheduleBody:
    return _to_body(await services.schedules.get(schedule))


@serves(router, Schedules.change_schedule)
async def change_schedule(
    schedule: ScheduleId, body: ScheduleChange, services: ServicesDep, key: Caller
) -> ScheduleBody:
    changed = await services.schedules.change(schedule, state=body.state, actor=key.key_id)
    return _to_body(changed)


@serves(router, Schedules.remove_schedule)
async def remove_schedule(schedule: ScheduleId, services: ServicesDep, key: Caller) -> ScheduleBody:
    return _to_body(await services.schedules.remove(schedule, actor=key.key_id))


def _to_body(record: ScheduleRecord) -> ScheduleBody:
    shown: dict[str, Any] = {name: record.request[name] for name in ("n_clusters", "labels")}
    shown["publish"] = record.request.get("publish", False)
    problem = record.problem and structure(Problem, record.problem, strict=False)
    return make_body(ScheduleBody, record, problem=problem, **shown)
