import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.learning.decoding.clompr import ClOmpr
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solution import Solution
from sfumato.shared.errors import DecodingCancelledError

from .conftest import MakeProblem

Points = NDArray[np.float64]

# Four corners of a square and its middle, around the simulated problems' centre of 3.
CORNERS = 3.0 + np.array([[-6.0, -6.0], [-6.0, 6.0], [6.0, -6.0], [6.0, 6.0], [0.0, 0.0]])


def solve(problem: DecodingProblem, solver: ClOmpr | None = None, seed: int = 0) -> Solution:
    return (solver or ClOmpr()).solve(problem, rng=np.random.default_rng(seed))


def compute_sse(records: Points, centroids: Points) -> float:
    squares = np.sum((records[:, None] - centroids[None]) ** 2, axis=2)
    return float(np.sum(np.min(squares, axis=1)))


def assert_holds_points(solution: Solution, points: Points, tolerance: float) -> None:
    gaps = np.linalg.norm(points[:, None] - solution.centroids[None], axis=2)
    assert np.max(np.min(gaps, axis=1)) < tolerance


@pytest.fixture(scope="module")
def noise_alone(make_problem: MakeProblem) -> DecodingProblem:
    """Return a problem whose sketch is noise of the stated variance."""
    corners = make_problem(
        CORNERS, n_clusters=5, n_frequencies=60, half_width=9.0, noise_variance=1.0
    )
    features = np.exp(1j * (CORNERS - corners.centre) @ corners.frequencies)
    return dataclasses.replace(corners, sketch=corners.sketch - np.mean(features, axis=0))


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


def test_points_on_a_line_are_recovered(make_problem: MakeProblem) -> None:
    points = np.array([[-2.0], [3.0], [7.0]])
    problem = make_problem(points, n_clusters=3, n_frequencies=40, half_width=8.0)
    assert_holds_points(solve(problem), points, 0.05)


def test_fewer_frequencies_than_dimensions_decode_without_failing(
    make_problem: MakeProblem,
) -> None:
    point = np.full((1, 8), 3.5)
    problem = make_problem(point, n_clusters=1, n_frequencies=5, half_width=4.0)
    solution = solve(problem)
    assert solution.succeeded
    assert solution.residual < 1e-3


def test_unequal_weights_are_recovered_in_falling_order(make_problem: MakeProblem) -> None:
    weights = np.array([0.6, 0.3, 0.1])
    problem = make_problem(
        CORNERS[:3], weights=weights, n_clusters=3, n_frequencies=60, half_width=9.0
    )
    solution = solve(problem, ClOmpr(n_replicates=10))
    np.testing.assert_allclose(solution.weights, weights, atol=1e-2)
    np.testing.assert_allclose(solution.centroids, CORNERS[:3], atol=0.05)


def test_pure_noise_gives_a_warning_and_finite_centroids(noise_alone: DecodingProblem) -> None:
    solution = solve(noise_alone, ClOmpr(n_replicates=2))
    assert any("cannot be told from noise" in text for text in solution.warnings)
    assert np.all(np.isfinite(solution.centroids))
    assert np.all(np.isfinite(solution.weights))


def test_an_empty_sketch_is_a_failure_in_a_field(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=2, n_frequencies=20, half_width=9.0)
    empty = dataclasses.replace(problem, sketch=np.zeros(20, dtype=np.complex128))
    solution = solve(empty, ClOmpr(n_replicates=2))
    assert not solution.succeeded
    assert np.all(np.isfinite(solution.centroids))
    np.testing.assert_allclose(solution.weights.sum(), 1.0)
    assert solution.warnings


def test_too_few_clusters_are_reported_as_a_misfit(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=2, n_frequencies=60, half_width=9.0)
    assert any("far above the noise floor" in text for text in solve(problem).warnings)


def test_the_same_seed_gives_the_same_bits_and_another_seed_other_starts(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(CORNERS, n_clusters=3, n_frequencies=40, half_width=9.0)
    first, again, other = (solve(problem, seed=seed) for seed in (7, 7, 8))
    assert first.centroids.tobytes() == again.centroids.tobytes()
    assert first.weights.tobytes() == again.weights.tobytes()
    assert first.replicate_residuals == again.replicate_residuals
    assert first.replicate_residuals != other.replicate_residuals


def test_replicates_do_not_depend_on_how_many_there_are(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=3, n_frequencies=40, half_width=9.0)
    few, many = (solve(problem, ClOmpr(n_replicates=count)) for count in (2, 4))
    assert many.replicate_residuals[:2] == few.replicate_residuals
    assert many.residual == min(many.replicate_residuals)


def test_progress_is_nondecreasing_and_ends_at_one(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=2, n_frequencies=20, half_width=9.0)
    fractions: list[float] = []
    ClOmpr(n_replicates=3).solve(problem, rng=np.random.default_rng(0), progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0


def test_a_cancelled_solve_stops_between_steps(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=2, n_frequencies=20, half_width=9.0)
    fractions: list[float] = []
    with pytest.raises(DecodingCancelledError):
        ClOmpr().solve(
            problem,
            rng=np.random.default_rng(0),
            progress=fractions.append,
            cancelled=lambda: len(fractions) > 3,
        )
    assert len(fractions) == 4


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 4),
    k=st.integers(1, 4),
    noise_variance=st.sampled_from([0.0, 0.1, 10.0]),
)
def test_weights_sum_to_one_and_centroids_lie_in_the_box(
    make_problem: MakeProblem, seed: int, d: int, k: int, noise_variance: float
) -> None:
    rng = np.random.default_rng(seed)
    problem = make_problem(
        # Some points lie outside the box: the answer must not.
        3.0 + rng.uniform(-5.0, 5.0, size=(3, d)),
        n_clusters=k,
        n_frequencies=12,
        half_width=4.0,
        noise_variance=noise_variance,
        seed=seed,
    )
    solution = solve(problem, ClOmpr(n_replicates=1), seed=seed)
    assert solution.centroids.shape == (k, d)
    assert np.all((solution.centroids >= problem.lower) & (solution.centroids <= problem.upper))
    assert np.all(solution.weights >= 0.0)
    assert np.all(np.diff(solution.weights) <= 0.0)
    np.testing.assert_allclose(solution.weights.sum(), 1.0)
    assert np.isfinite(solution.residual)
    assert len(solution.replicate_residuals) == solution.n_replicates == 1
