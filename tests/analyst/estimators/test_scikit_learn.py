from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_clusterer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import sfumato.analyst.estimators
from sfumato.analyst.estimators import (
    AutoKMeans,
    CandidateKMeans,
    CompressiveKMeans,
    CompressiveMixture,
    CoverKMeans,
    GridKMeans,
    KernelKMeans,
    LloydKMeans,
    MomentMixture,
    PrivatePCA,
    SplitKMeans,
    TreeKMeans,
)
from sfumato.analyst.estimators.contract import PrivateEstimator
from sfumato.lab import NetworkMixture
from tests.analyst.estimators.records import K, make_exact, make_records


def test_it_works_in_the_tools_of_scikit_learn() -> None:
    records = make_records(500)
    found = make_exact()
    assert is_clusterer(found)
    copied = clone(found)
    assert copied.get_params() == found.get_params()
    line = make_pipeline(FunctionTransformer(), found)
    assert line.fit_predict(records).shape == (500,)
    check_is_fitted(found)
    assert line.transform(records).shape == (500, K)
    assert found.get_feature_names_out().tolist() == [f"compressivekmeans{i}" for i in range(K)]


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "scikit-learn.md"
SOMETIMES = "now and then"
# The others fit small sets many times, which takes sketches half a minute; `make soak` runs all.
FAST = {
    "check_complex_data",
    "check_dict_unchanged",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimator_tags_renamed",
    "check_estimators_empty_data_messages",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_fit2d_predict1d",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_n_features_in_after_fitting",
    "check_transformer_get_feature_names_out",
    "check_transformers_unfitted",
    "check_valid_tag_types",
}
PUBLIC: dict[str, Any] = {
    "epsilon": 10,
    "bounds": (-50, 50),
    "refit": True,
    "max_unreadable": 0.2,
    "random_state": 0,
}
SKETCH: dict[str, Any] = {"scale": 1.0, "max_records": 1000, **PUBLIC}
GAUSSIAN: dict[str, Any] = {"delta": "1e-6", **PUBLIC}
SKETCHES = [
    CompressiveKMeans(2, random_state=0),
    CompressiveMixture(1, random_state=0),
    CompressiveKMeans(2, **SKETCH),
    CompressiveMixture(1, **SKETCH),
]
OTHERS: list[PrivateEstimator] = [
    AutoKMeans(2, **PUBLIC),
    CandidateKMeans(2, **PUBLIC),
    CoverKMeans(2, **GAUSSIAN),
    GridKMeans(2, **PUBLIC),
    KernelKMeans(2, **GAUSSIAN),
    LloydKMeans(2, **PUBLIC),
    MomentMixture(**GAUSSIAN),
    PrivatePCA(**PUBLIC),
    SplitKMeans(2, **GAUSSIAN),
    TreeKMeans(2, **PUBLIC),
]
NETWORKS = NetworkMixture(n_steps=2, n_hidden=4, relation="replace-one", **GAUSSIAN)


def read_expected(estimator: PrivateEstimator, checks: set[str]) -> tuple[set[str], set[str]]:
    """Read off the page which of some checks must fail for an estimator, and which may."""
    groups = name_groups(estimator)
    must: set[str] = set()
    may: set[str] = set()
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if len(cells) != 3 or not (cells[0].startswith(("`check_", "all whose"))):
            continue
        named = cells[0].split("`")[1]
        found = {
            check for check in checks if check == named or ("all" in cells[0] and named in check)
        }
        said = re.split("[,;] ", cells[1].replace(f", {SOMETIMES}", f" {SOMETIMES}"))
        if any(f"{group} {SOMETIMES}" in said for group in groups):
            may |= found
        elif groups & set(said):
            must |= found
    return must, may


def name_groups(estimator: PrivateEstimator) -> set[str]:
    """Name the groups of estimators that the page speaks of."""
    name = type(estimator).__name__
    if estimator.epsilon is None:
        return {f"`{name}` without epsilon"}
    groups = {"all"}
    if name.startswith("Compressive"):
        groups.add("private sketches")
    if name == "CompressiveKMeans":
        groups.add("sketches")
    if name == "PrivatePCA":
        groups.add("components")
    groups.add("clusterings" if is_clusterer(estimator) else "mixtures")
    return groups


def list_checks(estimator: PrivateEstimator) -> set[str]:
    checks = (check for _, check in estimator_checks_generator(estimator))
    return {getattr(check, "func", check).__name__ for check in checks}


def name_kind(estimator: PrivateEstimator) -> str:
    return type(estimator).__name__ + ("" if estimator.epsilon is None else ", private")


def find_failures(
    estimator: PrivateEstimator, *, only: set[str] | None = None
) -> tuple[set[str], int]:
    """Run the checks of scikit-learn; return those that fail, and the number that pass."""
    failed, n_passed = set(), 0
    for each, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        if only is not None and name not in only:
            continue
        try:
            check(each)
        except SkipTest:
            continue
        except Exception:
            failed.add(name)
        else:
            n_passed += 1
    return failed, n_passed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", SKETCHES, ids=name_kind)
def test_the_quick_checks_of_scikit_learn_fail_for_sketches_where_privacy_forbids(
    estimator: PrivateEstimator,
) -> None:
    failed, n_passed = find_failures(estimator, only=FAST)
    assert not failed
    assert n_passed > 15


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", OTHERS, ids=name_kind)
def test_all_checks_of_scikit_learn_fail_where_privacy_forbids_and_nowhere_else(
    estimator: PrivateEstimator,
) -> None:
    require_expected(estimator)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [*SKETCHES, NETWORKS], ids=name_kind)
def test_all_checks_of_scikit_learn_fail_for_sketches_where_privacy_forbids(
    estimator: PrivateEstimator,
) -> None:
    require_expected(estimator)


def require_expected(estimator: PrivateEstimator) -> None:
    failed, n_passed = find_failures(estimator)
    must, may = read_expected(estimator, list_checks(estimator))
    assert failed - may == must
    assert n_passed > 30


def test_every_estimator_is_checked() -> None:
    checked = {type(each).__name__ for each in (*SKETCHES, *OTHERS)}
    assert checked == set(sfumato.analyst.estimators.__all__)


def test_output_is_a_table_where_that_is_wanted() -> None:
    table = pd.DataFrame(make_records(500), columns=["a", "b"], index=np.arange(500) + 7)
    found = make_exact().set_output(transform="pandas").fit(table)
    shown = found.transform(table)
    assert list(shown.columns) == [f"compressivekmeans{i}" for i in range(K)]
    assert shown.index.equals(table.index)
    assert isinstance(found.fit_transform(table), pd.DataFrame)
    assert found.feature_names_in_.tolist() == ["a", "b"]
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        found.predict(table.to_numpy())
