from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.decoding.mixture.ellipsoid_descent import (
    evaluate_shaped,
    form_equations,
    project,
    refine_shaped,
)
from sfumato.learning.decoding.mixture.ellipsoids import (
    Ellipsoids,
    Kind,
    count_parameters,
    draw_samples,
    widen,
)
from sfumato.learning.decoding.mixture.gaussians import Target, compute_unit_atoms
from tests.learning.decoding.targets import QUIET, draw_atoms, draw_ellipsoids, draw_target

seeds = st.integers(0, 2**32 - 1)


def with_sketch_of(target: Target, atoms: Ellipsoids) -> Target:
    """Return the target with the very sketch of a mixture."""
    fitted = evaluate_shaped(target, atoms)
    return replace(target, sketch=target.sketch - fitted.residual)


@given(seed=seeds)
def test_round_atoms_have_the_same_sketch_as_ellipsoids(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, atoms = draw_target(rng), draw_atoms(rng, 3)
    rows = evaluate_shaped(target, widen(atoms)).rows
    np.testing.assert_allclose(rows, compute_unit_atoms(target, atoms), atol=2e-5)


@given(seed=seeds)
@settings(max_examples=10)
def test_the_sketch_is_the_mean_feature_of_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, atoms = draw_target(rng, n_frequencies=10), draw_ellipsoids(rng, 2, slanted=True)
    atoms = atoms.weigh(atoms.weights / atoms.weights.sum())
    features = np.exp(2j * np.pi * draw_samples(atoms, 40_000, rng) @ target.turns)
    sketch = target.sketch - evaluate_shaped(target, atoms).residual
    found = np.concatenate([features.mean(axis=0).real, features.mean(axis=0).imag])
    # A mean of 40,000 strays by at most 0.005; the largest of 20 by six of that once in 2e7 runs.
    np.testing.assert_allclose(found, sketch, atol=0.03)


@pytest.mark.parametrize("kind", ["round", "axes", "full"])
def test_the_jacobian_is_the_slope_of_the_sketch(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    target = draw_target(rng)
    atoms = draw_ellipsoids(rng, 2, slanted=kind == "full")
    if kind == "round":
        atoms = widen(draw_atoms(rng, 2))
    fitted = evaluate_shaped(target, atoms)
    jacobian, _ = form_equations(target, fitted, kind=kind)
    assert len(jacobian) == count_parameters(2, 3, kind=kind)
    step, size = rng.normal(size=len(jacobian)), 1e-3
    moved = move(atoms, size * step, kind)
    back = move(atoms, -size * step, kind)
    slope = (evaluate_shaped(target, back).residual - evaluate_shaped(target, moved).residual) / (
        2.0 * size
    )
    np.testing.assert_allclose(slope, step @ jacobian, atol=2e-3 * np.abs(slope).max())


def move(atoms: Ellipsoids, step: np.ndarray, kind: Kind) -> Ellipsoids:
    n, d = atoms.centres.shape
    n_logs = n if kind == "round" else n * d
    slants = atoms.slants.copy()
    if kind == "full":
        rows, columns = np.tril_indices(d, -1)
        slants[:, rows, columns] += step[2 * n * d : -n].reshape(n, -1)
    return Ellipsoids(
        centres=atoms.centres + step[: n * d].reshape(n, d),
        logs=atoms.logs + step[n * d : n * d + n_logs].reshape(n, -1),
        slants=slants,
        weights=atoms.weights + step[-n:],
    )


@pytest.mark.parametrize("slanted", [False, True])
def test_a_mixture_is_found_again_from_round_atoms_nearby(slanted: bool) -> None:
    rng = np.random.default_rng(3)
    truth = draw_ellipsoids(rng, 3, slanted=slanted)
    target = with_sketch_of(draw_target(rng, n_frequencies=120), truth)
    near = Ellipsoids(
        centres=truth.centres + 0.2 * rng.normal(size=(3, 3)),
        logs=np.repeat(truth.logs.mean(axis=1, keepdims=True), 3, axis=1),
        slants=np.zeros((3, 3, 3)),
        weights=np.full(3, 1.0 / 3.0),
    )
    start = evaluate_shaped(target, near)
    found = refine_shaped(
        target, start, full=slanted, n_iterations=60, tolerance=1e-9, monitor=QUIET
    )
    assert found.misfit < 1e-4 * start.misfit
    np.testing.assert_allclose(found.atoms.centres, truth.centres, atol=0.02)
    np.testing.assert_allclose(found.atoms.variances, truth.variances, rtol=0.05)


def test_leverages_sum_to_the_parameters_and_a_fit_takes_up_that_much_noise() -> None:
    rng = np.random.default_rng(5)
    target = draw_target(rng, n_frequencies=100)
    fitted = evaluate_shaped(target, draw_ellipsoids(rng, 3, slanted=False))
    projection = project(target, fitted, kind="axes")
    n_parameters = count_parameters(3, 3, kind="axes")
    assert projection.leverages.sum() == pytest.approx(n_parameters, rel=0.05)
    left = projection.leave(rng.normal(size=(200, 500)))
    # Chi-squared of 179 degrees, the mean of 500: its deviation is 0.85.
    assert np.mean(np.sum(left**2, axis=0)) == pytest.approx(200 - n_parameters, abs=6.0)


@settings(max_examples=20)
@given(seed=seeds, full=st.booleans(), noise_variance=st.sampled_from([0.0, 1e-3, 10.0]))
def test_descent_never_raises_the_objective_and_stays_in_the_box(
    seed: int, full: bool, noise_variance: float
) -> None:
    rng = np.random.default_rng(seed)
    target = draw_target(rng, noise_variance=noise_variance)
    start = evaluate_shaped(target, draw_ellipsoids(rng, 3, slanted=False))
    found = refine_shaped(target, start, full=full, n_iterations=4, tolerance=0.0, monitor=QUIET)
    assert found.objective <= start.objective
    assert np.all((found.atoms.centres >= target.lower) & (found.atoms.centres <= target.upper))
    assert np.all(found.atoms.weights >= 0.0)
