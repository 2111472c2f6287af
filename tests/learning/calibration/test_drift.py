import numpy as np
import pytest

from learning.calibration.drift import compare
from learning.calibration.strength import (
    choose_bins_log2,
    choose_share,
    judge_strength,
    predict_strength,
)
from learning.calibration.words import describe_drift
from shared.errors import DecodingError
from tests.learning.calibration.drawing import draw_marginals


def draw(seed: int, shift: float = 0.0, strength: float = 1000.0):  # type: ignore[no-untyped-def]
    records = np.random.default_rng(seed).normal(size=(5000, 4)) + 5.0
    records[:, 0] += shift
    return draw_marginals(records, strength=strength, seed=seed, bins_log2=9)


def test_two_pilots_of_one_law_show_no_drift() -> None:
    found = [drift for seed in range(50) for drift in compare(draw(2 * seed), draw(2 * seed + 1))]
    assert sum(drift.has_moved for drift in found) == 0
    assert np.mean([drift.far_share for drift in found]) < 0.002


def test_a_column_that_moves_by_a_spread_is_found_and_the_others_are_not() -> None:
    drifts = compare(draw(0), draw(1, shift=1.5))
    assert [drift.has_moved for drift in drifts] == [True, False, False, False]
    assert drifts[0].largest > 4.0
    assert "has moved" in describe_drift(drifts[0])
    assert "no drift" in describe_drift(drifts[1])


def test_pilots_over_other_dimensions_or_bins_are_refused() -> None:
    first = draw(0)
    with pytest.raises(DecodingError, match="same dimensions"):
        compare(first, first[:3])
    records = np.ones((100, 4))
    with pytest.raises(DecodingError, match="same bins"):
        compare(first, draw_marginals(records, strength=1000.0, seed=0, bins_log2=8))


def test_strength_bins_and_share_follow_the_rules_of_pilots() -> None:
    weak = predict_strength(n_records=10_000, epsilon=0.1, n_dimensions=10, n_sums=4)
    assert weak == pytest.approx(50.0)
    refusal = judge_strength(weak)
    assert refusal is not None
    assert refusal.factor == pytest.approx(2.0)
    assert judge_strength(100.0) is None
    assert [choose_bins_log2(x) for x in (100.0, 299.0, 300.0, 1000.0)] == [8, 8, 9, 10]
    assert [choose_share(x) for x in (1000.0, 2500.0, 1e6)] == [0.25, 0.2, 0.1]
