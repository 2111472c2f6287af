"""Schedules of decodes and timelines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response

from sfumato.aggregator.api.dependencies import (
    ANALYST,
    Analyst,
    Page,
    ScheduleId,
    ServicesDep,
    StudyId,
)
from sfumato.aggregator.api.responses import OF_STUDY, WITH_BODY, WITH_KEY, describe_problems
from sfumato.aggregator.job_records import ScheduleRecord
from sfumato.shared.structure import structure
from sfumato.shared.wire import Problem
from sfumato.shared.wire.objects.alarms import ScheduleBody, ScheduleChange, ScheduleRequest
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.studies import Paged

router = APIRouter(
    prefix="/v1",
    tags=["schedules"],
    dependencies=ANALYST,
    responses=describe_problems(*WITH_KEY, *OF_STUDY),
)

_MEMBERS = {
    "decode": ("n_clusters", "labels", "seed", "decoder", "settings", "publish"),
    "timeline": (
        *("n_clusters", "labels", "seed", "slots_per_window", "false_alarms_per_year"),
        *("smallest_shift", "reference"),
    ),
}


@router.post(
    "/studies/{study}/schedules",
    status_code=201,
    responses=describe_problems(*WITH_BODY, "decoding-invalid", "wrong-statistic"),
)
async def create_schedule(
    study: StudyId, body: ScheduleRequest, services: ServicesDep, key: Analyst, response: Response
) -> ScheduleBody:
    """Start a decode or timeline again and again, first at once.

    Starts that are missed are made up by one. Alarms of a timeline, and a verdict that falls, are
    sent to the study's webhooks.
    """
    members = asdict(body)
    record = await services.schedules.create(
        bytes.fromhex(study),
        kind=body.kind,
        request={name: members[name] for name in _MEMBERS[body.kind]},
        every_s=body.every_s,
        last_s=body.last_s,
        actor=key.key_id,
    )
    response.headers["Location"] = f"/v1/schedules/{record.schedule_id.hex()}"
    return _to_body(record)


@router.get("/studies/{study}/schedules")
async def list_schedules(study: StudyId, services: ServicesDep, page: Page) -> Paged[ScheduleBody]:
    """List the schedules of a study with their last results, the oldest first."""
    found = await services.schedules.list_page(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )
    return page.make(found, show=_to_body, key=lambda record: (record.created, record.schedule_id))


@router.get("/schedules/{schedule}")
async def get_schedule(schedule: ScheduleId, services: ServicesDep) -> ScheduleBody:
    """Show a schedule with its last result."""
    return _to_body(await services.schedules.get(bytes.fromhex(schedule)))


@router.patch("/schedules/{schedule}", responses=describe_problems(*WITH_BODY))
async def change_schedule(
    schedule: ScheduleId, body: ScheduleChange, services: ServicesDep, key: Analyst
) -> ScheduleBody:
    """Pause a schedule, or let it go on."""
    changed = await services.schedules.change(
        bytes.fromhex(schedule), state=body.state, actor=key.key_id
    )
    return _to_body(changed)


@router.delete("/schedules/{schedule}")
async def remove_schedule(
    schedule: ScheduleId, services: ServicesDep, key: Analyst
) -> ScheduleBody:
    """Remove a schedule; a job of it that is under way goes on."""
    return _to_body(await services.schedules.remove(bytes.fromhex(schedule), actor=key.key_id))


def _to_body(record: ScheduleRecord) -> ScheduleBody:
    shown: dict[str, Any] = {name: record.request[name] for name in ("n_clusters", "labels")}
    shown["publish"] = record.request.get("publish", False)
    problem = record.problem and structure(Problem, record.problem, strict=False)
    return make_body(ScheduleBody, record, problem=problem, **shown)
