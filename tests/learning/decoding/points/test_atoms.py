import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime

from sfumato.learning.decoding.points.atoms import (
    compute_atoms,
    compute_correlation,
    compute_misfit,
)

Vector = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)
dimensions = st.integers(1, 6)


@given(seed=seeds, d=dimensions)
def test_the_gradient_of_the_correlation_equals_finite_differences(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    frequencies, residual = rng.normal(size=(d, 9)), rng.normal(size=18)
    point = rng.normal(size=d)
    _, gradient = compute_correlation(point, frequencies, residual)

    def value(moved: Vector) -> float:
        return compute_correlation(moved, frequencies, residual)[0]

    numeric = approx_fprime(point, value, 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=2e-5)


@given(seed=seeds, d=dimensions)
def test_every_atom_has_energy_m_and_is_the_stacked_exponential(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    frequencies, points = rng.normal(size=(d, 11)), rng.normal(size=(3, d))
    atoms = compute_atoms(points, frequencies)
    expected = np.exp(1j * points @ frequencies)
    np.testing.assert_allclose(atoms, np.hstack([expected.real, expected.imag]), atol=1e-12)
    np.testing.assert_allclose(np.sum(atoms**2, axis=1), 11.0)


@given(seed=seeds, d=dimensions)
def test_the_correlation_with_an_atom_is_largest_at_its_own_point(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    frequencies, points = rng.normal(size=(d, 8)), rng.normal(size=(2, d))
    atom = compute_atoms(points[:1], frequencies)[0]
    at_home, gradient = compute_correlation(points[0], frequencies, atom)
    elsewhere, _ = compute_correlation(points[1], frequencies, atom)
    np.testing.assert_allclose(at_home, np.sqrt(8.0))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    assert elsewhere <= at_home + 1e-12


@given(seed=seeds, d=dimensions, n_atoms=st.integers(1, 4))
def test_the_gradient_of_the_misfit_equals_finite_differences(
    seed: int, d: int, n_atoms: int
) -> None:
    rng = np.random.default_rng(seed)
    frequencies, target = rng.normal(size=(d, 7)), rng.normal(size=14)
    points, weights = rng.normal(size=(n_atoms, d)), rng.uniform(size=n_atoms)
    _, to_points, to_weights = compute_misfit(points, weights, frequencies, target)

    def value(parameters: Vector) -> float:
        moved = parameters[:-n_atoms].reshape(n_atoms, d)
        return compute_misfit(moved, parameters[-n_atoms:], frequencies, target)[0]

    numeric = approx_fprime(np.append(points.ravel(), weights), value, 1e-7)
    np.testing.assert_allclose(np.append(to_points.ravel(), to_weights), numeric, atol=2e-4)
