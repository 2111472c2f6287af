"""Exact sampling on the integers: Bernoulli(exp(-x)) and geometric variates without real numbers.

After Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), in
vectorised form. Every comparison and division is between integers that fit their words, so the
laws are exact; there is no rounding to analyse.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

UNIT_BITS = 52
UNIT = 1 << UNIT_BITS
"""Rates and probabilities are integers over 2^52."""

_INT64_WHOLE = 1 << 10
"""U + 2^52 V stays below 2^62 while V is below this."""


class RandomSource(Protocol):
    """Where random bytes come from."""

    def draw_bytes(self, count: int) -> bytes:
        """Return ``count`` independent uniform bytes, never the same ones twice."""
        ...


def draw_words(source: RandomSource, count: int) -> NDArray[np.uint64]:
    """Draw uniform 64-bit words: shape ``(count,)``, dtype uint64."""
    return np.frombuffer(source.draw_bytes(8 * count), dtype=np.uint64)


def draw_unit(source: RandomSource, count: int) -> NDArray[np.int64]:
    """Draw integers uniform on 0 .. 2^52 - 1: shape ``(count,)``, dtype int64."""
    return (draw_words(source, count) >> np.uint64(64 - UNIT_BITS)).astype(np.int64)


def draw_below(source: RandomSource, n: int, count: int) -> NDArray[np.int64]:
    """Draw integers uniform on 0 .. n - 1 for ``1 <= n < 2^63``: shape ``(count,)``, dtype int64.

    Words beyond the largest multiple of n are drawn again, so the law is exact; a word is refused
    with probability below n / 2^64.
    """
    limit = np.uint64(2**64 - 1 - (2**64 % n))
    words = draw_words(source, count).copy()
    refused = np.flatnonzero(words > limit)
    while refused.size:
        words[refused] = draw_words(source, refused.size)
        refused = refused[words[refused] > limit]
    return (words % np.uint64(n)).astype(np.int64)


def draw_bernoulli_exp(source: RandomSource, rates: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Draw Bernoulli(exp(-u / 2^52)) for each u of ``rates``, ``0 <= u <= 2^52``.

    CKS Algorithm 1: the j-th test passes with probability ``(u / 2^52) / j``; the number of the
    first failure is odd with probability ``sum (-x)^i / i! = exp(-x)``.
    """
    trial = np.ones(rates.size, dtype=np.int64)
    running = np.arange(rates.size)
    j = 1
    while running.size:
        passed = draw_unit(source, running.size) < rates[running]
        if j > 1:
            passed &= draw_below(source, j, running.size) == 0
        running = running[passed]
        j += 1
        trial[running] = j
    return (trial & 1).astype(bool)


def _count_whole(source: RandomSource, count: int) -> NDArray[np.int64]:
    """Draw V, the successes of Bernoulli(exp(-1)) before the first failure: shape ``(count,)``."""
    whole = np.zeros(count, dtype=np.int64)
    running = np.arange(count)
    while running.size:
        # A rate of 2^52 passes every first test, which is Bernoulli(exp(-1)).
        running = running[draw_bernoulli_exp(source, np.full(running.size, UNIT, dtype=np.int64))]
        whole[running] += 1
    return whole


def draw_geometric(source: RandomSource, rate: int, count: int) -> NDArray[np.int64]:
    """Draw geometric variates: ``P(G >= g) = exp(-g rate / 2^52)``, shape ``(count,)``, int64.

    CKS Algorithm 2. ``X = U + 2^52 V`` has ``P(X = x)`` proportional to ``exp(-x / 2^52)``, because
    the exponent splits over the digits of x in base 2^52; ``floor(X / rate) >= g`` iff
    ``X >= g rate``.

    Parameters
    ----------
    rate
        Integer, ``1 <= rate < 2^63``, in units of 2^-52.
    """
    unit = np.empty(count, dtype=np.int64)
    wanted = np.arange(count)
    while wanted.size:
        candidates = draw_unit(source, wanted.size)
        accepted = draw_bernoulli_exp(source, candidates)
        unit[wanted[accepted]] = candidates[accepted]
        wanted = wanted[~accepted]
    whole = _count_whole(source, count)
    # V reaches 2^10 with probability exp(-1024): Python integers keep even that draw exact.
    large = np.flatnonzero(whole >= _INT64_WHOLE)
    drawn = (unit + (np.minimum(whole, _INT64_WHOLE - 1) << UNIT_BITS)) // rate
    for i in large:
        drawn[i] = min((int(unit[i]) + (int(whole[i]) << UNIT_BITS)) // rate, 2**62)
    return drawn
