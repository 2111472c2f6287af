import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.points.clompr import ClOmpr
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.solver import Solver
from sfumato.shared.errors import DecodingCancelledError, DecodingError
from tests.learning.decoding.conftest import MakeProblem

Points = NDArray[np.float64]

# Four corners of a square and its middle, around the simulated problems' centre of 3.
CORNERS = 3.0 + np.array([[-6.0, -6.0], [-6.0, 6.0], [6.0, -6.0], [6.0, 6.0], [0.0, 0.0]])


each_solver = pytest.mark.parametrize("solver", [MixtureDecoder(), ClOmpr()])


def solve(problem: DecodingProblem, solver: Solver | None = None) -> Solution:
    return (solver or MixtureDecoder()).solve(problem, rng=np.random.default_rng(0))


def compute_sse(records: Points, centroids: Points) -> float:
    squares = np.sum((records[:, None] - centroids[None]) ** 2, axis=2)
    return float(np.sum(np.min(squares, axis=1)))


def assert_is_whole(solution: Solution, problem: DecodingProblem) -> None:
    """Fail unless the solution has the promised shape, order and range, whatever was solved."""
    k, d = problem.n_clusters, problem.n_dimensions
    assert solution.centroids.shape == (k, d)
    assert np.all((solution.centroids >= problem.lower) & (solution.centroids <= problem.upper))
    assert np.all(solution.weights >= 0.0)
    assert np.all(np.diff(solution.weights) <= 0.0)
    np.testing.assert_allclose(solution.weights.sum(), 1.0)
    assert np.isfinite(solution.residual)
    assert len(solution.replicate_residuals) == solution.n_replicates
    if solution.solver.startswith("mixture"):
        assert solution.spreads is not None
        assert np.all(np.isfinite(solution.spreads))
        assert 0.0 < solution.agreement <= 1.0
        assert solution.mixture is not None
        assert np.all(np.isfinite(solution.mixture.compute_log_density(solution.centroids)))


def draw_round_clusters(means: Points, n_each: int, spread: float = 1.0) -> Points:
    rng = np.random.default_rng(1)
    return np.repeat(means, n_each, axis=0) + spread * rng.normal(
        size=(n_each * len(means), means.shape[1])
    )


@pytest.fixture(scope="module")
def round_clusters() -> Points:
    return draw_round_clusters(CORNERS, 400)


def test_separated_clusters_are_found_as_well_as_by_their_means_and_with_their_density(
    make_problem: MakeProblem, round_clusters: Points
) -> None:
    problem = make_problem(round_clusters, n_clusters=5, n_frequencies=50, half_width=10.0)
    solution = solve(problem)
    assert_is_whole(solution, problem)
    means = round_clusters.reshape(5, 400, 2).mean(axis=1)
    ratio = compute_sse(round_clusters, solution.centroids) / compute_sse(round_clusters, means)
    assert ratio < 1.005
    np.testing.assert_allclose(solution.weights, 0.2, atol=0.02)
    assert solution.spreads is not None
    np.testing.assert_allclose(solution.spreads, 1.0, atol=0.15)
    assert solution.succeeded
    mixture = solution.mixture
    assert mixture is not None
    drawn = mixture.draw_samples(4000, rng=np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), round_clusters.mean(axis=0), atol=0.5)
    np.testing.assert_allclose(drawn.std(axis=0), round_clusters.std(axis=0), atol=0.3)
    # The entropy of five equal round clusters far apart: ln 5 + ln(2 pi e).
    found = float(np.mean(mixture.compute_log_density(round_clusters)))
    assert found == pytest.approx(-(np.log(5.0) + np.log(2.0 * np.pi * np.e)), abs=0.1)


def test_clusters_that_are_not_round_are_found_through_richer_mixtures(
    make_problem: MakeProblem,
) -> None:
    rng = np.random.default_rng(3)
    stretched = rng.normal(size=(1500, 2)) * [2.5, 0.5]
    records = np.repeat(3.0 + np.array([[0.0, -6.0], [0.0, 0.0], [0.0, 6.0]]), 500, axis=0)
    records = records + stretched
    problem = make_problem(records, n_clusters=3, n_frequencies=60, half_width=14.0)
    solution = solve(problem)
    assert_is_whole(solution, problem)
    assert not solution.at_noise_floor
    assert solution.mixture is not None
    assert len(solution.mixture.weights) > 3
    means = records.reshape(3, 500, 2).mean(axis=1)
    assert compute_sse(records, solution.centroids) / compute_sse(records, means) < 1.02


@each_solver
def test_the_same_seed_gives_the_same_bits(make_problem: MakeProblem, solver: Solver) -> None:
    problem = make_problem(
        CORNERS, n_clusters=4, n_frequencies=40, half_width=9.0, noise_variance=0.01
    )
    first, again = solve(problem, solver), solve(problem, solver)
    assert first.centroids.tobytes() == again.centroids.tobytes()
    assert first.weights.tobytes() == again.weights.tobytes()
    assert first.replicate_residuals == again.replicate_residuals


@each_solver
def test_progress_is_nondecreasing_and_ends_at_one(
    make_problem: MakeProblem, solver: Solver
) -> None:
    problem = make_problem(CORNERS, n_clusters=2, n_frequencies=20, half_width=9.0)
    fractions: list[float] = []
    solver.solve(problem, rng=np.random.default_rng(0), progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0
    assert len(fractions) > 5


@each_solver
@pytest.mark.parametrize("n_polls", [1, 20])
def test_a_cancelled_solve_stops_at_once(
    make_problem: MakeProblem, n_polls: int, solver: Solver
) -> None:
    problem = make_problem(
        CORNERS, n_clusters=5, n_frequencies=40, half_width=9.0, noise_variance=0.05
    )
    polled = 0

    def cancelled() -> bool:
        nonlocal polled
        polled += 1
        return polled >= n_polls

    with pytest.raises(DecodingCancelledError):
        solver.solve(problem, rng=np.random.default_rng(0), cancelled=cancelled)
    assert polled == n_polls


# Bad input: every answer is whole, and its warnings say what is wrong.


@each_solver
def test_pure_noise_is_said_to_be_noise(make_problem: MakeProblem, solver: Solver) -> None:
    problem = make_problem(CORNERS, n_clusters=5, n_frequencies=60, half_width=9.0)
    rng = np.random.default_rng(0)
    noise = (rng.normal(size=60) + 1j * rng.normal(size=60)) / np.sqrt(2.0)
    noisy = dataclasses.replace(problem, sketch=noise, noise_variance=1.0)
    solution = solve(noisy, solver)
    assert_is_whole(solution, noisy)
    assert any("cannot be told from noise" in text for text in solution.warnings)


@each_solver
def test_an_empty_sketch_is_a_failure_in_a_field(make_problem: MakeProblem, solver: Solver) -> None:
    problem = make_problem(CORNERS, n_clusters=2, n_frequencies=20, half_width=9.0)
    empty = dataclasses.replace(problem, sketch=np.zeros(20, dtype=np.complex128))
    solution = solve(empty, solver)
    assert_is_whole(solution, empty)
    assert not solution.succeeded
    assert solution.warnings


def test_a_rare_cluster_beside_a_heavy_one_is_found(make_problem: MakeProblem) -> None:
    weights = np.repeat([0.95, 0.04, 0.01], 300)
    records = draw_round_clusters(CORNERS[:3], 300)
    problem = make_problem(
        records, weights=weights, n_clusters=3, n_frequencies=60, half_width=10.0
    )
    solution = solve(problem)
    np.testing.assert_allclose(solution.weights, [0.95, 0.04, 0.01], atol=0.005)
    np.testing.assert_allclose(solution.centroids, CORNERS[:3], atol=0.3)


def test_fewer_frequencies_than_dimensions_decode_without_failing(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(np.full((1, 8), 3.5), n_clusters=1, n_frequencies=5, half_width=4.0)
    solution = solve(problem)
    assert_is_whole(solution, problem)
    assert solution.verdict is not None
    assert not solution.verdict.is_usable
    assert "m / (k d)" in solution.verdict.sentence


def test_bounds_that_exclude_the_data_are_noticed(make_problem: MakeProblem) -> None:
    records = draw_round_clusters(3.0 + np.array([[12.0, 0.0], [-12.0, 3.0]]), 300)
    problem = make_problem(records, n_clusters=2, n_frequencies=60, half_width=4.0)
    solution = solve(problem)
    assert_is_whole(solution, problem)
    assert any(
        "edge of the plan's box" in text or "far above" in text for text in solution.warnings
    )


@settings(max_examples=10, deadline=None)
@given(
    solver=st.sampled_from([MixtureDecoder(n_replicates=2), ClOmpr(n_replicates=2)]),
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 4),
    k=st.integers(1, 4),
    n_frequencies=st.integers(10, 30),
    noise_variance=st.sampled_from([0.0, 0.1, 10.0, 1e6]),
)
def test_every_answer_is_whole(
    make_problem: MakeProblem,
    solver: Solver,
    seed: int,
    d: int,
    k: int,
    n_frequencies: int,
    noise_variance: float,
) -> None:
    rng = np.random.default_rng(seed)
    problem = make_problem(
        # Some points lie outside the box: the answer must not.
        3.0 + rng.uniform(-5.0, 5.0, size=(3, d)),
        n_clusters=k,
        n_frequencies=n_frequencies,
        half_width=4.0,
        noise_variance=noise_variance,
        seed=seed,
    )
    assert_is_whole(solve(problem, solver), problem)


def test_richer_mixtures_wait_at_strong_noise_until_k_atoms_clearly_fail(
    make_problem: MakeProblem,
) -> None:
    rng = np.random.default_rng(0)
    # Flat clusters: round atoms leave a little.
    records = np.repeat([[-4.0, 0.0], [4.0, 3.0]], 1000, axis=0)
    records = records + rng.normal(size=(2000, 2)) * [2.0, 0.3]
    for noise_variance, is_rich in ((1e-7, True), (7e-3, False)):
        problem = make_problem(
            records,
            n_clusters=2,
            n_frequencies=60,
            half_width=10.0,
            noise_variance=noise_variance,
        )
        mixture = solve(problem).mixture
        assert mixture is not None
        assert (len(mixture.weights) > 2) == is_rich


def test_noise_costs_little_where_it_is_small(
    make_problem: MakeProblem, round_clusters: Points
) -> None:
    problem = make_problem(
        round_clusters, n_clusters=5, n_frequencies=100, half_width=10.0, noise_variance=1e-3
    )
    solution = solve(problem)
    means = round_clusters.reshape(5, 400, 2).mean(axis=1)
    ratio = compute_sse(round_clusters, solution.centroids) / compute_sse(round_clusters, means)
    assert ratio < 1.05
    assert solution.at_noise_floor


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(DecodingError, match="n_replicates"):
        MixtureDecoder(n_replicates=0)


def test_identical_records_have_one_place(make_problem: MakeProblem) -> None:
    records = np.tile([[2.0, 4.0]], (50, 1))
    problem = make_problem(records, n_clusters=3, n_frequencies=40, half_width=5.0)
    solution = solve(problem)
    assert_is_whole(solution, problem)
    np.testing.assert_allclose(solution.weights @ solution.centroids, records[0], atol=0.05)
    heavy = solution.weights > 0.01
    np.testing.assert_allclose(
        solution.centroids[heavy], np.tile(records[0], (heavy.sum(), 1)), atol=0.5
    )


def test_one_cluster_is_found_whatever_number_is_asked_for(make_problem: MakeProblem) -> None:
    records = draw_round_clusters(np.array([[1.0, 4.0]]), 1000)
    problem = make_problem(records, n_clusters=3, n_frequencies=40, half_width=8.0)
    solution = solve(problem)
    assert_is_whole(solution, problem)
    np.testing.assert_allclose(
        solution.weights @ solution.centroids, records.mean(axis=0), atol=0.1
    )


@each_solver
def test_points_on_a_line_are_found(make_problem: MakeProblem, solver: Solver) -> None:
    points = np.array([[-2.0], [3.0], [7.0]])
    problem = make_problem(points, n_clusters=3, n_frequencies=40, half_width=8.0)
    solution = solve(problem, solver)
    np.testing.assert_allclose(np.sort(solution.centroids[:, 0]), points[:, 0], atol=0.1)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_scale_far_off_gives_a_whole_answer(
    make_problem: MakeProblem, round_clusters: Points, scale: float
) -> None:
    problem = make_problem(
        round_clusters[:, :1], n_clusters=2, n_frequencies=30, half_width=10.0, scale=scale
    )
    solution = solve(problem)
    assert_is_whole(solution, problem)
    assert solution.warnings
