"""Decodes and leases in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggregator.ports import DecodeRecord, DecodeState
from aggregator.storage.memory.tables import Tables

_NO_LEASE: dict[str, Any] = {"lease_token": None, "lease_expires": None}


class DecodePart:
    """Decodes; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add_decode(self, record: DecodeRecord) -> bool:
        """Queue a decode."""
        return self._tables.decodes.add(record.decode_id, record)

    async def get_decode(self, decode_id: bytes) -> DecodeRecord | None:
        """Return a decode."""
        return self._tables.decodes.get(decode_id)

    async def requeue_decode(self, decode_id: bytes) -> bool:
        """Queue a decode anew."""
        decode = self._tables.decodes.get(decode_id)
        if decode is None or decode.state not in ("failed", "cancelled"):
            return False
        self._tables.decodes.change(
            decode_id,
            state="queued",
            progress=0.0,
            started=None,
            finished=None,
            result=None,
            problem=None,
            attempts=0,
            **_NO_LEASE,
        )
        return True

    async def cancel_decode(self, decode_id: bytes, *, now: float) -> bool:
        """Cancel a decode."""
        decode = self._tables.decodes.get(decode_id)
        if decode is None or decode.state not in ("queued", "running"):
            return False
        self._tables.decodes.change(decode_id, state="cancelled", finished=now, **_NO_LEASE)
        return True

    async def has_leasable_decode(self, *, now: float) -> bool:
        """Return whether a decode waits for a worker."""
        return any(_is_leasable(decode, now) for decode in self._tables.decodes.rows.values())

    async def lease_decode(
        self, *, token: bytes, now: float, expires: float, max_attempts: int
    ) -> DecodeRecord | None:
        """Take the oldest decode that waits."""
        waiting = [
            decode
            for decode in self._tables.decodes.rows.values()
            if _is_leasable(decode, now) and decode.attempts < max_attempts
        ]
        if not waiting:
            return None
        oldest = min(waiting, key=lambda decode: decode.created)
        self._tables.decodes.change(
            oldest.decode_id,
            state="running",
            started=now,
            progress=0.0,
            lease_token=token,
            lease_expires=expires,
            attempts=oldest.attempts + 1,
        )
        return self._tables.decodes.get(oldest.decode_id)

    async def renew_lease(
        self, decode_id: bytes, token: bytes, *, expires: float, progress: float
    ) -> bool:
        """Prolong a lease."""
        if self._held(decode_id, token) is None:
            return False
        self._tables.decodes.change(decode_id, lease_expires=expires, progress=progress)
        return True

    async def release_lease(self, decode_id: bytes, token: bytes) -> bool:
        """Give a decode back."""
        decode = self._held(decode_id, token)
        if decode is None:
            return False
        self._tables.decodes.change(
            decode_id,
            state="queued",
            started=None,
            progress=0.0,
            attempts=decode.attempts - 1,
            **_NO_LEASE,
        )
        return True

    async def finish_decode(
        self,
        decode_id: bytes,
        token: bytes,
        *,
        state: DecodeState,
        now: float,
        result: Mapping[str, Any] | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> bool:
        """Store how a decode ended."""
        decode = self._held(decode_id, token)
        if decode is None:
            return False
        self._tables.decodes.change(
            decode_id,
            state=state,
            finished=now,
            result=result,
            problem=problem,
            progress=1.0 if state == "succeeded" else decode.progress,
            **_NO_LEASE,
        )
        return True

    async def fail_exhausted(
        self, *, now: float, max_attempts: int, problem: Mapping[str, Any]
    ) -> int:
        """Fail decodes that have no attempt left."""
        exhausted = [
            decode.decode_id
            for decode in self._tables.decodes.rows.values()
            if _is_leasable(decode, now) and decode.attempts >= max_attempts
        ]
        for decode_id in exhausted:
            self._tables.decodes.change(
                decode_id, state="failed", finished=now, problem=problem, **_NO_LEASE
            )
        return len(exhausted)

    def _held(self, decode_id: bytes, token: bytes) -> DecodeRecord | None:
        decode = self._tables.decodes.get(decode_id)
        if decode is None or decode.state != "running" or decode.lease_token != token:
            return None
        return decode


def _is_leasable(decode: DecodeRecord, now: float) -> bool:
    if decode.state == "queued":
        return True
    return decode.state == "running" and (decode.lease_expires or 0.0) < now
