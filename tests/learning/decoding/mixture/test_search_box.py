"""The search box steers where a search starts; it never decides where centroids may lie."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.learning.decoding.diagnosis import Diagnosis, diagnose
from sfumato.learning.decoding.problem import Box, DecodingProblem
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.solution import Solution
from tests.learning.decoding.conftest import MakeProblem

Points = NDArray[np.float64]
HALF_WIDTH = 15.0
TOO_WIDE = 20.0
D, K = 4, 3


def pose(make_problem: MakeProblem, seed: int, half_width: float) -> tuple[DecodingProblem, Points]:
    """Pose the noisy problem of K round clusters of variance 1; return their means too."""
    rng = np.random.default_rng((seed, D, K))
    means = 3.0 + rng.normal(0.0, 4.0, size=(K, D))
    records = np.repeat(means, 300, axis=0) + rng.normal(size=(300 * K, D))
    problem = make_problem(
        records,
        n_clusters=K,
        n_frequencies=40,
        half_width=half_width,
        noise_variance=5e-3,
        seed=seed,
    )
    return problem, means


def search_within(problem: DecodingProblem, half_width: float, middle: float = 3.0) -> Box:
    d = problem.n_dimensions
    return Box(lower=np.full(d, middle - half_width), upper=np.full(d, middle + half_width))


def solve(problem: DecodingProblem, seed: int = 0, name: str = "mixture") -> Solution:
    solver = create_solver(name) if name == "mixture" else create_solver(name, n_replicates=2)
    return solver.solve(problem, rng=np.random.default_rng(seed))


def measure_error(solution: Solution, means: Points) -> float:
    """Return the mean squared distance of the true means from the nearest centroid."""
    squares = np.sum((means[:, None] - solution.centroids[None]) ** 2, axis=2)
    return float(np.mean(np.min(squares, axis=1)))


@pytest.mark.parametrize("name", ["mixture", "cl-ompr"])
def test_the_plans_box_as_search_box_changes_no_bit(make_problem: MakeProblem, name: str) -> None:
    problem, _ = pose(make_problem, 0, HALF_WIDTH)
    same = replace(problem, search_box=Box(lower=problem.lower, upper=problem.upper))
    first, again = (solve(each, name=name) for each in (problem, same))
    np.testing.assert_array_equal(first.centroids, again.centroids)
    np.testing.assert_array_equal(first.weights, again.weights)
    assert first.residual == again.residual
    assert first.warnings == again.warnings


def test_bounds_twenty_times_too_wide_cost_nothing_with_a_search_box(
    make_problem: MakeProblem,
) -> None:
    seed = 2
    problem, means = pose(make_problem, seed, TOO_WIDE * HALF_WIDTH)
    narrow = replace(problem, search_box=search_within(problem, HALF_WIDTH))
    assert measure_error(solve(narrow, seed), means) < 0.1
    # Of the searches of the whole box, about every second one loses a cluster.
    assert measure_error(solve(problem, seed), means) > 100.0


def test_clusters_outside_the_search_box_are_found_and_reported(make_problem: MakeProblem) -> None:
    rng = np.random.default_rng(0)
    means = 3.0 + np.array([[0.0, 0.0], [-3.0, 2.0], [6.0, 6.0]])
    records = np.repeat(means, 500, axis=0) + 0.5 * rng.normal(size=(1500, 2))
    problem = make_problem(records, n_clusters=3, n_frequencies=60, half_width=20.0)
    solution = solve(replace(problem, search_box=search_within(problem, 4.0)))
    assert measure_error(solution, means) < 0.05
    (warning,) = [text for text in solution.warnings if "search box" in text]
    assert warning.startswith("1 of the centroids lies outside")
    assert not any("search box" in text for text in solve(problem).warnings)


def test_a_sensor_that_failed_after_the_pilot_is_found_outside_the_search_box(
    make_problem: MakeProblem,
) -> None:
    seed = 2
    problem, means = pose(make_problem, seed, TOO_WIDE * HALF_WIDTH)
    rng = np.random.default_rng(seed)
    records = np.repeat(means, 300, axis=0) + rng.normal(size=(300 * K, D))
    records[rng.permutation(len(records))[:36], 1] = -170.0
    problem = make_problem(
        records,
        n_clusters=K + 1,
        n_frequencies=100,
        half_width=TOO_WIDE * HALF_WIDTH,
        noise_variance=1e-3,
        seed=seed,
    )
    problem = replace(problem, search_box=search_within(problem, HALF_WIDTH))
    solution = solve(problem, seed)
    assert np.min(np.abs(solution.centroids[:, 1] + 170.0)) < 1.0
    assert solution.verdict is not None
    assert solution.verdict.word in ("sound", "rough")


def test_the_ends_of_a_level_are_no_edge_because_all_records_lie_there(
    make_problem: MakeProblem,
) -> None:
    records = np.full((10, 2), 3.0)
    problem = make_problem(records, n_clusters=2, n_frequencies=20, half_width=12.0)
    box = Box(lower=np.array([-9.0, 1.0]), upper=np.array([15.0, 5.0]))
    problem = replace(problem, search_box=box, is_level=np.array([True, False]))
    assert not warn_of_boxes(problem, [[-9.0, 3.0], [15.0, 3.0]])
    edge, outside = warn_of_boxes(problem, [[-9.0, -9.0], [15.0, 3.0]])
    assert edge.startswith("1 of the clusters lies on the edge")
    assert outside.startswith("1 of the centroids lies outside the search box")
    (more, _) = warn_of_boxes(replace(problem, n_clusters=1), [[-9.0, -9.0], [15.0, 3.0]])
    assert more.startswith("1 of the parts of the density lies on the edge")
    plain = warn_of_boxes(replace(problem, is_level=None), [[-9.0, 3.0], [15.0, 3.0]])
    assert [text[:22] for text in plain] == ["2 of the clusters lie ", "2 of the centroids lie"]


def warn_of_boxes(problem: DecodingProblem, centres: list[list[float]]) -> list[str]:
    return [text for text in diagnose(problem, make_diagnosis(centres)) if "box" in text]


def make_diagnosis(centres: list[list[float]]) -> Diagnosis:
    return Diagnosis(
        atom="clusters",
        n_parameters=6,
        residual=0.0,
        replicate_residuals=(0.0,),
        fitted_weights=np.array([0.5, 0.5]),
        centres=np.array(centres),
        centroids=np.array(centres),
        shares=np.array([0.5, 0.5]),
        n_failures=0,
        is_judged=True,
    )


@settings(max_examples=10, deadline=None)
@given(middle=st.floats(-7.0, 13.0), half_width=st.floats(1e-6, 1.0))
def test_no_centroid_leaves_the_plans_box_whatever_the_search_box(
    make_problem: MakeProblem, middle: float, half_width: float
) -> None:
    rng = np.random.default_rng(1)
    records = 3.0 + np.array([[9.0, 0.0], [-9.0, 3.0]])[rng.integers(2, size=400)]
    problem = make_problem(
        records + rng.normal(size=records.shape), n_clusters=2, n_frequencies=40, half_width=11.0
    )
    box = search_within(problem, half_width, middle)
    solution = solve(replace(problem, search_box=box), name="cl-ompr")
    assert np.all(np.isfinite(solution.centroids))
    assert np.all((solution.centroids >= problem.lower) & (solution.centroids <= problem.upper))
    np.testing.assert_allclose(solution.weights.sum(), 1.0)


@pytest.mark.parametrize(
    ("centres", "expected"),
    [
        ([[0.0, 3.0], [3.0, 3.0]], ["1 of the centroids lies outside the search box"]),
        ([[0.0, 3.0], [3.0, 9.0]], ["2 of the centroids lie outside the search box"]),
        (
            [[-9.0, 3.0], [3.0, 3.0]],
            [
                "1 of the clusters lies on the edge of the plan's box",
                "1 of the centroids lies outside the search box",
            ],
        ),
        ([[3.0, 3.0], [4.0, 4.0]], []),
    ],
)
def test_warnings_count_in_good_grammar(
    make_problem: MakeProblem, centres: list[list[float]], expected: list[str]
) -> None:
    records = np.full((10, 2), 3.0)
    problem = make_problem(records, n_clusters=2, n_frequencies=20, half_width=12.0)
    problem = replace(problem, search_box=search_within(problem, 2.0))
    warnings = warn_of_boxes(problem, centres)
    assert [w[: len(e)] for w, e in zip(warnings, expected, strict=True)] == expected


def test_weights_that_sum_below_one_may_be_of_the_records_that_have_a_value(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(np.full((10, 2), 3.0), n_clusters=2, n_frequencies=20, half_width=12.0)
    reason = "records without a value were left out, or the weights are doubtful"
    found = replace(make_diagnosis([[3.0, 3.0], [4.0, 4.0]]), fitted_weights=np.array([0.2, 0.1]))
    assert any(text.endswith(reason) for text in diagnose(problem, found))
    found = replace(found, fitted_weights=np.array([2.0, 1.0]))
    assert not any(text.endswith(reason) for text in diagnose(problem, found))
