"""Calls about schedules and alarms."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Literal

from sfumato.analyst.client.studies import AsyncStudies
from sfumato.analyst.requests import AsyncStream
from sfumato.shared.wire.objects.alarms import (
    AlarmBody,
    DeliveryBody,
    NewAlarmBody,
    ScheduleBody,
)
from sfumato.shared.wire.objects.analyses import Reference


class AsyncAlarms(AsyncStudies):
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
        publish: bool = False,
        slots_per_window: int = 1,
        false_alarms_per_year: float = 1.0,
        smallest_shift: float | None = None,
        reference: Reference = "last-change",
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
        publish
            Sign each new result for the study's devices, unless its verdict is not to use it. Of
            decodes.
        slots_per_window, false_alarms_per_year, smallest_shift, reference
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
            "publish": publish,
            "slots_per_window": slots_per_window,
            "false_alarms_per_year": false_alarms_per_year,
            "smallest_shift": smallest_shift,
            "reference": reference,
        }
        path = await self._path_of(study)
        return await self._read(ScheduleBody, "POST", f"{path}/schedules", body)

    def schedules(self, study: str) -> AsyncIterator[ScheduleBody]:
        """Yield the schedules of a study with their last results, oldest first."""
        return self._pages_of(ScheduleBody, study, "schedules")

    async def schedule(self, schedule_id: str) -> ScheduleBody:
        """Return a schedule with its last result."""
        return await self._read(ScheduleBody, "GET", await self._path_of_schedule(schedule_id))

    async def pause_schedule(self, schedule_id: str) -> ScheduleBody:
        """Pause a schedule."""
        path = await self._path_of_schedule(schedule_id)
        return await self._read(ScheduleBody, "PATCH", path, {"state": "paused"})

    async def resume_schedule(self, schedule_id: str) -> ScheduleBody:
        """Let a paused schedule go on; starts that it missed are made up by one."""
        path = await self._path_of_schedule(schedule_id)
        return await self._read(ScheduleBody, "PATCH", path, {"state": "active"})

    async def remove_schedule(self, schedule_id: str) -> ScheduleBody:
        """Remove a schedule; a job of it that is under way goes on."""
        return await self._read(ScheduleBody, "DELETE", await self._path_of_schedule(schedule_id))

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
        return await self._read(AlarmBody, "GET", await self._path_of_alarm(alarm_id))

    async def test_alarm(self, alarm_id: str) -> DeliveryBody:
        """Send a test message; :meth:`deliveries` shows what came of it."""
        return await self._read(DeliveryBody, "POST", f"{await self._path_of_alarm(alarm_id)}/test")

    async def enable_alarm(self, alarm_id: str) -> AlarmBody:
        """Enable a webhook that was disabled."""
        return await self._read(
            AlarmBody, "PATCH", await self._path_of_alarm(alarm_id), {"state": "active"}
        )

    async def remove_alarm(self, alarm_id: str) -> AlarmBody:
        """Remove a webhook with its messages, sent or not."""
        return await self._read(AlarmBody, "DELETE", await self._path_of_alarm(alarm_id))

    async def deliveries(self, alarm_id: str) -> AsyncStream[DeliveryBody]:
        """Yield the messages to a webhook, newest first."""
        path = await self._path_of_alarm(alarm_id)
        async with aclosing(self._pages(DeliveryBody, f"{path}/deliveries")) as items:
            async for item in items:
                yield item

    async def find_schedule(self, reference: str) -> str:
        """Return the id of a schedule, given all of it or its first 6 or more digits.

        Raises
        ------
        NotFoundError, ConfigError
            No schedule fits, or more than one; the error lists the candidates.
        """
        return await self._find(reference, "schedule")

    async def find_alarm(self, reference: str) -> str:
        """Return the id of a webhook; as :meth:`find_schedule`."""
        return await self._find(reference, "alarm")

    async def _path_of_schedule(self, reference: str) -> str:
        return "/v1/schedules/" + await self.find_schedule(reference)

    async def _path_of_alarm(self, reference: str) -> str:
        return "/v1/alarms/" + await self.find_alarm(reference)
