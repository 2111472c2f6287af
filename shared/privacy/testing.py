"""A seeded random source, for tests, benchmarks and simulated devices.

The import rules forbid this module to every package that releases anything, so no setting can make
privacy noise predictable.
"""

from __future__ import annotations

import hashlib


class SeededSource:
    """SHAKE-256 of a seed and a counter, in place of the operating system's generator."""

    def __init__(self, seed: int) -> None:
        self._seed = seed.to_bytes(16, "little")
        self._calls = 0

    def draw_bytes(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(8, "little")).digest(count)
