from __future__ import annotations

import doctest
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.pipeline import Pipeline

import sfumato.analyst.estimators.kmeans
import sfumato.analyst.estimators.mixture
from sfumato.analyst.estimators import CompressiveMixture
from sfumato.shared.errors import (
    ConfigError,
    DecodingError,
    RecordError,
)
from tests.analyst.estimators.records import (
    MEANS,
    SHARES,
    D,
    Floats,
    K,
    compare,
    make_exact,
    make_private,
    make_records,
    measure_sse,
)
from tests.analyst.estimators.tables import Table


@pytest.mark.parametrize("make", [make_exact, make_private])
def test_a_number_of_clusters_that_a_sketch_cannot_tell_leaves_the_results_as_they_were(
    make: Any,
) -> None:
    model = make().fit(make_records())
    kept = {name: getattr(model, name) for name in ("cluster_centers_", "weights_", "result_")}
    with pytest.raises(DecodingError, match="n_clusters: must be at most"):
        model.decode(n_clusters=900)
    assert model.n_clusters == K
    for name, value in kept.items():
        assert getattr(model, name) is value
    assert len(model.decode(n_clusters=1).weights_) == 1


def test_without_epsilon_the_centroids_are_those_of_k_means() -> None:
    records = make_records()
    found = make_exact().fit(records)
    assert compare(records, found.cluster_centers_) < 1.01
    assert found.weights_ == pytest.approx(SHARES, abs=0.03)
    assert found.spreads_ == pytest.approx(np.ones((K, D)), abs=0.2)
    assert found.labels_.tolist() == found.predict(records).tolist()
    assert found.inertia_ == pytest.approx(measure_sse(records, found.cluster_centers_))
    assert found.score(records) == pytest.approx(-found.inertia_)
    # Far from zero, single precision loses most of a distance.
    far = (records[:2000] + 1000.0).astype(np.float32)
    moved = make_exact().fit(far)
    assert moved.inertia_ == moved.score(far) * -1
    assert np.argmin(found.transform(records[:50]), axis=1).tolist() == found.labels_[:50].tolist()
    assert "NOT PRIVATE" in found.privacy_
    assert found.n_records_seen_ == len(records)


@pytest.mark.parametrize(("relation", "delta"), [("replace-one", "1e-6"), ("add-remove-one", "0")])
def test_with_epsilon_the_centroids_are_near_those_of_k_means(relation: str, delta: str) -> None:
    records = make_records()
    found = make_private(relation=relation, delta=delta, max_records=8000).fit(records)
    assert compare(records, found.cluster_centers_) < 1.1
    assert found.guarantee_.epsilon <= 5
    assert found.guarantee_.neighbouring == relation
    assert found.n_records_seen_ == pytest.approx(len(records), rel=0.02)
    assert (found.release_.n_records is None) == (relation == "add-remove-one")
    assert "differentially private" in found.privacy_


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_a_pilot_finds_the_scale_within_the_budget(relation: str) -> None:
    records = make_records(30_000)
    found = make_private(scale="pilot", relation=relation, epsilon="1", max_records=40_000)
    planned = found.plan_events(*records.shape)
    found.fit(records)
    assert 0.8 < found.plan_.scale[0] < 4.0
    assert compare(records, found.cluster_centers_) < 1.05
    assert [event.epsilon for event in found.events_] == [event.epsilon for event in planned]
    assert Fraction(99, 100) < sum(event.epsilon for event in found.events_) <= 1
    assert found.guarantee_.epsilon == sum(event.epsilon for event in found.events_)
    assert found.pilot_.design["statistic"] == "histogram"


def test_a_pilot_that_noise_would_hide_is_refused_before_it_spends() -> None:
    found = make_private(scale="pilot", epsilon="1e-3")
    with pytest.raises(ConfigError, match="noise would hide the records"):
        found.fit(make_records())
    assert "events_" not in vars(found)
    with pytest.raises(ConfigError, match="pilot of a first batch"):
        make_private(scale="pilot", max_records=100).partial_fit(make_records(100))


@pytest.mark.parametrize("k", [100, 400])
def test_more_clusters_than_noise_leaves_are_refused_before_anything_is_spent(k: int) -> None:
    records = np.random.default_rng(0).uniform(-1.0, 1.0, size=(5000, 2))
    crowd = CompressiveMixture(k, epsilon="1", bounds=(-1, 1), scale=0.05)
    assert crowd.expect(5000, 2).is_hopeless  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match=r"n_components: is \d+, .* below 8") as refused:
        crowd.fit(records)
    assert not hasattr(crowd, "events_")
    # What the refusal names would do.
    named = re.search(r"at most (\d+), or raise epsilon to (\d+)", str(refused.value))
    assert named is not None
    fewer = CompressiveMixture(int(named[1]), epsilon="1", bounds=(-1, 1), scale=0.05)
    assert not fewer.expect(5000, 2).is_hopeless  # type: ignore[union-attr]
    assert not crowd.set_params(epsilon=named[2]).expect(5000, 2).is_hopeless  # type: ignore[union-attr]


def test_records_with_missing_values_have_no_label_and_add_nothing() -> None:
    records = make_records()
    broken = np.vstack([records, np.full((500, D), np.nan)])
    found = make_exact().fit(broken)
    assert set(found.labels_[-500:]) == {-1}
    assert found.inertia_ == pytest.approx(make_exact().fit(records).inertia_, rel=0.01)
    with pytest.raises(ConfigError, match="no finite value"):
        make_exact().fit(np.full((10, D), np.nan))
    with pytest.raises(ConfigError, match="no record without a missing value"):
        make_exact(bounds=(-1, 1), scale=1).fit(np.full((10, D), np.nan))


def test_a_mixture_is_that_of_the_records() -> None:
    records = make_records()
    found = CompressiveMixture(K, random_state=0).fit(records)
    assert found.weights_ == pytest.approx(SHARES, abs=0.03)
    assert found.means_ == pytest.approx(MEANS, abs=0.3)
    assert found.covariances_ == pytest.approx(np.ones((K, D)), rel=0.4)
    shares = found.predict_proba(MEANS)
    assert shares.sum(axis=1) == pytest.approx(np.ones(K))
    assert found.predict(MEANS).tolist() == [0, 1, 2]
    assert found.score(records) == pytest.approx(found.score_samples(records).mean())
    private = CompressiveMixture(K, epsilon=2, bounds=(-12, 12), scale=1.0).fit(records)
    assert private.means_ == pytest.approx(MEANS, abs=0.6)
    assert not hasattr(private, "score")
    with pytest.raises(AttributeError, match="likelihood"):
        private.bic  # noqa: B018 - asking is the test


@pytest.mark.parametrize(
    "module", [sfumato.analyst.estimators.kmeans, sfumato.analyst.estimators.mixture]
)
def test_the_examples_of_the_docstrings_hold(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 3
    assert not found.failed


def test_a_table_with_words_is_refused_by_column() -> None:
    records = make_records(20)
    words = Table(records, ["a", "b"], dtypes=[np.dtype(float), np.dtype("U5")])
    for make in (make_exact, make_private):
        with pytest.raises(RecordError, match="'b' of type <U5, which holds no numbers"):
            make().fit(words)
    mixed: Any = [[1.0, "x"], [2.0, 3.0], [0.0, None]]
    with pytest.raises(RecordError, match="no number in column 'x1', row 0"):
        make_exact(n_clusters=1).fit(mixed)


def test_columns_in_another_order_are_refused() -> None:
    records = make_records(500)
    for make in (make_exact, make_private):
        found = make().fit(Table(records, ["a", "b"]))
        assert found.feature_names_in_.tolist() == ["a", "b"]
        assert [axis.name for axis in found.plan_.axes] == ["a", "b"]
        assert found.predict(Table(records, ["a", "b"])).shape == (500,)
        with pytest.raises(RecordError, match="must have the columns a, b, in this order"):
            found.predict(Table(records, ["b", "a"]))
        with pytest.raises(RecordError, match="must have 2 columns and has 3"):
            found.transform(np.zeros((1, 3)))


def test_bars_hold_the_centroids_of_k_means_or_say_why_there_are_none() -> None:
    # Fresh noise: 19 in 20 bars hold; of 18 fewer than 9 do with a chance below 1e-8.
    n_held = n_bars = 0
    for seed in range(3):
        records = make_records(20_000, seed)
        found = make_private(epsilon="2").fit(records)
        best = KMeans(K, init=found.cluster_centers_, n_init=1).fit(records).cluster_centers_
        reach = 1.645 * found.centers_std_
        n_held += int(np.sum(np.abs(found.cluster_centers_ - best) <= reach))
        n_bars += reach.size
        assert found.weights_std_.shape == (K,)
        # They can fail the other way: bars that hold all centroids would be useless.
        assert np.all(reach < 1.0)
    assert n_held >= 9
    assert n_bars == 18
    weak = make_private(epsilon="0.02", max_records=3000).partial_fit(make_records(3000))
    with pytest.raises(AttributeError, match="no error bars are shown for an answer that is"):
        weak.centers_std_  # noqa: B018 - asking is the test


def test_what_people_see_says_how_far_to_trust_it_and_never_releases() -> None:
    waiting = make_private(max_records=6000).partial_fit(make_records())
    assert "not released yet" in str(waiting)
    assert "not released yet" in waiting._repr_mimebundle_()["text/html"]
    Pipeline([("cluster", waiting)])._repr_mimebundle_()
    assert waiting.events_ == ()
    secret = make_private(max_records=6000, relation="add-remove-one")
    secret.partial_fit(make_records())
    assert f"{len(make_records()):,}" in str(waiting)
    assert "CompressiveKMeans: records are not released yet" in str(secret)
    found = make_private().fit(make_records())
    text = str(found)
    assert text.splitlines()[1].startswith(f"  {found.result_.verdict}: ")
    assert "epsilon = 5 differentially private" in text
    assert f"{found.weights_[0]:.1%}" in text
    assert "NOT PRIVATE" in str(make_exact().fit(make_records()))
    assert str(make_exact()) == "CompressiveKMeans: not fitted"
    # A name of a column is text, not markup.
    named = make_exact().fit(Table(make_records(), ["<b>a</b>", "b"]))
    html = named._repr_mimebundle_()["text/html"]
    assert "&lt;b&gt;a&lt;/b&gt;" in html
    assert "<b>a</b>" not in html
    assert len(found.plot().axes) == 2
    assert found.result_.to_frame().shape[0] == K


def test_clusters_that_take_minutes_to_decode_are_refused_before_anything_is_spent() -> None:
    crowd = make_private(n_clusters=1001)
    with pytest.raises(ConfigError, match="n_clusters: must be at most 1000 in 2 dimensions"):
        crowd.fit(make_records(5000))
    assert not hasattr(crowd, "events_")


def test_synthetic_records_and_densities_come_from_the_sketch() -> None:
    found = make_private().fit(make_records())
    drawn = found.sample(3000, random_state=1)
    assert compare(drawn, found.cluster_centers_) < 1.1
    assert np.all(np.abs(drawn) <= 12)
    assert found.sample(2, random_state=1).tolist() == found.sample(2, random_state=1).tolist()
    near, far = found.score_samples([MEANS[0], [11.0, 11.0]])
    assert near > far + 5


@pytest.mark.parametrize("rows", [np.zeros((0, 2)), np.zeros((3, 0)), np.zeros(3)])
def test_tables_without_records_or_columns_are_refused(rows: Floats) -> None:
    for make in (make_exact, make_private):
        with pytest.raises(RecordError, match=r"^X: "):
            make().fit(rows)
