from __future__ import annotations

from unittest import SkipTest

import pytest
from sklearn.base import clone, is_clusterer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import (
    check_clusterer_compute_labels_predict,
    check_clustering,
    estimator_checks_generator,
)
from sklearn.utils.validation import check_is_fitted

from analyst.estimators import CompressiveKMeans, CompressiveMixture
from analyst.estimators.compressive import CompressiveEstimator
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


UNFIT = {
    "check_do_not_raise_errors_in_init_or_set_params": "sets a parameter that is refused by name",
    "check_n_features_in_after_fitting": "wants another text",
    "check_complex_data": "wants another text",
    "check_dtype_object": "wants another class of error",
    "check_estimators_empty_data_messages": "wants another text",
}
UNFIT_PRIVATE = UNFIT | {
    "check_dtype_object": "wants a value to be refused, which would tell of its record",
    "check_clusterer_compute_labels_predict": "calls fit_predict",
    "check_clustering": "calls fit_predict",
    "check_fit_idempotent": "compares two fits, whose noise differs",
    "check_pipeline_consistency": "compares two fits, whose noise differs",
    "check_transformer_data_not_an_array": "calls fit_transform",
    "check_transformer_general": "calls fit_transform",
}
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
    "check_transformers_unfitted",
    "check_valid_tag_types",
}
KINDS: list[tuple[CompressiveEstimator, dict[str, str]]] = [
    (CompressiveKMeans(2, random_state=0), UNFIT),
    (CompressiveMixture(1, random_state=0), UNFIT),
    (
        CompressiveKMeans(2, epsilon=10, bounds=(-50, 50), scale=1.0, refit=True, random_state=0),
        UNFIT_PRIVATE,
    ),
]


def find_failures(
    estimator: CompressiveEstimator, *, only: set[str] | None = None
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
@pytest.mark.parametrize(("estimator", "unfit"), KINDS, ids=["k-means", "mixture", "private"])
def test_the_checks_of_scikit_learn_fail_only_where_privacy_or_the_house_differs(
    estimator: CompressiveEstimator, unfit: dict[str, str]
) -> None:
    failed, n_passed = find_failures(estimator, only=FAST)
    assert failed <= unfit.keys()
    assert n_passed > 15


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "unfit"), KINDS, ids=["k-means", "mixture", "private"])
def test_all_checks_of_scikit_learn_fail_only_where_privacy_or_the_house_differs(
    estimator: CompressiveEstimator, unfit: dict[str, str]
) -> None:
    failed, n_passed = find_failures(estimator)
    assert failed <= unfit.keys()
    assert n_passed > 25


def test_clusters_of_scikit_learns_blobs_are_found() -> None:
    found = make_exact()
    # Not among the checks of classes that are not scikit-learn's own.
    check_clustering("CompressiveKMeans", found)
    check_clusterer_compute_labels_predict("CompressiveKMeans", found)
