"""Optimised unary encoding: one bit a symbol, on integer thresholds.

A device holds one symbol of s. Its report has a bit for each symbol: the bit of its own symbol is
one with probability 1/2, every other bit with probability q, all independent (Wang, Blocki, Li and
Jha, "Locally Differentially Private Protocols for Frequency Estimation", 2017). In the paper ``q =
1 / (1 + exp(epsilon))``; here q is a ratio of integers that is not smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Bools, Floats, Integers
from sfumato.shared.errors import PlanError, PrivacyError
from sfumato.shared.privacy.circle import floor_exp
from sfumato.shared.privacy.mechanism import require_epsilon
from sfumato.shared.privacy.samplers import UNIT, UNIT_BITS, RandomSource

Bytes = NDArray[np.uint8]

WORD_BITS: Final = 32
"""A bit of a report is decided by a random word of so many bits."""
BLANK: Final = -1
"""In place of a symbol: the record cannot be sketched."""
LEAST_EPSILON: Final = Fraction(1, 1000)
LARGEST_EPSILON: Final = Fraction(20)
_WORDS_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class UnaryLaw:
    """The law of a report on one of s symbols.

    Parameters
    ----------
    n_symbols
        s, at least 1.
    threshold
        t: a bit other than the symbol's own is one with probability ``q = t / 2^bits``,
        ``1 <= t < 2^(bits - 1)``.
    bits
        Bits of a random word: 8, 16 or 32; only tests use another than 32.

    Raises
    ------
    PrivacyError
        The threshold or the number of bits lies outside its range.
    PlanError
        There is no symbol.

    Guarantees
    ----------
    The odds of any report between two symbols, or a symbol and a blank, are at most
    ``(2^bits - t) / t``. Two symbols differ in the law of two bits, and the largest quotient is
    ``1/2 (1 - q) / (1/2 q)``. A symbol and a blank differ in one bit, and the largest quotients are
    ``1 / (2 q)`` and ``2 (1 - q)``, which are not larger for ``q <= 1/2``.
    """

    n_symbols: int
    threshold: int
    bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if self.n_symbols < 1:
            raise PlanError("must be at least 1", field="n_symbols", fix="use 2 or more")
        if self.bits not in (8, 16, 32):
            raise PrivacyError("must be 8, 16 or 32", field="bits", fix="use 32")
        if not 1 <= self.threshold < self._half:
            raise PrivacyError(
                "must be at least 1 and less than 2^(bits - 1)",
                field="threshold",
                fix="take the law from choose_unary_law",
            )

    @property
    def odds(self) -> Fraction:
        """The largest odds of a report between two records, exact."""
        return 1 / self.miss - 1

    @property
    def miss(self) -> Fraction:
        """The probability q of a one in a bit that is not the symbol's own, exact."""
        return Fraction(self.threshold, 2 * self._half)

    @property
    def report_bytes(self) -> int:
        """The length of a report: one bit a symbol, in whole bytes."""
        return -(-self.n_symbols // 8)

    @property
    def _half(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def _gain(self) -> float:
        return 0.5 - float(self.miss)

    def probability(self, report: Sequence[int], symbol: int) -> Fraction:
        """Return the probability of a report, s bits, of a symbol or ``BLANK``; exact."""
        result = Fraction(1)
        for i, bit in enumerate(report):
            one = Fraction(1, 2) if i == symbol else self.miss
            result *= one if bit else 1 - one
        return result

    def draw_reports(self, symbols: Integers, source: RandomSource) -> Bytes:
        """Draw the report of each symbol.

        The report of a blank has probability q of a one in every bit, so its estimated counts are
        zero in the mean. It takes the same random bytes and the same operations as any other.

        Parameters
        ----------
        symbols
            Shape ``(n,)``: 0 .. s - 1, or ``BLANK``.
        source
            Source of the random bytes, ``bits / 8`` for each bit of each report.

        Returns
        -------
        NDArray[np.uint8]
            Shape ``(n, report_bytes)``; symbol i is bit ``i mod 8`` of byte ``i div 8``.
        """
        reports = np.empty((symbols.size, self.report_bytes), dtype=np.uint8)
        n_rows = max(1, _WORDS_AT_ONCE // self.n_symbols)
        for start in range(0, symbols.size, n_rows):
            part = slice(start, start + n_rows)
            bits = self._draw_bits(symbols[part], source)
            reports[part] = np.packbits(bits, axis=1, bitorder="little")
        return reports

    def _draw_bits(self, symbols: Integers, source: RandomSource) -> Bools:
        shape = (symbols.size, self.n_symbols)
        drawn = source.draw_bytes(symbols.size * self.n_symbols * self.bits // 8)
        words = np.frombuffer(drawn, dtype=f"<u{self.bits // 8}").reshape(shape)
        bits: Bools = words < self.threshold
        # A blank computes the bit of symbol 0 as well, and keeps the one that it has.
        own = (np.arange(symbols.size), np.maximum(symbols, 0))
        bits[own] = np.where(symbols == BLANK, bits[own], words[own] < self._half)
        return bits

    def count_ones(self, reports: Bytes) -> Integers:
        """Count the reports that have a one for each symbol: shape ``(s,)``, int64.

        Raises
        ------
        PlanError
            The reports are not bytes of shape ``(n, report_bytes)``.
        """
        require_reports(reports, self.report_bytes)
        counts = np.zeros(self.n_symbols, dtype=np.int64)
        n_rows = max(1, _WORDS_AT_ONCE // self.n_symbols)
        for start in range(0, len(reports), n_rows):
            part = reports[start : start + n_rows]
            bits = np.unpackbits(part, axis=1, count=self.n_symbols, bitorder="little")
            counts += bits.sum(axis=0, dtype=np.uint32)
        return counts

    def estimate_counts(self, ones: Integers, n_reports: int) -> Floats:
        """Estimate how many records have each symbol, unbiased: ``(ones - n q) / (1/2 - q)``.

        Parameters
        ----------
        ones
            Reports with a one for each symbol, shape ``(s,)``.
        n_reports
            n.
        """
        return (ones.astype(np.float64) - n_reports * float(self.miss)) / self._gain

    def compute_noise_variance(self, n_reports: int) -> float:
        """Compute the variance of the estimated count of a symbol that no record has.

        ``n q (1 - q) / (1/2 - q)^2``, which is ``4 n exp(epsilon) / (exp(epsilon) - 1)^2`` for the
        q of the paper. A record that has the symbol adds ``1/4 / (1/2 - q)^2`` instead of its
        share, so 1 for large epsilon.
        """
        miss = float(self.miss)
        return n_reports * miss * (1 - miss) / self._gain**2


def choose_unary_law(epsilon: Fraction, n_symbols: int, *, bits: int = WORD_BITS) -> UnaryLaw:
    """Choose the law with the smallest certified q.

    With ``E = floor(2^52 exp(epsilon))``, which is proved in rationals, ``t`` is the least integer
    for which ``(2^bits - t) / t <= E / 2^52 <= exp(epsilon)``.

    Raises
    ------
    PrivacyError
        epsilon is no rational from ``LEAST_EPSILON`` to ``LARGEST_EPSILON``.
    """
    if not LEAST_EPSILON <= require_epsilon(epsilon) <= LARGEST_EPSILON:
        raise PrivacyError(
            f"must be from {LEAST_EPSILON} to {LARGEST_EPSILON}",
            field="epsilon",
            fix="use a value such as 1; less says nothing, and more hides nothing",
        )
    weight = floor_exp(epsilon, UNIT_BITS)
    threshold = -(-(UNIT << bits) // (UNIT + weight))
    return UnaryLaw(n_symbols=n_symbols, threshold=threshold, bits=bits)


def require_reports(reports: Bytes, report_bytes: int) -> None:
    """Refuse an array that is not reports of a given length.

    Raises
    ------
    PlanError
        It is not bytes of shape ``(n, report_bytes)``.
    """
    if reports.ndim != 2 or reports.shape[1] != report_bytes or reports.dtype != np.uint8:
        raise PlanError(
            f"must be bytes of shape (n, {report_bytes}), not {reports.dtype} {reports.shape}",
            field="reports",
            fix="pass the reports that devices made with the same public parameters",
        )
