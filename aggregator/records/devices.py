"""Devices as they are stored: their keys, streams and what they say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_RANGES = 100
"""Ranges of missing sequence numbers that are named in a stream; all are counted."""


@dataclass(frozen=True, kw_only=True)
class DeviceRecord:
    """An enrolled key.

    Parameters
    ----------
    last_seen
        The time of its last accepted request.
    public_key
        The one that it signs with now; its identity comes from the one that it enrolled with.
    excluded, reason
        When an operator excluded it, and why.
    revoked
        When an operator revoked its keys: what it sent before stays, and nothing more is taken.
    heartbeat, heartbeat_at
        What it last said of itself, and when by the server's clock.
    """

    device_id: bytes
    study_id: bytes
    public_key: bytes
    labels: Mapping[str, str]
    enrolled: float
    last_seen: float | None = None
    n_sketches: int = 0
    excluded: float | None = None
    reason: str | None = None
    revoked: float | None = None
    heartbeat: Mapping[str, Any] | None = None
    heartbeat_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class StreamRecord:
    """The progress of a stream of a device.

    Parameters
    ----------
    n_missing
        Sequence numbers below the last one under which no sketch is stored.
    missing
        Ranges of them, first and last, in ascending order: the lowest ``MOST_RANGES``.
    """

    stream: str
    last_sequence: int
    last_slot: int | None
    n_missing: int = 0
    missing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class RetiredKeyRecord:
    """A key that a device has replaced, and what it still verifies.

    Parameters
    ----------
    key_id
        SHA-256 of the public key.
    successor
        The ``key_id`` of the key that replaced it.
    last_sequences
        The last sketch of each stream that it signed; it verifies none after.
    revoked
        When an operator revoked it; from then on it verifies only what is stored already.
    """

    key_id: bytes
    device_id: bytes
    public_key: bytes
    retired: float
    successor: bytes
    last_sequences: Mapping[str, int] = field(default_factory=dict)
    revoked: float | None = None
