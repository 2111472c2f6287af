"""Files of rows are read from any row on, with the times that their types state."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.shared.errors import RecordError
from sfumato.shared.reading import Fields, RecordTable, TimeField, WatchedFile, open_rows

FORMS = ("npy", "parquet")


def write(folder: Path, form: str, **columns: Any) -> Path:
    path = folder / f"r.{form}"
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if form == "parquet":
        pq.write_table(pa.table(arrays), path, row_group_size=7)
        return path
    kinds = [(name, array.dtype) for name, array in arrays.items()]
    np.save(path, np.array(list(zip(*arrays.values(), strict=True)), dtype=kinds))
    return path


def read(path: Path, fields: Fields, **options: Any) -> list[RecordTable]:
    with WatchedFile(path) as file:
        return list(open_rows(path.suffix[1:], file, fields).tables(**options))


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=20)
@given(n=st.integers(1, 40), first=st.integers(0, 40), most=st.sampled_from([1, 4, 64]))
def test_rows_are_read_from_any_of_them_on(
    form: str, n: int, first: int, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("rows"), form, b=np.zeros(n), a=np.arange(n))
    tables = read(path, Fields(values=("a",)), first=min(first, n), most_rows=most)
    assert [x for t in tables for x in t.to_matrix()[:, 0].tolist()] == list(range(first, n))
    assert all(len(table.values) <= most for table in tables)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_of_every_unit_are_seconds(form: str, unit: str, tmp_path: Path) -> None:
    moments = np.array(["1970-01-02", "NaT", "2020-01-01T00:00:01"], dtype=f"datetime64[{unit}]")
    path = write(tmp_path, form, t=moments, x=[1.0, 2.0, 3.0])
    (table,) = read(path, Fields(values=("x",), time=TimeField(name="t")))
    np.testing.assert_array_equal(table.timestamps, [86400, np.nan, 1577836801])


@pytest.mark.parametrize("form", FORMS)
def test_numbers_are_times_in_the_unit_that_is_configured(form: str, tmp_path: Path) -> None:
    path = write(tmp_path, form, t=[1500.0, np.inf, 1e300], x=[1, 2, 3])
    fields = Fields(values=("x",), time=TimeField(name="t", unix_scale=1e3))
    (table,) = read(path, fields)
    np.testing.assert_array_equal(table.timestamps, [1.5, np.nan, np.nan])


def test_an_array_without_names_has_no_time(tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", np.zeros((3, 1)))
    with pytest.raises(RecordError, match="has no column names to choose from"):
        read(tmp_path / "r.npy", Fields(values=("x",), time=TimeField(name="t")))
