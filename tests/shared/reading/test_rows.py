"""Files of rows are read from any row on, with the times that their types state."""

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

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
    fields = Fields(values=("x",), time=TimeField(name="t", unix_scale=1000))
    (table,) = read(path, fields)
    np.testing.assert_array_equal(table.timestamps, [1.5, np.nan, np.nan])


@pytest.mark.parametrize("form", FORMS)
def test_moments_without_a_zone_are_read_in_the_zone_that_is_configured(
    form: str, tmp_path: Path
) -> None:
    moments = ["2025-07-01T00:00:00.25", "2025-01-01", "2025-10-26T02:30", "9999-12-31", "NaT"]
    path = write(tmp_path, form, t=np.array(moments, dtype="datetime64[ms]"), x=[1.0] * 5)
    time = TimeField(name="t", zone=ZoneInfo("Europe/Berlin"))
    (table,) = read(path, Fields(values=("x",), time=time))
    expected = [1751320800.25, 1735686000, 1761438600, 253402210800, np.nan]
    np.testing.assert_array_equal(table.timestamps, expected)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_times_of_parquet_may_be_text_of_any_type_or_dates(zone: str, tmp_path: Path) -> None:
    days, field = (
        ["2025-07-01", None],
        TimeField(
            name="t",
            zone=ZoneInfo(zone),
            parse=lambda t: datetime.fromisoformat(t).replace(tzinfo=ZoneInfo(zone)),
        ),
    )
    for kind in (pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.date32(), pa.date64()):
        column = pa.array(days, pa.string()).cast(pa.date32() if pa.types.is_date(kind) else kind)
        pq.write_table(pa.table({"t": column.cast(kind), "x": [1, 2]}), tmp_path / "r.parquet")
        (table,) = read(tmp_path / "r.parquet", Fields(values=("x",), time=field))
        expected = 1751328000 - (9 * 3600 if zone == "Asia/Tokyo" else 0)
        np.testing.assert_array_equal(table.timestamps, [expected, np.nan])


def test_days_of_numpy_are_times(tmp_path: Path) -> None:
    path = write(tmp_path, "npy", t=np.array([20270, 1 << 62], dtype="datetime64[D]"), x=[1, 2])
    (table,) = read(path, Fields(values=("x",), time=TimeField(name="t")))
    np.testing.assert_array_equal(table.timestamps, [20270 * 86400, np.nan])


def test_old_timestamps_of_96_bits_never_wrap(tmp_path: Path) -> None:
    moments = pa.array([253402214400, 253402300800, -1], pa.timestamp("s"))
    table = pa.table({"t": moments.cast(pa.timestamp("us")), "x": [1, 2, 3]})
    pq.write_table(table, tmp_path / "r.parquet", use_deprecated_int96_timestamps=True)
    (found,) = read(tmp_path / "r.parquet", Fields(values=("x",), time=TimeField(name="t")))
    np.testing.assert_array_equal(found.timestamps, [253402214400, np.nan, -1])


@pytest.mark.parametrize("form", FORMS)
def test_nanoseconds_are_never_rounded_into_the_next_slot(form: str, tmp_path: Path) -> None:
    ticks, before = 1_699_999_999_999_999_999, np.nextafter(1.7e9, 0)
    moments = np.array([ticks], dtype="datetime64[ns]")
    whole = np.array([ticks], dtype=np.uint64)
    for column, unit in ((moments, 1), (moments.astype(np.int64), 10**9), (whole, 10**9)):
        path = write(tmp_path, form, t=column, x=[1.0])
        fields = Fields(values=("x",), time=TimeField(name="t", unix_scale=unit))
        np.testing.assert_array_equal(read(path, fields)[0].timestamps, [before])


def test_an_array_without_names_has_no_time(tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", np.zeros((3, 1)))
    with pytest.raises(RecordError, match="has no column names to choose from"):
        read(tmp_path / "r.npy", Fields(values=("x",), time=TimeField(name="t")))
