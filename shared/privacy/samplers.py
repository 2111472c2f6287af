"""Exact sampling on the integers: Bernoulli(exp(-x)) and geometric variates without real numbers.

After Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), in
vectorised form. Every comparison and division is between integers that fit their words, so the
laws are exact; there is no rounding to analyse.
"""

from __future__ import annotations

from collections.abc import Callable
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


def draw_below(source: RandomSource, n: int, count: int) -> NDArray[np.int64]:
    """Draw integers uniform on 0 .. n - 1 for ``1 <= n < 2^63``: shape ``(count,)``, dtype int64.

    Words beyond the largest multiple of n are drawn again, so the law is exact; a word is refused
    with probability below n / 2^64.
    """
    words = draw_words(source, count)
    if n & (n - 1) == 0:
        return (words & np.uint64(n - 1)).astype(np.int64)
    limit = np.uint64(2**64 - 1 - (2**64 % n))
    words = words.copy()
    refused = np.flatnonzero(words > limit)
    while refused.size:
        words[refused] = draw_words(source, refused.size)
        refused = refused[words[refused] > limit]
    return (words % np.uint64(n)).astype(np.int64)


def draw_bernoulli_exp(
    source: RandomSource, rates: NDArray[np.int64], unit: int = UNIT
) -> NDArray[np.bool_]:
    """Draw Bernoulli(exp(-u / unit)) for each u of ``rates``, ``0 <= u <= unit < 2^63``.

    CKS Algorithm 1: the j-th test passes with probability ``(u / unit) / j``; the number of the
    first failure is odd with probability ``sum (-x)^i / i! = exp(-x)``.
    """
    trial = np.ones(rates.size, dtype=np.int64)
    running = np.arange(rates.size)
    j = 1
    while running.size:
        passed = draw_below(source, unit, running.size) < rates[running]
        if j > 1:
            passed &= draw_below(source, j, running.size) == 0
        running = running[passed]
        j += 1
        trial[running] = j
    return (trial & 1).astype(bool)


def draw_whole(source: RandomSource, count: int) -> NDArray[np.int64]:
    """Draw V, the successes of Bernoulli(exp(-1)) before the first failure: shape ``(count,)``."""
    whole = np.zeros(count, dtype=np.int64)
    running = np.arange(count)
    while running.size:
        ones = np.ones(running.size, dtype=np.int64)
        running = running[draw_bernoulli_exp(source, ones, unit=1)]
        whole[running] += 1
    return whole


def collect_accepted(
    draw_batch: Callable[[int], NDArray[np.int64]], *, count: int, share: float
) -> NDArray[np.int64]:
    """Take the first ``count`` accepted of an independent stream of candidates.

    Parameters
    ----------
    draw_batch
        Draws that many candidates and returns those accepted, along the last axis.
    count
        How many are wanted.
    share
        About how many of the candidates are accepted; decides the time, not the law.
    """
    parts: list[NDArray[np.int64]] = []
    missing = count
    while missing > 0:
        part = draw_batch(int(1.1 * missing / share) + 16)[..., :missing]
        parts.append(part)
        missing -= part.shape[-1]
    return np.concatenate(parts, axis=-1) if parts else draw_batch(0)


def draw_digit(source: RandomSource, unit: int, count: int) -> NDArray[np.int64]:
    """Draw U on 0 .. unit - 1 with probability proportional to ``exp(-U / unit)``: ``(count,)``."""

    def draw_batch(size: int) -> NDArray[np.int64]:
        candidates = draw_below(source, unit, size)
        return candidates[draw_bernoulli_exp(source, candidates, unit)]

    return collect_accepted(draw_batch, count=count, share=0.63)


def draw_geometric(source: RandomSource, rate: int, count: int) -> NDArray[np.int64]:
    """Draw geometric variates: ``P(G >= g) = exp(-g rate / 2^52)``, shape ``(count,)``, int64.

    CKS Algorithm 2. ``X = U + 2^52 V`` has ``P(X = x)`` proportional to ``exp(-x / 2^52)``, because
    the exponent splits over the digits of x in base 2^52; ``floor(X / rate) >= g`` iff
    ``X >= g rate``.

    Parameters
    ----------
    rate
        Integer, ``2^10 <= rate < 2^63``, in units of 2^-52.
    """
    unit = draw_digit(source, UNIT, count)
    whole = draw_whole(source, count)
    drawn = (unit + (np.minimum(whole, _INT64_WHOLE - 1) << UNIT_BITS)) // rate
    # V reaches 2^10 with probability exp(-1024): Python integers keep even that draw exact, up to
    # 2^62, which is reached with probability below exp(-2^19).
    for i in np.flatnonzero(whole >= _INT64_WHOLE):
        drawn[i] = min((int(unit[i]) + (int(whole[i]) << UNIT_BITS)) // rate, 2**62)
    return drawn
