from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.shared.errors import LedgerError, RecordError
from tests.device_agent.sources.streams import Reader, make_stream


def make_reader(folder: Path, name: str = "meter", kind: str = "parquet", **options: Any) -> Reader:
    return Reader(make_stream(folder, name=name, kind=kind, path=f"r.{kind}", **options))


def write(folder: Path, rows: int = 0, **columns: Any) -> None:
    pq.write_table(pa.table(columns), folder / "r.parquet", row_group_size=rows or None)


@pytest.mark.parametrize("kind", ["parquet", "npy"])
@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(0, 50), group=st.integers(1, 9), limits=st.lists(st.integers(0, 60), max_size=5)
)
def test_wherever_reading_stopped_it_goes_on(
    kind: str, n: int, group: int, limits: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    values = np.arange(n, dtype=np.int32)
    write(folder, group, x=values)
    np.save(folder / "r.npy", values[:, np.newaxis])
    reader = make_reader(folder, kind=kind)
    found = [value for limit in limits for value in reader.once(limit=limit)]
    assert found + reader.once() == list(range(n))
    source = reader.open()
    assert source.ended
    source.close()


def test_columns_of_all_types_are_mapped(tmp_path: Path) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    write(
        tmp_path,
        x=pa.array([1.5, None, float("inf")]),
        y=pa.array([Decimal("2.5"), None, Decimal(3)]),
        t=pa.array([moment, None, moment], pa.timestamp("ms", "UTC")),
    )
    stream = make_stream(tmp_path, kind="parquet", path="r.parquet", timestamp="t")
    source = Reader(stream, ["x", "y"]).open()
    batch = source.read_batch()
    assert batch is not None
    nan = np.nan
    np.testing.assert_array_equal(batch.values, [[1.5, 2.5], [nan, nan], [nan, 3]])
    seconds = moment.timestamp()
    np.testing.assert_array_equal(batch.timestamps, [seconds, nan, seconds])
    assert source.report.n_unusable == 2
    assert source.report.untimed == [(2, "t")]
    source.close()


def test_a_time_that_no_other_unit_holds_is_for_its_record_alone(tmp_path: Path) -> None:
    for unit, per_second, odd, expected in (
        ("ns", 10**9, 1_500_000_001, 1.500000001),
        ("ms", 1000, 2**62, np.nan),
        ("ms", 1000, -(2**62), np.nan),
        ("us", 10**6, None, np.nan),
    ):
        (tmp_path / "r.parquet").unlink(missing_ok=True)
        pq.write_table(
            pa.table({"x": [1, 2], "t": pa.array([per_second, odd], pa.timestamp(unit))}),
            tmp_path / "r.parquet",
        )
        source = make_reader(tmp_path, timestamp="t").open()
        batch = source.read_batch()
        assert batch is not None
        np.testing.assert_array_equal(batch.timestamps, [1, expected])
        source.close()


def test_text_that_is_none_is_for_its_record_alone(tmp_path: Path) -> None:
    data = pa.py_buffer(b"1\xff2")
    offsets = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32).tobytes())
    write(tmp_path, x=[1, 2, 3], t=pa.StringArray.from_buffers(3, offsets, data))
    source = make_reader(tmp_path, timestamp="t", timestamp_format="unix").open()
    batch = source.read_batch()
    assert batch is not None
    np.testing.assert_array_equal(batch.timestamps, [1, np.nan, 2])
    source.close()


@pytest.mark.parametrize("times", [["1.5", "x"], [1.5, 1e300]])
def test_times_may_be_text_or_numbers(times: list[Any], tmp_path: Path) -> None:
    write(tmp_path, x=[1, 2], t=times)
    source = make_reader(tmp_path, timestamp="t", timestamp_format="unix").open()
    batch = source.read_batch()
    assert batch is not None
    np.testing.assert_array_equal(batch.timestamps, [1.5, np.nan])
    source.close()


def test_another_file_at_the_path_is_refused_and_a_copy_is_known(tmp_path: Path) -> None:
    write(tmp_path, x=[1.0])
    reader = make_reader(tmp_path)
    assert reader.once() == [1]
    other = make_reader(tmp_path, name="other")
    other.known = reader.known
    with pytest.raises(LedgerError, match="stream 'meter' has sketched its records"):
        other.open()
    write(tmp_path, x=[1.0, 2.0])
    with pytest.raises(LedgerError, match="has changed"):
        reader.open()


def test_what_is_no_parquet_or_lacks_a_column_is_refused(tmp_path: Path) -> None:
    write(tmp_path, y=[1.0])
    with pytest.raises(RecordError, match="x: the column is not in the header"):
        make_reader(tmp_path).open()
    for column in (["1"], [True], [None]):
        (tmp_path / "r.parquet").unlink()
        write(tmp_path, x=column)
        with pytest.raises(RecordError, match="x: must hold numbers"):
            make_reader(tmp_path).open()
    (tmp_path / "r.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(RecordError, match="cannot be read as Parquet"):
        make_reader(tmp_path).open()


def test_a_fault_of_the_file_is_told_without_the_row_where_it_was_met(tmp_path: Path) -> None:
    write(tmp_path, x=[float(i) for i in range(50_000)])
    path = tmp_path / "r.parquet"
    data = bytearray(path.read_bytes())
    data[1000:1400] = bytes(400)
    path.write_bytes(data)
    with pytest.raises(RecordError) as caught:
        make_reader(tmp_path).once()
    told = str(caught.value).replace(str(path), "")
    assert not any(character.isdigit() for character in told), told


def test_a_structured_array_has_times_and_converted_units(tmp_path: Path) -> None:
    rows = [(np.datetime64(1500, "ms"), 32.0), (np.datetime64("NaT", "ms"), np.inf)]
    np.save(tmp_path / "r.npy", np.array(rows, dtype=[("t", "M8[ms]"), ("f", "f4")]))
    columns = {"x": {"field": "f", "convert": "degF -> degC"}}
    source = make_reader(tmp_path, kind="npy", timestamp="t", columns=columns).open()
    batch = source.read_batch()
    assert batch is not None
    np.testing.assert_allclose(batch.values, np.array([[0.0], [np.nan]]), atol=1e-9)
    np.testing.assert_array_equal(batch.timestamps, [1.5, np.nan])
    assert (source.report.n_unusable, source.report.n_untimed) == (1, 1)
    assert source.report.bytes_read == (tmp_path / "r.npy").stat().st_size
    source.close()


def test_an_array_without_names_has_the_dimensions_in_their_order(tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", np.zeros((3, 1)))
    for options in ({"timestamp": "t"}, {"columns": {"x": "f"}}):
        with pytest.raises(RecordError, match="has no column names to choose from"):
            make_reader(tmp_path, kind="npy", **options).open()
