"""Decodes of sketches whose features differ in noise: evidence for the weights."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.mixture.round_descent import descend_from
from sfumato.learning.decoding.points.clompr import ClOmpr
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.solver import Solver
from tests.learning.decoding.conftest import MakeProblem

Points = NDArray[np.float64]
Vector = NDArray[np.float64]

MEANS = 3.0 + np.array([[-5.0, -4.0], [5.0, -3.0], [0.0, 5.0], [0.5, -1.0]])
N_FREQUENCIES = 60
# Every other feature has 25 times the noise.
LOUD = np.arange(N_FREQUENCIES) % 2 == 1
# Answers from before features had weights; only a new version of a solver may change them.
STORED = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))


def draw_records(seed: int, spread: float) -> Points:
    rng = np.random.default_rng(seed)
    records: Points = np.repeat(MEANS, 500, axis=0) + spread * rng.normal(size=(2000, 2))
    return records


def pose(
    make_problem: MakeProblem, seed: int, noise: Vector, *, spread: float = 1.0
) -> DecodingProblem:
    return make_problem(
        draw_records(seed, spread),
        n_clusters=4,
        n_frequencies=len(noise),
        half_width=10.0,
        feature_noise=noise,
        seed=seed,
    )


def solve(problem: DecodingProblem, solver: Solver | None = None) -> Solution:
    return (solver or MixtureDecoder()).solve(problem, rng=np.random.default_rng(0))


def keep_quiet(problem: DecodingProblem) -> DecodingProblem:
    """Return the problem with only the features of little noise."""
    assert problem.feature_noise is not None
    return dataclasses.replace(
        problem,
        sketch=problem.sketch[~LOUD],
        frequencies=problem.frequencies[:, ~LOUD],
        feature_noise=None,
        noise_variance=float(np.min(problem.feature_noise)),
    )


def forget_noise(problem: DecodingProblem) -> DecodingProblem:
    """Return the problem as if its features had the same noise."""
    return dataclasses.replace(problem, feature_noise=None)


def find_gap(one: Points, two: Points) -> float:
    """Return the largest distance of a centroid of one answer from the nearest of the other."""
    distances = np.linalg.norm(one[:, None] - two[None], axis=2)
    return float(max(distances.min(axis=0).max(), distances.min(axis=1).max()))


# Without noise of features, nothing changes.


@pytest.mark.parametrize(
    "stored", STORED[::2], ids=lambda stored: f"{stored['solver']}-{stored['seed']}"
)
def test_equal_noise_gives_the_stored_answers(
    make_problem: MakeProblem, stored: dict[str, Any]
) -> None:
    problem = make_problem(
        draw_records(stored["seed"], 1.0),
        n_clusters=4,
        n_frequencies=stored["n_frequencies"],
        half_width=10.0,
        noise_variance=stored["noise_variance"],
        seed=stored["seed"],
    )
    solution = solve(problem, create_solver(stored["solver"]))
    # Other processors round differently; the spread of a cluster is 1.
    assert find_gap(solution.centroids, np.array(stored["centroids"])) < 0.05
    assert solution.residual == pytest.approx(stored["residual"], rel=1e-3)


@pytest.mark.parametrize("solver", [MixtureDecoder(), ClOmpr(n_replicates=2)])
def test_an_array_of_equal_noise_gives_the_same_bits_as_none(
    make_problem: MakeProblem, solver: Solver
) -> None:
    stated = pose(make_problem, 0, np.full(N_FREQUENCIES, 0.01))
    one, two = solve(stated, solver), solve(forget_noise(stated), solver)
    assert one.centroids.tobytes() == two.centroids.tobytes()
    assert one.residual == two.residual


def test_the_unit_of_the_data_does_not_matter(make_problem: MakeProblem) -> None:
    stated = pose(make_problem, 1, np.where(LOUD, 0.05, 0.002))
    scaled = dataclasses.replace(
        stated,
        frequencies=stated.frequencies * 1e9,
        **{name: getattr(stated, name) / 1e9 for name in ("lower", "upper", "centre", "unit")},
    )
    assert find_gap(solve(stated).centroids, 1e9 * solve(scaled).centroids) < 0.05


# The weights use what each feature can tell.


def compute_excess(solution: Solution, seed: int) -> float:
    """Compute the SSE of the centroids relative to that of the clusters' means, less one."""
    records = draw_records(seed, 1.0)
    sse = [
        np.sum(np.min(np.sum((records[:, None] - centroids[None]) ** 2, axis=2), axis=1))
        for centroids in (solution.centroids, records.reshape(4, 500, 2).mean(axis=1))
    ]
    return float(sse[0] / sse[1]) - 1.0


Change = Callable[[DecodingProblem], DecodingProblem]
N_TRIALS = 2


def decode(make_problem: MakeProblem, change: Change) -> tuple[float, float]:
    """Return the mean error of decodes of the changed problems, and their residual.

    The residual is the median, as a multiple of the noise floor.
    """
    found = []
    for seed in range(N_TRIALS):
        problem = pose(make_problem, seed, np.where(LOUD, 0.25, 0.01))
        solution = solve(change(problem), MixtureDecoder(n_replicates=3))
        found.append((compute_excess(solution, seed), solution.residual / solution.noise_floor))
    errors, ratios = np.array(found).T
    return float(np.mean(errors)), float(np.median(ratios))


@pytest.fixture(scope="module")
def rivals(make_problem: MakeProblem) -> tuple[float, float]:
    """Return the mean errors with the quiet half alone, and with all features but no weights."""
    return decode(make_problem, keep_quiet)[0], decode(make_problem, forget_noise)[0]


def check_weights(make_problem: MakeProblem, rivals: tuple[float, float]) -> None:
    """Fail unless weights are as good as the quiet half alone, far better than none, and explain.

    With other seeds a right decoder fails in 28 % of the cases, by 20,000 redrawings of 24 trials
    of each kind. Typical errors: 0.05, 0.05 and 0.4.
    """
    error, residual = decode(make_problem, lambda problem: problem)
    quiet_alone, unweighted = rivals
    assert error < 1.5 * quiet_alone
    assert error < 0.6 * unweighted
    assert 0.7 < residual < 1.5


def test_weights_are_as_good_as_the_quiet_half_alone_and_far_better_than_none(
    make_problem: MakeProblem, rivals: tuple[float, float]
) -> None:
    check_weights(make_problem, rivals)


# The verdict is as honest as where all features have the same noise.


# Laws of the noise with the same harmonic mean, hence the same information.
HARMONIC = 0.25 / 13.0
LAWS: dict[str, Vector] = {
    "equal": np.full(N_FREQUENCIES, HARMONIC),
    "half": np.where(LOUD, 0.25, 0.01),
    "scattered": np.exp(np.linspace(-2.0, 2.0, N_FREQUENCIES)),
}
LAWS["scattered"] *= HARMONIC * np.mean(1.0 / LAWS["scattered"])


def measure_bands(make_problem: MakeProblem, law: str, n_trials: int) -> tuple[float, float]:
    """Return the share of trials whose band held, and the median excess at its high end."""
    held, ends = [], []
    for seed in range(n_trials):
        solution = solve(pose(make_problem, seed, LAWS[law]))
        assert solution.verdict is not None
        low, high = solution.verdict.low, solution.verdict.high
        # The means of the clusters are a little worse than k-means.
        held.append(low - 0.01 <= 1.0 + compute_excess(solution, seed) <= high)
        ends.append(high - 1.0)
    return float(np.mean(held)), float(np.median(ends))


def test_the_band_holds_and_is_as_narrow_as_where_all_features_are_alike(
    make_problem: MakeProblem,
) -> None:
    # A band holds in nine of ten cases or more. The number of four that do is below three by chance
    # in 5 % of the cases if it is nine of ten, and in 0.5 % if it is 97 of 100, as measured.
    held, end = measure_bands(make_problem, "half", 4)
    assert held >= 0.75
    usual_end = measure_bands(make_problem, "equal", 2)[1]
    assert 0.6 * usual_end < end < 1.6 * usual_end


@pytest.mark.soak
@pytest.mark.parametrize("law", LAWS)
def test_the_band_holds_nine_times_in_ten(law: str, make_problem: MakeProblem) -> None:
    # Of 100 bands that hold nine times in ten, fewer than 82 do so in 1 % of the cases.
    assert measure_bands(make_problem, law, 100)[0] >= 0.82


# Everything else that reads a problem.


def test_the_number_of_clusters_is_chosen_by_the_weighted_equations(
    make_problem: MakeProblem,
) -> None:
    problem = dataclasses.replace(pose(make_problem, 0, LAWS["half"]), n_clusters=5)
    chosen = [
        solve(posed, MixtureDecoder(choose=True)).choice
        for posed in (problem, forget_noise(problem))
    ]
    weighted, unweighted = (choice.recommended for choice in chosen if choice is not None)
    assert weighted == 4
    assert unweighted < 4


def test_descent_from_the_truth_sees_the_weights(make_problem: MakeProblem) -> None:
    truth = GaussianMixture(weights=np.full(4, 0.25), means=MEANS, variances=np.ones((4, 2)))
    gaps = []
    for seed in range(8):
        problem = pose(make_problem, seed, LAWS["half"])
        gaps.append(
            [
                float(np.mean((descend_from(posed, truth) - MEANS) ** 2))
                for posed in (problem, forget_noise(problem))
            ]
        )
    weighted, unweighted = np.mean(gaps, axis=0)
    # The variance of least squares is 6.8 times as large without the weights.
    assert unweighted > 2.5 * weighted


def test_the_order_of_the_features_does_not_matter(make_problem: MakeProblem) -> None:
    noise = np.where(LOUD, 0.05, 0.002)
    stated = pose(make_problem, 1, noise)
    order = np.random.default_rng(0).permutation(N_FREQUENCIES)
    other = dataclasses.replace(
        stated,
        sketch=stated.sketch[order],
        frequencies=stated.frequencies[:, order],
        feature_noise=noise[order],
    )
    assert find_gap(solve(stated).centroids, solve(other).centroids) < 0.05


def test_rows_of_atoms_without_factors_are_found(
    make_problem: MakeProblem, rivals: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Target, "apply_factors", lambda target, rows: None)
    with pytest.raises(AssertionError):
        check_weights(make_problem, rivals)
