"""Error bars on mixtures: they hold as often as they say, and the benchmark counts that."""

import numpy as np
import pytest

from benchmarks.bars import BarTrial, Errors, describe, fit, run_trial
from benchmarks.datasets import Mixture
from benchmarks.honest_trials import Situation
from benchmarks.shapes import Shape

SEEDS = range(4)


@pytest.fixture(scope="module")
def trials() -> list[BarTrial]:
    """Decode four mixtures under noise that matters."""
    source = Mixture(n_dimensions=3, n_clusters=4, n_records=10_000)
    found = []
    for seed in SEEDS:
        dataset = source.load(seed)
        shape = Shape(family="even", is_mixture=True, dataset=dataset, guess=1.0)
        situation = Situation(name="n eps 50000", n_epsilon=50_000)
        trial = run_trial(shape, situation, f"test {seed}")
        assert trial is not None
        found.append(trial)
    return found


def test_bars_of_mixtures_hold_about_nine_times_in_ten(trials: list[BarTrial]) -> None:
    assert {(trial.word, trial.question_word) for trial in trials} == {("stated", "stated")}
    # Of 2,000 groups of four out of 24 such mixtures, none was below 0.68 in any of the three.
    for figure, factor in (
        ("centroid local", trials[0].factor),
        ("share", trials[0].question_factor),
        ("quantile", trials[0].question_factor),
    ):
        assert np.mean([trial.errors[figure].cover(factor) for trial in trials]) >= 0.68
    # And a quarter of such a bar held at most 0.71 of the centroids, and 0.55 of the quantiles.
    # Shares have bars of sampling here, which the factor leaves alone.
    for figure, most in (("centroid local", 0.75), ("quantile", 0.6)):
        assert np.mean([t.errors[figure].cover(t.factor / 4.0) for t in trials]) <= most


def test_every_kind_of_bars_is_reported_with_its_share(trials: list[BarTrial]) -> None:
    rows = {(row.case, row.figure): row.value for row in describe(trials)}
    assert rows["honest guesses: stated", "centroids shown"] == 1.0
    assert rows["honest guesses: none", "questions shown"] == 0.0
    assert ("honest guesses: none", "share covered") not in rows
    assert 0.0 <= rows["honest guesses, mixtures: stated", "weight local covered"] <= 1.0


def test_a_fit_finds_the_factor_that_was_needed() -> None:
    errors = Errors(
        errors=np.linspace(0.0, 1.645, 1001) * 2.0, spreads=np.ones(1001), samplings=np.zeros(1001)
    )
    assert errors.cover(2.001) == 1.0
    assert errors.cover(1.0) == pytest.approx(0.5, abs=0.01)
    assert np.quantile(errors.compute_needs(), 0.9) == pytest.approx(1.8, abs=0.01)


def test_the_fitted_factors_are_those_of_the_trials(trials: list[BarTrial]) -> None:
    found = fit(trials)
    assert found["learning/answers/questions.py: _STATED"][0] > 0.0
    constant, slope = found["learning/decoding/bars.py: _COEFFICIENTS"]
    needs = np.concatenate([trial.errors["centroid local"].compute_needs() for trial in trials])
    assert slope >= 0.0
    assert np.mean(needs <= np.exp(constant) * 1.3) >= 0.85
