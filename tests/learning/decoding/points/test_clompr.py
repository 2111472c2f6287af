import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.decoding.points.clompr import ClOmpr
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solution import Solution
from tests.learning.decoding.conftest import MakeProblem
from tests.learning.decoding.mixture.test_decoder import CORNERS, compute_sse

Points = NDArray[np.float64]


def solve(problem: DecodingProblem, solver: ClOmpr | None = None, seed: int = 0) -> Solution:
    return (solver or ClOmpr()).solve(problem, rng=np.random.default_rng(seed))


def test_one_noiseless_point_mass_is_recovered(make_problem: MakeProblem) -> None:
    point = np.array([[4.0, 1.5, 3.2]])
    problem = make_problem(point, n_clusters=1, n_frequencies=30, half_width=5.0)
    solution = solve(problem)
    np.testing.assert_allclose(solution.centroids, point, atol=1e-3)
    assert solution.residual < 1e-6
    assert solution.succeeded
    assert not solution.warnings


@pytest.mark.parametrize("n_starts", [1, 5])
def test_a_well_separated_mixture_is_clustered_nearly_as_well_as_by_its_means(
    make_problem: MakeProblem, n_starts: int
) -> None:
    rng = np.random.default_rng(1)
    records = np.repeat(CORNERS, 400, axis=0) + rng.normal(size=(2000, 2))
    problem = make_problem(records, n_clusters=5, n_frequencies=100, half_width=10.0)
    solution = solve(problem, ClOmpr(n_replicates=10, n_starts=n_starts))
    means = records.reshape(5, 400, 2).mean(axis=1)
    assert compute_sse(records, solution.centroids) / compute_sse(records, means) < 1.1
    assert solution.succeeded


def test_identical_records_leave_place_holders_and_say_so(make_problem: MakeProblem) -> None:
    records = np.tile([[2.0, 4.0]], (50, 1))
    problem = make_problem(records, n_clusters=3, n_frequencies=40, half_width=5.0)
    solution = solve(problem)
    heavy = solution.weights > 1e-3
    np.testing.assert_allclose(
        solution.weights[heavy] @ solution.centroids[heavy], records[0], atol=1e-2
    )
    assert np.all(np.isfinite(solution.centroids))
    assert solution.residual < 1e-5
    assert heavy.sum() == 3 or any("have weight" in text for text in solution.warnings)


def test_unequal_weights_are_recovered_in_falling_order(make_problem: MakeProblem) -> None:
    weights = np.array([0.6, 0.3, 0.1])
    problem = make_problem(
        CORNERS[:3], weights=weights, n_clusters=3, n_frequencies=60, half_width=9.0
    )
    solution = solve(problem, ClOmpr(n_replicates=10))
    np.testing.assert_allclose(solution.weights, weights, atol=1e-2)
    np.testing.assert_allclose(solution.centroids, CORNERS[:3], atol=0.05)


def test_too_few_clusters_are_reported_as_a_misfit(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=2, n_frequencies=60, half_width=9.0)
    assert any("far above the noise floor" in text for text in solve(problem).warnings)


def test_replicates_do_not_depend_on_how_many_there_are(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=3, n_frequencies=40, half_width=9.0)
    few, many = (solve(problem, ClOmpr(n_replicates=count)) for count in (2, 4))
    assert many.replicate_residuals[:2] == few.replicate_residuals
    assert many.residual == min(many.replicate_residuals)
    other = solve(problem, seed=1)
    assert other.replicate_residuals[:2] != few.replicate_residuals
