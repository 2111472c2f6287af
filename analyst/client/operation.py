"""Calls about devices, keys, schedules and alarms that do more than their request says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from sfumato.analyst.client.calls import AsyncCalls
from sfumato.shared.wire.calls.alarms import Alarms
from sfumato.shared.wire.calls.devices import Devices
from sfumato.shared.wire.calls.keys import Keys
from sfumato.shared.wire.calls.schedules import Schedules
from sfumato.shared.wire.objects.alarms import AlarmBody, ScheduleBody
from sfumato.shared.wire.objects.studies import DeviceBody, KeyBody, NewKeyBody
from sfumato.shared.wire.references import choose_identity, require_beginning

_KEY_DIGITS = 16


class AsyncOperation(AsyncCalls):
    """Calls about devices, keys, schedules and alarms that do more than their request says."""

    def devices(self, study: str | None = None) -> AsyncIterator[DeviceBody]:
        """Yield the devices of a study, or all devices, with the time each was last seen."""
        if study is None:
            return self._list(Devices.list_all_devices)
        return self._list(Devices.list_devices, study)

    async def create_key(
        self, name: str, *, scope: str, study: str | None = None, expires: datetime | None = None
    ) -> NewKeyBody:
        """Create an API key; the field ``key`` cannot be read again.

        Parameters
        ----------
        scope
            ``operator``, ``analyst``, ``viewer`` or ``enrol``.
        study
            The only study that it gives access to; None for all.
        expires
            From when it is refused, with a time zone; None for never.
        """
        body = {
            "name": name,
            "scope": scope,
            "study_id": None if study is None else await self._find(study, "study"),
            "expires": None if expires is None else expires.isoformat(),
        }
        return await self._call(Keys.create_key, body=body)

    async def revoke_key(self, key_id: str) -> KeyBody:
        """Revoke an API key, at once and for good."""
        found = require_beginning(key_id, "key_id", _KEY_DIGITS)
        if len(found) < _KEY_DIGITS:
            known = [(key.key_id, key.name) async for key in self.keys()]
            found = choose_identity(found, "key_id", known)
        return await self._call(Keys.revoke_key, found)

    async def pause_schedule(self, schedule_id: str) -> ScheduleBody:
        """Pause a schedule."""
        return await self._call(Schedules.change_schedule, schedule_id, body={"state": "paused"})

    async def resume_schedule(self, schedule_id: str) -> ScheduleBody:
        """Let a paused schedule go on; starts that it missed are made up by one."""
        return await self._call(Schedules.change_schedule, schedule_id, body={"state": "active"})

    async def enable_alarm(self, alarm_id: str) -> AlarmBody:
        """Enable a webhook that was disabled."""
        return await self._call(Alarms.enable_alarm, alarm_id, body={"state": "active"})
