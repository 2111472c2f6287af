from dataclasses import replace

import numpy as np
import pytest

from sfumato.learning.decoding.bars import (
    LAWS,
    MOST_ROUGH,
    MOST_STATED,
    BarKind,
    BarLaw,
    Bars,
    BarsWord,
    choose_word,
    describe_bars,
)
from sfumato.learning.decoding.judgement import Evidence
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.verdict import Verdict

from .conftest import GOOD, MakeProblem

SOUND = Verdict(word="sound", sentence="", low=1.0, high=1.1)


def bars_of(evidence: Evidence, verdict: Verdict = SOUND) -> Bars:
    return describe_bars(
        evidence, verdict, centroid_spreads=np.full((3, 2), 0.5), weight_spreads=np.full(3, 0.01)
    )


@pytest.mark.parametrize("kind", list(LAWS))
def test_bars_are_longer_where_the_sketch_is_explained_worse(kind: BarKind) -> None:
    law = LAWS[kind]
    factors = [law.compute_factor(held_out) for held_out in (0.5, 1.0, 1.2, 1.5, 50.0)]
    assert factors[0] == factors[1] == law.noise
    assert factors[1] < factors[2] < factors[3]
    assert factors[3] == factors[4] == pytest.approx(law.model)


@pytest.mark.parametrize(
    ("held_out", "word"),
    [
        (1.0, "stated"),
        (MOST_STATED, "stated"),
        (MOST_STATED + 1.0, "rough"),
        (MOST_ROUGH + 1.0, "none"),
        (float("nan"), "none"),
    ],
)
def test_bars_are_stated_then_rough_then_gone_as_the_misfit_grows(
    held_out: float, word: BarsWord
) -> None:
    assert choose_word(held_out, is_trusted=True) == word
    assert choose_word(held_out, is_trusted=False) == "none"
    bars = bars_of(replace(GOOD, held_out=held_out))
    assert bars.word == word
    if word == "none":
        assert bars.centroid_errors is None
        assert bars.weight_errors is None
    else:
        of_centroids, of_weights = (
            LAWS["centroid"].compute_factor(held_out),
            LAWS["weight"].compute_factor(held_out),
        )
        assert bars.centroid_errors == pytest.approx(of_centroids * 0.5)
        assert bars.weight_errors == pytest.approx(of_weights * 0.01)


@pytest.mark.parametrize("word", ["doubtful", "do not use"])
def test_an_answer_that_is_not_to_be_trusted_has_no_bars(word: str) -> None:
    bars = bars_of(GOOD, replace(SOUND, word=word))
    assert bars.word == "none"
    assert word in bars.sentence
    assert bars.centroid_errors is None


def test_bars_of_round_clusters_hold_their_means_nine_times_in_ten(
    make_problem: MakeProblem,
) -> None:
    held, lengths = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        means = 3.0 + np.array([[-6.0, 0.0, 2.0], [5.0, 5.0, 0.0], [1.0, -5.0, -4.0]])
        records = np.concatenate(
            [
                mean + 2.0 * rng.normal(size=(n, 3))
                for mean, n in zip(means, (900, 700, 400), strict=True)
            ]
        )
        problem = make_problem(
            records,
            n_clusters=3,
            n_frequencies=60,
            half_width=20.0,
            noise_variance=1e-4,
            scale=1.0,
            seed=seed,
        )
        solution = MixtureDecoder().solve(problem, rng=np.random.default_rng(seed))
        bars = solution.bars
        assert bars is not None
        assert bars.word == "stated"
        assert bars.centroid_errors is not None
        labels = np.argmin(
            np.sum((records[:, None] - solution.centroids[None]) ** 2, axis=2), axis=1
        )
        truth = np.array([records[labels == i].mean(axis=0) for i in range(3)])
        held.append(np.abs(truth - solution.centroids) <= 1.645 * bars.centroid_errors)
        lengths.append(bars.centroid_errors)
    # 36 coordinates, at worst as if 18 of them were independent: bars that hold nine times in ten
    # fail here once in about two hundred seeds, and bars of half the length nine times in ten.
    assert np.mean(held) >= 0.7
    assert np.mean(lengths) < 0.5


def test_a_bar_adds_its_parts_as_independent_errors() -> None:
    law = BarLaw(noise=2.0, model=8.0, sampling=0.5)
    lengths = law.compute_length([3.0, 0.0], [16.0, 1.0], held_out=1.0)
    assert lengths == pytest.approx([16.45, 0.8224], rel=1e-3)
    # Half of the way, on the scale of logarithms.
    assert law.compute_factor(1.5**0.5) == pytest.approx(4.0)
