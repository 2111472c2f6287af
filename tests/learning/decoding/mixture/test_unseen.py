"""The energy that slow frequencies leave bounds the share of records far from all clusters."""

from dataclasses import replace

import numpy as np
import pytest

from sfumato.learning.decoding.judgement import Evidence
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.problem import Box
from sfumato.learning.decoding.solution import Solution
from tests.learning.decoding.conftest import MakeProblem

D, K, N = 6, 3, 3000
WIDE = 200.0


def decode(make_problem: MakeProblem, seed: int, share: float, *, noise: float = 1e-3) -> Solution:
    """Decode K round clusters and a share of records far away in all columns."""
    rng = np.random.default_rng(seed)
    means = 3.0 + rng.normal(0.0, 4.0, size=(K, D))
    records = np.repeat(means, N // K, axis=0) + rng.normal(size=(N, D))
    # No line along an axis and no corner of the box comes near.
    records[rng.permutation(N)[: round(share * N)]] = rng.uniform(-0.9 * WIDE, 0.9 * WIDE, size=D)
    problem = make_problem(
        records,
        n_clusters=K,
        n_frequencies=160,
        half_width=WIDE,
        noise_variance=noise,
        seed=seed,
    )
    box = Box(lower=np.full(D, -12.0), upper=np.full(D, 18.0))
    problem = replace(problem, search_box=box)
    return MixtureDecoder().solve(problem, rng=np.random.default_rng(seed))


def get_evidence(solution: Solution) -> Evidence:
    assert solution.evidence is not None
    return solution.evidence


@pytest.mark.parametrize(("seed", "share"), [(0, 0.03), (1, 0.06)])
def test_records_that_no_search_finds_are_bounded_and_make_an_answer_doubtful(
    make_problem: MakeProblem, seed: int, share: float
) -> None:
    solution = decode(make_problem, seed, share)
    evidence, verdict = get_evidence(solution), solution.verdict
    assert verdict is not None
    assert 0.9 * share <= evidence.hidden_share < 1.6 * share
    assert evidence.slow_deviations > 2.0
    assert verdict.word in ("doubtful", "do not use")
    if verdict.word == "doubtful":
        assert "far from all clusters" in verdict.sentence


def test_without_far_records_nothing_is_suspected(make_problem: MakeProblem) -> None:
    # Seeded. Two deviations are three of Gaussian noise: one decode in some 700.
    for seed in range(3):
        solution = decode(make_problem, seed, 0.0)
        assert get_evidence(solution).slow_deviations < 2.0
        assert get_evidence(solution).hidden_share < 0.03
        assert solution.verdict is not None
        assert solution.verdict.word in ("sound", "rough")


def test_a_verdict_that_noise_leaves_open_names_the_share_and_is_not_sound(
    make_problem: MakeProblem,
) -> None:
    solution = decode(make_problem, 1, 0.0, noise=4e-3)
    verdict, far = solution.verdict, get_evidence(solution).far_share
    assert far > 0.015
    assert verdict is not None
    assert verdict.word == "rough"
    assert f"far cluster below {far:.1%}" in verdict.sentence
