import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.decoding.judgement import (
    judge,
    judge_influence,
    tells_shares,
)
from sfumato.learning.decoding.mixture.assembly import measure_kurtosis
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.verdict import SOUND, Influence

from .conftest import GOOD, MakeProblem

WORDS = ("sound", "rough", "doubtful", "do not use")
shares = st.floats(0.0, 1.0)
factors = st.floats(1.0, 100.0)


def test_good_evidence_is_sound_and_its_band_narrow(make_problem: MakeProblem) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    verdict = judge(problem, GOOD)
    assert verdict.word == "sound"
    assert 1.0 <= verdict.low <= verdict.high < 1.1
    assert verdict.sentence.endswith(
        "clusters below 0.1% of the records go unseen, and below 0.1% where they are far from all "
        "others"
    )


@given(share=shares, factor=factors)
def test_worse_evidence_never_gives_a_better_word_or_a_lower_band(
    make_problem: MakeProblem, share: float, factor: float
) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    base = replace(GOOD, disagreement=0.1 * share, worst_disagreement=0.2 * share)
    before = judge(problem, base)
    for worse in (
        replace(base, disagreement=base.disagreement * factor),
        replace(base, held_out=factor),
        replace(base, snr_per_parameter=base.snr_per_parameter / factor**2),
        replace(base, spread_over_scale=1.0 / factor),
        replace(base, spread_over_scale=factor),
        replace(base, agreement=1.0 / factor),
        replace(base, stabilities=np.full(5, share)),
        replace(base, far_share=share),
        replace(base, hidden_share=share, slow_deviations=factor),
    ):
        after = judge(problem, worse)
        assert WORDS.index(after.word) >= WORDS.index(before.word)
        assert after.high >= before.high
        assert after.low >= before.low


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"disagreement": 0.6, "worst_disagreement": 1.2}, "differ in their centroids"),
        ({"spread_over_scale": 0.1}, "narrower than the plan's scale, 0.1 of it"),
        ({"spread_over_scale": 9.0}, "wider than the plan's scale, 9 times"),
        ({"snr_per_parameter": 5.0}, "noise is too strong for 5 clusters"),
        ({"features_per_parameter": 1.5}, "too few equations for 5 clusters"),
        ({"hidden_share": 0.03, "slow_deviations": 5.0}, "3.0% of the records may lie far from"),
        ({"kurtosis": 40.0, "tail_axis": 1}, "far away hold much of the variance along axis 2"),
    ],
)
def test_the_sentence_names_what_is_worst(
    make_problem: MakeProblem, change: dict[str, Any], words: str
) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    verdict = judge(problem, replace(GOOD, **change))
    assert verdict.word in ("doubtful", "do not use")
    assert words in verdict.sentence


def test_a_decoder_without_evidence_never_calls_its_answers_sound(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(
        np.array([[1.0, 2.0], [4.0, 5.0]]), n_clusters=2, n_frequencies=30, half_width=5.0
    )
    solution = create_solver("cl-ompr").solve(problem, rng=np.random.default_rng(0))
    assert solution.verdict is not None
    assert solution.verdict.word == "doubtful"
    assert math.isinf(solution.verdict.high)


def test_a_number_of_clusters_that_comes_out_too_poor_is_not_recommended(
    make_problem: MakeProblem,
) -> None:
    rng = np.random.default_rng(3)
    means = 3.0 + rng.uniform(-7.0, 7.0, size=(8, 2))
    records = np.repeat(means, 200, axis=0) + rng.normal(size=(1600, 2))
    problem = make_problem(
        records, n_clusters=8, n_frequencies=100, half_width=12.0, noise_variance=0.2
    )
    solution = MixtureDecoder(choose=True).solve(problem, rng=np.random.default_rng(0))
    choice, verdict = solution.choice, solution.verdict
    assert choice is not None
    assert verdict is not None
    assert choice.least <= choice.recommended <= choice.most
    assert choice.recommended == len(solution.weights)
    assert verdict.word in ("sound", "rough") or choice.recommended == 1


@pytest.mark.parametrize(("agreement", "word"), [(1.0, "doubtful"), (1.0 / 12.0, "do not use")])
def test_far_too_small_a_scale_is_doubtful_at_best_and_unusable_where_no_two_searches_agree(
    make_problem: MakeProblem, agreement: float, word: str
) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    assert judge(problem, replace(GOOD, spread_over_scale=9.0, agreement=agreement)).word == word


def test_long_tails_leave_no_upper_end_but_far_clusters_and_levels_do_not_count(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    verdict = judge(problem, replace(GOOD, kurtosis=25.1))
    assert verdict.word == "doubtful"
    assert math.isinf(verdict.high)
    assert judge(problem, replace(GOOD, kurtosis=24.9)).word == "sound"

    def find(wide: float, *, is_level: np.ndarray | None = None) -> tuple[float, int]:
        centres = np.array([[0.0, 0.0], [40.0, 1.0]])
        atoms = Ellipsoids(
            centres=centres,
            logs=np.log([[1.0, 1.0], [wide, 1.0]]),
            slants=np.zeros((2, 2, 2)),
            weights=np.array([0.49, 0.01]),
        )
        return measure_kurtosis(atoms, is_level)

    assert find(1.0)[0] < 4.0
    kurtosis, axis = find(20.0)
    assert axis == 0
    # The fourth moment over the squared variance of 200,000 draws.
    rng = np.random.default_rng(0)
    draws = np.where(
        rng.random(200_000) < 0.02, 40.0 + 20.0 * rng.normal(size=200_000), rng.normal(size=200_000)
    )
    centred = draws - draws.mean()
    assert kurtosis == pytest.approx(np.mean(centred**4) / np.mean(centred**2) ** 2, rel=0.05)
    assert find(20.0, is_level=np.array([True, False]))[0] < 4.0


@given(share=st.floats(0.0, 0.05), reach=st.floats(0.0, 1e4), kurtosis=st.sampled_from([0.0, 4.0]))
def test_sound_is_only_what_no_far_cluster_could_contradict(
    make_problem: MakeProblem, share: float, reach: float, kurtosis: float
) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    verdict = judge(problem, replace(GOOD, far_share=share, reach=reach, kurtosis=kurtosis))
    is_buried = kurtosis > 3.2 and share > 0.01 and share * reach > 8.0
    is_harmless = not is_buried and (share <= 0.015 or 1.0 + share * reach <= SOUND)
    assert (verdict.word == "sound") == is_harmless
    if is_buried:
        assert (verdict.word, verdict.high) == ("doubtful", math.inf)
        assert f"{share:.1%} of the records there, which would go unseen" in verdict.sentence
    elif not is_harmless:
        assert f"far cluster below {share:.1%}" in verdict.sentence


def test_shares_may_be_asked_where_only_records_that_nobody_sees_are_in_doubt(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    buried = replace(GOOD, far_share=0.02, reach=1000.0, kurtosis=4.0)
    assert judge(problem, buried).word == "doubtful"
    assert tells_shares(problem, buried)
    assert tells_shares(problem, GOOD)
    missed = replace(buried, slow_deviations=3.0, hidden_share=0.05)
    assert not tells_shares(problem, missed)
    assert not tells_shares(problem, replace(buried, snr_per_parameter=1.0))


def test_a_heavy_end_with_room_beyond_is_never_sound(make_problem: MakeProblem) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    for kurtosis, reach, word in (
        (9.0, 900.0, "rough"),
        (7.0, 900.0, "sound"),
        (9.0, 700.0, "sound"),
    ):
        evidence = replace(GOOD, kurtosis=kurtosis, far_share=0.005, reach=reach)
        verdict = judge(problem, evidence)
        assert verdict.word == word
        assert ("a far cluster below 0.5%" in verdict.sentence) == (word == "rough")


@pytest.mark.parametrize(
    ("change", "word", "words"),
    [
        ({}, "sound", "nearly the same centroids"),
        ({"share_without": 0.14}, "sound", "nearly the same centroids"),
        ({"share_without": 0.001}, "doubtful", "one device of 20 decides cluster 3: 20.0% of the"),
        ({"ratio": 1.5}, "doubtful", "without one device of 20 other centroids would be better"),
        ({"share": 0.004, "share_without": 0.0}, "sound", "nearly the same centroids"),
    ],
)
def test_an_answer_that_one_device_decides_is_doubtful_at_best(
    make_problem: MakeProblem, change: dict[str, Any], word: str, words: str
) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    usual = Influence(
        source="device", n_sources=20, ratio=1.01, cluster=2, share=0.2, share_without=0.19
    )
    verdict = judge_influence(judge(problem, GOOD), replace(usual, **change))
    assert verdict.word == word
    assert words in verdict.sentence
    unusable = judge(problem, replace(GOOD, held_out=1000.0))
    assert judge_influence(unusable, replace(usual, **change)).word == "do not use"


def test_an_answer_that_explains_nothing_is_not_to_be_used(make_problem: MakeProblem) -> None:
    problem = make_problem(np.zeros((1, 2)), n_clusters=5, n_frequencies=50, half_width=5.0)
    verdict = judge(problem, replace(GOOD, held_out=1000.0))
    assert verdict.word == "do not use"
    assert "no model explains the sketch" in verdict.sentence
