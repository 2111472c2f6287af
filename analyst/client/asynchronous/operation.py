"""Calls about devices, API keys and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator

from analyst.client.asynchronous.calls import AsyncCalls
from analyst.references import require_identity
from analyst.requests import path_of_device
from shared.wire.bodies.studies import (
    AuditBody,
    DeviceBody,
    DeviceDetailsBody,
    ExclusionBody,
    KeyBody,
    NewKeyBody,
)


class AsyncOperation(AsyncCalls):
    """Calls about devices, API keys and the audit log."""

    def devices(self, study: str | None = None) -> AsyncIterator[DeviceBody]:
        """Yield the devices of a study, or all devices, with the time each was last seen."""
        if study is None:
            return self._pages(DeviceBody, "/v1/devices")
        return self._pages_of(DeviceBody, study, "devices")

    async def device(self, device_id: str) -> DeviceDetailsBody:
        """Return a device with its keys."""
        return await self._read(DeviceDetailsBody, "GET", path_of_device(device_id))

    async def exclude_device(self, device_id: str, *, reason: str) -> ExclusionBody:
        """Subtract a device's sketches from every sum exactly, and refuse later ones."""
        path = f"{path_of_device(device_id)}/exclude"
        return await self._read(ExclusionBody, "POST", path, {"reason": reason})

    async def revoke_device(
        self, device_id: str, *, reason: str, key_id: str | None = None
    ) -> DeviceDetailsBody:
        """Revoke a device, or one key that it has replaced, at once and for good."""
        body = {"reason": reason}
        if key_id is not None:
            body["key_id"] = require_identity(key_id, "key_id")
        path = f"{path_of_device(device_id)}/revoke"
        return await self._read(DeviceDetailsBody, "POST", path, body)

    async def create_key(self, name: str, *, scope: str) -> NewKeyBody:
        """Create an API key; the field ``key`` cannot be read again."""
        return await self._read(NewKeyBody, "POST", "/v1/keys", {"name": name, "scope": scope})

    def keys(self) -> AsyncIterator[KeyBody]:
        """Yield the API keys, without their secrets."""
        return self._pages(KeyBody, "/v1/keys")

    async def revoke_key(self, key_id: str) -> KeyBody:
        """Revoke an API key, at once and for good."""
        path = f"/v1/keys/{require_identity(key_id, 'key_id', 16)}"
        return await self._read(KeyBody, "DELETE", path)

    def audit(self) -> AsyncIterator[AuditBody]:
        """Yield the actions of operators, oldest first."""
        return self._pages(AuditBody, "/v1/audit")
