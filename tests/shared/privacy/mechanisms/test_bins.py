"""Reports of bins: their law, their odds, and what is refused."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy import CircularLaw, certify_odds
from sfumato.shared.privacy.circle import choose_bin_law
from sfumato.shared.privacy.mechanisms.bins import BinCircle, BinReports
from sfumato.shared.privacy.testing import SeededSource

ORDER = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8)


def make(epsilon: str = "1", n_reports: int = 1, *, is_ordered: bool = True) -> BinReports:
    law = choose_bin_law(Fraction(epsilon), n_reports, circle=len(ORDER), is_ordered=is_ordered)
    circle = BinCircle(order=ORDER)
    return BinReports(law=law, n_reports=n_reports, epsilon=Fraction(epsilon), circle=circle)


def count(*bins: int) -> NDArray[np.int64]:
    return np.concatenate([np.eye(1, len(ORDER), i, dtype=np.int64)[0] for i in bins])


def measure_misfit(mechanism: BinReports, law: CircularLaw, n: int) -> float:
    """Return the chi-square of n reports of one bin against a law, over all places."""
    source, start = SeededSource(3), 9
    released = np.array([mechanism.add_noise(count(start), source) for _ in range(n)])
    seen = released.sum(axis=0)[list(ORDER)]
    offsets = np.arange(len(ORDER)) - ORDER.index(start)
    expected = n * np.array([float(law.probability(int(t))) for t in offsets])
    return float(np.sum((seen - expected) ** 2 / expected))


def test_reports_follow_the_law_and_not_that_of_two_thirds_of_epsilon() -> None:
    mechanism, n = make("3/2"), 6000
    weaker = replace(
        mechanism.law,
        weight=choose_bin_law(Fraction(1), 1, circle=len(ORDER), is_ordered=True).weight,
    )
    # Ten degrees of freedom: above 52 once in 9e6.
    assert measure_misfit(mechanism, mechanism.law, n) < 52
    assert measure_misfit(mechanism, weaker, n) > 52
    shifted = replace(mechanism.law, arc=mechanism.law.arc + 1)
    assert measure_misfit(mechanism, shifted, n) > 52


@given(
    st.integers(2, 9),
    st.fractions(Fraction(1, 50), 5, max_denominator=50),
    st.integers(1, 2),
    st.booleans(),
)
def test_no_report_has_larger_odds_than_epsilon_allows(
    circle: int, epsilon: Fraction, n_reports: int, is_ordered: bool
) -> None:
    law = choose_bin_law(epsilon, n_reports, circle=circle, is_ordered=is_ordered)
    certify_odds(law, epsilon, n_reports)
    chances = [law.probability(t) for t in range(circle)]
    assert sum(chances) == 1
    # Every pair of records, and every outcome of all their reports.
    worst = max(
        chances[(y - p) % circle] / chances[(y - q) % circle]
        for y, p, q in itertools.product(range(circle), repeat=3)
    )
    assert worst == law.odds
    assert float(worst**n_reports) <= math.exp(epsilon) * (1 + 1e-12)
    with pytest.raises(PrivacyError, match="odds"):
        certify_odds(replace(law, weight=law.weight + 1), epsilon, n_reports)


@pytest.mark.parametrize("epsilon", ["1/1000", "1/2", "1", "3", "7"])
@pytest.mark.parametrize("circle", [5, 35, 259, 4099])
def test_the_arc_has_the_most_information_on_a_uniform_bin(epsilon: str, circle: int) -> None:
    law = choose_bin_law(Fraction(epsilon), 1, circle=circle, is_ordered=True)

    def measure_information(arc: int) -> float:
        odds, inner = float(law.odds), 2 * arc + 1
        mass = inner * odds + circle - inner
        return inner * odds * math.log(odds) / mass - math.log(mass / circle)

    arcs = range((circle - 2) // 2 + 1)
    best = max(arcs, key=measure_information)
    assert abs(law.arc - best) <= 1
    assert measure_information(law.arc) >= 0.99 * measure_information(best)


def test_levels_are_reported_by_randomised_response() -> None:
    mechanism = make("1", is_ordered=False)
    n, odds = len(ORDER), float(mechanism.law.odds)
    assert mechanism.law.arc == 0
    assert float(mechanism.law.probability(0)) == pytest.approx(odds / (odds + n - 1))
    assert mechanism.gain == pytest.approx((odds - 1) / (odds + n - 1))


@given(st.lists(st.sampled_from(ORDER), min_size=1, max_size=4), st.integers(0, 2**32))
def test_counts_and_places_are_each_others_inverse(bins: list[int], seed: int) -> None:
    mechanism = make("2", len(bins))
    circle = mechanism.circle
    places = circle.find_places(count(*bins))
    assert [ORDER[place] for place in places] == bins
    assert np.array_equal(circle.make_counts(places[None])[0], count(*bins))
    released = mechanism.add_noise(count(*bins), SeededSource(seed))
    assert circle.find_places(released).shape == (len(bins),)


@pytest.mark.parametrize("counts", [count(1) + count(2), count(1) * 0, count(1) - 2 * count(2)])
def test_what_is_not_the_counts_of_one_record_is_refused(counts: NDArray[np.int64]) -> None:
    with pytest.raises(PrivacyError, match="counts of one record"):
        make().add_noise(counts, SeededSource(0))


def test_a_law_of_another_circle_or_beyond_epsilon_is_refused() -> None:
    mechanism = make()
    with pytest.raises(PrivacyError) as refusal:
        replace(mechanism, law=replace(mechanism.law, circle=13))
    assert refusal.value.field == "law.circle"
    with pytest.raises(PrivacyError, match="odds"):
        replace(mechanism, n_reports=2)
