import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.learning.decoding.descent import descend, fit_nonnegative

Vector = NDArray[np.float64]


def bowl(point: Vector) -> tuple[float, Vector]:
    return float(np.sum((point - 2.0) ** 2)), 2.0 * (point - 2.0)


def test_a_descent_stops_at_the_bound_when_the_minimum_lies_outside() -> None:
    result = descend(
        bowl, np.zeros(2), np.full(2, -1.0), np.ones(2), max_iterations=50, tolerance=1e-9
    )
    np.testing.assert_allclose(result.point, 1.0)
    assert not result.failed


def test_an_objective_that_raises_or_is_not_finite_is_a_failure_at_the_start() -> None:
    n_calls = 0

    def breaks(point: Vector) -> tuple[float, Vector]:
        nonlocal n_calls
        n_calls += 1
        if n_calls > 1:
            raise FloatingPointError("overflow")
        return bowl(point)

    def undefined(point: Vector) -> tuple[float, Vector]:
        return float("nan"), np.full_like(point, np.nan)

    for objective in (breaks, undefined):
        result = descend(
            objective, np.zeros(2), -np.ones(2), np.ones(2), max_iterations=9, tolerance=1e-9
        )
        assert result.failed
        np.testing.assert_array_equal(result.point, 0.0)


@given(seed=st.integers(0, 2**32 - 1), n_atoms=st.integers(1, 5))
def test_nonnegative_weights_satisfy_the_optimality_conditions(seed: int, n_atoms: int) -> None:
    rng = np.random.default_rng(seed)
    atoms, target = rng.normal(size=(n_atoms, 12)), rng.normal(size=12)
    weights = fit_nonnegative(atoms, target).weights
    slopes = atoms @ (target - weights @ atoms)
    assert np.all(weights >= 0.0)
    assert np.all(slopes <= 1e-9)
    np.testing.assert_allclose(weights * slopes, 0.0, atol=1e-9)


def test_weights_for_a_target_that_is_not_finite_are_finite_and_flagged() -> None:
    result = fit_nonnegative(np.ones((2, 4)), np.full(4, np.nan))
    assert result.failed
    assert np.all(np.isfinite(result.weights))
