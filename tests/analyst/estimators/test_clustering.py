"""The one contract of the central methods: every estimator that is listed here keeps it."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from sfumato.analyst import estimators
from sfumato.analyst.estimators import (
    CandidateKMeans,
    CoverKMeans,
    GridKMeans,
    KernelKMeans,
    LloydKMeans,
    ReferenceKMeans,
    TreeKMeans,
)
from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.learning.clustering.methods.release import ClusterRelease
from sfumato.shared.errors import (
    BudgetExceededError,
    ConfigError,
    PrivacyError,
    RecordError,
    SketchError,
    TableError,
)
from sfumato.shared.ledger import OwnersLedger
from tests.analyst.estimators.tables import Table

Floats = NDArray[np.float64]
MEANS = np.array([[-5.0, -4.0], [5.0, -5.0], [0.0, 6.0]])
D = 2

ESTIMATORS: dict[str, Any] = {
    "grid": GridKMeans,
    "grid alone": lambda *k, **given: GridKMeans(*k, n_rounds=0, **given),
    "grid published": GridKMeans.published,
    "candidates": CandidateKMeans,
    "candidates published": lambda *k, **given: CandidateKMeans.published(*k, n_swaps=2, **given),
    "privgene": ReferenceKMeans,
    "sample-aggregate": lambda *k, **given: ReferenceKMeans(*k, method="sample-aggregate", **given),
    "cover": lambda *k, **given: CoverKMeans(*k, **{"relation": "replace-one", **given}),
    "kernel": lambda *k, **given: KernelKMeans(
        *k, **{"delta": "1e-6", "n_features": 60, "scale": 0.7, **given}
    ),
    "lloyd": LloydKMeans,
    "lloyd published": LloydKMeans.published,
    "tree": TreeKMeans,
}
each = pytest.mark.parametrize("name", ESTIMATORS)
GAUSSIAN = ("kernel",)
"""Those whose rounds compose by rho, to less than the sum of their epsilons."""


def assert_spent(name: str, spent: Fraction, stated: Fraction) -> None:
    if name in GAUSSIAN:
        assert Fraction(2, 3) * stated < spent <= stated
    else:
        assert spent == stated


def make_records(n: int = 3000, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return MEANS[rng.choice(3, size=n, p=(0.5, 0.3, 0.2))] + rng.normal(scale=0.7, size=(n, 2))


def make(name: str, **changes: Any) -> Any:
    given: dict[str, Any] = {"epsilon": "8", "bounds": (-10.0, 10.0), "random_state": 0}
    return ESTIMATORS[name](3, **given | changes)


def test_every_estimator_of_a_central_method_is_tested_here() -> None:
    known = {
        value
        for value in vars(estimators).values()
        if isinstance(value, type) and issubclass(value, ClusteringEstimator)
    }
    assert known == {type(make(name)) for name in ESTIMATORS}


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
    if "published" not in name and name not in ("lloyd", "privgene", "sample-aggregate"):
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


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"delta": "0"}, "delta"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 1 << 20}, "n_features"),
        ({"n_rounds": 21}, "n_rounds"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": "wide"}, "bandwidth"),
        ({"scale": -1.0}, "scale"),
    ],
)
def test_kernel_k_means_refuses_what_it_cannot_do_by_name(
    changes: dict[str, Any], field: str
) -> None:
    found = make("kernel", **changes)
    with pytest.raises(SketchError) as caught:
        found.fit(make_records(100))
    assert caught.value.field == field
    assert not {"release_", "events_"} & set(vars(found))


@pytest.mark.parametrize("name", ["lloyd", "kernel"])
def test_a_start_of_another_shape_is_refused_before_anything_is_spent(name: str) -> None:
    starts = (MEANS[:2], [[0.0], [1.0], [2.0]], "elsewhere", "given", [[np.nan, 0.0]] * 3)
    for start in starts:
        found = make(name, start=start)
        with pytest.raises(ConfigError, match="start"):
            found.fit(make_records(100))
        assert not {"release_", "events_"} & set(vars(found))


def test_gaussian_noise_needs_a_delta() -> None:
    with pytest.raises(PrivacyError, match="delta"):
        make("lloyd", noise="gaussian").fit(make_records(100))


def test_another_number_of_clusters_costs_nothing() -> None:
    found = make("grid").fit(make_records())
    before = found.events_
    assert found.decode(2).cluster_centers_.shape == (2, D)
    assert found.decode(5).cluster_centers_.shape == (5, D)
    assert found.events_ == before
    with pytest.raises(ConfigError, match="n_clusters"):
        found.decode(0)


def test_records_with_missing_values_move_no_centroid() -> None:
    records = make_records()
    broken = np.vstack([records, np.full((1500, D), np.nan), [[np.inf, 9.0]] * 1500])
    for relation in ("replace-one", "add-remove-one"):
        found = make("grid", relation=relation, max_records=6000).fit(broken)
        distances = np.linalg.norm(found.cluster_centers_[:, None] - MEANS, axis=2)
        assert distances.min(axis=0).max() < 0.5


def test_columns_of_other_widths_are_measured_by_them() -> None:
    records = make_records() * [1.0, 1000.0]
    found = make("grid", bounds=([-10, -10_000], [10, 10_000])).fit(records)
    assert found.metric_.tolist() == [10, 10_000]
    distances = np.linalg.norm(found.cluster_centers_[:, None] / [1, 1000] - MEANS, axis=2)
    assert distances.min(axis=0).max() < 0.5


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
def test_what_is_spent_is_known_before_and_after(name: str) -> None:
    found = make(name, epsilon=0.1)
    planned = found.plan_events(3000, D)
    found.fit(make_records())
    assert found.events_ == planned
    if name not in GAUSSIAN:
        assert sum(event.epsilon for event in planned) == Fraction(1, 10)
    assert_spent(name, found.guarantee_.epsilon, Fraction(1, 10))
    assert f"epsilon = {float(found.guarantee_.epsilon):.6g}" in found.describe()


@each
def test_noise_never_follows_a_random_state_or_a_public_seed(name: str) -> None:
    records = make_records(500)
    first, second = (make(name, public_seed=1, epsilon="0.5").fit(records) for _ in range(2))
    assert first.release_.design == second.release_.design
    one, other = (found.release_.answers[0].values for found in (first, second))
    # Fresh noise: of few coordinates most are alike with a chance below 1e-10.
    assert np.mean(one != other) > 0.2


@each
def test_a_second_fit_is_refused_unless_asked_for_and_costs_again(name: str) -> None:
    records = make_records(400)
    found = make(name, epsilon="1").fit(records)
    before = found.release_
    with pytest.raises(PrivacyError, match="would spend it again"):
        found.fit(records)
    assert found.release_ is before
    found.set_params(refit=True).fit(records)
    assert_spent(name, found.guarantee_.epsilon, Fraction(2))
    assert "fitted 2 times" in found.describe()


def test_fits_under_both_relations_cost_what_a_replaced_record_loses() -> None:
    records = make_records(400)
    found = make("lloyd", relation="add-remove-one", max_records=500, epsilon="1", refit=True)
    assert found.fit(records).guarantee_.neighbouring == "add-remove-one"
    assert found.fit(records).guarantee_.epsilon == 2
    found.set_params(relation="replace-one").fit(records)
    assert (found.guarantee_.epsilon, found.guarantee_.neighbouring) == (5, "replace-one")
    assert "counts twice" in found.describe()


@each
def test_what_would_tell_of_the_records_is_not_there_and_says_why(name: str) -> None:
    found = make(name).fit(make_records(100))
    for absent in ("labels_", "inertia_", "n_iter_", "score", "fit_predict", "fit_transform"):
        assert not hasattr(found, absent)
        with pytest.raises(AttributeError, match=f"{absent}': "):
            getattr(found, absent)
    with pytest.raises(AttributeError, match="call fit first"):
        make(name).predict(np.zeros((1, D)))


@each
@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"epsilon": "much"}, PrivacyError, "epsilon"),
        ({"epsilon": True}, PrivacyError, "epsilon"),
        ({"epsilon": 0}, PrivacyError, "epsilon"),
        ({"epsilon": "1e-15"}, PrivacyError, "epsilon"),
        ({"epsilon": 10**9}, PrivacyError, "epsilon"),
        ({"delta": 1}, PrivacyError, "delta"),
        ({"relation": "neighbours"}, PrivacyError, "relation"),
        ({"relation": "add-remove-one"}, ConfigError, "max_records"),
        ({"bounds": None}, ConfigError, "bounds"),
        ({"bounds": (1, 1)}, ConfigError, "bounds"),
        ({"bounds": {"x0": (0, 1)}}, ConfigError, "bounds"),
        ({"scale": 0}, ConfigError, "scale"),
        ({"n_clusters": 0}, ConfigError, "n_clusters"),
        ({"n_clusters": 11}, ConfigError, "n_clusters"),
        ({"public_seed": 1.5}, ConfigError, "public_seed"),
        ({"random_state": -1}, ConfigError, "random_state"),
        ({"ledger": "ledger.db"}, ConfigError, "source"),
    ],
)
def test_parameters_that_cannot_hold_are_refused_and_nothing_is_spent(
    name: str, changes: dict[str, Any], error: type[SketchError], field: str, tmp_path: Path
) -> None:
    if "ledger" in changes:
        changes = changes | {"ledger": tmp_path / "ledger.db"}
    found = make(name).set_params(**changes)
    with pytest.raises(error) as caught:
        found.fit(make_records(10))
    assert caught.value.field == field
    assert not {"release_", "events_"} & set(vars(found))
    assert list(tmp_path.iterdir()) == []


@each
def test_clusters_that_noise_would_hide_are_refused_before_anything_is_spent(name: str) -> None:
    found = make(name, epsilon="1/1000")
    with pytest.raises(ConfigError, match="Ask for fewer clusters"):
        found.fit(make_records(30))
    assert not {"release_", "events_"} & set(vars(found))


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


def test_a_refused_second_fit_names_what_the_first_has_spent() -> None:
    found = make("kernel", epsilon="1").fit(make_records(400))
    level = f"{float(found.guarantee_.epsilon):.6g}"
    with pytest.raises(PrivacyError, match=f"has spent epsilon = {level}, delta"):
        found.fit(make_records(400))


@each
def test_a_seed_of_the_noise_is_refused_by_name(name: str) -> None:
    with pytest.raises(PrivacyError, match="seed: refused: noise that can be repeated"):
        make(name, seed=1)


@each
@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((1, D)),
        np.full((50, D), 3.0),
        np.full((50, D), np.nan),
        np.full((50, D), 1 << 41),
        np.full((50, 1), 0.5),
    ],
)
def test_odd_records_are_released_as_any_others(name: str, rows: Floats) -> None:
    found = make(name).set_params(n_clusters=1, epsilon="1/2").fit(rows)
    assert np.isfinite(found.cluster_centers_).all()
    assert np.abs(found.cluster_centers_).max() <= 10.0


def test_more_columns_than_a_grid_can_have_are_refused_before_anything_is_spent() -> None:
    found = make("grid")
    with pytest.raises(ConfigError, match="at most 12 for a grid"):
        found.fit(np.zeros((100, 13)))
    assert not {"release_", "events_"} & set(vars(found))


# ---- tools ----


@each
def test_it_works_in_the_tools_of_scikit_learn(name: str) -> None:
    records = make_records(300)
    found = make(name)
    assert clone(found).get_params() == found.get_params()
    line = make_pipeline(FunctionTransformer(), found).fit(records)
    check_is_fitted(found)
    assert line.transform(records).shape == (300, 3)
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other.release_.digest == found.release_.digest


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


UNFIT = {
    "check_clustering": "calls fit_predict",
    "check_complex_data": "wants another class of error",
    "check_do_not_raise_errors_in_init_or_set_params": "sets a parameter that is refused by name",
    "check_dtype_object": "wants a value to be refused, which would tell of its record",
    "check_estimator_sparse_array": "wants another class of error",
    "check_estimator_sparse_matrix": "wants another class of error",
    "check_estimator_sparse_tag": "wants another class of error",
    "check_estimators_empty_data_messages": "wants another class of error",
    "check_fit1d": "wants another class of error",
    "check_fit2d_predict1d": "wants another class of error",
    "check_fit_idempotent": "compares two fits, whose noise differs",
    "check_n_features_in_after_fitting": "wants another text",
    "check_transformer_data_not_an_array": "calls fit_transform",
    "check_transformer_general": "calls fit_transform",
    "check_transformer_preserve_dtypes": "calls fit_transform",
}


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn_fail_only_where_privacy_or_the_house_differs() -> None:
    results = check_estimator(make("grid", refit=True), on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed <= UNFIT.keys()
    assert sum(result["status"] == "passed" for result in results) > 25


# ---- the owner's ledger ----


@each
def test_the_ledger_counts_all_rounds_of_a_fit_and_refuses_beyond_the_budget(
    name: str, tmp_path: Path
) -> None:
    source, ledger = tmp_path / "records.csv", tmp_path / "ledger.db"
    source.write_text("x\n")
    records = make_records(300)
    options: dict[str, Any] = {"ledger": ledger, "source": source, "epsilon": "0.8"}
    make(name, **options).fit(records)
    second = make(name, **options)
    with pytest.raises(BudgetExceededError, match="above the owner's limit 1"):
        second.fit(records)
    assert not {"release_", "events_"} & set(vars(second))
    assert make(name, **options, budget="2").fit(records).events_
    events, _ = OwnersLedger(ledger).load()
    assert sum(event.count for event in events) == 2
    if name not in GAUSSIAN:
        assert sum(event.epsilon for event in events) == Fraction(16, 10)
