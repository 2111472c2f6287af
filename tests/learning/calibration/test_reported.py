"""Pilots whose devices report a bin each: the main plan comes from the reports themselves."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.calibration.calibration import calibrate
from sfumato.learning.calibration.reported import calibrate_reported
from sfumato.learning.calibration.strength import (
    LEAST_REPORTED,
    judge_reports,
    predict_reach,
)
from sfumato.learning.calibration.words import describe_refusal
from sfumato.shared.privacy.circle import choose_bin_law
from tests.learning.calibration.drawing import draw_reports

Floats = NDArray[np.float64]
N = 12_000
COLUMNS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "one hump": lambda rng: rng.normal(20.0, 5.0, N),
    "round zero": lambda rng: rng.normal(0.0, 1.0, N),
    "two humps": lambda rng: np.where(
        rng.random(N) < 0.6, rng.normal(5.0, 1.0, N), rng.normal(50.0, 6.0, N)
    ),
    "octaves": lambda rng: np.exp(rng.normal(3.0, 1.5, N)),
    "counts": lambda rng: rng.poisson(4.0, N).astype(np.float64),
}


def on_scale(values: Floats, resolution: float | None) -> Floats:
    if resolution is None:
        return values
    scaled: Floats = np.sign(values) * np.log2(1.0 + np.abs(values) / resolution)
    return scaled


# Of 250 other pilots no ratio lay outside these limits, and one search box held less than 0.9.
@pytest.mark.parametrize(
    ("name", "epsilon", "factor"),
    [*((name, "1", 1.8) for name in sorted(COLUMNS)), (min(COLUMNS), "3", 1.35)],
)
def test_spread_and_place_follow_from_reports(name: str, epsilon: str, factor: float) -> None:
    values = COLUMNS[name](np.random.default_rng(1))
    column = calibrate_reported(draw_reports(values, epsilon=epsilon, seed=1))
    assert (column.resolution is not None) == (name == "octaves")
    ratio = column.spread / on_scale(values, column.resolution).std()
    assert 1.0 / factor < ratio < factor
    inside = (values >= column.search_lower) & (values <= column.search_upper)
    assert np.mean(inside) > 0.9
    assert column.lower <= values.min() <= values.max() <= column.upper


def test_missing_values_are_seen_and_shift_nothing() -> None:
    rng = np.random.default_rng(2)
    values = np.where(rng.random(N) < 0.2, np.nan, rng.normal(-70.0, 10.0, N))
    column = calibrate_reported(draw_reports(values, epsilon="3", seed=2))
    assert column.missing_share == pytest.approx(0.2, abs=0.03)
    assert "missing" in column.codes
    assert column.centre == pytest.approx(-70.0, abs=5.0)


def test_a_column_within_two_bins_asks_for_a_second_pilot() -> None:
    values = np.random.default_rng(3).normal(200.0, 2.0, N)
    column = calibrate_reported(draw_reports(values, epsilon="3", seed=3))
    assert column.is_kept
    assert "narrow" in column.codes
    assert column.search_lower < 200.0 < column.search_upper


def test_reports_of_nothing_but_noise_are_weak() -> None:
    uniform = draw_reports(np.full(300, 5.0), epsilon="1/10", seed=4)
    column = calibrate_reported(uniform)
    assert "weak" in column.codes
    assert column.least_share == 1.0


def test_a_weak_pilot_is_refused_and_told_what_would_do() -> None:
    values = np.random.default_rng(5).normal(20.0, 5.0, 4000)
    found = calibrate([draw_reports(values, epsilon="1", seed=5)], n_clusters=3)
    assert found.refusal is not None
    assert found.refusal.are_reports
    words = describe_refusal(found.refusal, n_records=4000, epsilon=1.0)
    assert "9,400 reports or epsilon 2 would do" in words
    # Both are true, and little less is not enough.
    strength, reach = found.strength, predict_reach(1.0)
    assert strength * math.sqrt(found.refusal.factor) == pytest.approx(LEAST_REPORTED)
    by_epsilon = predict_reach(found.refusal.epsilon_factor) / reach
    assert strength * by_epsilon == pytest.approx(LEAST_REPORTED, rel=0.01)


def test_no_epsilon_makes_up_for_too_few_devices() -> None:
    refusal = judge_reports(10.0, epsilon=1.0)
    assert refusal is not None
    assert math.isinf(refusal.epsilon_factor)
    assert "epsilon" not in describe_refusal(refusal, n_records=10, epsilon=1.0)
    assert judge_reports(LEAST_REPORTED, epsilon=1.0) is None


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3", "7"])
def test_the_predicted_share_of_telling_reports_is_that_of_the_law(epsilon: str) -> None:
    law = choose_bin_law(Fraction(epsilon), 1, circle=4099, is_ordered=True)
    assert predict_reach(float(Fraction(epsilon))) == pytest.approx(law.reach, rel=5e-3)
