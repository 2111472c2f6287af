"""Public random words from a published seed.

Everything public that looks random (frequencies, masks) is read from SHAKE-256, which is available
everywhere and, unlike a library's generator, will not change.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.errors import PlanError

DOMAIN = b"sfumato/v1/"
SEED_BYTES = 32


def _start(seed: bytes, label: str) -> bytes:
    if len(seed) != SEED_BYTES:
        raise PlanError(
            f"must be {SEED_BYTES} bytes and has {len(seed)}",
            field="seed",
            fix="publish 32 random bytes, for instance from `openssl rand -hex 32`",
        )
    return DOMAIN + label.encode("ascii") + b"\x00" + seed


def draw_bytes(seed: bytes, label: str, count: int) -> bytes:
    """Return the first ``count`` bytes of the stream called ``label``.

    The stream is SHAKE-256 of ``"sfumato/v1/" || label || 0x00 || seed``.
    """
    return hashlib.shake_256(_start(seed, label)).digest(count)


class WordStream:
    """The 64-bit words of one labelled stream, read from the start in order.

    Word ``j`` is bytes ``8 j .. 8 j + 7`` of the stream, little-endian.
    """

    def __init__(self, seed: bytes, label: str) -> None:
        self._hash = hashlib.shake_256(_start(seed, label))
        self._words: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._position = 0

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words, shape ``(count,)``, dtype uint64."""
        end = self._position + count
        if end > self._words.size:
            # SHAKE-256 restarts at every call, so grow geometrically.
            size = max(end, 2 * self._words.size)
            self._words = np.frombuffer(self._hash.digest(8 * size), dtype="<u8").astype(np.uint64)
        taken = self._words[self._position : end]
        self._position = end
        return taken
