from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.lab.clustering.unary import (
    BLANK,
    LARGEST_EPSILON,
    LEAST_EPSILON,
    UnaryLaw,
    choose_unary_law,
)
from sfumato.shared.errors import PlanError, PrivacyError, SketchError
from sfumato.shared.privacy.samplers import RandomSource
from sfumato.shared.privacy.testing import SeededSource
from tests.lab.clustering.reports import (
    Law,
    count_deviations,
    enumerate_law,
    exceeds_exp,
    find_largest_odds,
    list_law,
)
from tests.shared.privacy.sources import CountingSource

SMALL = choose_unary_law(Fraction(1), 2, bits=8)
"""A report takes two bytes: all of them can be enumerated."""
EPSILONS = st.fractions(LEAST_EPSILON, LARGEST_EPSILON, max_denominator=10**6)
Integers = NDArray[np.int64]
Bits = NDArray[np.bool_]


def enumerate_laws(law: UnaryLaw) -> list[Law]:
    return [enumerate_law(law, symbol) for symbol in (0, 1, BLANK)]


def list_laws(law: UnaryLaw) -> list[Law]:
    return [list_law(law, symbol) for symbol in (*range(law.n_symbols), BLANK)]


# The law, by enumeration.


def test_reports_are_drawn_exactly_as_stated() -> None:
    assert enumerate_laws(SMALL) == list_laws(SMALL)


class OneWordForBothBits(UnaryLaw):
    def _draw_bits(self, symbols: Integers, source: RandomSource) -> Bits:
        words = np.frombuffer(source.draw_bytes(2 * symbols.size), np.uint8).reshape(-1, 2)
        own = symbols[:, None] == np.arange(2)
        return words[:, :1] < np.where(own, 128, self.threshold)


def test_a_planted_mistake_of_the_draw_is_found() -> None:
    wrong = OneWordForBothBits(n_symbols=2, threshold=SMALL.threshold, bits=8)
    assert enumerate_laws(wrong) != list_laws(SMALL)


def test_two_records_give_a_report_with_the_stated_odds_at_most_and_attain_them() -> None:
    assert find_largest_odds(enumerate_laws(SMALL)) == SMALL.odds


@given(threshold=st.integers(1, 127), n_symbols=st.integers(2, 4))
def test_the_stated_odds_hold_for_any_threshold_and_number_of_symbols(
    threshold: int, n_symbols: int
) -> None:
    law = UnaryLaw(n_symbols=n_symbols, threshold=threshold, bits=8)
    assert find_largest_odds(list_laws(law)) == law.odds


@given(epsilon=EPSILONS)
def test_chosen_odds_are_below_exp_epsilon_and_a_smaller_threshold_is_found(
    epsilon: Fraction,
) -> None:
    law = choose_unary_law(epsilon, 5)
    assert not exceeds_exp(law.odds, epsilon)
    # At the largest epsilon the threshold is 9, so another is never zero.
    assert exceeds_exp(replace(law, threshold=law.threshold - 1).odds, epsilon)


# Reports and counts.


def test_a_blank_takes_the_same_random_bytes() -> None:
    law = choose_unary_law(Fraction(1), 11)
    taken = []
    for symbols in (np.full(30, BLANK), np.arange(30) % 11):
        source = CountingSource(0)
        law.draw_reports(symbols, source)
        taken.append(source.n_bytes)
    assert taken == [4 * 11 * 30] * 2


# Five standard errors of five counts: false alarm 2.9e-6 for each comparison; seeds are fixed.


@pytest.mark.parametrize("epsilon", ["0.5", "3"])
def test_estimated_counts_are_unbiased_and_a_wrong_law_is_found(epsilon: str) -> None:
    law = choose_unary_law(Fraction(epsilon), 5)
    symbols = np.array([0] * 6 + [1] * 3 + [2] + [BLANK] * 5)
    reports = law.draw_reports(np.tile(symbols, 4000), SeededSource(2))
    ones = [law.count_ones(part) for part in np.split(reports, 4000)]
    expected = np.array([6.0, 3.0, 1.0, 0.0, 0.0])

    def estimate(law: UnaryLaw) -> NDArray[np.float64]:
        return np.stack([law.estimate_counts(row, symbols.size) for row in ones])

    found = estimate(law)
    assert count_deviations(found, expected) < 5
    assert count_deviations(estimate(replace(law, threshold=law.threshold * 9 // 10)), expected) > 5
    # The variance of the last symbol, which no record has; 2.2 % is its standard error.
    assert found[:, 4].var() == pytest.approx(law.compute_noise_variance(symbols.size), rel=0.12)


# Refusals.


REFUSED: list[tuple[type[SketchError], str, Callable[[], object]]] = [
    (PrivacyError, "epsilon", lambda: choose_unary_law(Fraction(0), 2)),
    (PrivacyError, "epsilon", lambda: choose_unary_law(Fraction(1, 1001), 2)),
    (PrivacyError, "epsilon", lambda: choose_unary_law(Fraction(21), 2)),
    (PrivacyError, "epsilon", lambda: choose_unary_law(1.0, 2)),  # type: ignore[arg-type]
    (PrivacyError, "threshold", lambda: UnaryLaw(n_symbols=2, threshold=0)),
    (PrivacyError, "threshold", lambda: UnaryLaw(n_symbols=2, threshold=1 << 31)),
    (PrivacyError, "bits", lambda: UnaryLaw(n_symbols=2, threshold=1, bits=12)),
    (PlanError, "n_symbols", lambda: choose_unary_law(Fraction(1), 0)),
    (PlanError, "reports", lambda: SMALL.count_ones(np.zeros((3, 2), np.uint8))),
    (PlanError, "reports", lambda: SMALL.count_ones(np.zeros(3, np.uint8))),
    (PlanError, "reports", lambda: SMALL.count_ones(np.zeros((3, 1)))),  # type: ignore[arg-type]
]


def test_laws_without_a_guarantee_and_what_cannot_be_counted_are_refused_by_name() -> None:
    for i, (error, field, attempt) in enumerate(REFUSED):
        with pytest.raises(error) as refusal:
            attempt()
        assert refusal.value.field == field, i
        assert refusal.value.fix, i


def test_a_uniform_report_of_a_blank_would_exceed_the_odds() -> None:
    law = replace(SMALL, n_symbols=3)
    uniform = dict.fromkeys(product((0, 1), repeat=3), Fraction(1, 8))
    assert find_largest_odds([*list_laws(law), uniform]) > law.odds


@pytest.mark.parametrize("epsilon", ["0.3", "1", "3", "10"])
def test_the_chosen_law_is_that_of_the_paper_up_to_rounding(epsilon: str) -> None:
    law = choose_unary_law(Fraction(epsilon), 5)
    odds = np.exp(float(epsilon))
    assert float(law.miss) == pytest.approx(1 / (1 + odds), rel=1e-5)
    assert law.compute_noise_variance(7) == pytest.approx(28 * odds / (odds - 1) ** 2, rel=1e-4)


@given(n_symbols=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
def test_ones_are_counted_by_symbol(n_symbols: int, seed: int) -> None:
    law = choose_unary_law(Fraction(1), n_symbols)
    bits = np.random.default_rng(seed).integers(2, size=(9, n_symbols), dtype=np.uint8)
    reports = np.packbits(bits, axis=1, bitorder="little")
    assert law.count_ones(reports).tolist() == bits.sum(axis=0).tolist()


def test_many_reports_are_those_of_parts() -> None:
    # More random words than are drawn at once.
    law = choose_unary_law(Fraction(8), 1 << 19)
    reports = law.draw_reports(np.array([5, BLANK, 7]), SeededSource(1))
    assert reports.shape == (3, 1 << 16)
    rows = [law.count_ones(report[None]) for report in reports]
    assert np.array_equal(law.count_ones(reports), sum(rows))
    # 2^19 bits have 176 +- 13 ones at this q; five deviations, false alarm 2e-6.
    assert all(110 < row.sum() < 242 for row in rows)
