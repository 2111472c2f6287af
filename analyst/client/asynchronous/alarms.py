"""Calls about schedules and alarms."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from analyst.client.asynchronous.calls import AsyncCalls
from analyst.references import require_identity
from shared.wire.bodies.alarms import (
    AlarmBody,
    DeliveryBody,
    NewAlarmBody,
    ScheduleBody,
)


class AsyncAlarms(AsyncCalls):
    """Calls about schedules and alarms."""

    async def create_schedule(
        self,
        study: str,
        *,
        n_clusters: int,
        every_s: float,
        kind: Literal["decode", "timeline"] = "decode",
        last_s: float | None = None,
        labels: Mapping[str, str] | None = None,
        seed: int = 0,
        decoder: str | None = None,
        settings: Mapping[str, Any] | None = None,
        slots_per_window: int = 1,
        false_alarms_per_year: float = 1.0,
    ) -> ScheduleBody:
        """Start a decode or timeline again and again, first at once.

        Parameters
        ----------
        every_s
            Seconds from one start to the next.
        last_s
            Only records of so many seconds before the start count; None for all.
        labels
            Only devices with these labels.
        decoder, settings
            Of decodes.
        slots_per_window, false_alarms_per_year
            Of timelines.
        """
        body = {
            "kind": kind,
            "n_clusters": n_clusters,
            "every_s": every_s,
            "last_s": last_s,
            "labels": dict(labels or {}),
            "seed": seed,
            "decoder": decoder,
            "settings": dict(settings or {}),
            "slots_per_window": slots_per_window,
            "false_alarms_per_year": false_alarms_per_year,
        }
        path = await self._path_of(study)
        return await self._read(ScheduleBody, "POST", f"{path}/schedules", body)

    def schedules(self, study: str) -> AsyncIterator[ScheduleBody]:
        """Yield the schedules of a study with their last results, oldest first."""
        return self._pages_of(ScheduleBody, study, "schedules")

    async def schedule(self, schedule_id: str) -> ScheduleBody:
        """Return a schedule with its last result."""
        return await self._read(ScheduleBody, "GET", _path_of_schedule(schedule_id))

    async def pause_schedule(self, schedule_id: str) -> ScheduleBody:
        """Pause a schedule."""
        path = _path_of_schedule(schedule_id)
        return await self._read(ScheduleBody, "PATCH", path, {"state": "paused"})

    async def resume_schedule(self, schedule_id: str) -> ScheduleBody:
        """Let a paused schedule go on; starts that it missed are made up by one."""
        path = _path_of_schedule(schedule_id)
        return await self._read(ScheduleBody, "PATCH", path, {"state": "active"})

    async def remove_schedule(self, schedule_id: str) -> ScheduleBody:
        """Remove a schedule; a job of it that is under way goes on."""
        return await self._read(ScheduleBody, "DELETE", _path_of_schedule(schedule_id))

    async def create_alarm(
        self, study: str, *, url: str, secret: str | None = None
    ) -> NewAlarmBody:
        """Send the alarms of a study to a webhook; the field ``secret`` cannot be read again.

        Parameters
        ----------
        url
            An address with https, or with http on the server's own machine.
        secret
            The key of the signatures, ``whsec_`` and base64 of 24 to 64 bytes; None to draw one.
        """
        path = await self._path_of(study)
        body = {"url": url, "secret": secret}
        return await self._read(NewAlarmBody, "POST", f"{path}/alarms", body)

    def alarms(self, study: str) -> AsyncIterator[AlarmBody]:
        """Yield the webhooks of a study, oldest first."""
        return self._pages_of(AlarmBody, study, "alarms")

    async def alarm(self, alarm_id: str) -> AlarmBody:
        """Return a webhook, with the reason if it was disabled."""
        return await self._read(AlarmBody, "GET", _path_of_alarm(alarm_id))

    async def test_alarm(self, alarm_id: str) -> DeliveryBody:
        """Send a test message; :meth:`deliveries` shows what came of it."""
        return await self._read(DeliveryBody, "POST", f"{_path_of_alarm(alarm_id)}/test")

    async def enable_alarm(self, alarm_id: str) -> AlarmBody:
        """Enable a webhook that was disabled."""
        return await self._read(AlarmBody, "PATCH", _path_of_alarm(alarm_id), {"state": "active"})

    async def remove_alarm(self, alarm_id: str) -> AlarmBody:
        """Remove a webhook with its messages, sent or not."""
        return await self._read(AlarmBody, "DELETE", _path_of_alarm(alarm_id))

    def deliveries(self, alarm_id: str) -> AsyncIterator[DeliveryBody]:
        """Yield the messages to a webhook, newest first."""
        return self._pages(DeliveryBody, f"{_path_of_alarm(alarm_id)}/deliveries")


def _path_of_schedule(schedule_id: str) -> str:
    return f"/v1/schedules/{require_identity(schedule_id, 'schedule')}"


def _path_of_alarm(alarm_id: str) -> str:
    return f"/v1/alarms/{require_identity(alarm_id, 'alarm')}"
