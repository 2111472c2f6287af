"""Clusters of records by a result: arrays, frames and what cannot be read."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from sfumato.analyst import DecodeResult
from sfumato.analyst.results.tables import read_records
from sfumato.shared.errors import MethodError, TableError
from sfumato.shared.plan import Dimension
from sfumato.shared.plan.dimensions import LogTransform
from tests.aggregator.fleet import make_plan
from tests.analyst.results.made import make_result

MIXTURE = {
    "weights": [0.6, 0.3, 0.1],
    "means": [[0.0, 0.0], [100.0, 10.0], [101.0, 10.0]],
    "variances": [[1.0, 1.0], [4.0, 1.0], [4.0, 1.0]],
}
RECORDS = np.array([[0.5, 0.2], [99.0, 11.0], [math.nan, 3.0]])


def make(**changes: Any) -> DecodeResult:
    defaults: dict[str, Any] = {"centroids": [[0.0, 0.0], [100.0, 10.0]], "weights": [0.6, 0.4]}
    return make_result(("flow", "heat"), **(defaults | changes))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"heat": RECORDS[:, 1], "other": "x", "flow": RECORDS[:, 0]}),
        pl.DataFrame({"heat": RECORDS[:, 1], "flow": RECORDS[:, 0]}),
        pa.table({"heat": RECORDS[:, 1], "flow": RECORDS[:, 0]}),
        {"heat": [0.2, 11, 3], "flow": [0.5, 99, None]},
        pd.DataFrame({"heat": [0.2, 11, 3], "flow": pd.array([1, 99, None], dtype="Int64")}),
        RECORDS,
        RECORDS.tolist(),
        RECORDS.astype(np.float32),
    ],
    ids=["pandas", "polars", "arrow", "mapping", "nullable", "array", "rows", "float32"],
)
@pytest.mark.parametrize("mixture", [None, MIXTURE])
def test_columns_are_found_by_name_and_a_missing_value_has_no_cluster(
    table: Any, mixture: dict[str, Any] | None
) -> None:
    assert make(mixture=mixture).predict(table).tolist() == [0, 1, -1]


MIXED = make(mixture=MIXTURE)


@given(st.lists(st.tuples(*[st.floats(-1e9, 1e9)] * 2), min_size=1, max_size=20))
def test_the_cluster_is_the_most_probable_one(records: list[tuple[float, float]]) -> None:
    shares = MIXED.predict_proba(records)
    assert MIXED.predict(records).tolist() == np.argmax(shares, axis=1).tolist()


def test_distances_are_measured_in_the_scales_of_the_plan() -> None:
    plan = make_plan(
        dimensions=(
            Dimension(name="flow", unit="1", lower=0.0, upper=100.0, scale=1.0),
            Dimension(
                name="count",
                unit="1",
                lower=0.0,
                upper=1e6,
                scale=1.0,
                transform=LogTransform(resolution=1.0),
            ),
        )
    )
    result = make_result(plan=plan, centroids=[[10.0, 1e5], [10.0, 10.0]], weights=[0.5, 0.5])
    # 2000 is nearer to 10 in numbers, and to 100,000 in doublings.
    assert result.predict([[10.0, 2000.0]]).tolist() == [0]


def test_levels_are_read_as_text_and_others_have_no_cluster() -> None:
    plan = make_plan(
        dimensions=(
            Dimension(name="flow", unit="1", lower=0.0, upper=10.0, scale=1.0),
            Dimension(name="mode", unit="1", levels=("on", "off")),
        )
    )
    result = make_result(
        plan=plan, centroids=[[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]], weights=[0.5, 0.5]
    )
    frame = pd.DataFrame({"mode": ["off", "on", "broken"], "flow": [1, 1, 1]})
    assert result.names == ("flow", "mode=on", "mode=off")
    assert result.predict(frame).tolist() == [1, 0, -1]
    assert read_records(frame, plan)[:2].tolist() == [[1.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"flow": [1.0]}), "has no column 'heat'; it has 'flow'"),
        (pd.DataFrame({"flow": ["1 l/s"], "heat": [1]}), "numbers in the column 'flow'"),
        (pl.DataFrame({"flow": ["x"], "heat": [1]}), "numbers in the column 'flow'"),
        ([[1.0, 2.0, 3.0]], r"must have shape \(n, 2\) and has \(1, 3\).*Pass the columns 'flow'"),
        ([1.0, 2.0], r"has \(2,\)"),
        ([["a", "b"]], "numbers in the column 'flow'"),
    ],
)
def test_a_table_without_the_columns_is_refused_with_their_names(table: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        make().predict(table)


def test_a_gaussian_beside_a_centroid_counts_for_it() -> None:
    shares = make(mixture=MIXTURE).predict_proba(RECORDS)
    assert shares.shape == (3, 2)
    np.testing.assert_allclose(shares[:2].sum(axis=1), 1.0)
    assert shares[0, 0] > 0.99
    assert shares[1, 1] > 0.99
    assert np.isnan(shares[2]).all()


def test_a_decoder_without_a_density_has_no_probabilities() -> None:
    with pytest.raises(MethodError, match="needs a density"):
        make().predict_proba(RECORDS)


def test_no_record_has_no_cluster() -> None:
    assert make(mixture=MIXTURE).predict(np.empty((0, 2))).shape == (0,)
    assert make().predict_proba is not None
