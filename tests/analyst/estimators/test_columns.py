from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.analyst.estimators import CompressiveKMeans, CompressiveMixture
from sfumato.analyst.estimators.inputs import read_rows
from sfumato.shared.errors import (
    BudgetExceededError,
    ConfigError,
    DecodingError,
    TableError,
)
from tests.analyst.estimators.records import (
    D,
    K,
    compare,
    make_exact,
    make_private,
    make_records,
)

UNITS = np.array([1e-3, 2e4])


def make_mixed(n: int = 20_000) -> pd.DataFrame:
    """Return records of three clusters: a number, a wide-ranging one, and a colour."""
    rng = np.random.default_rng(1)
    cluster = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {
            "warmth": np.array([10.0, 20.0, 30.0])[cluster] + rng.normal(size=n),
            "income": np.array([1e2, 1e4, 1e6])[cluster] * 2.0 ** rng.normal(scale=0.5, size=n),
            "colour": np.array(["red", "green", "blue"])[cluster],
        }
    )


@pytest.mark.parametrize(
    "public",
    [
        {},
        {"epsilon": "1", "bounds": {"x0": (-12e-3, 12e-3), 1: (-24e4, 24e4)}, "scale": "pilot"},
        # Neither bounds nor scale: the pilot finds both.
        {"epsilon": "1", "relation": "add-remove-one", "max_records": 40_000},
    ],
)
def test_columns_of_different_units_count_alike(public: dict[str, Any]) -> None:
    # Fifty fits under other noise, to other records, were below 1.001.
    records = make_records(30_000)
    found = make_exact(**public).fit(records * UNITS)
    assert compare(records, found.cluster_centers_ / UNITS) < 1.02
    assert np.all((found.metric_ / UNITS > 0.3) & (found.metric_ / UNITS < 6.0))
    near = np.argmin(found.transform(records * UNITS), axis=1)
    assert near.tolist() == found.predict(records * UNITS).tolist()
    if public:
        assert found.guarantee_.epsilon <= 1
        assert len(found.events_) == 2


def test_a_pilot_is_not_spent_where_the_sketch_would_not_be_afforded(tmp_path: Path) -> None:
    source = tmp_path / "records.csv"
    source.write_text("x,y\n")
    counted: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "source": source}
    found = make_private(scale="pilot", epsilon="1", budget="1/2", **counted)
    with pytest.raises(BudgetExceededError, match="above the owner's limit"):
        found.fit(make_records(30_000))
    assert "events_" not in vars(found)
    assert make_private(epsilon="1/2", budget="1/2", **counted).fit(make_records()).events_
    mechanism = make_private(scale="pilot", epsilon="1", mechanism="discrete-gaussian", **counted)
    with pytest.raises(ConfigError, match="mechanism"):
        mechanism.fit(make_records(30_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db", "records.csv"]


def test_a_pilot_says_what_it_could_not_see() -> None:
    records = np.column_stack([make_records(30_000), np.full(30_000, 7.0)])
    found = make_exact(epsilon="1", bounds=(-12.0, 12.0)).fit(records)
    assert any("x2: all values lie between" in doubt for doubt in found.warnings_)
    assert compare(records[:, :D], found.cluster_centers_[:, :D]) < 1.1
    outside = make_exact(epsilon="1", bounds=([-12, 40], [12, 60])).fit(make_records(30_000))
    assert any("x1: 100% of the values lie beyond" in doubt for doubt in outside.warnings_)


@pytest.mark.parametrize("public", [{}, {"epsilon": "20", "delta": "1e-8"}])
def test_tables_may_have_logarithmic_columns_and_levels(public: dict[str, Any]) -> None:
    table = make_mixed()
    if public:
        # The same frequencies each time: they moved centroids by more than the noise does.
        public = {**public, "bounds": {"warmth": (-20, 60)}, "public_seed": 1}
    levels = {"colour": ["red", "green", "blue", "black"]}
    found = CompressiveKMeans(3, levels=levels, log=["income"], random_state=0, **public)
    found.fit(table)
    assert found.axes_ == ["warmth", "income", *(f"colour={each}" for each in levels["colour"])]
    order = np.argsort(found.cluster_centers_[:, 0])
    centres = found.cluster_centers_[order]
    assert centres[:, 0] == pytest.approx([10, 20, 30], abs=1.0)
    assert np.log10(centres[:, 1]) == pytest.approx([2, 4, 6], abs=0.3)
    # Fresh noise: the standard deviation of the largest error, 0.2, is 0.002.
    assert centres[:, 2:5] == pytest.approx(np.eye(3), abs=0.3)
    labels = found.predict(table)
    ranks = np.argsort(order)[labels]
    assert np.mean(ranks == table["colour"].map({"red": 0, "green": 1, "blue": 2})) > 0.99
    # The noise decides whether the sketch sees enough of narrow clusters to draw from.
    assert found.verdict_ is not None
    if found.verdict_.is_usable:
        drawn = found.sample(200, random_state=0)
        assert set(drawn[:, 2]) <= {"red", "green", "blue", "black"}
        assert found.predict(pd.DataFrame(drawn, columns=table.columns)).shape == (200,)
    else:
        with pytest.raises(DecodingError, match="would be drawn from noise"):
            found.sample(200, random_state=0)
    odd = table.assign(colour="violet")[:3]
    assert found.predict(odd).tolist() == [-1, -1, -1]


def test_a_table_of_polars_is_read_as_one_of_pandas_is() -> None:
    table = make_mixed(3000)
    public: dict[str, Any] = {"levels": {"colour": ["red", "green", "blue"]}, "log": ["income"]}
    one = CompressiveKMeans(3, **public).partial_fit(table)
    other = CompressiveKMeans(3, **public).partial_fit(polars.from_pandas(table))
    assert one.release().payload == other.release().payload
    assert one.feature_names_in_.tolist() == other.feature_names_in_.tolist()


@pytest.mark.parametrize("public", [{}, {"epsilon": "5", "bounds": (-12, 12), "scale": 1.0}])
def test_a_column_of_words_without_levels_is_refused_by_name(public: dict[str, Any]) -> None:
    table = make_mixed(300)
    with pytest.raises(TableError, match=r"'colour' of type str.*levels=\{\"colour\": \[...\]\}"):
        CompressiveKMeans(3, **public).fit(table)


@given(
    st.lists(
        st.lists(
            st.floats(allow_nan=True) | st.none() | st.lists(st.integers()), min_size=2, max_size=2
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(deadline=None)
def test_what_a_cell_holds_never_changes_the_shape_of_a_table(rows: list[list[Any]]) -> None:
    read = read_rows(rows)
    assert read.shape == (len(rows), 2)
    for cells, row in zip(rows, read.tolist(), strict=True):
        for cell, number in zip(cells, row, strict=True):
            same = isinstance(cell, float) and not math.isnan(cell)
            assert number == cell if same else math.isnan(number)


def test_a_masked_cell_has_no_value_whatever_lies_under_its_mask() -> None:
    values = np.array([[1, 999], [2, 3]])
    mask = [[False, True], [False, False]]
    for table in (
        np.ma.MaskedArray(values, mask),
        np.ma.MaskedArray(values.astype(np.float32), mask),
        np.ma.MaskedArray(values.astype(object), mask),
        np.ma.MaskedArray(values.astype(str), mask),
    ):
        np.testing.assert_array_equal(read_rows(table), [[1.0, np.nan], [2.0, 3.0]])
    kept = np.ma.MaskedArray(values)
    np.testing.assert_array_equal(read_rows(kept), values)


def test_what_a_pilot_and_its_sketch_will_cost_is_known_before() -> None:
    table = make_mixed(30_000)
    levels = {"colour": ["red", "green", "blue"]}
    found = CompressiveKMeans(3, epsilon="1", levels=levels, log=["income"], random_state=0)
    planned = found.plan_events(*table.shape, names=list(table.columns))
    assert "events_" not in vars(found)
    found.fit(table)
    assert [event.epsilon for event in found.events_] == [event.epsilon for event in planned]
    # The pilot counts numbers alone.
    assert found.pilot_.sums.size < 3 * 1100
    # A table of words alone needs no pilot.
    words = CompressiveKMeans(3, epsilon="1", levels=levels).fit(table[["colour"]])
    assert len(words.events_) == 1


def test_one_scale_for_all_columns_is_there_for_the_asking() -> None:
    records = make_records() * [1.0, 100.0]
    found = make_exact(scale="pooled").partial_fit(records)
    assert found.metric_.tolist() == [1.0, 1.0]
    assert len(set(found.plan_.scale)) == 1
    # Alike columns have one scale, and plain distances, without being asked.
    assert make_exact().partial_fit(make_records()).metric_.tolist() == [1.0, 1.0]


def test_densities_of_a_logarithmic_column_are_per_unit_of_the_data() -> None:
    income = make_mixed()[["income"]].to_numpy()
    found = CompressiveMixture(3, log=[0], random_state=0).fit(income)
    grid = np.geomspace(1.0, 1e8, 20_001)
    density = np.exp(found.score_samples(grid[:, None]))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.02)


def test_the_same_levels_in_another_column_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="names the column 'color', which the records do not"):
        CompressiveKMeans(3, levels={"color": ["red", "blue"]}).fit(make_mixed(300))


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(TableError, match="rows of one length, and has some of 1 and some of 2"):
        read_rows([[1.0, 2.0], [3.0]])


def test_numbers_of_columns_stand_for_their_names() -> None:
    records = make_records()
    named = make_exact(scale={"x0": 1.0, "x1": 2.0}).partial_fit(records)
    numbered = make_exact(scale={0: 1.0, 1: 2.0}).partial_fit(records)
    assert named.release().payload == numbered.release().payload
    assert named.plan_.scale.tolist() == [1.0, 2.0]
    assert named.cluster_centers_.shape == (K, D)


def test_a_pilot_that_noise_would_hide_says_in_plain_numbers_what_would_do() -> None:
    with pytest.raises(ConfigError, match=r"hide the records; 2\d\d times as many would do"):
        CompressiveKMeans(5, epsilon="0.001").expect(3000, 2)
