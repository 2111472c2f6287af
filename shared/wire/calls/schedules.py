"""Calls about schedules."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.alarms import ScheduleBody, ScheduleChange, ScheduleRequest


class Schedules:
    """Schedules of decodes and timelines.

    Attributes
    ----------
    create_schedule
        Start a decode or timeline again and again, first at once.

        Starts that are missed are made up by one. Alarms of a timeline, and a verdict that falls,
        are sent to the study's webhooks.
    list_schedules
        List the schedules of a study with their last results, the oldest first.
    get_schedule
        Show a schedule with its last result.
    change_schedule
        Pause a schedule, or let it go on.
    remove_schedule
        Remove a schedule; a job of it that is under way goes on.
    """

    create_schedule = Call(
        "analyst",
        "POST /v1/studies/{study}/schedules",
        ScheduleRequest,
        ScheduleBody,
        status=201,
        location="/v1/schedules/{schedule_id}",
        problems="decoding-invalid wrong-statistic",
    )
    list_schedules = Pages("viewer", "GET /v1/studies/{study}/schedules", ScheduleBody)
    get_schedule = Bare("viewer", "GET /v1/schedules/{schedule}", ScheduleBody)
    change_schedule = Call(
        "analyst", "PATCH /v1/schedules/{schedule}", ScheduleChange, ScheduleBody
    )
    remove_schedule = Bare("analyst", "DELETE /v1/schedules/{schedule}", ScheduleBody)
