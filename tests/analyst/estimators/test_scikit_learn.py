from __future__ import annotations

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

from sfumato.analyst.estimators import (
    CompressiveKMeans,
    CompressiveMixture,
    GridKMeans,
    MomentMixture,
    PrivatePCA,
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


NO_RECORDS_BACK = "calls fit_transform, which would show the records"
UNFIT_PRIVATE = {
    "check_dtype_object": "wants a value to be refused, which would tell of its record",
    "check_fit_idempotent": "compares two fits, whose noise differs",
    "check_transformer_data_not_an_array": NO_RECORDS_BACK,
    "check_transformer_general": NO_RECORDS_BACK,
    "check_transformer_preserve_dtypes": NO_RECORDS_BACK,
}
# Labels of two fits agree or not, as the noise falls.
UNSURE = {"check_clusterer_compute_labels_predict"}
# A mixture transforms nothing.
UNFIT_MIXTURE = {
    name: reason for name, reason in UNFIT_PRIVATE.items() if "transformer" not in name
}
UNFIT_CLUSTERER = UNFIT_PRIVATE | {"check_clustering": "reads labels_, which are of the records"}
# The others fit small sets many times; `make soak` runs them all.
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
PUBLIC: dict[str, Any] = {"epsilon": 10, "bounds": (-50, 50), "refit": True, "random_state": 0}
KINDS: list[tuple[PrivateEstimator, dict[str, str]]] = [
    (CompressiveKMeans(2, random_state=0), {}),
    (CompressiveMixture(1, random_state=0), {}),
    (CompressiveKMeans(2, scale=1.0, max_records=1000, **PUBLIC), UNFIT_CLUSTERER),
    (CompressiveMixture(1, scale=1.0, max_records=1000, **PUBLIC), UNFIT_MIXTURE),
    (PrivatePCA(**PUBLIC), UNFIT_PRIVATE),
    (GridKMeans(2, **PUBLIC), UNFIT_CLUSTERER),
    (MomentMixture(delta="1e-6", **PUBLIC), UNFIT_MIXTURE),
    (
        NetworkMixture(delta="1e-6", n_steps=2, n_hidden=4, relation="replace-one", **PUBLIC),
        UNFIT_MIXTURE,
    ),
]
NAMES = [
    "k-means",
    "mixture",
    "private k-means",
    "private mixture",
    "components",
    "grid",
    "moments",
    "networks",
]


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
@pytest.mark.parametrize(("estimator", "unfit"), [KINDS[i] for i in (1, 5, 6)])
def test_the_quick_checks_of_scikit_learn_fail_where_privacy_forbids_and_nowhere_else(
    estimator: PrivateEstimator, unfit: dict[str, str]
) -> None:
    failed, n_passed = find_failures(estimator, only=FAST)
    assert failed == unfit.keys() & FAST
    assert n_passed > 15


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "unfit"), KINDS, ids=NAMES)
def test_all_checks_of_scikit_learn_fail_where_privacy_forbids_and_nowhere_else(
    estimator: PrivateEstimator, unfit: dict[str, str]
) -> None:
    failed, n_passed = find_failures(estimator)
    assert failed - (UNSURE if unfit else set()) == unfit.keys()
    assert n_passed > 30


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
