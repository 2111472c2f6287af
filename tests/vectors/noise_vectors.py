"""Vectors of exact sampling: bytes of a generator to exponential variates, radii and offsets.

How a port spends the bytes of its generator is its own affair: the law alone is the promise. These
vectors serve ports that draw an exponential variate as ``sfumato.shared.privacy.samplers`` does,
from 59 words in order.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm
from sfumato.shared.privacy.samplers import EXPONENT_BITS, _bits, draw_exponent

_SEED = b"sfumato noise vectors, version 1"
_DRAWS = 6


class _GivenBytes:
    """A source of given bytes; it is none of a product."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def draw_bytes(self, count: int) -> bytes:
        self.at += count
        assert self.at <= len(self._data)
        return self._data[self.at - count : self.at]


def make_noise_vectors() -> dict[str, Any]:
    """Return the digits' probabilities, exponential variates, and least radii."""
    size = 8 * (EXPONENT_BITS + 1)
    plain = hashlib.shake_256(_SEED).digest(_DRAWS * size)
    # Every first word equals that of its probability, so that the following words decide: one
    # below the probability's, one above, or one more that is equal.
    tied = b"".join(_to_word(digit.first_word) for digit in _bits())
    for i, digit in enumerate(_bits()):
        second, third = (digit.find_digits(n) % (1 << 64) for n in (2, 3))
        limit, equal = (third, _to_word(second)) if i % 3 == 1 else (second, b"")
        tied += equal + _to_word(limit - 1 if limit and i % 3 != 0 else limit + 1)
    # The part above the digits was at its limit, and is drawn again: largest of all, it ends there.
    tied += b"\xff" * 8
    return {
        "digits": [f"{digit.find_digits(2):032x}" for digit in _bits()],
        "exponents": [
            _draw(plain, _DRAWS),
            _draw(bytes(size) + b"\xff" * 8, 1),
            _draw(tied, 1),
        ],
        "least_radii": [
            {"n_frequencies": m, "n_counts": n, "least": _find_least_radius(m, n)}
            for m in (1, 2, 10, 1000)
            for n in (0, 1)
        ],
    }


def _draw(data: bytes, count: int) -> dict[str, Any]:
    source = _GivenBytes(data)
    low, high = draw_exponent(source, count)
    drawn = zip(low.tolist(), high.tolist(), strict=True)
    assert source.at == len(data)
    return {"bytes": data.hex(), "x": [str(x + (y << EXPONENT_BITS)) for x, y in drawn]}


def _to_word(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _find_least_radius(m: int, n_counts: int) -> int:
    mechanism = DiscreteKNorm(
        n_frequencies=m, norm_sensitivity=1, rate=1, neighbouring="replace-one", n_counts=n_counts
    )
    return mechanism.shift
