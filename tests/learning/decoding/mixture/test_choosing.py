import dataclasses

import numpy as np
import pytest

from sfumato.learning.decoding.mixture.choice import choose_n_clusters
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.solution import ClusterChoice
from sfumato.learning.decoding.solver import Monitor
from sfumato.shared.errors import DecodingCancelledError, DecodingError
from tests.learning.decoding.conftest import MakeProblem
from tests.learning.decoding.mixture.test_decoder import CORNERS, draw_round_clusters


def choose(problem: DecodingProblem) -> ClusterChoice:
    return choose_n_clusters(problem, rng=np.random.default_rng(0))


@pytest.mark.parametrize(("n_clusters", "noise_variance"), [(1, 1e-2), (5, 1e-2)])
def test_the_number_of_separated_clusters_is_recommended(
    make_problem: MakeProblem, n_clusters: int, noise_variance: float
) -> None:
    # So many that their own sampling error is small beside the stated noise.
    records = draw_round_clusters(CORNERS[:n_clusters], 10_000)
    problem = make_problem(
        records, n_clusters=6, n_frequencies=120, half_width=10.0, noise_variance=noise_variance
    )
    choice = choose(problem)
    assert choice.recommended == n_clusters
    assert choice.reaches_floor
    assert choice.residuals.shape == choice.noise_floors.shape == (6,)
    assert np.all(np.diff(choice.residuals) <= 0.0)
    assert np.all(np.diff(choice.noise_floors) < 0.0)


def test_what_round_clusters_cannot_explain_is_said(make_problem: MakeProblem) -> None:
    rng = np.random.default_rng(0)
    ring = rng.uniform(0.0, 2.0 * np.pi, size=3000)
    records = 3.0 + 6.0 * np.stack([np.cos(ring), np.sin(ring)], axis=1)
    problem = make_problem(
        records, n_clusters=6, n_frequencies=80, half_width=8.0, noise_variance=1e-6
    )
    choice = choose(problem)
    assert not choice.reaches_floor
    assert "structure" in choice.statement
    assert choice.recommended > 2


def test_a_decoder_that_chooses_recovers_as_many_clusters_as_it_recommends(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(
        draw_round_clusters(CORNERS[:3], 10_000),
        n_clusters=5,
        n_frequencies=120,
        half_width=10.0,
        noise_variance=1e-3,
    )
    fractions: list[float] = []
    decoder = create_solver("mixture", choose=True)
    solution = decoder.solve(problem, rng=np.random.default_rng(0), progress=fractions.append)
    assert solution.choice is not None
    assert solution.choice.recommended == len(solution.weights) == len(solution.centroids) == 3
    assert solution.choice.residuals.shape == (5,)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    plain = create_solver("mixture").solve(problem, rng=np.random.default_rng(0))
    assert plain.choice is None
    assert len(plain.weights) == 5


def test_noise_shows_no_clusters(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=4, n_frequencies=60, half_width=9.0)
    rng = np.random.default_rng(0)
    noise = (rng.normal(size=60) + 1j * rng.normal(size=60)) / np.sqrt(2.0)
    choice = choose(dataclasses.replace(problem, sketch=noise, noise_variance=1.0))
    assert choice.recommended == 1
    assert "noise" in choice.statement


def test_choosing_can_be_watched_and_cancelled(make_problem: MakeProblem) -> None:
    problem = make_problem(CORNERS, n_clusters=4, n_frequencies=60, half_width=9.0)
    fractions: list[float] = []
    choose_n_clusters(
        problem, rng=np.random.default_rng(0), monitor=Monitor(1, fractions.append, None)
    )
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    with pytest.raises(DecodingCancelledError):
        choose_n_clusters(
            problem, rng=np.random.default_rng(0), monitor=Monitor(1, None, lambda: True)
        )


def test_a_flag_that_is_none_is_refused() -> None:
    with pytest.raises(DecodingError, match="choose"):
        create_solver("mixture", choose=3)
