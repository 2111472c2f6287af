import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.decoding.mixture.gaussians import Atoms
from sfumato.learning.decoding.mixture.round_descent import evaluate, refine
from sfumato.learning.decoding.solver import Monitor
from sfumato.shared.errors import DecodingCancelledError
from tests.learning.decoding.targets import QUIET, draw_atoms, draw_fitted, draw_target

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, n_atoms=st.integers(1, 4), noise_variance=st.sampled_from([0.0, 0.01, 5.0]))
def test_every_step_lowers_the_objective_and_stays_in_the_bounds(
    seed: int, n_atoms: int, noise_variance: float
) -> None:
    rng = np.random.default_rng(seed)
    target = draw_target(rng, noise_variance=noise_variance)
    fitted = evaluate(target, draw_atoms(rng, n_atoms))
    for _ in range(6):
        moved = refine(target, fitted, n_iterations=1, tolerance=0.0, monitor=QUIET)
        assert moved.objective <= fitted.objective
        fitted = moved
    assert np.all((fitted.atoms.centres >= target.lower) & (fitted.atoms.centres <= target.upper))
    assert np.all(fitted.atoms.weights >= 0.0)
    assert np.all(fitted.atoms.log_variances >= target.log_variance_bounds[0])
    assert np.all(fitted.atoms.log_variances <= target.log_variance_bounds[1])


@given(seed=seeds)
def test_from_nearby_the_truth_is_reached(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = Atoms(
        centres=np.array([[-5.0, 0.0, 1.0], [4.0, 4.0, -3.0], [3.0, -5.0, 5.0]]),
        log_variances=np.array([0.0, -0.5, 0.5]),
        weights=np.array([0.5, 0.3, 0.2]),
    )
    target = draw_target(rng, atoms=truth, n_frequencies=60)
    start = Atoms(
        centres=truth.centres + 0.3 * rng.uniform(-1.0, 1.0, size=(3, 3)),
        log_variances=truth.log_variances + 0.3 * rng.uniform(-1.0, 1.0, size=3),
        weights=truth.weights * rng.uniform(0.8, 1.2, size=3),
    )
    fitted = refine(target, evaluate(target, start), n_iterations=60, tolerance=0.0, monitor=QUIET)
    np.testing.assert_allclose(fitted.atoms.centres, truth.centres, atol=2e-3)
    np.testing.assert_allclose(fitted.atoms.log_variances, truth.log_variances, atol=2e-2)
    np.testing.assert_allclose(fitted.atoms.weights, truth.weights, atol=2e-3)


def test_only_the_chosen_atoms_move_but_all_weights_may() -> None:
    target, fitted = draw_fitted(1, 4)
    moved = refine(
        target, fitted, n_iterations=5, tolerance=0.0, monitor=QUIET, chosen=np.array([2])
    )
    fixed = [0, 1, 3]
    np.testing.assert_array_equal(moved.atoms.centres[fixed], fitted.atoms.centres[fixed])
    np.testing.assert_array_equal(
        moved.atoms.log_variances[fixed], fitted.atoms.log_variances[fixed]
    )
    assert np.all(moved.atoms.centres[2] != fitted.atoms.centres[2])
    assert np.any(moved.atoms.weights[fixed] != fitted.atoms.weights[fixed])


def test_the_priors_draw_spreads_and_weights_together_where_noise_is_strong() -> None:
    rng = np.random.default_rng(0)
    atoms = draw_atoms(rng, 3)
    spread = {}
    for noise_variance in (0.0, 100.0):
        target = draw_target(np.random.default_rng(1), atoms=atoms, noise_variance=noise_variance)
        fitted = refine(
            target, evaluate(target, atoms), n_iterations=30, tolerance=0.0, monitor=QUIET
        )
        spread[noise_variance] = (
            np.std(fitted.atoms.log_variances),
            np.std(fitted.atoms.weights),
        )
    assert spread[100.0][0] < 0.2 * spread[0.0][0]
    assert spread[100.0][1] < 0.5 * spread[0.0][1]


def test_weak_noise_leaves_the_misfit_alone_to_be_minimised() -> None:
    atoms = draw_atoms(np.random.default_rng(0), 3)
    for noise_variance, is_weak in ((1e-7, True), (1e-2, False)):
        target = draw_target(np.random.default_rng(1), atoms=atoms, noise_variance=noise_variance)
        fitted = evaluate(target, atoms)
        assert target.has_weak_noise == is_weak
        assert (fitted.objective == fitted.misfit) == is_weak


def test_an_atom_without_weight_does_no_harm() -> None:
    target, fitted = draw_fitted(2, 3)
    idle = evaluate(target, fitted.atoms.weigh(np.array([0.3, 0.0, 0.0])))
    moved = refine(target, idle, n_iterations=10, tolerance=0.0, monitor=QUIET)
    assert moved.objective < idle.objective
    assert np.all(np.isfinite(moved.atoms.centres))


def test_it_asks_before_every_step_whether_to_go_on() -> None:
    target, fitted = draw_fitted(3, 2)
    polled = 0

    def cancelled() -> bool:
        nonlocal polled
        polled += 1
        return polled == 3

    with pytest.raises(DecodingCancelledError):
        refine(target, fitted, n_iterations=9, tolerance=0.0, monitor=Monitor(1, None, cancelled))
