import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.decoding.clompr import ClOmpr
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solution import Solution

from .conftest import MakeProblem
from .test_recovery import CORNERS, compute_sse

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
