from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from sfumato.analyst.estimators import CompressiveKMeans, CompressiveMixture
from sfumato.analyst.estimators.weights import sum_weighted
from sfumato.learning.answers.words import name_clusters
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import PrivacyError
from tests.analyst.estimators.kinds import K, make, make_records
from tests.analyst.estimators.records import make_exact

RNG = np.random.default_rng(5)
RECORDS = make_records(2000)
WEIGHTS = np.where(RECORDS[:, 0] > 2.0, 3.0, 0.5) * RNG.uniform(0.5, 1.5, size=2000)


def test_a_weighted_fit_is_that_of_k_means_with_the_same_weights() -> None:
    found = make_exact().fit(RECORDS, sample_weight=WEIGHTS)
    scaled = RECORDS / found.metric_
    known = KMeans(K, n_init=4, random_state=0).fit(scaled, sample_weight=WEIGHTS)
    assert found.inertia_ == pytest.approx(known.inertia_, rel=1e-6)
    assert found.score(RECORDS, sample_weight=WEIGHTS) == pytest.approx(-found.inertia_)
    labels = make_exact().fit_predict(RECORDS, sample_weight=WEIGHTS)
    assert np.array_equal(labels, found.labels_)
    shares = np.bincount(known.labels_, weights=WEIGHTS) / WEIGHTS.sum()
    assert sorted(found.weights_) == pytest.approx(sorted(shares), rel=1e-6)
    assert found.n_records_seen_ == round(WEIGHTS.sum() ** 2 / np.sum(WEIGHTS**2))


def test_clusters_are_named_after_their_settled_centroids() -> None:
    found = make_exact().fit(RECORDS, sample_weight=WEIGHTS)
    named = name_clusters(found.cluster_centers_, found.weights_, found.result_.names)
    assert found.result_.body.words == named


def test_the_sketch_alone_follows_the_weights_too() -> None:
    plain = CompressiveMixture(K, random_state=0).fit(RECORDS)
    found = CompressiveMixture(K, random_state=0).fit(RECORDS, sample_weight=WEIGHTS)
    far = RECORDS[:, 0] > 2.0
    for fit, share in ((plain, far.mean()), (found, WEIGHTS[far].sum() / WEIGHTS.sum())):
        right = fit.ask(ranges=[{"x0": (2.0, None)}]).ranges[0]
        assert right.share == pytest.approx(share, abs=0.03)


EXACT = make_exact().fit(RECORDS)


def sum_rows(rows: NDArray[np.floating]) -> SketchAccumulator:
    return EXACT._sum(rows, EXACT.plan_)


@given(st.lists(st.integers(0, 5), min_size=8, max_size=8).filter(any), st.sampled_from([1.0, 0.3]))
def test_whole_weights_are_repetitions_up_to_rounding(weights: list[int], unit: float) -> None:
    rows = RECORDS[:8]
    repeated = sum_rows(np.repeat(rows, weights, axis=0))
    given_ = np.array(weights, dtype=np.float64)
    found = sum_weighted(rows, unit * given_, sum_rows)
    n_equal = given_.sum() ** 2 / np.sum(given_**2)
    assert abs(found.n_records - n_equal) <= 1
    means = repeated.sums / repeated.n_records
    largest = np.abs(means).max()
    # A weight is rounded to 1/256 of the mean weight.
    assert np.allclose(found.sums / n_equal, means, atol=largest * 8 / 256 + 1.0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0], "must have shape"),
        (np.ones((2000, 2)), "must have shape"),
        (np.zeros(2000), "not all zero"),
        (-np.ones(2000), "not negative"),
        ([float("nan")] * 2000, "finite"),
        (["much"] * 2000, "finite"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"sample_weight: .*{words}"):
        make_exact().fit(RECORDS, sample_weight=weights)


@pytest.mark.parametrize("name", ["compressive", "mixture"])
def test_weights_are_refused_with_epsilon_because_one_record_could_add_more(name: str) -> None:
    with pytest.raises(PrivacyError, match="a weight multiplies what one record adds"):
        make(name).fit(RECORDS, sample_weight=WEIGHTS)


def test_a_record_that_misses_a_value_has_no_weight() -> None:
    records = RECORDS.copy()
    records[:5, 0] = np.nan
    found = CompressiveKMeans(K, random_state=0).fit(records, sample_weight=WEIGHTS)
    assert np.count_nonzero(found.labels_ == -1) == 5
    assert np.isfinite(found.inertia_)
