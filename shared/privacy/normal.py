"""The normal tail and the Gaussian privacy curve, in decimal arithmetic with stated errors.

Decimal, because the binary functions of mathematical libraries differ between machines in their
last bits, and a device must accept the exact scale that a planner computed elsewhere.
"""

from __future__ import annotations

from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cache

_DIGITS = 80
_FAR = 40
"""Beyond 40 standard deviations a tail is below 1e-349 and is replaced by a bound."""
_ROUNDING = Decimal("1e-50")
"""More than the sum of all rounding errors in one evaluation."""
_LARGEST_EXPONENT = 100
"""Above this epsilon the subtracted term, which needs epsilon more digits, is left out."""


def to_decimal(value: Fraction) -> Decimal:
    """Return a rational in the precision of the current context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def bound_gaussian_delta(
    *, sensitivity_squared: Fraction, variance: Fraction, epsilon: Fraction
) -> Decimal:
    """Bound from above the delta of the continuous Gaussian mechanism (Balle and Wang 2018).

    ``delta = Phi(D/(2s) - eps s/D) - exp(eps) Phi(-D/(2s) - eps s/D)``, with D the L2 sensitivity
    and s^2 the variance of one coordinate.

    Returns
    -------
    Decimal
        At least the exact value: by at most ``2e-50`` up to epsilon 100. Above it the second term
        is left out, so the result stays a bound for any epsilon.
    """
    # exp(epsilon) multiplies an absolute error, so its digits are added to the precision.
    with localcontext(prec=_DIGITS + min(int(epsilon), _LARGEST_EXPONENT)):
        ratio = (to_decimal(sensitivity_squared) / to_decimal(variance)).sqrt()
        shift = to_decimal(epsilon) / ratio
        first = _normal_below(ratio / 2 - shift)
        if epsilon > _LARGEST_EXPONENT:
            return first + _ROUNDING
        second = to_decimal(epsilon).exp() * _normal_below(-ratio / 2 - shift)
        return max(first - second, Decimal(0)) + _ROUNDING


def _normal_below(x: Decimal) -> Decimal:
    """Phi(x), within 10^10 units of the context's last digit: from -40 down 0, from 40 up 1.

    ``Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/15 + ...)``; all terms have one sign.
    """
    if abs(x) >= _FAR:
        return Decimal(x > 0)
    square = x * x
    term = total = x
    k = 1
    precision = getcontext().prec
    least = Decimal(10) ** -(precision + 10)
    while abs(term) > abs(total) * least and term:
        k += 2
        term = term * square / k
        total += term
    density = (-square / 2).exp() / (2 * _pi(precision)).sqrt()
    return Decimal(1) / 2 + density * total


@cache
def _pi(_precision: int) -> Decimal:
    """Machin: pi = 16 arctan(1/5) - 4 arctan(1/239), in the precision of the context."""
    return 16 * _inverse_tangent(5) - 4 * _inverse_tangent(239)


def _inverse_tangent(n: int) -> Decimal:
    term = total = Decimal(1) / n
    k = 1
    while abs(term) > Decimal(10) ** -(getcontext().prec + 20):
        term = -term / (n * n)
        k += 2
        total += term / k
    return total
