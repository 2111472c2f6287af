"""Values that a device sends and receives through ``device_agent.server.transport``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.wire import DeviceAction


@dataclass(frozen=True, kw_only=True)
class PlanAnswer:
    """A study's plan as the server gives it: its bytes, and the digest and name it states."""

    plan_bytes: bytes
    plan_digest: str
    name: str


@dataclass(frozen=True, kw_only=True)
class DeviceAnswer:
    """The server's knowledge of this device.

    Parameters
    ----------
    device_id, study_id
        Hexadecimal.
    last_sequences
        The number of the last sketch of each stream.
    missing
        Ranges of numbers below the last that the server does not hold, first and last, ascending;
        the lowest of each stream that has any, so ask again when these were sent.
    unnamed
        The streams of which it lacks more than it names.
    server_time
        Seconds since 1970-01-01 UTC.
    generation
        Which life of its database answers.
    """

    device_id: str
    study_id: str
    last_sequences: Mapping[str, int]
    server_time: float
    generation: str
    missing: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()

    def holds(self, stream: str, sequence: int) -> bool | None:
        """Return whether the server holds a sketch; None where the answer does not say."""
        last, missing = self.last_sequences.get(stream, -1), self.missing.get(stream, ())
        if sequence >= last:
            return sequence == last
        if any(first <= sequence <= end for first, end in missing):
            return False
        is_named = stream not in self.unnamed or sequence < missing[-1][1]
        return True if is_named else None


@dataclass(frozen=True, kw_only=True)
class StudyAnswer:
    """A study's life cycle as the server states it; ``accept_until`` is RFC 3339 text."""

    state: str
    accept_until: str | None
    etag: str


@dataclass(frozen=True, kw_only=True)
class KeyOffer:
    """A device's next key.

    Parameters
    ----------
    public_key
        32 bytes.
    last_sequences
        The last sketch of each stream that the present key has signed.
    proof
        The next key's signature over ``encode_rotation_input``, 64 bytes.
    """

    public_key: bytes
    last_sequences: Mapping[str, int]
    proof: bytes


@dataclass(frozen=True, kw_only=True)
class UploadOutcome:
    """The result of one upload.

    Parameters
    ----------
    action
        None if the server has stored the sketch; else what to do with it.
    problem, detail
        The slug of the problem, and a sentence; empty if stored.
    retry_after_s
        Seconds that the server asked to wait.
    answered
        Whether there was an answer at all.
    """

    action: DeviceAction | None
    problem: str = ""
    detail: str = ""
    retry_after_s: float = 0.0
    answered: bool = True
