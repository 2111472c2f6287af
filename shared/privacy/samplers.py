"""Exact sampling on the integers: Bernoulli(exp(-x)) and geometric variates without real numbers.

After Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), in
vectorised form. Every comparison and division is between integers, so the laws are exact, without
rounding to analyse. The work for an accepted value does not depend on the value: neither the time
nor the number of random bytes reveals it (``proofs.md``, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Bools, Integers

UNIT_BITS = 52
UNIT = 1 << UNIT_BITS
"""Rates and probabilities are integers over 2^52."""

EXPONENT_BITS = 58
"""Binary digits of X that are drawn singly: X reaches 2^58 with probability exp(-64)."""
ROUNDS = 20
"""Tests of Bernoulli(exp(-x)) that always run; all pass with probability below 1 / 20!."""
_CHUNK = 4096


class RandomSource(Protocol):
    """A source of random bytes."""

    def draw_bytes(self, count: int) -> bytes:
        """Return ``count`` independent uniform bytes, never the same ones twice."""
        ...


def draw_words(source: RandomSource, count: int) -> NDArray[np.uint64]:
    """Draw uniform 64-bit words: shape ``(count,)``, dtype uint64."""
    return np.frombuffer(source.draw_bytes(8 * count), dtype=np.uint64)


def draw_below(source: RandomSource, n: int, count: int) -> Integers:
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


def draw_below_each(source: RandomSource, limits: Integers) -> Integers:
    """Draw integers uniform on 0 .. n - 1 for each n of ``limits``, as :func:`draw_below` does.

    Parameters
    ----------
    limits
        Shape ``(count,)``, int64, each from 1 to 2^62.
    """
    n = limits.astype(np.uint64)
    # 2^64 mod n, without 2^64.
    rest = (np.uint64(2**64 - 1) % n + np.uint64(1)) % n
    largest = np.uint64(2**64 - 1) - rest
    words = draw_words(source, limits.size).copy()
    refused = np.flatnonzero(words > largest)
    while refused.size:
        words[refused] = draw_words(source, refused.size)
        refused = refused[words[refused] > largest[refused]]
    return (words % n).astype(np.int64)


def draw_below_wide(source: RandomSource, n: int) -> int:
    """Draw an integer uniform on 0 .. n - 1 for any ``n >= 1``, as ``draw_below`` does."""
    size = n.bit_length() // 8 + 1
    limit = (1 << 8 * size) // n * n
    while True:
        drawn = int.from_bytes(source.draw_bytes(size), "little")
        if drawn < limit:
            return drawn % n


def draw_bernoulli_exp(source: RandomSource, rates: Integers, unit: int) -> Bools:
    """Draw Bernoulli(exp(-u / unit)) for each u of ``rates``, ``0 <= u <= unit <= 2^52``.

    CKS Algorithm 1: the j-th test passes with probability ``(u / unit) / j``; the number of the
    first failure is odd with probability ``sum (-x)^i / i! = exp(-x)``.

    Guarantees
    ----------
    ``ROUNDS`` tests run for every u whatever their outcome, and more with probability below 1e-18:
    the work reveals nothing.
    """
    running = np.ones(rates.size, dtype=np.bool_)
    trial = np.ones(rates.size, dtype=np.int64)
    j = 1
    while j <= ROUNDS or running.any():
        running &= draw_below(source, j * unit, rates.size) < rates
        trial += running
        j += 1
    return (trial & 1).astype(bool)


class Probability:
    """An irrational probability with any number of computable binary digits.

    Parameters
    ----------
    evaluate
        Computes it in the precision of the current decimal context, up to a few roundings. It must
        not be a dyadic rational, whose digits no precision would determine.
    """

    def __init__(self, evaluate: Callable[[], Decimal]) -> None:
        self._evaluate = evaluate
        self.first_word = self.find_digits(1)

    def find_digits(self, n_words: int) -> int:
        """Return ``floor(p 2^(64 n_words))``."""
        precision = 20 * n_words + 20
        while True:
            # A few correctly rounded operations, so p is known up to 10^(10 - precision).
            with localcontext(prec=precision):
                scaled = self._evaluate() * 2 ** (64 * n_words)
                slack = scaled * Decimal(10) ** (10 - precision)
                low, high = int(scaled - slack), int(scaled + slack)
            if low == high:
                return low
            precision *= 2

    def settle_tie(self, source: RandomSource) -> bool:
        """Compare further words after an equal first one; return whether the number is below p."""
        n_words = 1
        while True:
            n_words += 1
            digit = self.find_digits(n_words) % (1 << 64)
            word = int(draw_words(source, 1)[0])
            if word != digit:
                return word < digit


def draw_below_probabilities(
    source: RandomSource, probabilities: Sequence[Probability], chosen: Integers
) -> Bools:
    """Draw Bernoulli variates with chosen probabilities: shape of ``chosen``.

    A uniform real number lies below p iff its first word is less than that of p. If the words are
    equal, with probability 2^-64, the following words decide.
    """
    first = np.array([p.first_word for p in probabilities], dtype=np.uint64)[chosen]
    words = draw_words(source, chosen.size).reshape(chosen.shape)
    below = np.less(words, first)
    for place in zip(*np.nonzero(words == first), strict=True):
        below[place] = probabilities[int(chosen[place])].settle_tie(source)
    return below


def exp_of(exponent: Fraction) -> Probability:
    """Return ``exp(-exponent)`` for an exponent above zero."""

    def evaluate() -> Decimal:
        return (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()

    return Probability(evaluate)


def bit_of(exponent: Fraction) -> Probability:
    """Return ``1 / (1 + exp(exponent))``."""

    def evaluate() -> Decimal:
        return 1 / (1 + (Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())

    return Probability(evaluate)


@cache
def _bits() -> tuple[Probability, ...]:
    """Return the probabilities of X's binary digits in order, and last of any part above them."""
    bits = [bit_of(Fraction(1 << i, UNIT)) for i in range(EXPONENT_BITS)]
    return (*bits, exp_of(Fraction(1 << EXPONENT_BITS, UNIT)))


def draw_exponent(
    source: RandomSource, count: int, *, lowest_bit: int = 0
) -> tuple[Integers, Integers]:
    """Draw X with ``P(X = x)`` proportional to ``exp(-x / 2^52)``, x a multiple of a power of two.

    The binary digits of such an X are independent, digit i one with probability
    ``1 / (1 + exp(2^(i - 52)))``; what lies above them is geometric.

    Parameters
    ----------
    lowest_bit
        X is a multiple of 2^lowest_bit.

    Returns
    -------
    low, high
        ``X = low + 2^58 high``, shapes ``(count,)``, int64.

    Guarantees
    ----------
    ``59 - lowest_bit`` words are drawn for each X, and more with probability below 2^-57: the work
    reveals nothing.
    """
    low = np.zeros(count, dtype=np.int64)
    high = np.zeros(count, dtype=np.int64)
    chosen = np.arange(lowest_bit, EXPONENT_BITS + 1)
    for start in range(0, count, _CHUNK):
        part = slice(start, min(start + _CHUNK, count))
        n = part.stop - part.start
        drawn = draw_below_probabilities(source, _bits(), np.broadcast_to(chosen, (n, chosen.size)))
        digits = np.zeros((n, 64), dtype=np.bool_)
        digits[:, lowest_bit:EXPONENT_BITS] = drawn[:, :-1]
        low[part] = np.packbits(digits, axis=1, bitorder="little").view("<i8")[:, 0]
        high[part] = drawn[:, -1]
    last = np.array([EXPONENT_BITS])
    for i in np.flatnonzero(high):
        while draw_below_probabilities(source, _bits(), last)[0]:
            high[i] += 1
    return low, high


def draw_whole(source: RandomSource, count: int) -> Integers:
    """Draw V with ``P(V = v)`` proportional to ``exp(-v)``: shape ``(count,)``, int64."""
    low, high = draw_exponent(source, count, lowest_bit=UNIT_BITS)
    return (low >> UNIT_BITS) + (high << (EXPONENT_BITS - UNIT_BITS))


def collect_accepted(
    draw_batch: Callable[[int], Integers], *, count: int, share: float
) -> Integers:
    """Take the first ``count`` accepted candidates of an independent stream.

    Parameters
    ----------
    draw_batch
        Draws that many candidates and returns those accepted, along the last axis.
    count
        Number of accepted candidates to return.
    share
        Approximate share of accepted candidates; affects the time, not the law.
    """
    parts: list[Integers] = []
    missing = count
    while missing > 0:
        part = draw_batch(int(1.1 * missing / share) + 16)[..., :missing]
        parts.append(part)
        missing -= part.shape[-1]
    return np.concatenate(parts, axis=-1) if parts else draw_batch(0)


def draw_digit(source: RandomSource, unit: int, count: int) -> Integers:
    """Draw U on 0 .. unit - 1 with probability proportional to ``exp(-U / unit)``: ``(count,)``."""

    def draw_batch(size: int) -> Integers:
        candidates = draw_below(source, unit, size)
        return candidates[draw_bernoulli_exp(source, candidates, unit)]

    return collect_accepted(draw_batch, count=count, share=0.63)


def draw_geometric(source: RandomSource, rate: int, count: int) -> Integers:
    """Draw geometric variates: ``P(G >= g) = exp(-g rate / 2^52)``, shape ``(count,)``, int64.

    ``floor(X / rate) >= g`` iff ``X >= g rate`` (CKS Algorithm 2), with X of ``draw_exponent``: the
    work does not depend on the outcome.

    Parameters
    ----------
    rate
        Integer, ``2^10 <= rate < 2^63``, in units of 2^-52.
    """
    low, high = draw_exponent(source, count)
    drawn = low // rate
    # X reaches 2^58 with probability exp(-64): Python integers keep even that draw exact, up to
    # 2^62, which is reached with probability below exp(-2^19).
    for i in np.flatnonzero(high):
        drawn[i] = min((int(low[i]) + (int(high[i]) << EXPONENT_BITS)) // rate, 2**62)
    return drawn
