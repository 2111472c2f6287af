import numpy as np
from hypothesis import given, settings, strategies as st

from sfumato.learning.decoding.mixture.gaussians import Atoms
from sfumato.learning.decoding.mixture.growth import cycle, expand, find_first_atom, grow
from sfumato.learning.decoding.mixture.round_descent import evaluate, refine
from tests.learning.decoding.targets import QUIET, draw_atoms, draw_fitted, draw_target

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, n_atoms=st.integers(1, 5), n_more=st.integers(1, 3))
def test_expanding_gains_the_atoms_asked_for_and_leaves_the_others_alone(
    seed: int, n_atoms: int, n_more: int
) -> None:
    target, fitted = draw_fitted(seed, n_atoms)
    n_more = min(n_more, n_atoms)
    rng = np.random.default_rng(seed)
    larger, touched = expand(target, fitted, n_more, jitter=0.5, rng=rng)
    assert len(larger.atoms) == n_atoms + n_more
    alone = np.setdiff1d(np.arange(len(larger.atoms)), touched)
    for centre in larger.atoms.centres[alone]:
        assert np.any(np.all(fitted.atoms.centres == centre, axis=1))


def test_growth_explains_separated_clusters() -> None:
    rng = np.random.default_rng(1)
    truth = draw_atoms(rng, 6)
    target = draw_target(rng, atoms=truth, n_frequencies=100)
    grown = grow(target, 6, share=0.34, n_iterations=5, jitter=0.0, rng=rng, monitor=QUIET)
    settled = cycle(target, grown, 12, rng=rng, monitor=QUIET)
    settled = refine(target, settled, n_iterations=20, tolerance=0.0, monitor=QUIET)
    assert len(settled.atoms) == 6
    assert settled.misfit < 1e-4 * target.energy


@settings(max_examples=20)
@given(seed=seeds)
def test_a_cycle_never_raises_the_objective_nor_changes_the_number_of_atoms(seed: int) -> None:
    target, fitted = draw_fitted(seed, 4)
    settled = cycle(target, fitted, 3, rng=np.random.default_rng(seed), monitor=QUIET)
    assert settled.objective <= fitted.objective
    assert len(settled.atoms) == 4


def test_one_cluster_is_found_by_the_first_atom() -> None:
    rng = np.random.default_rng(0)
    truth = draw_atoms(rng, 1)
    fitted = find_first_atom(draw_target(rng, atoms=truth), rng, QUIET)
    np.testing.assert_allclose(fitted.atoms.centres, truth.centres, atol=0.05)
    np.testing.assert_allclose(fitted.atoms.weights, truth.weights, atol=0.02)


def test_a_cycle_leaves_a_wrong_optimum() -> None:
    # Two atoms share one cluster, and one atom covers two: no small step mends that.
    rng = np.random.default_rng(2)
    truth = Atoms(
        centres=np.array([[-6.0, 0.0, 0.0], [5.0, 2.0, 0.0], [5.0, -2.0, 0.0]]),
        log_variances=np.zeros(3),
        weights=np.full(3, 1.0 / 3.0),
    )
    target = draw_target(rng, atoms=truth, n_frequencies=80)
    wrong = Atoms(
        centres=np.array([[-6.0, 0.5, 0.0], [-6.0, -0.5, 0.0], [5.0, 0.0, 0.0]]),
        log_variances=np.array([0.0, 0.0, 0.8]),
        weights=np.array([1.0, 1.0, 4.0]) / 6.0,
    )
    stuck = refine(target, evaluate(target, wrong), n_iterations=40, tolerance=0.0, monitor=QUIET)
    freed = cycle(target, stuck, 6, rng=rng, monitor=QUIET)
    assert freed.misfit < 0.1 * stuck.misfit
