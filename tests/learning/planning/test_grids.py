import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from sfumato.learning.planning.grids import (
    allows_grid,
    is_grid_better,
    predict_grid,
    predict_grid_band,
)
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.errors import PlanError, PrivacyError

ONE = Fraction(1)
STUDY = StudyOutline(n_records=100_000, n_sketches=1, n_dimensions=2, n_clusters=10)


@given(
    h=st.floats(0.05, 10.0),
    x=st.floats(1.0, 1e7),
    wider=st.floats(1.0, 5.0),
    stronger=st.floats(1.0, 100.0),
)
def test_the_band_rises_with_the_width_of_cells_and_falls_with_the_strength(
    h: float, x: float, wider: float, stronger: float
) -> None:
    band = predict_grid_band(cell_over_spread=h, strength=x)
    assert 1.0 <= band.low <= band.high
    assert predict_grid_band(cell_over_spread=h * wider, strength=x).high >= band.high
    assert predict_grid_band(cell_over_spread=h, strength=x * stronger).high <= band.high
    assert str(round(band.low, 2)) in band.describe() or "." in band.describe()


def test_studies_that_cannot_have_a_grid_are_refused() -> None:
    five = StudyOutline(n_records=1000, n_sketches=1, n_dimensions=5, n_clusters=3)
    devices = StudyOutline(
        n_records=1000, n_sketches=10, n_dimensions=2, n_clusters=3, unit="device"
    )
    assert [allows_grid(study) for study in (STUDY, five, devices)] == [True, False, False]
    with pytest.raises(PlanError, match="n_dimensions"):
        predict_grid(five, epsilon=ONE)
    with pytest.raises(PrivacyError, match="unit"):
        predict_grid(devices, epsilon=ONE)


@pytest.mark.parametrize(
    ("d", "k", "n_sketches", "n_epsilon", "expected"),
    [
        (2, 10, 1, 3000, True),
        (2, 10, 1, 30_000, False),
        (3, 10, 1, 3000, True),
        (4, 10, 1, 3000, False),
        (2, 10, 100, 3000, False),
        (2, 5, 1, 3000, False),
        (6, 10, 1, 3000, False),
    ],
)
def test_the_rule_chooses_the_grid_where_the_sketch_misses_clusters(
    d: int, k: int, n_sketches: int, n_epsilon: int, expected: bool
) -> None:
    study = StudyOutline(n_records=100_000, n_sketches=n_sketches, n_dimensions=d, n_clusters=k)
    epsilon = Fraction(n_epsilon, 100_000)
    assert is_grid_better(study, epsilon=epsilon) is expected
    # A box of 12 spreads has cells too wide.
    assert not is_grid_better(study, epsilon=epsilon, half_width_in_spreads=12.0)


def test_more_noise_and_a_wider_box_are_predicted_to_be_worse() -> None:
    bands = [
        predict_grid(STUDY, epsilon=ONE / 100).band.high,
        predict_grid(STUDY, epsilon=ONE / 10).band.high,
        predict_grid(STUDY, epsilon=ONE).band.high,
    ]
    assert bands == sorted(bands, reverse=True)
    wide = predict_grid(STUDY, epsilon=ONE / 10, half_width_in_spreads=12.0).band
    assert wide.high > bands[1]
    hopeless = predict_grid(STUDY, epsilon=ONE / 10_000).band
    assert math.isinf(hopeless.high)
    assert "without an upper bound" in hopeless.describe()


def test_sums_with_noise_of_their_own_cost_the_root_of_their_number() -> None:
    study = StudyOutline(n_records=100_000, n_sketches=100, n_dimensions=2, n_clusters=10)
    fleet, one = predict_grid(study, epsilon=ONE), predict_grid(STUDY, epsilon=ONE / 10)
    # The discrete law of a small scale has slightly less variance.
    assert math.prod(fleet.cells) == pytest.approx(math.prod(one.cells), rel=0.03)
    assert fleet.band.high == pytest.approx(one.band.high, rel=0.01)


def test_a_delta_buys_gaussian_noise_and_bytes_follow_cells() -> None:
    found = predict_grid(STUDY, epsilon=ONE, delta=Fraction(1, 10**6))
    assert found.noise.law == "gaussian"
    small = predict_grid(STUDY, epsilon=ONE, cells=(4, 4))
    assert small.sketch_bytes == 17 * 3
