"""The law of what a second look leaves of an answer's excess."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.looks.gain import measure_overlap, predict_excess

EXCESS = st.floats(0.0, 50.0)
SHARE = st.floats(0.0, 1.0)


@pytest.mark.parametrize("t", [1.5, 2.0, 2.5])
def test_overlap_is_what_a_step_keeps_of_an_error_across_the_boundary(t: float) -> None:
    x = np.linspace(-12.0, 12.0, 400_001)
    density = np.exp(-0.5 * (x - t) ** 2) + np.exp(-0.5 * (x + t) ** 2)

    def step(boundary: float) -> np.ndarray:
        sides = x < boundary, x >= boundary
        return np.array([np.average(x[side], weights=density[side]) for side in sides])

    error = 1e-2
    kept = float((step(error) - step(-error)).mean()) / (2.0 * error)
    centres = np.array([[-t, 0.0], [t, 0.0]])
    overlap = measure_overlap(centres, np.ones((2, 2)), np.array([0.5, 0.5]))
    assert overlap == pytest.approx(kept**2 / 2.0, rel=0.1)


def test_clusters_far_apart_or_on_one_another_do_not_overlap() -> None:
    shares, spreads = np.array([0.5, 0.5]), np.ones((2, 1))
    for distance in (0.0, 1e6):
        assert measure_overlap(np.array([[0.0], [distance]]), spreads, shares) < 1e-9


@given(first=EXCESS, noise=EXCESS, overlap=SHARE, more=EXCESS)
def test_a_look_leaves_no_more_than_there_was_and_no_less_where_more_speaks_against_it(
    first: float, noise: float, overlap: float, more: float
) -> None:
    left = predict_excess(first, noise, overlap)
    assert 0.0 <= left <= first * (1.0 + 1e-9)
    slack = 1e-9 * (1.0 + first + more)
    assert predict_excess(first + more, noise, overlap) >= left - slack
    assert predict_excess(first, noise + more, overlap) >= left - slack
    assert predict_excess(first, noise, min(1.0, overlap + more)) >= left - slack


def test_a_small_error_of_clusters_apart_is_taken_away_but_for_noise() -> None:
    assert predict_excess(1e-3, 0.0, 0.0) < 0.02 * 1e-3
    assert predict_excess(1e-3, 1e-3, 0.0) == pytest.approx(0.5e-3, rel=0.02)
    assert predict_excess(3.0, 0.0, 0.0) == pytest.approx(0.85 * 3.0, rel=0.02)
