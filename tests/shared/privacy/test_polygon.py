import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core import AMPLITUDE, feature_table
from sfumato.shared.privacy.polygon import GON24, compute_norm_sensitivity

COORDINATES = st.integers(-(10**6), 10**6)


def grid(reach: int) -> tuple[np.ndarray, np.ndarray]:
    steps = np.arange(-reach, reach + 1)
    x, y = np.meshgrid(steps, steps)
    return x.ravel(), y.ravel()


def test_the_polygon_has_24_integer_corners_on_its_facets() -> None:
    assert len(GON24.vertices) == 24
    for x, y in GON24.vertices:
        high, low = max(abs(x), abs(y)), min(abs(x), abs(y))
        # A corner is where two facets meet.
        assert sum(p * high + q * low == c for p, q, c in GON24.facets) == 2
        assert all(p * high + q * low <= c for p, q, c in GON24.facets)


@pytest.mark.parametrize("t", [0, 1, 2, 3, 7, 39])
def test_lattice_points_number_the_ehrhart_polynomial(t: int) -> None:
    assert int(GON24.contains(*grid(12 * t + 1), t).sum()) == GON24.count_points(t)


@pytest.mark.parametrize("t", [1, 2, 5])
def test_the_norm_is_the_least_scale_that_contains_a_point(t: int) -> None:
    x, y = grid(12 * t + 2)
    assert np.array_equal(GON24.contains(x, y, t), GON24.norm(x, y) <= t)


@given(COORDINATES, COORDINATES, COORDINATES, COORDINATES)
def test_the_norm_is_subadditive_and_even(a: int, b: int, c: int, d: int) -> None:
    def norm(x: int, y: int) -> int:
        return int(GON24.norm(np.array([x]), np.array([y]))[0])

    assert norm(a + c, b + d) <= norm(a, b) + norm(c, d)
    assert norm(-a, -b) == norm(a, b) == norm(b, a)


def test_the_second_moment_is_the_limit_of_that_of_lattice_points() -> None:
    x, y = grid(12 * 60)
    inside = GON24.contains(x, y, 60)
    exact = float(np.mean(x[inside].astype(np.float64) ** 2)) / 60**2
    assert exact == pytest.approx(float(GON24.second_moment), rel=1e-3)


def test_the_sensitivity_is_enumerated_and_attained() -> None:
    # A is a multiple of 6 so that twice A divides by the inradius: nothing is lost to rounding.
    assert compute_norm_sensitivity(feature_table(), GON24, neighbouring="replace-one") == 2730
    assert compute_norm_sensitivity(feature_table(), GON24, neighbouring="add-remove-one") == 1365
    assert 2 * AMPLITUDE == 12 * 2730
    table = feature_table().astype(np.int64)
    rng = np.random.default_rng(0)
    a, b = table[rng.integers(0, 65536, 100_000)], table[rng.integers(0, 65536, 100_000)]
    assert int(GON24.norm(*(a - b).T).max()) <= 2730
    opposite = table[:32768] - table[32768:]
    assert int(GON24.norm(*opposite.T).max()) == 2730
