import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.privacy.samplers import (
    EXPONENT_BITS,
    UNIT,
    Probability,
    draw_below,
    draw_below_probabilities,
    draw_bernoulli_exp,
    draw_exponent,
    draw_geometric,
    exp_of,
)
from sfumato.shared.privacy.testing import SeededSource
from tests.vectors import make_vectors
from tests.vectors.noise_vectors import make_noise_vectors


class FixedWords:
    """A source that yields given 64-bit words, to steer a sampler into a rare branch."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def draw_bytes(self, count: int) -> bytes:
        taken, self._words = self._words[: count // 8], self._words[count // 8 :]
        return b"".join(word.to_bytes(8, "little") for word in taken)


@given(st.integers(1, 2**63 - 1), st.integers(0, 2**32))
def test_draws_below_n_are_below_n(n: int, seed: int) -> None:
    drawn = draw_below(SeededSource(seed), n, 50)
    assert int(drawn.min()) >= 0
    assert int(drawn.max()) < n


def test_a_word_beyond_the_last_multiple_of_n_is_drawn_again() -> None:
    # 2^64 = 1 modulo 3, so exactly the largest word is refused.
    assert draw_below(FixedWords([2**64 - 1, 2**64 - 2]), 3, 1).tolist() == [(2**64 - 2) % 3]


def test_small_ranges_are_uniform() -> None:
    counts = np.bincount(draw_below(SeededSource(1), 7, 70_000), minlength=7)
    # Chi-square with 6 degrees of freedom: 38.3 once in 1e6; the seed is fixed.
    assert np.sum((counts - 10_000) ** 2 / 10_000) < 38.3


@pytest.mark.parametrize("x", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli_exp_has_its_probability(x: float) -> None:
    n = 200_000
    drawn = draw_bernoulli_exp(SeededSource(2), np.full(n, round(x * UNIT)), UNIT)
    p = math.exp(-x)
    # Five standard deviations: once in 1.7e6.
    assert abs(drawn.mean() - p) <= 5 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("rate", [UNIT // 3, UNIT, 3 * UNIT])
def test_geometric_draws_follow_their_law(rate: int) -> None:
    n = 100_000
    drawn = draw_geometric(SeededSource(3), rate, n)
    q = math.exp(-rate / UNIT)
    cells = int(math.log(20 / n) / math.log(q))
    observed = np.bincount(np.minimum(drawn, cells), minlength=cells + 1)
    law = (1 - q) * q ** np.arange(cells)
    expected = n * np.append(law, 1 - law.sum())
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    # Wilson-Hilferty bound at 4.9 standard deviations: below 1e-6 for each rate.
    k = cells
    assert statistic < k * (1 - 2 / (9 * k) + 4.9 * math.sqrt(2 / (9 * k))) ** 3


def test_large_scales_have_the_right_mean() -> None:
    n, scale = 100_000, 1 << 30
    drawn = draw_geometric(SeededSource(4), UNIT // scale, n)
    assert abs(drawn.mean() / scale - 1) < 5 / math.sqrt(n)


@given(st.fractions(Fraction(1, 10**6), 70), st.integers(1, 4))
def test_the_digits_of_a_probability_are_those_of_the_real_number(x: Fraction, n: int) -> None:
    digits = exp_of(x).find_digits(n)
    # exp(x) by its series, exact and from below, until the rest is too small to matter.
    terms, total, i = Fraction(1), Fraction(1), 1
    while terms * 2**400 > 1 or i < 2 * x:
        terms *= x / i
        total += terms
        i += 1
    assert digits <= 2 ** (64 * n) / total
    assert digits + 1 > 2 ** (64 * n) / (total + 2 * terms)


THIRD = Probability(lambda: Decimal(1) / 3)


@pytest.mark.parametrize(
    ("words", "is_below"), [([2**64 // 3 - 1], True), ([2**64 // 3 + 1], False)]
)
def test_a_word_that_differs_decides(words: list[int], is_below: bool) -> None:
    chosen = np.zeros(1, dtype=np.int64)
    assert draw_below_probabilities(FixedWords(words), (THIRD,), chosen).tolist() == [is_below]


@pytest.mark.parametrize("difference", [-1, 1])
@pytest.mark.parametrize("n_equal", [1, 2, 3])
def test_words_that_are_equal_leave_it_to_those_that_follow(n_equal: int, difference: int) -> None:
    third = exp_of(Fraction(1, 3))
    digits = third.find_digits(n_equal + 1)
    words = [(digits >> (64 * i)) % 2**64 for i in range(n_equal, -1, -1)]
    words[-1] += difference
    drawn = draw_below_probabilities(FixedWords(words), (third,), np.zeros(1, dtype=np.int64))
    assert drawn.tolist() == [difference < 0]


def test_an_exponent_beyond_its_digits_goes_on_without_a_limit() -> None:
    tail = exp_of(Fraction(1 << EXPONENT_BITS, UNIT))
    below = [0, tail.find_digits(2) % 2**64 - 1]
    never = [2**64 - 1]
    # No digit is one; three times something is left above them.
    source = FixedWords(never * EXPONENT_BITS + below * 3 + never)
    low, high = draw_exponent(source, 1)
    assert (low.tolist(), high.tolist()) == ([0], [3])
    source = FixedWords(never * EXPONENT_BITS + below + never)
    assert draw_geometric(source, UNIT, 1).tolist() == [1 << (EXPONENT_BITS - 52)]


def test_exponential_variates_are_those_published() -> None:
    published = json.loads((make_vectors.HERE / "noise.json").read_text())
    assert published == make_noise_vectors()
