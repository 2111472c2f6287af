"""Plans of estimators: bounds that are read off records, where there is no epsilon."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.analyst.estimators.planning import find_bounds
from sfumato.shared.errors import ConfigError


@given(st.integers(1, 70_000), st.integers(1, 3), st.booleans(), st.integers(0, 1 << 32))
def test_bounds_without_a_margin_are_the_range_of_each_column(
    n_records: int, n_columns: int, by_columns: bool, seed: int
) -> None:
    records = np.random.default_rng(seed).normal(size=(n_records, n_columns)).astype(np.float32)
    # A constant column has no range of its own.
    records[0] = -9.0
    records[-1] = 9.0
    found = find_bounds(
        np.asfortranarray(records) if by_columns else records, ["a", "b", "c"], margin=0.0
    )
    if n_records > 1:
        assert found == [(-9.0, 9.0)] * n_columns


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf])
def test_missing_values_do_not_widen_bounds(missing: float) -> None:
    records = np.arange(1000.0).reshape(500, 2)
    records[7, 1] = missing
    assert find_bounds(records, ["a", "b"], margin=0.0) == [(0.0, 998.0), (1.0, 999.0)]


def test_a_column_without_a_finite_value_is_named() -> None:
    records = np.column_stack([np.arange(5.0), np.full(5, math.nan)])
    with pytest.raises(ConfigError, match="column 'b' has no finite value"):
        find_bounds(records, ["a", "b"], margin=0.0)
