import numpy as np
from hypothesis import given, strategies as st

from sfumato.learning.decoding.mixture.gaussians import Atoms, compute_misfit_of
from sfumato.learning.decoding.mixture.growth import (
    compute_drop_costs,
    fit_weights,
    propose_merges,
    prune,
)
from sfumato.learning.decoding.mixture.round_descent import evaluate
from tests.learning.decoding.targets import draw_atoms, draw_fitted, draw_target

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, n_atoms=st.integers(2, 5))
def test_the_cost_of_a_drop_is_that_of_free_weights_without_the_atom(
    seed: int, n_atoms: int
) -> None:
    target, fitted = draw_fitted(seed, n_atoms)
    rows, sketch = fitted.rows.astype(np.float64), target.sketch.astype(np.float64)

    def solve(kept: list[int]) -> tuple[np.ndarray, float]:
        weights, *_ = np.linalg.lstsq(rows[kept].T, sketch, rcond=None)
        return weights, float(np.sum((sketch - weights @ rows[kept]) ** 2))

    best, misfit = solve(list(range(n_atoms)))
    costs = compute_drop_costs(fitted.rows, best)
    for i in range(n_atoms):
        _, without = solve([j for j in range(n_atoms) if j != i])
        np.testing.assert_allclose(costs[i], without - misfit, rtol=1e-2, atol=1e-4 * misfit)


@given(seed=seeds, n_atoms=st.integers(2, 5))
def test_the_cost_of_a_merge_is_the_rise_of_the_misfit(seed: int, n_atoms: int) -> None:
    target, fitted = draw_fitted(seed, n_atoms)
    merges = propose_merges(target, fitted)
    for i in range(n_atoms):
        left = np.delete(np.arange(n_atoms), [i, merges.partners[i]])
        moved = fitted.atoms.take(left).join(merges.merged.take(np.array([i])))
        rise = compute_misfit_of(target, moved) - fitted.misfit
        np.testing.assert_allclose(merges.costs[i], rise, atol=1e-4 * fitted.misfit)


@given(seed=seeds)
def test_a_merge_keeps_mean_and_total_variance(seed: int) -> None:
    target, fitted = draw_fitted(seed, 2)
    merged, atoms = propose_merges(target, fitted).merged, fitted.atoms
    shares = atoms.weights / atoms.weights.sum()
    mean = shares @ atoms.centres
    np.testing.assert_allclose(merged.centres[0], mean)
    total = shares @ (atoms.variances + np.sum((atoms.centres - mean) ** 2, axis=1) / 3)
    np.testing.assert_allclose(merged.variances[0], min(total, 100.0), rtol=1e-6)


@given(seed=seeds)
def test_weights_are_the_best_that_are_not_negative(seed: int) -> None:
    target, fitted = draw_fitted(seed, 4)
    weights = fit_weights(target, fitted.rows)
    gradient = fitted.rows @ (target.sketch - weights @ fitted.rows)
    scale = np.linalg.norm(fitted.rows, axis=1) * np.linalg.norm(target.sketch)
    assert np.all(weights >= 0.0)
    assert np.all(gradient <= 1e-3 * scale)
    assert np.all(np.abs(gradient[weights > 0.0]) <= 1e-3 * scale[weights > 0.0])


def test_an_atom_too_many_goes_without_a_trace() -> None:
    rng = np.random.default_rng(4)
    truth = draw_atoms(rng, 3)
    target = draw_target(rng, atoms=truth, n_frequencies=60)
    halves = truth.weigh(truth.weights / 2.0)
    doubled = evaluate(target, halves.join(halves.take(np.array([1]))).join(halves))
    pruned = prune(target, doubled, 3, jitter=0.0, rng=rng)
    assert pruned.misfit < 1e-3 * float(np.sum(target.sketch**2))


def test_atoms_in_one_place_can_be_pruned_to_one() -> None:
    rng = np.random.default_rng(0)
    target = draw_target(rng)
    same = Atoms(
        centres=np.zeros((5, 3)), log_variances=np.zeros(5), weights=np.array([0.2, 0, 0, 0.1, 0])
    )
    pruned = prune(target, evaluate(target, same), 1, jitter=0.5, rng=rng)
    assert len(pruned.atoms) == 1
    assert np.all(np.isfinite(pruned.atoms.centres))
