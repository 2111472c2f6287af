"""Questions to an estimator, and comparisons of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.analyst.estimators import CompressiveKMeans, CompressiveMixture
from sfumato.shared.errors import ConfigError, DecodingError
from tests.analyst.estimators.records import make_exact, make_private, make_records

SHARED: dict[str, Any] = {"public_seed": "answers", "max_records": 6000}


@pytest.fixture(scope="module")
def private() -> CompressiveKMeans:
    return make_private(**SHARED).fit(make_records())


def test_an_estimator_answers_as_a_decode_does_and_spends_nothing(
    private: CompressiveKMeans,
) -> None:
    events = private.events_
    answers = private.ask(
        ranges=[{"x0": (3, None)}], quantiles=[("x1", 0.5)], means=["x0"], marginals=["x1"]
    )
    records = make_records()
    # Released at epsilon 5: a bar is well below 0.1 wide.
    assert answers.ranges[0].share == pytest.approx(np.mean(records[:, 0] >= 3), abs=0.1)
    assert answers.means[0].mean == pytest.approx(records[:, 0].mean(), abs=0.5)
    lines = str(answers).splitlines()
    assert len(lines) == 4 + len(answers.words)
    assert lines[0] == str(answers.ranges[0])
    assert lines[0].startswith(f"{answers.ranges[0].share:.1%} (")
    assert private.events_ == events
    with pytest.raises(ConfigError, match="asks nothing"):
        private.ask()
    with pytest.raises(DecodingError, match="x7"):
        private.ask(quantiles=[("x7", 0.5)])


def test_records_that_moved_differ_and_others_do_not(private: CompressiveKMeans) -> None:
    # Fresh noise: by its level this alarm has a chance of 1e-9; the true one has p below 1e-200.
    same = private.compare(make_private(**SHARED).fit(make_records(seed=1)), level=1e-9)
    assert not same.is_alarm
    moved = make_private(**SHARED).fit(make_records(seed=1) + np.array([0.0, 2.0]))
    found = private.compare(moved, level=1e-9)
    assert found.is_alarm
    assert found.size > 0.5
    assert "moved in x1 by +" in str(found)
    assert len(found.to_frame()) == len(found.body.changes)


def test_what_cannot_be_compared_is_refused_with_its_fix(private: CompressiveKMeans) -> None:
    records = make_records(seed=1)
    with pytest.raises(ConfigError, match="has no sum yet"):
        private.compare(make_private(**SHARED))
    with pytest.raises(ConfigError, match="exact results by their records"):
        make_exact().fit(records).compare(private)
    with pytest.raises(ConfigError, match="public_seed and max_records for both"):
        private.compare(make_private().fit(records))
    with pytest.raises(ConfigError, match="must not share a release"):
        private.compare(private)


def test_a_mixture_is_compared_with_as_many_clusters_as_it_has_components() -> None:
    public: dict[str, Any] = {"epsilon": "5", "bounds": (-12.0, 12.0), "scale": 1.0, **SHARED}
    one, two = (
        CompressiveMixture(3, random_state=0, **public).fit(make_records(seed=seed) + shift)
        for seed, shift in ((0, 0.0), (1, 2.0))
    )
    found = one.compare(two)
    assert found.is_alarm
    assert len(found.body.clusters) == 3


AGES = np.round(np.random.default_rng(0).normal(45.0, 15.0, (20_000, 1))).clip(0.0, 100.0)


def test_whole_numbers_are_seen_by_a_pilot_and_asked_by_their_cells() -> None:
    """A bar of 90 % thrice as long misses the truth with probability below 1e-6 each."""
    fit = make_private(bounds=(0.0, 110.0), scale="pilot", epsilon=4, n_clusters=3).fit(AGES)
    answers = fit.ask(ranges=[{"x0": (40, 45)}, {"x0": (50, 50)}], quantiles=[("x0", 0.5)])
    for found, (low, high) in zip(answers.ranges, ((40, 45), (50, 50)), strict=True):
        assert found.share is not None
        assert found.low is not None
        assert found.high is not None
        truth = float(np.mean((low <= AGES) & (high >= AGES)))
        assert abs(found.share - truth) < 1.5 * (found.high - found.low)
    assert answers.quantiles[0].value == round(answers.quantiles[0].value)
    assert any("follow a histogram" in words for words in answers.words)


def test_without_a_pilot_a_step_is_stated_or_no_bar_is_shown() -> None:
    stated = {"bounds": (0.0, 110.0), "scale": 15.0, "epsilon": 20, "n_clusters": 1}
    for steps, has_bar in ((None, False), ({0: 1}, True)):
        fit = make_private(**stated, steps=steps).fit(AGES)
        found = fit.ask(ranges=[{"x0": (40, 50)}])
        assert (found.ranges[0].low is not None) == has_bar
        assert found.words[0].startswith("no bars are shown for x0") != has_bar
    for wrong in (1, {0: -1}, {0: "one"}):
        with pytest.raises(ConfigError, match="steps"):
            make_private(**stated, steps=wrong).fit(AGES)


def test_an_exact_fit_reads_the_step_off_the_records() -> None:
    columns = np.column_stack([AGES[:, 0], np.random.default_rng(1).normal(size=20_000)])
    fit = make_exact(n_clusters=3).fit(columns)
    found = fit.ask(ranges=[{"x0": (40, 50)}], quantiles=[("x0", 0.5)], means=["x1"])
    truth = float(np.mean((AGES >= 40) & (AGES <= 50)))
    assert found.ranges[0].share == pytest.approx(truth, abs=0.02)
    assert found.quantiles[0].value == np.median(AGES)
    assert None not in (found.ranges[0].low, found.quantiles[0].low, found.means[0].low)
    heaped = np.where(columns[:, :1] < 45.0, np.round(columns[:, :1] / 5.0) * 5.0, columns[:, :1])
    assert make_exact(n_clusters=3).fit(heaped).ask(ranges=[{"x0": (40, 50)}]).ranges[0].low is None
    # The plan is the same whatever the values are, so that sums of others can be added.
    assert {each.step for each in fit.plan_.dimensions} == {None}
    fit.partial_fit(columns)
    assert fit.ask(ranges=[{"x0": (40, 50)}]).ranges[0].low is None
