import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core import feature_table
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.circle import (
    CircularLaw,
    _choose_arc,
    certify_odds,
    choose_law,
    floor_exp,
)
from sfumato.shared.privacy.samplers import RandomSource, draw_below
from sfumato.shared.privacy.testing import SeededSource
from tests.shared.privacy.sources import CountingSource
from tests.vectors import make_vectors

SMALL = CircularLaw(arc=2, weight=7, bits=2, circle=16)
"""Mass 79, so a draw below 16 x 79 takes two bytes: all of them can be enumerated."""
Draw = Callable[[CircularLaw, RandomSource], int]
EPSILONS = st.fractions(Fraction(1, 500), 7, max_denominator=10**6)


class AskedAgainError(Exception):
    """The given number was refused."""


class GivenNumber:
    """A source whose first bytes are a given number, and that has no others."""

    def __init__(self, number: int) -> None:
        self._number: int | None = number

    def draw_bytes(self, count: int) -> bytes:
        if self._number is None:
            raise AskedAgainError
        number, self._number = self._number, None
        return number.to_bytes(count, "little")


def enumerate_law(draw: Callable[[RandomSource], int], circle: int) -> list[Fraction]:
    """Return the exact law of what is drawn from two uniform bytes, modulo the circle."""
    counts: Counter[int] = Counter()
    for number in range(1 << 16):
        try:
            counts[draw(GivenNumber(number)) % circle] += 1
        except AskedAgainError:
            continue
    return [Fraction(counts[x], counts.total()) for x in range(circle)]


def list_law(law: CircularLaw) -> list[Fraction]:
    return [law.probability(offset) for offset in range(law.circle)]


def exceeds_exp(odds: Fraction, epsilon: Fraction) -> bool:
    """Return whether odds exceed exp(epsilon), by other means than the product: in decimals."""
    with localcontext(prec=80):
        return (
            Decimal(odds.numerator) / odds.denominator
            > (Decimal(epsilon.numerator) / epsilon.denominator).exp()
        )


# The law, by enumeration.


def test_a_small_law_is_drawn_exactly_as_it_is_stated() -> None:
    assert enumerate_law(SMALL.draw_offset, 16) == list_law(SMALL)
    assert enumerate_law(SMALL.uniform_report, 16) == [Fraction(1, 16)] * 16


def draw_without_refusals(law: CircularLaw, source: RandomSource) -> int:
    number = int.from_bytes(source.draw_bytes(2), "little") % law.mass
    return number // 7 - 2 if number < 35 else 3 + (number - 35) // 4


def draw_one_number_too_many(law: CircularLaw, source: RandomSource) -> int:
    number = int(draw_below(source, 80, 1)[0])
    return number // 7 - 2 if number <= 35 else 3 + (number - 36) // 4


@pytest.mark.parametrize("planted", [draw_without_refusals, draw_one_number_too_many])
def test_a_planted_mistake_of_the_draw_is_found(planted: Draw) -> None:
    drawn = enumerate_law(lambda source: planted(SMALL, source), 16)
    assert drawn != list_law(SMALL)


def find_largest_odds(laws: list[list[Fraction]]) -> Fraction:
    """Return the largest odds of any report between any two of some laws of a report."""
    return max(a / b for one, other in product(laws, laws) for a, b in zip(one, other, strict=True))


def enumerate_reports(law: CircularLaw) -> list[list[Fraction]]:
    """Return the law of the report of each phase, one number of the draw after the other."""
    n_numbers = law.circle * law.mass
    laws = []
    for phase in range(law.circle):
        counts = Counter(law.report(phase, GivenNumber(t)) for t in range(n_numbers))
        laws.append([Fraction(counts[y], n_numbers) for y in range(law.circle)])
    return laws


def test_two_phases_give_a_report_with_the_stated_odds_at_most_and_attain_them() -> None:
    reports = enumerate_reports(SMALL)
    for phase, report in enumerate(reports):
        assert report == [SMALL.probability(y - phase) for y in range(16)]
    assert find_largest_odds(reports) == SMALL.odds == Fraction(7, 4)


def test_a_record_that_cannot_be_sketched_stays_within_the_odds() -> None:
    uniform = [Fraction(1, 16)] * 16
    assert find_largest_odds([*enumerate_reports(SMALL), uniform]) == SMALL.odds
    # With less noise than the others have, it is not.
    outside = list_law(replace(SMALL, weight=14))
    assert find_largest_odds([*enumerate_reports(SMALL), outside]) > SMALL.odds


def test_a_uniform_report_adds_zero_in_the_mean() -> None:
    assert feature_table().sum(axis=0, dtype=np.int64).tolist() == [0, 0]


@pytest.mark.parametrize("epsilon", [Fraction(1, 2)])
def test_each_of_the_65536_offsets_has_its_weight_and_odds_within_exp_epsilon(
    epsilon: Fraction,
) -> None:
    law = choose_law(epsilon)
    start, offset = 0, -law.arc
    while start < law.mass:
        weight = law.weight if offset <= law.arc else 1 << law.bits
        # Numbers of the draw are multiples of Q here: the rest is the uniform phase.
        for number in (start, start + weight - 1):
            assert law.draw_offset(GivenNumber(number * law.circle)) == offset
        assert law.probability(offset) == Fraction(weight, law.mass)
        start, offset = start + weight, offset + 1
    assert start == law.mass
    assert offset == law.circle - law.arc
    assert not exceeds_exp(law.odds, epsilon)


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**32))
def test_a_report_is_its_phase_and_the_offset_modulo_a_turn(phase: int, seed: int) -> None:
    law = choose_law(Fraction(1))
    offset = law.draw_offset(SeededSource(seed))
    assert -law.arc <= offset < law.circle - law.arc
    assert law.report(phase, SeededSource(seed)) == (phase + offset) % law.circle


# The gain.


@given(st.integers(4, 64), st.integers(0, 5), st.integers(0, 60), st.data())
def test_the_gain_is_the_mean_cosine_of_the_offset(
    circle: int, bits: int, extra: int, data: st.DataObject
) -> None:
    arc = data.draw(st.integers(0, (circle - 2) // 2))
    law = CircularLaw(arc=arc, weight=(1 << bits) + extra, bits=bits, circle=circle)
    turns = 2 * math.pi * np.arange(circle) / circle
    chances = np.array([float(chance) for chance in list_law(law)])
    assert law.gain == pytest.approx(float(chances @ np.cos(turns)), abs=1e-13)
    assert float(chances @ np.sin(turns)) == pytest.approx(0.0, abs=1e-13)
    assert law.energy == (math.inf if extra == 0 else pytest.approx(1 / law.gain**2))


# The certificate, and the choice.


@given(EPSILONS, st.integers(1, 4))
def test_the_chosen_weight_is_the_largest_that_is_proved(share: Fraction, n_reports: int) -> None:
    epsilon = share * n_reports
    law = choose_law(epsilon, n_reports)
    certify_odds(law, epsilon, n_reports)
    assert not exceeds_exp(law.odds**n_reports, epsilon)
    heavier = replace(law, weight=law.weight + 1)
    assert exceeds_exp(heavier.odds**n_reports, epsilon)
    with pytest.raises(PrivacyError, match="exceed exp"):
        certify_odds(heavier, epsilon, n_reports)


@given(EPSILONS, st.integers(2, 4))
def test_a_law_that_gives_each_report_the_whole_epsilon_is_found(
    share: Fraction, n_reports: int
) -> None:
    law = choose_law(share)
    assert exceeds_exp(law.odds**n_reports, share)
    with pytest.raises(PrivacyError, match=f"in {n_reports} reports"):
        certify_odds(law, share, n_reports)


@given(st.fractions(Fraction(1, 10**9), 50), st.integers(0, 62))
def test_the_whole_part_of_an_exponential_is_exact(exponent: Fraction, bits: int) -> None:
    with localcontext(prec=120):
        real = (Decimal(exponent.numerator) / exponent.denominator).exp() * 2**bits
        assert floor_exp(exponent, bits) == int(real)


def test_an_epsilon_beyond_all_odds_is_proved_without_its_exponential() -> None:
    heaviest = CircularLaw(arc=1, weight=2**63 - 1, bits=0)
    certify_odds(heaviest, Fraction(10**12), 3)
    assert floor_exp(Fraction(44), 0) >= 2**63
    with pytest.raises(PrivacyError):
        certify_odds(heaviest, Fraction(43), 1)


@given(EPSILONS, st.integers(4, 90))
def test_no_arc_has_a_larger_gain_than_the_chosen_one(epsilon: Fraction, circle: int) -> None:
    law = choose_law(epsilon, circle=circle)
    arcs = range((circle - 2) // 2 + 1)
    best = max(replace(law, arc=arc).gain for arc in arcs)
    assert law.gain >= best * (1 - 1e-12)


def test_laws_are_those_published_and_so_are_their_draws() -> None:
    published = json.loads((make_vectors.HERE / "reports.json").read_text())
    assert published == make_vectors.make_report_vectors()


@pytest.mark.parametrize(
    ("epsilon", "n_reports", "shown"),
    [("0.3", 1, "110"), ("0.5", 1, "40"), ("1", 1, "10.5"), ("2", 1, "3.1"), ("3", 1, "1.8"),
     ("4", 1, "1.36"), ("6", 2, "0.90")],
)  # fmt: skip
def test_the_predicted_energies_are_those_of_the_proofs(
    epsilon: str, n_reports: int, shown: str
) -> None:
    digits = len(shown.partition(".")[2])
    energy = choose_law(Fraction(epsilon), n_reports).energy / n_reports
    assert f"{energy:.{digits}f}" == shown


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"arc": -1}, "arc"), ({"arc": 8}, "arc"), ({"weight": 3}, "weight"),
     ({"weight": 2**63}, "weight"), ({"bits": -1}, "weight")],
)  # fmt: skip
def test_a_law_outside_its_range_is_refused_by_name(changes: dict[str, int], field: str) -> None:
    with pytest.raises(PrivacyError) as refusal:
        replace(SMALL, **changes)
    assert refusal.value.field == field
    assert refusal.value.fix


@pytest.mark.parametrize(
    ("epsilon", "n_reports", "field"),
    [("0", 1, "epsilon"), ("-1", 1, "epsilon"), ("1/1001", 1, "epsilon"), ("1/10", 101, "epsilon"),
     ("7.001", 1, "epsilon"), ("1000000000", 2, "epsilon"), ("1", 0, "n_reports")],
)  # fmt: skip
def test_an_absurd_epsilon_is_refused_with_what_to_do(
    epsilon: str, n_reports: int, field: str
) -> None:
    with pytest.raises(PrivacyError) as refusal:
        choose_law(Fraction(epsilon), n_reports)
    assert refusal.value.field == field
    assert refusal.value.fix


# The work.


def measure_work(draw: Callable[[RandomSource], int], n_draws: int) -> list[int]:
    sources = [CountingSource(seed) for seed in range(n_draws)]
    for source in sources:
        draw(source)
    return [source.n_bytes for source in sources]


def draw_uniform_by_itself(source: RandomSource) -> int:
    return int(draw_below(source, 1 << 16, 1)[0])


def test_the_random_bytes_do_not_tell_whether_a_record_could_be_sketched() -> None:
    law = choose_law(Fraction(1))
    work = measure_work(lambda source: law.report(123, source), 500)
    assert len(set(work)) > 1
    assert work == measure_work(law.uniform_report, 500)
    assert work != measure_work(draw_uniform_by_itself, 500)


def test_the_random_bytes_do_not_tell_the_offset() -> None:
    law = choose_law(Fraction(2))
    sources = [CountingSource(seed) for seed in range(4000)]
    is_near = [law.draw_offset(source) <= law.arc for source in sources]
    work = np.array([source.n_bytes for source in sources], dtype=np.float64)
    # A correlation of independent draws exceeds 4.9 / sqrt(n) once in a million.
    assert abs(np.corrcoef(work, is_near)[0, 1]) < 4.9 / len(work) ** 0.5
    # A sampler that draws a second number outside the arc is found.
    assert abs(np.corrcoef(work + 8.0 * ~np.array(is_near), is_near)[0, 1]) > 0.5


def test_of_arcs_with_equal_gains_the_smaller_is_chosen() -> None:
    # sin(pi / 2) is twice sin(pi / 6), and three phases of weight 7 double the mass.
    one, three = (CircularLaw(arc=arc, weight=7, bits=0, circle=6) for arc in (0, 1))
    assert Fraction(three.mass, one.mass) == 2
    assert _choose_arc(7, 0, 6) == 0
    assert _choose_arc(6, 0, 6) == 1


def test_the_choice_does_not_depend_on_the_decimal_context() -> None:
    expected = choose_law(Fraction(1))
    with localcontext(prec=3):
        assert choose_law(Fraction(1)) == expected


def test_an_epsilon_in_floating_point_is_refused() -> None:
    with pytest.raises(PrivacyError, match="exact rational"):
        certify_odds(SMALL, 0.5, 1)  # type: ignore[arg-type]
