import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.learning.decoding.gaussians import (
    Atoms,
    compute_jacobian,
    compute_unit_atoms,
)

from .targets import compute_sketch, draw_atoms, draw_target

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
