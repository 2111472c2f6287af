"""Discrete Gaussian noise follows its law: accepts the right scale, rejects 2/3 and 3/2 of it.

Seeds are fixed; stated false-alarm rates are those over the choice of a seed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.privacy.mechanisms.gaussian import draw_gaussian
from sfumato.shared.privacy.testing import SeededSource

N_DRAWS = 40_000


def score(drawn: NDArray[np.int64], sigma: int) -> float:
    """Return a chi-square statistic against the exact law as standard deviations."""
    reach = 12 * sigma
    step = max(1, sigma // 6)
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weight = np.exp(-(k**2) / (2.0 * sigma**2))
    edges = np.arange(-reach, reach + 2, step)
    cell = np.searchsorted(edges, k, side="right")
    expected = np.bincount(cell, weights=weight / weight.sum()) * drawn.size
    inside = np.clip(drawn, -reach, reach)
    observed = np.bincount(np.searchsorted(edges, inside, side="right"), minlength=expected.size)
    kept = expected >= 10
    e = np.append(expected[kept], expected[~kept].sum() + 1e-9)
    o = np.append(observed[kept], observed[~kept].sum())
    n_free = e.size - 1
    statistic = float(np.sum((o - e) ** 2 / np.maximum(e, 1.0)))
    return float(
        ((statistic / n_free) ** (1 / 3) - 1 + 2 / (9 * n_free)) / math.sqrt(2 / (9 * n_free))
    )


@pytest.mark.parametrize("sigma", [3, 90, 30_000])
def test_draws_follow_the_discrete_gaussian_law_at_no_other_scale(sigma: int) -> None:
    # 4.9 standard deviations: false alarm 5e-7 per scale.
    assert score(draw_gaussian(SeededSource(sigma), sigma, N_DRAWS), sigma) < 4.9
    for wrong in (sigma * 2 // 3, sigma * 3 // 2):
        assert score(draw_gaussian(SeededSource(sigma), wrong, N_DRAWS), sigma) > 4.9


def test_a_unit_scale_has_the_exact_probability_of_zero() -> None:
    drawn = draw_gaussian(SeededSource(1), 1, N_DRAWS)
    p = 1 / sum(math.exp(-k * k / 2) for k in range(-40, 41))
    # Five standard deviations: false alarm 6e-7.
    assert abs(np.mean(drawn == 0) - p) < 5 * math.sqrt(p * (1 - p) / N_DRAWS)


def test_large_scales_have_the_right_variance() -> None:
    sigma = 10**9
    drawn = draw_gaussian(SeededSource(2), sigma, N_DRAWS).astype(np.float64) / sigma
    # The fourth moment is 3: five standard errors of the variance; false alarm 6e-7.
    tolerance = 5 * math.sqrt(2 / N_DRAWS)
    assert abs(np.mean(drawn**2) - 1) < tolerance
    assert abs(np.mean((drawn * 2 / 3) ** 2) - 1) > tolerance
    assert abs(np.mean((drawn * 3 / 2) ** 2) - 1) > tolerance
