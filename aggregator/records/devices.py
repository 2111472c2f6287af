"""Devices: their keys, streams and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_RANGES = 100
"""The largest number of listed gaps of a stream; all are counted."""


@dataclass(frozen=True, kw_only=True)
class DeviceRecord:
    """An enrolled key.

    Parameters
    ----------
    last_seen
        The time of its last accepted request.
    public_key
        The present key; the identity comes from the key that it enrolled with.
    excluded, reason
        When an operator excluded it, and why.
    revoked
        When an operator revoked it: its sketches stay, and no more are accepted.
    heartbeat, heartbeat_at
        The latest heartbeat, and when it arrived by the server's clock.
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
        The number of sequence numbers below the last one without a stored sketch.
    missing
        The lowest ``MOST_RANGES`` gaps, as first and last number, in ascending order.
    """

    stream: str
    last_sequence: int
    last_slot: int | None
    n_missing: int = 0
    missing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class RetiredKeyRecord:
    """A retired key of a device, and the sketches that it still verifies.

    Parameters
    ----------
    key_id
        SHA-256 of the public key.
    successor
        The ``key_id`` of the key that replaced it.
    last_sequences
        The last sketch of each stream that it signed; it verifies no later one.
    revoked
        When an operator revoked it; it then verifies only stored sketches.
    """

    key_id: bytes
    device_id: bytes
    public_key: bytes
    retired: float
    successor: bytes
    last_sequences: Mapping[str, int] = field(default_factory=dict)
    revoked: float | None = None
