"""The central methods of clustering: what they learn, and what they release."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas
import pytest

from sfumato.lab import ReferenceKMeans
from sfumato.learning.clustering.methods.release import ClusterRelease
from sfumato.shared.errors import (
    ConfigError,
    PrivacyError,
    RecordError,
    TableError,
)
from tests.analyst.estimators.kinds import CENTRAL, LAB, MEANS, D, each_of, make, make_records
from tests.analyst.estimators.tables import Table

each = each_of(CENTRAL)


# ---- what is learnt ----


@each
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_clusters_are_found_where_noise_is_small(name: str, relation: str) -> None:
    if name == "sample-aggregate":
        relation = "replace-one"
    # Fresh noise: a false alarm has a chance below 1e-9. Lloyd's rounds were never above 0.06.
    found = make(name, relation=relation, max_records=3000, public_seed=1, epsilon="80")
    found.fit(make_records())
    distances = np.linalg.norm(found.cluster_centers_[:, None] - MEANS, axis=2)
    if "published" not in name and name not in ("lloyd", *LAB):
        # These have one start, or an average of many, and may end in a local optimum.
        assert distances.min(axis=0).max() < 0.5
        assert found.weights_ == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    assert distances.min() < 1.5


@pytest.mark.parametrize(
    ("noise", "delta"), [("cube", "0"), ("laplace", "0"), ("gaussian", "1e-6")]
)
def test_rounds_of_sums_refine_centroids_that_were_released(noise: str, delta: str) -> None:
    start = MEANS + np.array([[2.0, -1.0], [-1.5, 1.0], [1.0, 1.0]])
    found = make("lloyd", start=start, noise=noise, delta=delta, scale=0.7).fit(make_records())
    distances = np.linalg.norm(found.cluster_centers_[:, None] - MEANS, axis=2)
    assert distances.min(axis=0).max() < 0.3
    assert found.weights_ == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    assert found.guarantee_.epsilon <= 8
    assert found.guarantee_.delta == Fraction(delta)
    assert (found.guarantee_.rho is None) == (noise != "gaussian")


def test_features_are_clustered_and_other_records_are_labelled_by_them() -> None:
    records = make_records()
    found = make("kernel", n_features=100, public_seed=2)
    planned = found.plan_events(3000, D)
    found.fit(records)
    assert found.events_ == planned
    # Five rounds of Gaussian noise compose by rho.
    assert Fraction(99, 100) * 8 < found.guarantee_.epsilon <= 8
    assert found.guarantee_.delta == Fraction(1, 10**6)
    labels = found.predict(make_records(500, seed=3))
    truth = np.argmin(np.linalg.norm(make_records(500, seed=3)[:, None] - MEANS, axis=2), axis=1)
    # One cluster of the truth for each label, but for a local optimum of the start.
    table = np.zeros((3, 3))
    np.add.at(table, (labels, truth), 1)
    assert table.max(axis=1).sum() > 0.75 * 500
    distances = np.linalg.norm(found.cluster_centers_[:, None] - MEANS, axis=2)
    assert np.sort(distances.min(axis=0))[:2].max() < 2.0
    assert found.decode(3).cluster_centers_.shape == (3, D)
    with pytest.raises(ConfigError, match="features tell of no other number"):
        found.decode(2)


def test_predictions_are_of_the_nearest_centroid_and_say_where_a_value_is_missing() -> None:
    found = make("grid").fit(make_records())
    others = np.vstack([make_records(50, seed=1), [[np.nan, 0.0]]])
    labels = found.predict(others)
    assert labels[-1] == -1
    assert np.array_equal(labels[:-1], np.argmin(found.transform(others[:-1]), axis=1))


# ---- the contract ----


@each
def test_every_attribute_follows_from_the_release_and_public_parameters(name: str) -> None:
    found = make(name).fit(make_records(500))
    stored = ClusterRelease.decode(found.release_.encode())
    again = make(name)
    again.release_ = stored
    again._answer(3)
    fitted = {key for key in vars(found) if key.endswith("_")}
    assert fitted == {
        *("release_", "events_", "guarantee_", "n_features_in_"),
        *(key for key in vars(again) if key.endswith("_")),
    }
    assert np.array_equal(found.cluster_centers_, again.cluster_centers_)
    assert np.array_equal(found.weights_, again.weights_)


@each
def test_columns_of_words_are_refused_by_their_declared_type_before_anything_is_spent(
    name: str,
) -> None:
    table = pandas.DataFrame({"size": make_records(50)[:, 0], "colour": ["red", "blue"] * 25})
    for kind in ("category", "string"):
        found = make(name)
        with pytest.raises(TableError, match=r"'colour'.*Drop it"):
            found.fit(table.astype({"colour": kind}))
        assert not {"release_", "events_"} & set(vars(found))


@each
def test_odd_records_are_released_as_any_others(name: str) -> None:
    shapes: list[tuple[tuple[int, int], float]]
    shapes = [((1, D), 0.0), ((50, D), 3.0), ((50, D), np.nan), ((50, D), 1 << 41), ((50, 1), 0.5)]
    for shape, value in shapes:
        found = make(name, n_clusters=1, epsilon="1/2", max_unreadable=1).fit(np.full(shape, value))
        assert np.isfinite(found.cluster_centers_).all(), (shape, value)
        assert np.abs(found.cluster_centers_).max() <= 10.0, (shape, value)


# ---- tools ----


# ---- the owner's ledger ----


def test_rounds_of_features_refine_centroids_that_were_released() -> None:
    start = MEANS + np.array([[2.0, -1.0], [-1.5, 1.0], [1.0, 1.0]])
    # Fresh noise: of 40 fits none was further away than 0.06.
    found = make("kernel", start=start, n_features=100, n_rounds=2).fit(make_records())
    distances = np.linalg.norm(found.cluster_centers_[:, None] - MEANS, axis=2)
    assert distances.min(axis=0).max() < 0.3
    assert found.weights_ == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    stored = ClusterRelease.decode(found.release_.encode())
    assert stored.method == found.release_.method
    uniform = make("kernel", start="uniform", public_seed=1).fit(make_records(300))
    assert uniform.release_.design["settings"]["start"] == "uniform"


@pytest.mark.parametrize("name", ["lloyd", "kernel"])
def test_a_start_of_another_shape_is_refused_before_anything_is_spent(name: str) -> None:
    starts = (MEANS[:2], [[0.0], [1.0], [2.0]], "elsewhere", "given", [[np.nan, 0.0]] * 3)
    for start in starts:
        found = make(name, start=start)
        with pytest.raises(ConfigError, match="start"):
            found.fit(make_records(100))
        assert not {"release_", "events_"} & set(vars(found))


def test_a_refused_second_fit_names_what_the_first_has_spent() -> None:
    found = make("kernel", epsilon="1").fit(make_records(400))
    level = f"{float(found.guarantee_.epsilon):.6g}"
    with pytest.raises(PrivacyError, match=f"has spent epsilon = {level}, delta"):
        found.fit(make_records(400))


def test_more_columns_than_a_grid_can_have_are_refused_before_anything_is_spent() -> None:
    found = make("grid")
    with pytest.raises(ConfigError, match="at most 12 for a grid"):
        found.fit(np.zeros((100, 13)))
    assert not {"release_", "events_"} & set(vars(found))


def test_names_of_columns_are_kept() -> None:
    bounds = {"a": (-10, 10), "b": (-10, 10)}
    found = make("grid", refit=True, bounds=bounds).fit(Table(make_records(100), ["a", "b"]))
    assert found.feature_names_in_.tolist() == ["a", "b"]
    assert found.release_.names == ("a", "b")
    assert not hasattr(
        found.set_params(bounds=(-10, 10)).fit(make_records(100)), "feature_names_in_"
    )
    with pytest.raises(RecordError, match="must have 2 columns"):
        found.predict(np.zeros((1, 3)))


def test_a_guarantee_with_a_condition_on_the_records_states_it() -> None:
    found = ReferenceKMeans(
        3, method="k-variates", spread="1/50", epsilon="8", bounds=(-10, 10), public_seed=1
    ).fit(make_records(2000))
    assert "at least 0.02 of its largest possible value, as `spread` states" in found.describe()
    assert found.describe().endswith("Nobody has checked that.")
    assert "only if" not in make("grid").fit(make_records(300)).describe()
