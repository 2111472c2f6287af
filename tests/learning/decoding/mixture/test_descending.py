import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.mixture.round_descent import descend_from
from tests.learning.decoding.conftest import MakeProblem

MEANS = np.array([[-4.0, 3.0], [2.0, 5.0], [8.0, -1.0]])


def draw_records(n: int = 6000) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    return MEANS[rng.integers(3, size=n)] + rng.normal(size=(n, 2))


def start_at(means: NDArray[np.float64], variance: float = 1.0) -> GaussianMixture:
    return GaussianMixture(
        weights=np.full(3, 1 / 3), means=means, variances=np.full(means.shape, variance)
    )


def test_descent_from_near_the_truth_ends_at_the_truth(make_problem: MakeProblem) -> None:
    problem = make_problem(draw_records(), n_clusters=3, n_frequencies=60, half_width=20.0)
    near = MEANS + np.array([[0.5, -0.4], [-0.3, 0.5], [0.4, 0.3]])
    np.testing.assert_allclose(descend_from(problem, start_at(near)), MEANS, atol=0.06)


def test_a_start_outside_the_box_or_of_any_width_ends_inside(make_problem: MakeProblem) -> None:
    problem = make_problem(draw_records(), n_clusters=3, n_frequencies=60, half_width=20.0)
    for variance in (1e-300, 1e300):
        found = descend_from(problem, start_at(MEANS + 1e6, variance))
        assert np.all((found >= problem.lower) & (found <= problem.upper))
