import numpy as np
from hypothesis import given, strategies as st

from sfumato.learning.decoding.mixture.gaussians import Atoms, Target, compute_misfit_of
from sfumato.learning.decoding.mixture.moves import propose_adds, propose_splits
from sfumato.learning.decoding.mixture.round_descent import evaluate
from tests.learning.decoding.targets import draw_atoms, draw_fitted, draw_target

seeds = st.integers(0, 2**32 - 1)


def replace(atoms: Atoms, index: int, *others: Atoms) -> Atoms:
    kept = atoms.take(np.delete(np.arange(len(atoms)), index))
    for other in others:
        kept = kept.join(other)
    return kept


@given(seed=seeds, n_atoms=st.integers(1, 4))
def test_the_gain_of_a_split_is_the_fall_of_the_misfit(seed: int, n_atoms: int) -> None:
    target, fitted = draw_fitted(seed, n_atoms)
    splits = propose_splits(target, fitted, np.random.default_rng(seed))
    for i in range(n_atoms):
        one = np.array([i])
        moved = replace(fitted.atoms, i, splits.first.take(one), splits.second.take(one))
        fall = fitted.misfit - compute_misfit_of(target, moved)
        np.testing.assert_allclose(splits.gains[i], fall, atol=1e-4 * fitted.misfit)


@given(seed=seeds)
def test_no_other_weights_of_the_children_gain_more(seed: int) -> None:
    target, fitted = draw_fitted(seed, 2)
    splits = propose_splits(target, fitted, np.random.default_rng(seed))
    best = splits.gains[0]
    one = np.array([0])
    first, second = splits.first.take(one), splits.second.take(one)
    total = first.weights + second.weights
    if total[0] == 0.0:
        return
    for share in np.linspace(0.05, 0.95, 7):
        for scale in (0.8, 1.0, 1.25):
            moved = replace(
                fitted.atoms,
                0,
                first.weigh(scale * share * total),
                second.weigh(scale * (1.0 - share) * total),
            )
            fall = fitted.misfit - compute_misfit_of(target, moved)
            assert fall <= best + 1e-4 * fitted.misfit


@given(seed=seeds, n_wanted=st.integers(1, 5))
def test_the_gain_of_an_add_is_the_fall_of_the_misfit(seed: int, n_wanted: int) -> None:
    target, fitted = draw_fitted(seed, 2)
    adds = propose_adds(target, fitted, n_wanted, np.random.default_rng(seed))
    assert len(adds.atoms) <= n_wanted
    assert np.all(np.diff(adds.gains) <= 0.0)
    for i in range(len(adds.atoms)):
        moved = fitted.atoms.join(adds.atoms.take(np.array([i])))
        fall = fitted.misfit - compute_misfit_of(target, moved)
        np.testing.assert_allclose(adds.gains[i], fall, atol=1e-4 * fitted.misfit)


def test_two_clusters_under_one_atom_are_split_between_them() -> None:
    rng = np.random.default_rng(0)
    truth = Atoms(
        centres=np.array([[-1.2, 0.0, 0.0], [1.2, 0.0, 0.0]]),
        log_variances=np.full(2, np.log(0.3)),
        weights=np.full(2, 0.5),
    )
    target = draw_target(rng, atoms=truth, n_frequencies=80)
    whole = Atoms(
        centres=np.zeros((1, 3)), log_variances=np.array([np.log(0.8)]), weights=np.ones(1)
    )
    splits = propose_splits(target, evaluate(target, whole), rng)
    apart = splits.first.centres[0] - splits.second.centres[0]
    assert splits.gains[0] > 0.0
    assert abs(apart[0]) > 0.95 * np.linalg.norm(apart)


@given(seed=seeds)
def test_adds_lie_in_the_box_and_apart(seed: int) -> None:
    target, fitted = draw_fitted(seed, 3)
    atoms = propose_adds(target, fitted, 6, np.random.default_rng(seed)).atoms
    assert np.all((atoms.centres >= target.lower) & (atoms.centres <= target.upper))
    for i in range(1, len(atoms)):
        squares = np.sum((atoms.centres[:i] - atoms.centres[i]) ** 2, axis=1)
        assert np.all(squares > 3 * atoms.variances[i] / 2.0)


def test_a_missing_cluster_is_where_an_atom_is_added() -> None:
    rng = np.random.default_rng(0)
    truth = draw_atoms(rng, 3)
    target: Target = draw_target(rng, atoms=truth, n_frequencies=80)
    without = evaluate(target, truth.take(np.array([0, 1])))
    best = propose_adds(target, without, 1, rng).atoms
    np.testing.assert_allclose(best.centres[0], truth.centres[2], atol=0.5)
