import numpy as np
from hypothesis import given, strategies as st

from sfumato.learning.decoding.mixture.gaussians import Atoms, compute_jacobian
from sfumato.learning.decoding.mixture.levenberg import Bounds, freeze_held
from sfumato.learning.decoding.mixture.matrix_free import MatrixFreeStep, Products
from sfumato.learning.decoding.mixture.round_descent import evaluate, refine
from tests.learning.decoding.targets import QUIET, draw_fitted, draw_target

seeds = st.integers(0, 2**32 - 1)
chosen = st.sampled_from([[0, 1, 2, 3], [1], [0, 3]])


@given(seed=seeds, chosen=chosen)
def test_products_are_those_of_the_jacobian(seed: int, chosen: list[int]) -> None:
    target, fitted = draw_fitted(seed, 4)
    free, rng = np.array(chosen), np.random.default_rng(seed)
    jacobian = compute_jacobian(target, fitted.atoms, fitted.rows, free)
    products = Products(target, fitted.atoms, fitted.rows, free)
    along = rng.normal(size=len(jacobian))
    across = rng.standard_normal(jacobian.shape[1:], dtype=np.float32)
    size = np.abs(jacobian).max()
    np.testing.assert_allclose(products.apply(along), along @ jacobian, atol=1e-4 * size)
    np.testing.assert_allclose(
        products.apply_transposed(across), jacobian @ across, atol=1e-4 * size
    )


@given(seed=seeds, chosen=chosen)
def test_blocks_are_those_of_the_normal_matrix(seed: int, chosen: list[int]) -> None:
    target, fitted = draw_fitted(seed, 4)
    free, d, q = np.array(chosen), target.n_dimensions, len(chosen)
    jacobian = compute_jacobian(target, fitted.atoms, fitted.rows, free).astype(np.float64)
    hessian = jacobian @ jacobian.T
    centres, pairs, weights = Products(target, fitted.atoms, fitted.rows, free).form_blocks()
    near = {"rtol": 1e-4, "atol": 1e-5 * np.abs(hessian).max()}
    np.testing.assert_allclose(weights, np.diagonal(hessian)[q * (d + 1) :], **near)
    for i, atom in enumerate(chosen):
        own = np.arange(i * d, (i + 1) * d)
        both = np.array([q * d + i, q * (d + 1) + atom])
        np.testing.assert_allclose(centres[i], hessian[np.ix_(own, own)], **near)
        np.testing.assert_allclose(pairs[i], hessian[np.ix_(both, both)], **near)
        np.testing.assert_allclose(hessian[np.ix_(own, both)], 0.0, atol=near["atol"])


@given(
    seed=seeds,
    chosen=chosen,
    priors=st.sampled_from([(0.0, 0.0), (0.3, 2.0)]),
    damping=st.sampled_from([1e-3, 0.1, 10.0]),
)
def test_a_step_lowers_the_model_nearly_as_far_as_that_with_the_matrix_and_holds_the_same(
    seed: int, chosen: list[int], priors: tuple[float, float], damping: float
) -> None:
    target, fitted = draw_fitted(seed, 4)
    free, q, n_atoms = np.array(chosen), len(chosen), 4
    products = Products(target, fitted.atoms, fitted.rows, free)
    jacobian = compute_jacobian(target, fitted.atoms, fitted.rows, free)
    hessian = (jacobian @ jacobian.T).astype(np.float64)
    first = q * target.n_dimensions
    logs, weights = slice(first, first + q), slice(first + q, None)
    hessian[logs, logs] += priors[0] * (np.eye(q) - 1.0 / n_atoms)
    hessian[weights, weights] += priors[1] * np.eye(n_atoms)
    gradient = -products.apply_transposed(fitted.residual)
    # Every third parameter is at a bound if its gradient leads out there; the others have room.
    held = (np.arange(len(gradient)) % 3 == 0) & (gradient > 0.0)
    everywhere = np.full(len(gradient), 1e6)
    bounds = Bounds(
        x=np.zeros(len(gradient)),
        lower=np.where(held, 0.0, -everywhere),
        upper=everywhere,
        limits=everywhere,
    )
    step = MatrixFreeStep.at(bounds, gradient.copy(), products, priors)
    dense = freeze_held(bounds, jacobian, gradient.copy(), hessian)
    np.testing.assert_array_equal(step.held, held)
    np.testing.assert_array_equal(dense.held, held)
    found, exact = step.solve(damping), dense.solve(damping)
    assert found is not None
    assert exact is not None
    np.testing.assert_array_equal(found[held], 0.0)
    diagonal = np.diagonal(dense.hessian)
    damped = dense.hessian + damping * np.diag(diagonal + 1e-6 * diagonal.mean())

    def model(x: np.ndarray) -> float:
        return float(0.5 * x @ damped @ x + dense.gradient @ x)

    assert model(found) <= 0.9 * model(exact) < 0.0


def test_many_atoms_reach_the_truth_from_nearby() -> None:
    rng = np.random.default_rng(3)
    n_atoms = 90
    truth = Atoms(
        centres=rng.uniform(-9.0, 9.0, size=(n_atoms, 3)),
        log_variances=rng.uniform(-2.5, -2.0, size=n_atoms),
        weights=np.full(n_atoms, 1.0 / n_atoms),
    )
    target = draw_target(rng, atoms=truth, n_frequencies=2000)
    start = Atoms(
        centres=truth.centres + 0.02 * rng.normal(size=(n_atoms, 3)),
        log_variances=truth.log_variances + 0.1 * rng.normal(size=n_atoms),
        weights=truth.weights * rng.uniform(0.9, 1.1, size=n_atoms),
    )
    fitted = evaluate(target, start)
    moved = refine(target, fitted, n_iterations=30, tolerance=0.0, monitor=QUIET)
    assert moved.misfit < 1e-4 * fitted.misfit
