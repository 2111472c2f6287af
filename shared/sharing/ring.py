"""The integers modulo 2^(8w), as words of w bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Integers
from sfumato.shared.errors import MalformedMessageError, WireError

WIDTHS = (2, 3, 4, 5, 6, 7, 8)
SPARE_BITS = 5
"""Sign, and four bits that an honest total never reaches: a random word reaches them with
probability 15/16, so that a broken report shows."""

Words = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class Ring:
    """The integers modulo 2^(8w).

    Words are held in uint64, and only their low 8w bits count: addition modulo 2^64 is addition in
    the ring.

    Parameters
    ----------
    width
        w, bytes of a word: 2 to 8.
    """

    width: int

    def __post_init__(self) -> None:
        if self.width not in WIDTHS:
            raise WireError(
                f"must be {WIDTHS[0]} to {WIDTHS[-1]} bytes and is {self.width}",
                field="payload_width",
                fix="use a plan that this software derived",
            )

    @staticmethod
    def find_width(bound: int) -> int | None:
        """Return the least width whose totals of this magnitude leave the spare bits free.

        None if the widest has no room for them.
        """
        return next((w for w in WIDTHS if bound < 1 << (8 * w - SPARE_BITS)), None)

    def wrap(self, values: Integers) -> Words:
        """Return integers as words: shape of ``values``."""
        return self._cut(values.astype(np.int64, copy=False).view(np.uint64))

    def centre(self, words: Words) -> Integers:
        """Return the integer of least magnitude that each word stands for: shape of ``words``."""
        shift = np.uint64(64 - 8 * self.width)
        lifted = np.ascontiguousarray(words << shift).view(np.int64)
        centred: Integers = lifted >> np.int64(shift)
        return centred

    def add(self, *terms: Words) -> Words:
        """Add words: shape of each term."""
        total = np.zeros_like(terms[0])
        for term in terms:
            total += term
        return self._cut(total)

    def subtract(self, words: Words, other: Words) -> Words:
        """Subtract words from words: shape of each."""
        return self._cut(words - other)

    def encode(self, words: Words) -> bytes:
        """Encode words, w bytes each, little-endian."""
        octets = words.astype("<u8").view(np.uint8).reshape(-1, 8)
        return octets[:, : self.width].tobytes()

    def decode(self, data: bytes, *, n_words: int) -> Words:
        """Decode words: shape ``(n_words,)``.

        Raises
        ------
        MalformedMessageError
            There are more or fewer bytes.
        """
        if len(data) != n_words * self.width:
            raise MalformedMessageError(
                f"must have {n_words * self.width} bytes and has {len(data)}",
                field="words",
                fix="send as many words as the plan has coordinates",
            )
        octets = np.zeros((n_words, 8), dtype=np.uint8)
        octets[:, : self.width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, self.width)
        return octets.view("<u8").reshape(-1).astype(np.uint64, copy=False)

    def _cut(self, words: Words) -> Words:
        if self.width == WIDTHS[-1]:
            return words
        cut: Words = words & np.uint64((1 << 8 * self.width) - 1)
        return cut
