"""Verdicts of looks: an answer with its look, and the rows of false ones."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.datasets import Dataset
from benchmarks.shapes import Shape
from benchmarks.verdicts import LookTrial, describe, digest_rules, run_trial

TRIAL = LookTrial(
    family="even",
    size=(2, 3),
    n_epsilon=5000,
    ratio=1.02,
    first=1.05,
    word="sound",
    of_fit="sound",
    of_look="sound",
    gain=0.01,
    gain_error=0.001,
    phantoms=0.0,
    wide=0.0,
    beyond=0.001,
)


@pytest.fixture(scope="module")
def shape() -> Shape:
    rng = np.random.default_rng(0)
    means = np.array([[-5.0, -5.0], [0.0, 5.0], [5.0, -2.0]])
    records = means[rng.integers(3, size=4000)] + rng.normal(size=(4000, 2))
    dataset = Dataset(
        name="verdicts", records=records, lower=-9.0, upper=9.0, n_clusters=3, true_means=means
    )
    return Shape(family="even", is_mixture=True, dataset=dataset, guess=1.1)


def test_an_answer_is_judged_with_its_look(shape: Shape) -> None:
    trial = run_trial(shape, 20_000, 1)
    assert trial.word == trial.of_fit == trial.of_look == "sound"
    # Near the optimum, noise may make a step worse by less than it could gain.
    assert 1.0 <= min(trial.ratio, trial.first) <= max(trial.ratio, trial.first) < 1.05
    assert trial.gain is not None
    assert trial.gain == pytest.approx(1.0 - trial.ratio / trial.first, abs=0.005)


def test_false_answers_come_first_and_rules_count_what_they_apply_to() -> None:
    trials = [
        TRIAL,
        replace(TRIAL, ratio=1.3),
        replace(TRIAL, word="doubtful", of_look="doubtful", gain=0.3, first=1.6),
        replace(TRIAL, word="do not use", of_fit="rough", of_look="do not use", phantoms=0.5),
    ]
    rows = list(describe(trials))
    assert (rows[0].figure, rows[0].value, rows[0].runs) == ("sound_above_1.1", 1.0, 4)
    assert (rows[1].case, rows[1].value) == ("false even, n eps 5000, d=2 k=3", 1.3)
    found = {(row.case, row.figure): row.value for row in rows}
    assert found["rule gain above 15 %", "answers"] == 1.0
    assert found["rule gain above 15 %", "first_median"] == 1.6
    assert found["rule phantoms, above 20 %", "answers"] == 1.0
    assert found["rule phantoms, above 20 %", "alone"] == 0.0
    assert found["sound", "ratio_worst"] == 1.3


def test_other_rules_draw_other_shapes() -> None:
    assert len(digest_rules()) == 64
