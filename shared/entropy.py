"""The operating system's random generator, the only source of privacy noise in the product."""

from __future__ import annotations

import os


class SystemSource:
    """``os.urandom``, unbuffered: nothing is kept that a fork or a crash could replay."""

    def draw_bytes(self, count: int) -> bytes:
        """Return ``count`` bytes of the operating system's generator."""
        return os.urandom(count)
