"""Calls about devices, API keys and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sfumato.analyst.client.calls import AsyncCalls
from sfumato.analyst.requests import path_of_device
from sfumato.shared.wire.objects.studies import (
    AuditBody,
    DeviceBody,
    DeviceDetailsBody,
    ExclusionBody,
    KeyBody,
    NewKeyBody,
)
from sfumato.shared.wire.references import choose_identity, require_beginning, require_identity

_KEY_DIGITS = 16


class AsyncOperation(AsyncCalls):
    """Calls about devices, API keys and the audit log."""

    def devices(self, study: str | None = None) -> AsyncIterator[DeviceBody]:
        """Yield the devices of a study, or all devices, with the time each was last seen."""
        if study is None:
            return self._pages(DeviceBody, "/v1/devices")
        return self._pages_of(DeviceBody, study, "devices")

    async def find_device(self, reference: str) -> str:
        """Return the id of a device, given all of it or its first 6 or more digits.

        Raises
        ------
        NotFoundError, ConfigError
            No device fits, or more than one; the error lists the candidates.
        """
        return await self._find(reference, "device")

    async def device(self, device_id: str) -> DeviceDetailsBody:
        """Return a device with its keys."""
        path = path_of_device(await self.find_device(device_id))
        return await self._read(DeviceDetailsBody, "GET", path)

    async def exclude_device(self, device_id: str, *, reason: str) -> ExclusionBody:
        """Subtract a device's sketches from every sum exactly, and refuse later ones."""
        path = path_of_device(await self.find_device(device_id))
        return await self._read(ExclusionBody, "POST", f"{path}/exclude", {"reason": reason})

    async def revoke_device(
        self, device_id: str, *, reason: str, key_id: str | None = None
    ) -> DeviceDetailsBody:
        """Revoke a device, or one key that it has replaced, at once and for good."""
        body = {"reason": reason}
        if key_id is not None:
            body["key_id"] = require_identity(key_id, "key_id")
        path = path_of_device(await self.find_device(device_id))
        return await self._read(DeviceDetailsBody, "POST", f"{path}/revoke", body)

    async def create_key(self, name: str, *, scope: str) -> NewKeyBody:
        """Create an API key; the field ``key`` cannot be read again."""
        return await self._read(NewKeyBody, "POST", "/v1/keys", {"name": name, "scope": scope})

    def keys(self) -> AsyncIterator[KeyBody]:
        """Yield the API keys, without their secrets."""
        return self._pages(KeyBody, "/v1/keys")

    async def revoke_key(self, key_id: str) -> KeyBody:
        """Revoke an API key, at once and for good."""
        found = require_beginning(key_id, "key_id", _KEY_DIGITS)
        if len(found) < _KEY_DIGITS:
            known = [(key.key_id, key.name) async for key in self.keys()]
            found = choose_identity(found, "key_id", known)
        return await self._read(KeyBody, "DELETE", f"/v1/keys/{found}")

    def audit(self) -> AsyncIterator[AuditBody]:
        """Yield the actions of operators, oldest first."""
        return self._pages(AuditBody, "/v1/audit")
