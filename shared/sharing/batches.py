"""Batches: reports of one slot, label set and part, whose total is opened once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sfumato.shared.arrays import Integers
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.sharing.ring import Ring, Words

_BATCH_DOMAIN = b"sfumato/v1/sum/batch"
_MEMBERS_DOMAIN = b"sfumato/v1/sum/members"


@dataclass(frozen=True, kw_only=True)
class BatchKey:
    """What a batch holds: the reports of one slot, label set and part that came in one wave.

    Parameters
    ----------
    plan_digest
        32 bytes.
    slot
        0 or more.
    labels
        The full set of declared labels of its devices.
    part
        Below the plan's ``parts``.
    number
        0, 1, 2, ...: reports that come after a batch has closed form the next.
    """

    plan_digest: bytes
    slot: int
    labels: Mapping[str, str]
    part: int
    number: int

    @property
    def batch_id(self) -> bytes:
        """The identity of the batch: SHA-256 of its fields."""
        content = [self.plan_digest, self.slot, dict(self.labels), self.part, self.number]
        return hashlib.sha256(_BATCH_DOMAIN + encode_deterministic(content)).digest()


def choose_part(sketch_id: bytes, n_parts: int) -> int:
    """Return the part of a report: it follows from its identity, anew for every window."""
    return int.from_bytes(sketch_id[:8], "big") % n_parts


def compute_report(header: bytes) -> bytes:
    """Return the digest of a report: the SHA-256 of its header's bytes."""
    return hashlib.sha256(header).digest()


def compute_members(reports: Iterable[bytes]) -> bytes:
    """Return the digest of a set of reports."""
    return hashlib.sha256(_MEMBERS_DOMAIN + b"".join(sorted(reports))).digest()


def open_total(masked: Words, masks: Words, noise: Integers, *, ring: Ring) -> Integers:
    """Open the total of a batch: the leader's half, the helper's, and the leader's noise.

    Parameters
    ----------
    masked
        The sum of masked words of all members.
    masks
        The helper's half: the sum of their masks, and the helper's noise.
    noise
        The leader's noise.

    Returns
    -------
    NDArray
        The sum of all members' sums, plus both noises: shape of each argument, int64.
    """
    return ring.centre(ring.add(masked, masks, ring.wrap(noise)))


def add_noise_to_masks(masks: Words, noise: Integers, *, ring: Ring) -> Words:
    """Return the helper's half of a batch: the sum of its masks, plus the helper's noise."""
    return ring.add(masks, ring.wrap(noise))
