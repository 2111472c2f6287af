"""Private choice: exponential choice by levels, and permute-and-flip, exactly sampled on integers.

Both choose an option whose integer score is high. Exponential choice has the law that the
accounting of repeated choice (``sfumato.shared.privacy.cover``) needs, and draws from any number of
options of equal score at once. Permute-and-flip loses less on a single choice among listed options
(McKenna and Sheldon 2020). ``proofs.md``, section 15, proves both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Final

import numpy as np

from sfumato.shared.arrays import Bools
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import PrivacyGuarantee, require_epsilon
from sfumato.shared.privacy.samplers import (
    UNIT,
    RandomSource,
    draw_below_wide,
    draw_bernoulli_exp,
    draw_whole,
)

_SLACK: Final = 1e-9
"""Share of the total by which a boundary of levels may be wrong in binary arithmetic; more than
2^20 levels of 2^-52 each, and the error of an exponent below 708; smaller weights do not count."""
_MOST_LEVELS: Final = 1 << 20
_BITS: Final = 128
_MORE_BITS: Final = 64
_MOST_BITS: Final = 1000
_WIDEST: Final = 1 << 53
"""Counts and scores beyond these go to decimals at once."""
_SCORE_BITS: Final = 20
"""Sensitivities keep so many bits: a coarser score costs at most 2^-19 of epsilon."""
_LEAST_RATE: Final = 1 << 10
_MOST_WHOLE: Final = 1 << 62


@dataclass(frozen=True, kw_only=True)
class ExponentialChoice:
    """Chooses an option with probability proportional to ``exp(score rate / 2^52)``.

    Parameters
    ----------
    rate
        Integer in units of 2^-52, at least 1: the exponent a of one step of the score.

    Guarantees
    ----------
    The law is exact, whatever binary arithmetic does. What a choice costs depends on the scores:
    ``compute_cover_delta`` for covers whose records leave; ``2 a sensitivity`` in general.
    """

    rate: int

    def __post_init__(self) -> None:
        if self.rate < 1:
            raise PrivacyError(
                "must be at least 1: the exponent is below 2^-52",
                field="rate",
                fix="use a larger epsilon",
            )

    @classmethod
    def of(cls, exponent: Fraction) -> ExponentialChoice:
        """Return the choice of the largest exponent that is a multiple of 2^-52 and not above.

        Raises
        ------
        PrivacyError
            The exponent is below 2^-52.
        """
        return cls(rate=math.floor(exponent * UNIT))

    @property
    def exponent(self) -> Fraction:
        """The exponent a of one step of the score, exact."""
        return Fraction(self.rate, UNIT)

    def draw_level(
        self, scores: Sequence[int], n_options: Sequence[int], source: RandomSource
    ) -> int:
        """Draw the score of the chosen option; all options of one score are equally likely.

            P(level i) = n_i exp(a s_i) / sum_j n_j exp(a s_j)

        The inverse of the distribution at a uniform real number, whose digits are drawn as far as
        they are needed: 128 of them, and more with probability below 2^-8 for 10^6 levels.

        Parameters
        ----------
        scores
            Different integers.
        n_options
            The number of options of each score, of any size.
        source
            Source of the random bytes.

        Returns
        -------
        int
            The index of the score.

        Raises
        ------
        PrivacyError
            There is no option, or there are too many levels.
        """
        present = [i for i, n in enumerate(n_options) if n > 0]
        if not present or len(present) > _MOST_LEVELS:
            raise PrivacyError(
                f"must have from 1 to {_MOST_LEVELS} levels with options",
                field="n_options",
                fix="pass at least one option",
            )
        digits = int.from_bytes(source.draw_bytes(_BITS // 8), "little")
        counts = [n_options[i] for i in present]
        levels = [scores[i] for i in present]
        quick = _find_level(counts, levels, self.rate, digits)
        if quick is None:
            quick = _settle_level(counts, levels, self.rate, digits, source)
        return present[quick]


def _find_level(counts: Sequence[int], levels: Sequence[int], rate: int, digits: int) -> int | None:
    """Invert the distribution in binary arithmetic; None where its errors might matter."""
    best = max(levels)
    if max(counts).bit_length() > _MOST_BITS or best - min(levels) > _WIDEST:
        return None
    steps = np.array([best - level for level in levels], dtype=np.float64)
    weights = np.array(counts, dtype=np.float64) * np.exp(steps * -(rate / UNIT))
    edges = np.cumsum(weights)
    total = float(edges[-1])
    slack = _SLACK * total
    place = math.ldexp(float(digits), -_BITS) * total
    i = min(int(np.searchsorted(edges, place, side="right")), edges.size - 1)
    low = edges[i - 1] if i else -math.inf
    high = edges[i] if i < edges.size - 1 else math.inf
    return i if low + slack < place < high - slack else None


def _settle_level(
    counts: Sequence[int],
    levels: Sequence[int],
    rate: int,
    digits: int,
    source: RandomSource,
) -> int:
    """Invert the distribution with as many digits as settle it.

    At precision p each weight has a relative error below ``(x + 3) 10^(1 - p)``, x its exponent;
    what lies between two boundaries by more than the sum of all errors is certain.
    """
    n_bits = _BITS
    best = max(levels)
    # In Python integers: a product of score and rate may pass 2^63.
    steps = [(best - level) * rate for level in levels]
    largest = max(steps) // UNIT + 1
    while True:
        precision = math.ceil(n_bits * math.log10(2.0)) + len(str(max(counts))) + 20
        with localcontext(prec=precision):
            weights = [
                Decimal(n) * (-(Decimal(step) / UNIT)).exp()
                for n, step in zip(counts, steps, strict=True)
            ]
            total = sum(weights, Decimal(0))
            slack = total * (4 * (largest + len(counts) + 10)) * Decimal(10) ** (1 - precision)
            low = total * Decimal(digits) / (1 << n_bits) - slack
            high = total * Decimal(digits + 1) / (1 << n_bits) + slack
            above = Decimal(0)
            for i, weight in enumerate(weights):
                below, above = above, above + weight
                last = i == len(weights) - 1
                if (below <= low or i == 0) and (high <= above or last):
                    return i
        digits = (digits << _MORE_BITS) | int.from_bytes(
            source.draw_bytes(_MORE_BITS // 8), "little"
        )
        n_bits += _MORE_BITS


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip:
    """Chooses among listed options: each keeps a coin of ``exp(-gap rate / 2^52)``.

    Options are visited in uniform order and the first whose coin shows heads is released
    (McKenna and Sheldon 2020). That is a uniform choice among all heads; so all coins are flipped,
    and the work does not show when the first head came. The best option always shows heads.

    Guarantees
    ----------
    If no score changes by more than ``sensitivity`` between neighbours, one choice is
    ``(epsilon, 0)`` differentially private (``proofs.md``, section 15).

    Parameters
    ----------
    sensitivity
        The largest change of one score.
    shift
        Scores lose so many low bits.
    rate
        Integer in units of 2^-52, for one step of a shifted score.
    neighbouring
        The relation that the sensitivity was computed for.
    """

    sensitivity: int
    shift: int
    rate: int
    neighbouring: str

    @classmethod
    def calibrate(cls, *, sensitivity: int, epsilon: Fraction, neighbouring: str) -> PermuteAndFlip:
        """Find the largest rate that guarantees epsilon.

        Raises
        ------
        PrivacyError
            The sensitivity is below 1, or epsilon is not a positive rational, or too small.
        """
        require_epsilon(epsilon)
        if sensitivity < 1:
            raise PrivacyError(
                "must be at least 1", field="sensitivity", fix="bound the change of a score"
            )
        shift = max(0, sensitivity.bit_length() - _SCORE_BITS)
        made = cls(
            sensitivity=sensitivity, shift=shift, rate=_LEAST_RATE, neighbouring=neighbouring
        )
        rate = math.floor(epsilon * UNIT / (2 * made.shifted_sensitivity))
        if rate < _LEAST_RATE:
            raise PrivacyError(
                "is so small that a choice would be uniform",
                field="epsilon",
                fix="use a larger epsilon, or fewer choices",
            )
        return cls(sensitivity=sensitivity, shift=shift, rate=rate, neighbouring=neighbouring)

    @property
    def shifted_sensitivity(self) -> int:
        """The largest change of one shifted score: floors add at most 1."""
        return (self.sensitivity >> self.shift) + (1 if self.shift else 0)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one choice."""
        return PrivacyGuarantee(
            epsilon=Fraction(2 * self.shifted_sensitivity * self.rate, UNIT),
            delta=Fraction(0),
            neighbouring=self.neighbouring,
        )

    def choose(self, scores: Sequence[int], source: RandomSource) -> int:
        """Draw an option: the index of its score. A second call is a second release.

        Raises
        ------
        PrivacyError
            There is no option.
        """
        if not len(scores):
            raise PrivacyError("must have an option", field="scores", fix="pass at least one")
        shifted = [int(score) >> self.shift for score in scores]
        best = max(shifted)
        exponents = [divmod((best - score) * self.rate, UNIT) for score in shifted]
        heads = self._flip(exponents, source)
        kept = np.flatnonzero(heads)
        return int(kept[draw_below_wide(source, kept.size)])

    @staticmethod
    def _flip(exponents: Sequence[tuple[int, int]], source: RandomSource) -> Bools:
        """Draw Bernoulli(exp(-(v + f / 2^52))) for each (v, f), both parts whatever they give."""
        wholes = np.array([min(v, _MOST_WHOLE) for v, _ in exponents], dtype=np.int64)
        parts = np.array([f for _, f in exponents], dtype=np.int64)
        heads: Bools = draw_whole(source, wholes.size) >= wholes
        heads &= draw_bernoulli_exp(source, parts, UNIT)
        return heads
