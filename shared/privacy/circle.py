"""Phase reports: one record, and a noisy phase of one public feature of it.

A report is a phase on the integer circle Z_Q, moved by a random offset: offsets near zero have more
weight than all others. This is PrivUnit (Bhowmick et al. 2018) in two dimensions, on integers. All
weights are integers, so the odds of any two phases are one exact rational (``proofs.md``, section
9).
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property

from sfumato.shared.core.features import PHASES
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import require_epsilon
from sfumato.shared.privacy.samplers import UNIT_BITS, RandomSource, draw_below_wide

LEAST_EPSILON = Fraction(1, 1000)
"""The least of one report: ten million reports at it say as much as one phase without noise."""
LARGEST_EPSILON = Fraction(7)
"""The largest of one report: its energy is then 1.04, so there is next to nothing to gain."""

_WEIGHT_LIMIT = 1 << 63
_ARITHMETIC = Context(prec=45, rounding=ROUND_HALF_EVEN, traps=[])
_TIE = Decimal("1." + 39 * "0" + "1")
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


@dataclass(frozen=True, kw_only=True)
class CircularLaw:
    """The law of an offset on the circle Z_Q: weight w1 on ``|t| <= a``, and 2^bits elsewhere.

    Parameters
    ----------
    arc
        a, ``0 <= a`` and ``2 a + 1 < Q``.
    weight, bits
        w1 and k, ``2^k <= w1 < 2^63``.
    circle
        Q, the number of phases of a turn: 2^16 of a feature, and as many as bins of a dimension.

    Raises
    ------
    PrivacyError
        A parameter lies outside its range.

    Guarantees
    ----------
    For any two phases, and for a phase and a record that cannot be sketched, the odds of any report
    are at most ``w1 / 2^k``.
    """

    arc: int
    weight: int
    bits: int
    circle: int = PHASES

    def __post_init__(self) -> None:
        if not 0 <= self.arc <= (self.circle - 2) // 2:
            raise PrivacyError(
                f"must be from 0 to {(self.circle - 2) // 2} and is {self.arc}",
                field="arc",
                fix="leave at least one phase outside the arc",
            )
        if self.bits < 0 or not 1 << self.bits <= self.weight < _WEIGHT_LIMIT:
            raise PrivacyError(
                "must be at least 2^bits and less than 2^63",
                field="weight",
                fix="take weight and bits from choose_law",
            )

    @property
    def mass(self) -> int:
        """M, the sum of all weights."""
        return self._inner + ((self.circle - 2 * self.arc - 1) << self.bits)

    @property
    def _inner(self) -> int:
        return (2 * self.arc + 1) * self.weight

    @property
    def odds(self) -> Fraction:
        """The largest odds of a report between two phases, ``w1 / 2^k``."""
        return Fraction(self.weight, 1 << self.bits)

    def probability(self, offset: int) -> Fraction:
        """Return the probability of an offset, exact; offsets count modulo Q."""
        distance = min(offset % self.circle, -offset % self.circle)
        return Fraction(self.weight if distance <= self.arc else 1 << self.bits, self.mass)

    @cached_property
    def gain(self) -> float:
        """The real number eta by which the mean of ``exp(2 pi i report / Q)`` shrinks.

        ``eta = (w1 - 2^k) / M sum_{|t| <= a} cos(2 pi t / Q)``; the sum is
        ``sin(pi (2 a + 1) / Q) / sin(pi / Q)``.
        """
        step = math.pi / self.circle
        share = Fraction(self.weight - (1 << self.bits), self.mass)
        return float(share) * math.sin(step * (2 * self.arc + 1)) / math.sin(step)

    @property
    def energy(self) -> float:
        """E, the squared modulus of one report after division by the gain: ``1 / eta^2``."""
        return self.gain**-2 if self.gain else math.inf

    @property
    def reach(self) -> float:
        """The share of reports that say something: the rest are uniform, whatever the phase is.

        ``(2 a + 1) (w1 - 2^k) / M``.
        """
        return float(Fraction((2 * self.arc + 1) * (self.weight - (1 << self.bits)), self.mass))

    def draw_offset(self, source: RandomSource) -> int:
        """Draw an offset from ``-a`` to ``Q - a - 1``, by one bounded draw."""
        return self._draw(source)[0]

    def report(self, phase: int, source: RandomSource) -> int:
        """Draw the report of a phase from 0 to Q - 1: ``(phase + offset) mod Q``.

        A second call is a second release.
        """
        return (phase + self.draw_offset(source)) % self.circle

    def uniform_report(self, source: RandomSource) -> int:
        """Draw the report of a record that cannot be sketched: uniform on Z_Q.

        Guarantees
        ----------
        Its odds against the report of any phase are at most ``w1 / 2^k``; its features are zero in
        the mean; it takes the same work as :meth:`report`.
        """
        return self._draw(source)[1]

    def _draw(self, source: RandomSource) -> tuple[int, int]:
        """Draw an offset and an independent uniform phase, whichever of them is wanted.

        One draw below Q M gives both as quotient and remainder, so the work does not tell a phase
        from a record without one.
        """
        drawn, uniform = divmod(draw_below_wide(source, self.circle * self.mass), self.circle)
        # Both are computed, so that neither takes longer.
        near = drawn // self.weight - self.arc
        far = self.arc + 1 + ((drawn - self._inner) >> self.bits)
        return near if drawn < self._inner else far, uniform


def certify_odds(law: CircularLaw, epsilon: Fraction, n_reports: int) -> None:
    """Prove that r reports of one record are epsilon differentially private.

    ``w1 <= 2^k T <= 2^k exp(epsilon / r)`` with T a partial sum of the exponential series, in
    rationals. So ``(w1 / 2^k)^r <= exp(epsilon)``.

    Raises
    ------
    PrivacyError
        It is false, or epsilon or the number of reports is not positive.
    """
    share = _share_epsilon(epsilon, n_reports)
    # No law has odds of 2^63 = exp(43.7), and a smaller exponent only asks for more.
    if law.weight > floor_exp(min(share, Fraction(44)), law.bits):
        raise PrivacyError(
            f"its odds exceed exp(epsilon) in {n_reports} reports of one record",
            field="weight",
            fix="take the law from choose_law for this epsilon and number of reports",
        )


def floor_exp(exponent: Fraction, bits: int) -> int:
    """Return ``floor(2^bits exp(x))`` for a rational ``x > 0``, proved in rationals.

    Lower bounds are partial sums of the series. Once each term is at most half the one before, all
    that follow a term are together at most that term. The loop ends because exp(x) is irrational.
    """
    term, total, i = Fraction(1), Fraction(1), 0
    while True:
        i += 1
        term *= exponent / i
        total += term
        least = math.floor(total * (1 << bits))
        if i + 1 >= 2 * exponent and math.floor((total + term) * (1 << bits)) == least:
            return least


def choose_law(epsilon: Fraction, n_reports: int = 1, *, circle: int = PHASES) -> CircularLaw:
    """Choose the law with the largest gain for r reports of one record at epsilon together.

    ``w1 = floor(2^52 exp(epsilon / r))`` is the largest that :func:`certify_odds` accepts. The arc
    maximises the gain, in decimals of 45 digits, which are the same on every machine. Of arcs whose
    gains agree to 1e-40 the smallest is taken.

    Raises
    ------
    PrivacyError
        epsilon or the number of reports is not positive, or ``epsilon / r`` lies outside
        ``LEAST_EPSILON`` to ``LARGEST_EPSILON``.
    """
    weight = _choose_weight(epsilon, n_reports)
    return CircularLaw(
        arc=_choose_arc(weight, UNIT_BITS, circle), weight=weight, bits=UNIT_BITS, circle=circle
    )


def _choose_weight(epsilon: Fraction, n_reports: int) -> int:
    """Return the largest weight of the arc that ``certify_odds`` accepts."""
    share = _share_epsilon(epsilon, n_reports)
    if share < LEAST_EPSILON:
        raise PrivacyError(
            f"must be at least {LEAST_EPSILON} for each report, so small a one says nothing",
            field="epsilon",
            fix="use a larger epsilon or fewer reports",
        )
    if share > LARGEST_EPSILON:
        raise PrivacyError(
            f"must be at most {LARGEST_EPSILON} for each report, where noise is negligible",
            field="epsilon",
            fix="use a smaller epsilon or more reports",
        )
    return floor_exp(share, UNIT_BITS)


def choose_bin_law(
    epsilon: Fraction, n_reports: int, *, circle: int, is_ordered: bool
) -> CircularLaw:
    """Choose the law of r reports of bins, whose places on a circle are their order or names.

    The odds are those of :func:`choose_law`. For bins in order the arc's share of the circle is
    ``(L log L - L + 1) / (L - 1)^2`` with L the odds: of all shares it has the most information on
    a uniform bin, and is that of the square wave (Li et al. 2020). It is computed with epsilon / r
    in the place of log L, so in rationals. For levels, which are no neighbours, the arc is 0: that
    is randomised response.

    Parameters
    ----------
    circle
        Q, the number of bins.
    is_ordered
        Whether neighbours on the circle hold neighbouring values.

    Raises
    ------
    PrivacyError
        As :func:`choose_law`.
    """
    weight = _choose_weight(epsilon, n_reports)
    arc = 0
    if is_ordered:
        odds = Fraction(weight, 1 << UNIT_BITS)
        share = (odds * epsilon / n_reports - odds + 1) / (odds - 1) ** 2
        arc = min(max(0, round((share * circle - 1) / 2)), (circle - 2) // 2)
    return CircularLaw(arc=arc, weight=weight, bits=UNIT_BITS, circle=circle)


def _share_epsilon(epsilon: Fraction, n_reports: int) -> Fraction:
    if n_reports < 1:
        raise PrivacyError("must be at least 1", field="n_reports", fix="use 1")
    return require_epsilon(epsilon) / n_reports


def _choose_arc(weight: int, bits: int, circle: int) -> int:
    """Find the arc of the largest gain, which grows with the arc up to there and then falls."""

    def grows_at(arc: int) -> bool:
        here, there = (
            CircularLaw(arc=a, weight=weight, bits=bits, circle=circle) for a in (arc, arc + 1)
        )
        with localcontext(_ARITHMETIC):
            step = _PI / circle
            more = _sine(step * (2 * arc + 3)) * here.mass
            return more > _sine(step * (2 * arc + 1)) * there.mass * _TIE

    arcs = range((circle - 2) // 2)
    return bisect.bisect_left(arcs, True, key=lambda arc: not grows_at(arc))


def _sine(x: Decimal) -> Decimal:
    """Return the sine of a small angle by its series, in the current decimal context."""
    term, total, i = x, x, 1
    while term.adjusted() > total.adjusted() - 50:
        i += 2
        term *= -x * x / (i * (i - 1))
        total += term
    return total
