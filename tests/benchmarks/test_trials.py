from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.datasets import Mixture
from benchmarks.sketches import Noise, Sketcher
from benchmarks.trials import Case, Trial, run_trial, summarise
from sfumato.learning.decoding.problem import DecodingProblem

SOURCE = Mixture(n_dimensions=2, n_clusters=3, n_records=500)
CASE = Case(name="tiny", source=SOURCE, features=5)


def trial(relative_sse: float, seconds: float = 1.0) -> Trial:
    return Trial(
        relative_sse=relative_sse,
        truth_start=relative_sse - 0.5,
        seconds=seconds,
        snr=9.0,
        n_frequencies=30,
        reference="lloyd",
    )


def test_rows_hold_median_and_90th_percentile_of_the_runs() -> None:
    trials = [trial(1.0 + i / 100, seconds=10.0 - i) for i in range(11)]
    rows = {row.figure: row for row in summarise("decoding", "a case", trials)}
    assert rows["median_relative_sse"].value == pytest.approx(1.05)
    assert rows["p90_relative_sse"].value == pytest.approx(1.09)
    assert rows["truth_start_median"].value == pytest.approx(0.55)
    assert rows["truth_start_p90"].value == pytest.approx(0.59)
    assert rows["median_seconds"].value == pytest.approx(5.0)
    assert {row.runs for row in rows.values()} == {11}
    assert {row.case for row in rows.values()} == {"a case"}
    assert rows["median_relative_sse"].baseline == "lloyd"
    assert (rows["median_relative_sse"].unit, rows["median_seconds"].unit) == ("1", "s")


def test_the_true_means_have_a_relative_sse_just_above_one(cache: Path) -> None:
    means = SOURCE.load(5).true_means
    assert means is not None

    def cheat(problem: DecodingProblem, seed: int) -> NDArray[np.float64]:
        return means

    result = run_trial(CASE, 5, recover=cheat, sketcher=Sketcher())
    assert 1.0 <= result.relative_sse < 1.05
    assert result.n_frequencies == 30


def test_descent_from_the_truth_is_judged_whatever_the_decoder_found(cache: Path) -> None:
    def lose(problem: DecodingProblem, seed: int) -> NDArray[np.float64]:
        return np.zeros((problem.n_clusters, problem.n_dimensions))

    exact = run_trial(CASE, 5, recover=lose, sketcher=Sketcher())
    assert exact.relative_sse > 2.0
    assert 1.0 <= exact.truth_start < 1.02
    noise = Noise(mechanism="discrete-laplace", epsilon=Fraction(1, 500))
    noisy = run_trial(replace(CASE, noise=noise), 5, recover=lose, sketcher=Sketcher())
    assert noisy.truth_start > 1.1
