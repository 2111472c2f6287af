"""Exact choice: laws by enumeration and by draws, and mutants that must be found."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy import selection
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.selection import ExponentialChoice, PermuteAndFlip
from sfumato.shared.privacy.testing import SeededSource

Floats = NDArray[np.float64]
FAR = 10**12


def weigh(scores: Sequence[int], counts: Sequence[int], rate: int) -> Floats:
    weights = np.array(
        [float(n) * math.exp(s * rate / UNIT) for s, n in zip(scores, counts, strict=True)]
    )
    return np.asarray(weights / weights.sum())


def measure_distance(drawn: Sequence[int], law: Floats) -> float:
    """Chi-square over its degrees of freedom, as a normal score (Wilson and Hilferty)."""
    counts = np.bincount(drawn, minlength=law.size)
    k = law.size - 1
    statistic = float(np.sum((counts - len(drawn) * law) ** 2 / (len(drawn) * law)))
    return float(((statistic / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k)))


SCORES, COUNTS = (0, 280, 281), (FAR, 1, 2)
RATE = UNIT // 10


# A false alarm once in a million: 4.75 standard deviations of a nearly normal score.
@pytest.mark.parametrize("slack", [1e-9, math.inf])
def test_a_level_among_a_million_million_options_is_drawn_by_its_law(
    slack: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 20_000 if slack < 1 else 2000
    monkeypatch.setattr(selection, "_SLACK", slack)
    choice, source = ExponentialChoice(rate=RATE), SeededSource(1)
    drawn = [choice.draw_level(SCORES, COUNTS, source) for _ in range(n)]
    assert abs(measure_distance(drawn, weigh(SCORES, COUNTS, RATE))) < 4.75
    # The test can fail: a rate that is 3 % off, and options of score 0 that are forgotten.
    assert measure_distance(drawn, weigh(SCORES, COUNTS, RATE * 97 // 100)) > 4.75
    assert measure_distance(drawn, weigh(SCORES, (FAR // 2, 1, 2), RATE)) > 4.75


@given(
    st.lists(st.tuples(st.integers(-50, 400), st.integers(0, 10**15)), min_size=1, max_size=6),
    st.integers(1, UNIT),
    st.integers(0, 2**32),
)
def test_quick_and_careful_inversion_agree(
    levels: list[tuple[int, int]], rate: int, seed: int
) -> None:
    scores = list(dict(levels))
    counts = list(dict(levels).values())
    if not any(counts):
        with pytest.raises(PrivacyError, match="options"):
            ExponentialChoice(rate=rate).draw_level(scores, counts, SeededSource(seed))
        return
    present = [i for i, n in enumerate(counts) if n]
    levels_left, options = [scores[i] for i in present], [counts[i] for i in present]
    digits = int.from_bytes(SeededSource(seed).draw_bytes(16), "little")
    quick = selection._find_level(options, levels_left, rate, digits)
    careful = selection._settle_level(options, levels_left, rate, digits, SeededSource(seed))
    assert quick is None or quick == careful


class Constant:
    """A source whose bytes are all the same."""

    def __init__(self, byte: bytes) -> None:
        self._byte = byte

    def draw_bytes(self, count: int) -> bytes:
        return self._byte * count


@pytest.mark.parametrize(
    ("digits", "more", "level"), [(2**127 - 1, b"\x00", 0), (2**127, b"\xff", 1)]
)
def test_a_number_next_to_a_boundary_is_settled_by_more_digits(
    digits: int, more: bytes, level: int
) -> None:
    # Two options of equal weight: the boundary is exactly one half.
    assert selection._find_level([1, 1], [0, 0], 1, digits) is None
    assert selection._settle_level([1, 1], [0, 0], 1, digits, Constant(more)) == level


def flip_law(gaps: Sequence[int], rate: float) -> Floats:
    """The law of permute-and-flip, by enumeration of all orders of the options."""
    coins = [math.exp(-gap * rate) for gap in gaps]
    law = np.zeros(len(gaps))
    for order in itertools.permutations(range(len(gaps))):
        left = 1.0
        for option in order:
            law[option] += left * coins[option]
            left *= 1 - coins[option]
    return law / math.factorial(len(gaps))


def test_permute_and_flip_draws_by_its_law() -> None:
    choice = PermuteAndFlip.calibrate(
        sensitivity=3, epsilon=Fraction(3), neighbouring="replace-one"
    )
    scores, source = (92, 97, 99), SeededSource(3)
    drawn = [choice.choose(scores, source) for _ in range(2000)]
    gaps = [99 - score for score in scores]
    rate = choice.rate / UNIT
    assert abs(measure_distance(drawn, flip_law(gaps, rate))) < 4.75
    # Mutants: the exponential mechanism of the same rate, and half the sensitivity.
    weights = np.exp([-gap * rate for gap in gaps])
    assert measure_distance(drawn, weights / weights.sum()) > 4.75
    assert measure_distance(drawn, flip_law(gaps, 2 * rate)) > 4.75


def find_loss(rate: float, sensitivity: int) -> float:
    """The largest log-ratio of permute-and-flip over changes of all scores by the sensitivity."""
    changes = range(-sensitivity, sensitivity + 1)
    worst = 0.0
    for scores in ((0, 0, 0), (0, 1, 3), (0, 4, 4), (0, 9, 30)):
        law = flip_law([max(scores) - s for s in scores], rate)
        for change in itertools.product(changes, repeat=3):
            moved = [s + c for s, c in zip(scores, change, strict=True)]
            other = flip_law([max(moved) - s for s in moved], rate)
            worst = max(worst, float(np.max(np.abs(np.log(law / other)))))
    return worst


def test_permute_and_flip_keeps_epsilon_on_every_small_change() -> None:
    choice = PermuteAndFlip.calibrate(
        sensitivity=2, epsilon=Fraction(1, 2), neighbouring="replace-one"
    )
    worst = find_loss(choice.rate / UNIT, 2)
    assert worst <= float(choice.guarantee.epsilon) + 1e-12
    # Attained up to 2 %, so a rate a twentieth too large is found.
    assert find_loss(1.05 * choice.rate / UNIT, 2) > float(choice.guarantee.epsilon)


@given(st.integers(1, 2**70), st.fractions(Fraction(1, 1000), 20))
def test_no_choice_is_calibrated_above_epsilon(sensitivity: int, epsilon: Fraction) -> None:
    choice = PermuteAndFlip.calibrate(
        sensitivity=sensitivity, epsilon=epsilon, neighbouring="replace-one"
    )
    assert epsilon * 999_990 / 10**6 < choice.guarantee.epsilon <= epsilon
    # Scores that differ by the sensitivity differ by no more than stated after the shift.
    for low in (0, 1, (1 << choice.shift) - 1):
        moved = ((low + sensitivity) >> choice.shift) - (low >> choice.shift)
        assert moved <= choice.shifted_sensitivity


def test_the_best_of_far_options_is_always_chosen() -> None:
    choice = PermuteAndFlip.calibrate(sensitivity=1, epsilon=Fraction(1), neighbouring="any")
    source = SeededSource(5)
    assert {choice.choose((-(1 << 90), 0, -(1 << 70)), source) for _ in range(50)} == {1}


def test_bad_choices_are_refused() -> None:
    with pytest.raises(PrivacyError, match="rate"):
        ExponentialChoice.of(Fraction(1, 2**60))
    with pytest.raises(PrivacyError, match="sensitivity"):
        PermuteAndFlip.calibrate(sensitivity=0, epsilon=Fraction(1), neighbouring="replace-one")
    with pytest.raises(PrivacyError, match="uniform"):
        PermuteAndFlip.calibrate(
            sensitivity=5, epsilon=Fraction(1, 2**50), neighbouring="replace-one"
        )
