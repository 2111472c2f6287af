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
