"""Blocks of frequencies: a sketch may carry r of the m features, and noise for these alone.

The features are split into ``m / r`` blocks once for a plan, at random, so that every block has the
same mixture of radii. Which block a sketch carries follows from public numbers alone. Any choice
has the same sensitivity; this one covers the features evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core.seeds import WordStream, draw_bytes
from sfumato.shared.errors import PlanError

_OFFSET_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class FrequencyBlocks:
    """The blocks of a plan.

    Parameters
    ----------
    seed
        The plan's, 32 published bytes.
    n_frequencies, frequencies_per_sketch
        m, and r, which divides m.
    """

    seed: bytes
    n_frequencies: int
    frequencies_per_sketch: int

    def __post_init__(self) -> None:
        m, r = self.n_frequencies, self.frequencies_per_sketch
        if not 1 <= r <= m or m % r:
            raise PlanError(
                f"must be a divisor of n_frequencies ({m}) and is {r}",
                field="frequencies_per_sketch",
                fix="choose a divisor, or change n_frequencies to a multiple",
            )

    @property
    def n_blocks(self) -> int:
        """The number of blocks B, m / r."""
        return self.n_frequencies // self.frequencies_per_sketch

    @cached_property
    def members(self) -> Integers:
        """The features of each block: shape ``(B, r)``, ascending in each row.

        Features are sorted by one 64-bit word each, and cut into blocks; equal words keep their
        order. A single block has all features in their own order.
        """
        words = WordStream(self.seed, "blocks").take(self.n_frequencies)
        order = np.argsort(words, kind="stable").reshape(self.n_blocks, -1)
        members = np.sort(order, axis=1).astype(np.int64)
        members.setflags(write=False)
        return members

    @cached_property
    def block_of(self) -> Integers:
        """The block of each feature: shape ``(m,)``."""
        block_of = np.empty(self.n_frequencies, dtype=np.int64)
        block_of[self.members] = np.arange(self.n_blocks)[:, None]
        block_of.setflags(write=False)
        return block_of

    def choose(self, *, ordinal: int, stream: str, turn: int) -> int:
        """Choose the block of a sketch: ``spread(ordinal) + offset(stream) + turn + turn div B``.

        All modulo B. ``spread`` takes the ordinals 0, 1, 2, ... to numbers below B in the order of
        their reversed bits, ``offset`` is a hash. So at any turn, any run of B ordinals that begins
        at a multiple of B covers every block once, and a shorter one leaves no long gap. One device
        covers every block in B turns from a multiple of B on. The last term keeps a device that
        releases only at every p-th turn from always choosing the same blocks.

        Parameters
        ----------
        ordinal
            The number that the server gave the device when it enrolled, from 0.
        stream
            The stream's name.
        turn
            The first slot of the window, or the sketch's number for windows by count.
        """
        place = self._spread[ordinal % self.n_blocks] + self._offset(stream)
        return (place + turn + turn // self.n_blocks) % self.n_blocks

    def _offset(self, stream: str) -> int:
        if self.n_blocks == 1:
            return 0
        label = f"blocks/{stream.encode().hex()}"
        return int.from_bytes(draw_bytes(self.seed, label, _OFFSET_BYTES), "little")

    @cached_property
    def _spread(self) -> list[int]:
        bits = (self.n_blocks - 1).bit_length()
        numbers = (_reverse(i, bits) for i in range(1 << bits))
        return [number for number in numbers if number < self.n_blocks]


def _reverse(number: int, bits: int) -> int:
    """Return the number whose ``bits`` binary digits are those of another, backwards."""
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
