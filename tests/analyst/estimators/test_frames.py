"""Tables of any library, and files, as estimators read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.analyst.estimators.frames import open_frame
from sfumato.analyst.estimators.inputs import find_names, open_table
from sfumato.shared.errors import TableError
from tests.analyst.estimators.records import make_exact

FRAME = pd.DataFrame(
    {
        "a": np.random.default_rng(0).normal(size=400),
        "n": np.random.default_rng(1).integers(0, 9, size=400),
    }
)


def write(folder: Path, name: str) -> Path:
    path = folder / name
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table(FRAME), path)
    elif path.suffix == ".npy":
        np.save(path, FRAME.to_numpy())
    else:
        FRAME.to_csv(path, index=False)
    return path


def relate(_: Path) -> Any:
    return pytest.importorskip("duckdb").from_df(FRAME)


TABLES: dict[str, Callable[[Path], Any]] = {
    "pyarrow table": lambda _: pyarrow.table(FRAME),
    "pyarrow batch": lambda _: pyarrow.RecordBatch.from_pandas(FRAME),
    "pyarrow reader": lambda _: pyarrow.table(FRAME).to_reader(),
    "pyarrow data set": lambda folder: pyarrow.dataset.dataset(write(folder, "t.parquet")),
    "polars": lambda _: polars.from_pandas(FRAME),
    "polars lazy": lambda _: polars.from_pandas(FRAME).lazy(),
    "duckdb": relate,
    "iterator": lambda _: (FRAME.iloc[i : i + 100] for i in range(0, 400, 100)),
    "list of tables": lambda _: [pyarrow.table(FRAME[:100]), pyarrow.table(FRAME[100:])],
    "parquet": lambda folder: str(write(folder, "t.parquet")),
    "csv": lambda folder: write(folder, "t.csv"),
    "folder": lambda folder: write(folder, "t.parquet").parent,
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_keeps_its_cells_and_names(kind: str, tmp_path: Path) -> None:
    opened = open_frame(TABLES[kind](tmp_path))
    names = find_names(opened)
    assert names is not None
    assert names.tolist() == ["a", "n"]
    cells = open_table(opened)
    np.testing.assert_allclose(cells.astype(np.float64), FRAME.to_numpy(), rtol=1e-12)


def test_arrays_are_read_without_names(tmp_path: Path) -> None:
    found = open_frame(write(tmp_path, "t.npy"))
    np.testing.assert_array_equal(found, FRAME.to_numpy())
    batches = open_frame(iter([np.zeros((2, 3)), np.ones((1, 3))]))
    assert batches.shape == (3, 3)
    assert open_frame([[1.0, 2.0]]) == [[1.0, 2.0]]


def test_fits_and_predictions_take_them_and_check_names(tmp_path: Path) -> None:
    fit = make_exact(n_clusters=2, random_state=0).fit(write(tmp_path, "t.csv"))
    assert fit.feature_names_in_.tolist() == ["a", "n"]
    same = make_exact(n_clusters=2, random_state=0).fit(FRAME)
    np.testing.assert_array_equal(fit.cluster_centers_, same.cluster_centers_)
    table = pyarrow.table(FRAME)
    np.testing.assert_array_equal(fit.predict(table), same.predict(FRAME))
    np.testing.assert_array_equal(fit.predict(X=table), same.predict(FRAME))
    with pytest.raises(ValueError, match="same order"):
        fit.predict(table.select(["n", "a"]))


def test_nulls_and_texts_are_cells_of_their_own() -> None:
    table = pyarrow.table({"a": [1, None, 3], "colour": ["red", None, "blue"], "ok": [True] * 3})
    cells = open_table(open_frame(table))
    assert cells[:, 1].tolist() == ["red", None, "blue"]
    assert [str(each) for each in cells[:, 0]] == ["1.0", "nan", "3.0"]
    drawn = pyarrow.table(
        {"a": np.random.default_rng(0).normal(size=200), "colour": ["red", "blue"] * 100}
    )
    fit = CompressiveKMeans(2, levels={"colour": ["red", "blue"]}).fit(drawn)
    assert fit.axes_ == ["a", "colour=red", "colour=blue"]


def test_one_line_of_a_csv_file_changes_no_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    plain = ["a,b", *(f"{i},{i}" for i in range(5))]
    path.write_text("\n".join(plain) + "\n")
    before = open_table(open_frame(path))
    for line in ('"', '1,"2', "1,2,3", "word,", "\ufffd", ""):
        path.write_text("\n".join([*plain[:3], line, *plain[4:]]) + "\n")
        after = open_table(open_frame(path))
        assert after.shape == before.shape
        kept = [0, 1, 3, 4]
        assert after[kept].tolist() == before[kept].tolist()


@pytest.mark.parametrize(
    ("name", "data", "rule"),
    [
        ("t.xlsx", b"PK", r"none of \.parquet, \.csv, \.npy"),
        ("t.npy", b"no array", "damaged, or of another kind"),
        ("t.parquet", b"no table", "damaged, or of another kind"),
        ("missing.csv", None, "No such file"),
        ("t.csv", b"a;b\n1,5;2\n", r"seem to stand between ';'.*read_csv\(path, sep=';'\)"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    name: str, data: bytes | None, rule: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(TableError, match=rule):
        make_exact().fit(path)


def test_batches_of_different_columns_are_refused() -> None:
    with pytest.raises(TableError, match="different columns"):
        open_frame(iter([FRAME, FRAME[["n", "a"]]]))
    with pytest.raises(TableError, match="no batch"):
        open_frame(iter([]))


@pytest.mark.parametrize(
    ("cell", "fix"),
    [
        ('"1,5"', "row 1. Write its numbers with a decimal point, and without units"),
        ("1234 kWh", "row 1. Write its numbers with a decimal point, and without units"),
        ("red", "row 1. Drop the column, or state all its values"),
    ],
)
def test_a_cell_that_is_no_number_is_refused_with_what_would_be_one(
    cell: str, fix: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n{cell},3\n")
    with pytest.raises(TableError, match=re.escape(f"no number in column 'a', {fix}")):
        make_exact().fit(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "days",
    [
        pd.DataFrame({"day": pd.date_range("2026-01-01", periods=9), "x": range(9)}),
        polars.DataFrame({"day": pd.date_range("2026-01-01", periods=9).to_list(), "x": range(9)}),
        polars.DataFrame({"day": [date(2026, 1, day) for day in range(1, 10)], "x": range(9)}),
    ],
)
def test_dates_are_no_numbers_in_any_library(days: Any) -> None:
    with pytest.raises(TableError, match=r"'day' of type .*, which holds no numbers"):
        make_exact().fit(days)


def test_a_column_alone_and_columns_that_names_do_not_tell_apart_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(TableError, match=r"one column, and no table. Pass .*to_frame"):
        make_exact().fit(FRAME["a"])
    with pytest.raises(TableError, match="the name of another in column 1, 'a'"):
        make_exact().fit(FRAME[["a", "a"]])
    FRAME[["a"]].to_csv(tmp_path / "t.csv")
    with pytest.raises(TableError, match=r"no name in column 0. .* to_csv\(index=False\)"):
        make_exact().fit(tmp_path / "t.csv")
