import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.learning.decoding.mixture.gaussians import (
    Atoms,
    compute_gaussians,
    compute_jacobian,
    compute_unit_atoms,
    measure_in_wavelengths,
    prepare_target,
)
from tests.learning.decoding.conftest import MakeProblem
from tests.learning.decoding.targets import compute_sketch, draw_atoms, draw_target

Vector = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


def stack(sketch: NDArray[np.complex128]) -> Vector:
    return np.concatenate([sketch.real, sketch.imag])


@given(seed=seeds, d=st.integers(1, 5))
def test_an_atom_is_the_characteristic_function_of_its_gaussian(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    target = draw_target(rng, n_dimensions=d)
    atoms = draw_atoms(rng, 2, n_dimensions=d)
    rows = compute_unit_atoms(target, atoms)
    expected = stack(compute_sketch(atoms, 2.0 * np.pi * target.turns))
    np.testing.assert_allclose(atoms.weights @ rows, expected, atol=3e-6)


@given(seed=seeds, d=st.integers(1, 4), n_atoms=st.integers(1, 4))
def test_the_jacobian_equals_finite_differences(seed: int, d: int, n_atoms: int) -> None:
    rng = np.random.default_rng(seed)
    target = draw_target(rng, n_dimensions=d, n_frequencies=15)
    atoms = draw_atoms(rng, n_atoms, n_dimensions=d)
    chosen = np.sort(rng.permutation(n_atoms)[: rng.integers(1, n_atoms + 1)])
    q = len(chosen)

    def sketch_at(x: Vector) -> Vector:
        centres, logs = atoms.centres.copy(), atoms.log_variances.copy()
        centres[chosen] = x[: q * d].reshape(q, d)
        logs[chosen] = x[q * d : q * (d + 1)]
        moved = Atoms(centres=centres, log_variances=logs, weights=x[q * (d + 1) :])
        return stack(compute_sketch(moved, 2.0 * np.pi * target.turns))

    x = np.concatenate([atoms.centres[chosen].ravel(), atoms.log_variances[chosen], atoms.weights])
    step = 1e-5 * np.eye(len(x))
    numeric = np.array([(sketch_at(x + h) - sketch_at(x - h)) / 2e-5 for h in step])
    jacobian = compute_jacobian(target, atoms, compute_unit_atoms(target, atoms), chosen)
    np.testing.assert_allclose(jacobian, numeric, atol=2e-5)


def test_phases_of_a_million_turns_are_still_right() -> None:
    rng = np.random.default_rng(0)
    target = draw_target(rng, n_dimensions=1)
    far = np.array([[2.0 * np.pi * 1e6 + 1.5]])
    row = compute_gaussians(target, far, np.array([-30.0]))
    expected = np.exp(1j * far @ (2.0 * np.pi * target.turns))[0]
    np.testing.assert_allclose(row[0], stack(expected), atol=1e-6)


@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_in_wavelengths_the_median_frequency_is_one(
    make_problem: MakeProblem, factor: float
) -> None:
    problem = make_problem(
        np.zeros((1, 3)), n_clusters=1, n_frequencies=31, half_width=5.0 * factor, scale=factor
    )
    target = prepare_target(measure_in_wavelengths(problem))
    assert np.median(target.squares) == pytest.approx(1.0, rel=1e-5)
    least, largest = target.log_variance_bounds
    assert least < largest
