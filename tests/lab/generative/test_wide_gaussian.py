"""Noise from exact tables: every digit of their laws, ties, and sums that leave no gaps."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from sfumato.lab.generative.wide_gaussian import (
    LARGEST_WIDE_SIGMA,
    REACH,
    WIDTH,
    Table,
    WideGaussian,
    load_table,
)
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.testing import SeededSource


class Script:
    """A source of given bytes."""

    def __init__(self, *parts: bytes) -> None:
        self._left = b"".join(parts)

    def draw_bytes(self, count: int) -> bytes:
        drawn, self._left = self._left[:count], self._left[count:]
        assert len(drawn) == count
        return drawn


def sum_exactly(digits: int) -> list[Fraction]:
    """Return cumulative probabilities, each exponential computed by itself."""
    with localcontext(prec=digits):
        weights = [
            Fraction((-Decimal(k * k) / (2 * WIDTH**2)).exp()) for k in range(-REACH, REACH + 1)
        ]
    total, sums = sum(weights), []
    running = Fraction(0)
    for weight in weights:
        running += weight
        sums.append(running / total)
    return sums


@pytest.fixture(scope="module")
def cuts() -> list[Fraction]:
    return sum_exactly(80)


def draw_at(number: int, *more: int) -> int:
    """Draw with a uniform number whose first word, and further ones, are given."""
    head, tail = number >> 48, number & ((1 << 48) - 1)
    words = [each.to_bytes(8, "little") for each in more]
    source = Script(head.to_bytes(2, "little"), tail.to_bytes(6, "little"), *words)
    return int(load_table().draw(source, 1)[0])


def test_a_number_on_either_side_of_a_cut_gives_its_value(cuts: list[Fraction]) -> None:
    for k in (-900, -256, -1, 0, 1, 255, 1024):
        first = math.floor(cuts[k + REACH] * 2**64)
        # Beyond the first two bytes a decided head reads no more of the script.
        assert draw_at(first - 1) == k
        assert draw_at(first + 1) == k + 1


def test_a_number_equal_to_a_cut_is_settled_by_further_digits(cuts: list[Fraction]) -> None:
    for k in (-300, 0, 300):
        exact = cuts[k + REACH] * 2**64
        first = math.floor(exact)
        second = math.floor((exact - first) * 2**64)
        assert draw_at(first, second - 1) == k
        assert draw_at(first, second + 1) == k + 1
        third = math.floor(((exact - first) * 2**64 - second) * 2**64)
        assert draw_at(first, second, third - 1) == k
        assert draw_at(first, second, third + 1) == k + 1


def test_values_that_share_a_first_word_are_told_apart(cuts: list[Fraction]) -> None:
    # So far out that many cuts have the first word 0.
    places = [i for i, cut in enumerate(cuts) if math.floor(cut * 2**64) == 0]
    assert len(places) > 1000
    last = places[-1]
    second = math.floor(cuts[last] * 2**128)
    assert draw_at(0, second - 1) == last - REACH
    assert draw_at(0, second + 1) == last + 1 - REACH


def test_two_bytes_decide_nearly_always() -> None:
    spent = []

    class Counting(SeededSource):
        def draw_bytes(self, count: int) -> bytes:
            spent.append(count)
            return super().draw_bytes(count)

    Table().draw(Counting(1), 100_000)
    assert sum(spent) < 2.5 * 100_000


@pytest.mark.parametrize("multipliers", [(20,), (85,), (85, 300)])
def test_a_sum_has_the_law_of_one_gaussian(multipliers: tuple[int, ...]) -> None:
    noise = WideGaussian(multipliers)
    # Of the last addition: the law of y is one Gaussian times a sum over the last term's values.
    before = WideGaussian(multipliers[:-1]).variance
    m, s = multipliers[-1], WIDTH
    # Thirteen of the standard deviations that the last term's value has once y is known.
    reach = math.ceil(13 / math.sqrt(m * m / before + 1 / s**2))
    ratios = []
    with localcontext(prec=60):
        for y in (0, 1, m // 2, m, 777, -5 * s):
            total = Decimal(0)
            centre = round(Fraction(m * s**2 * y, before + (m * s) ** 2))
            for k in range(centre - reach, centre + reach + 1):
                exponent = Decimal((y - m * k) ** 2) / (2 * before) + Decimal(k * k) / (2 * s * s)
                total += (-exponent).exp()
            ratios.append(total * (Decimal(y * y) / (2 * noise.variance)).exp())
        assert max(ratios) / min(ratios) - 1 < Decimal("1e-33")


def test_terms_that_would_leave_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match="gaps"):
        WideGaussian((WIDTH,))
    with pytest.raises(ValueError, match="gaps"):
        WideGaussian((20, 0))


@pytest.mark.parametrize("sigma", [1.0, 256.0, 3000.5, 2.0**20, 2.0**22, 2.0**38])
def test_noise_is_at_least_as_wide_as_asked_and_little_wider(sigma: float) -> None:
    found = math.sqrt(WideGaussian.of_least(sigma).variance)
    assert found >= sigma
    assert found <= max(1.05 * sigma, WIDTH)


def test_noise_that_does_not_fit_is_refused() -> None:
    with pytest.raises(PrivacyError, match="64-bit"):
        WideGaussian.of_least(2.0 * LARGEST_WIDE_SIGMA)
    with pytest.raises(PrivacyError, match="64-bit"):
        WideGaussian.of_least(math.nan)


def score(drawn: np.ndarray, sigma: float) -> float:
    """Return how far the mean square is from a law's, in standard deviations."""
    return float((np.mean((drawn / sigma) ** 2) - 1.0) * math.sqrt(drawn.size / 2.0))


@pytest.mark.parametrize("sigma", [256, 9000, 2**21])
def test_draws_have_the_right_spread_and_a_wrong_one_is_rejected(sigma: int) -> None:
    noise = WideGaussian.of_least(sigma)
    drawn, width = noise.draw(SeededSource(sigma), 60_000), math.sqrt(noise.variance)
    # Five standard deviations: false alarm 6e-7 over the choice of a seed.
    assert abs(score(drawn, width)) < 5
    assert abs(float(np.mean(drawn))) < 5 * width / math.sqrt(drawn.size)
    assert abs(float(np.mean((drawn / width) ** 4)) - 3.0) < 5 * math.sqrt(96 / drawn.size)
    assert score(drawn, width * 2 / 3) > 5
    assert score(drawn, width * 3 / 2) < -5
