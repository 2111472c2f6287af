"""A digest of a set that items can be added to and taken from, in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_LANES = 1024
_LANE = np.dtype("<u2")


def empty_members() -> NDArray[np.uint16]:
    """Return the digest of the empty set: shape ``(1024,)``, uint16."""
    return np.zeros(_LANES, dtype=np.uint16)


def digest_members(members: Iterable[tuple[bytes, bytes]]) -> NDArray[np.uint16]:
    """Return the digest of sketches, given by identity and payload digest.

    The sum modulo 2^16, lane by lane, of ``SHAKE128(identity || payload digest)``, so the digest of
    a union of disjoint sets is the sum of theirs: a list of identities would grow with them.

    Guarantees
    ----------
    Two different sets with one digest are as hard to find as short vectors in a lattice: LtHash16
    of Bellare and Micciancio (1997), more than 128 bits.
    """
    total = empty_members()
    for identity, payload_digest in members:
        expanded = hashlib.shake_128(identity + payload_digest).digest(_LANES * _LANE.itemsize)
        # Unsigned, so it wraps by definition.
        total += np.frombuffer(expanded, dtype=_LANE).astype(np.uint16)
    return total


def encode_members(members: NDArray[np.uint16]) -> bytes:
    """Return the bytes of a digest: 2048."""
    return members.astype(_LANE).tobytes()


def decode_members(data: bytes) -> NDArray[np.uint16]:
    """Return the digest that :func:`encode_members` encoded."""
    return np.frombuffer(data, dtype=_LANE).astype(np.uint16)
