from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.honest_trials import Situation, Task, collect_tasks
from benchmarks.honesty import HonestTrial, describe, fit, run_trial
from benchmarks.runner import Bench
from benchmarks.shapes import FAMILIES, Shape, draw_shape
from sfumato.learning.decoding.judgement import FEATURES
from tests.learning.decoding.conftest import GOOD


def make_trial(
    ratio: float, *, word: str, band: tuple[float, float], disagreement: float = 0.01
) -> HonestTrial:
    ones = np.ones(3, dtype=np.bool_)
    return HonestTrial(
        family="even",
        size=(2, 3, 30),
        situation=Situation(name="no noise", n_epsilon=None),
        kind="mixtures",
        ratio=ratio,
        ideal=1.0,
        shares=np.full(3, 1.0 / 3.0),
        phantoms=~ones,
        evidence=replace(
            GOOD,
            disagreement=disagreement,
            worst_disagreement=disagreement,
            model="3 round Gaussians",
            stabilities=np.ones(3),
            resolutions=np.full(3, 1e-3),
            resolved=ones,
        ),
        word=word,
        low=band[0],
        high=band[1],
    )


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_shape_is_what_its_text_says_and_lies_in_its_box(family: str) -> None:
    one, same, other = (draw_shape(family, text, 600) for text in ("a", "a", "b"))
    np.testing.assert_array_equal(one.dataset.records, same.dataset.records)
    assert one.guess == same.guess
    assert one.guess != other.guess
    assert np.all(np.abs(one.dataset.records) <= one.dataset.upper)
    assert np.all(np.isfinite(one.dataset.records))
    assert one.dataset.records.shape[0] == 600


def test_coverage_and_verdicts_are_counted_and_the_worst_answers_come_first() -> None:
    trials = [
        make_trial(1.01, word="sound", band=(1.0, 1.1)),
        make_trial(0.99, word="sound", band=(1.0, 1.1)),
        make_trial(1.20, word="sound", band=(1.0, 1.1)),
        make_trial(5.00, word="do not use", band=(1.2, float("inf"))),
    ]
    rows = list(describe(trials))
    assert (rows[0].value, rows[0].figure) == (5.0, "do not use")
    figures = {(row.case, row.figure): row.value for row in rows}
    # An answer that beats k-means is inside a band that begins at 1.
    assert figures["all", "coverage"] == 0.75
    assert figures["answers below 1.05", "sound"] == 1.0
    assert figures["answers above 1.3", "do_not_use"] == 1.0


def test_the_band_is_fitted_from_evidence_and_rises_with_what_it_says() -> None:
    rng = np.random.default_rng(0)
    trials = [
        make_trial(
            1.0 + level * float(np.exp(0.3 * rng.normal())),
            word="sound",
            band=(1.0, 1.1),
            disagreement=level,
        )
        for level in np.exp(rng.uniform(np.log(0.01), np.log(1.0), size=300))
    ]
    ends = fit(trials)
    slope = FEATURES.index("disagreement")
    assert 0.8 < ends["_HIGH"][slope] < 1.2
    assert all(c >= 0.0 for end in ends.values() for c in end[1:])
    assert ends["_LOW"][0] < ends["_HIGH"][0]


def test_a_shape_goes_through_the_whole_path_and_is_judged(cache: Path) -> None:
    shape = draw_shape("spreads", "a small one", 2000)
    trial = run_trial(shape, Situation(name="no noise", n_epsilon=None), "a small one")
    assert trial.ratio > 0.9
    assert trial.word in ("sound", "rough", "doubtful", "do not use")
    assert trial.low <= trial.high
    assert len(trial.phantoms) == len(trial.shares) == trial.size[1]


def test_a_run_goes_on_from_what_it_kept(tmp_path: Path) -> None:
    decoded: list[str] = []

    def run(shape: Shape, task: Task) -> list[str]:
        decoded.append(shape.family)
        return [task[2]]

    bench = Bench(own={"keep": tmp_path / "kept"})
    assert len(collect_tasks(bench, "a", 2, run)) == 2
    assert collect_tasks(bench, "a", 3, run) == ["a 0"] * 3
    assert decoded == list(FAMILIES)[:3]
    assert collect_tasks(bench, "b", 1, run) == ["b 0"]
    assert len(decoded) == 4
