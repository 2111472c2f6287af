import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.sketching.reader import choose_fields
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import ConfigError, RecordError
from tests.analyst.sketching.samples import NAMES, make_plan, make_records, sum_of
from tests.device_agent.sources.streams import make_dimensions

pa: Any = pytest.importorskip("pyarrow")
pq: Any = importlib.import_module("pyarrow.parquet")


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=10_000)
    return path


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_gives_the_sums_of_its_records(masked: bool, threads: int, tmp_path: Path) -> None:
    records = make_records(BLOCK_RECORDS + 1000)
    a, b, c = records.T
    # A null is not a number; whole numbers and single precision stand for themselves.
    whole = np.rint(np.nan_to_num(b)).astype(np.int64)
    path = write(
        tmp_path / "x.parquet",
        note=pa.array(["text"] * len(a)),
        c=c.astype(np.float32),
        b=pa.array(whole, mask=np.isnan(b)),
        a=pa.array(a, from_pandas=True),
    )
    values = np.stack([a, np.where(np.isnan(b), np.nan, whole), c.astype(np.float32)], axis=1)
    plan = make_plan(masked=masked)
    expected = SketchAccumulator(plan.statistic_of(b"file/main"))
    expected.add(values)
    accumulator = sum_of(path, plan, threads=threads).accumulator
    assert accumulator.sums.tolist() == expected.sums.tolist()
    assert accumulator.n_records == len(records)
    assert accumulator.n_unsketchable == expected.n_unsketchable > 0


@pytest.mark.parametrize("column", [["x"], [True], [[1.0]], [None]])
def test_a_column_without_numbers_is_refused(column: list[Any], tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", a=[1.0], b=column, c=[2.0])
    with pytest.raises(RecordError, match="b: must hold numbers"):
        sum_of(path, make_plan())


@pytest.mark.parametrize("keep", [4, 1000, -1])
def test_a_file_that_was_cut_is_refused(keep: int, tmp_path: Path) -> None:
    a, b, c = make_records(1000).T
    path = write(tmp_path / "x.parquet", a=a, b=b, c=c)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RecordError, match=r"x\.parquet: cannot be read as Parquet"):
        sum_of(path, make_plan())


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    a, b, c = make_records(1000).T
    path = write(tmp_path / "x.parquet", a=a, b=b, c=c)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    with pytest.raises(RecordError, match=r"x\.parquet: cannot be read as Parquet"):
        sum_of(path, make_plan())


def test_a_missing_column_is_named_and_can_be_mapped(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", a=[1.0], bee=[1.5], c=[2.0])
    with pytest.raises(RecordError, match=r"b: the column is not in the header .* \(a, bee, c\)"):
        sum_of(path, make_plan())
    columns = choose_fields(make_dimensions(*NAMES), ["b=bee"])
    assert sum_of(path, make_plan(), columns).accumulator.n_records == 1
    twice = choose_fields(make_dimensions(*NAMES), ["b=a"])
    assert sum_of(path, make_plan(), twice).accumulator.n_unsketchable == 0


def test_counts_known_beforehand_are_checked_beforehand(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", a=[1.0], b=[1.5], c=[2.0])
    with pytest.raises(RecordError, match="fewer than the plan's least_records = 2"):
        sum_of(path, make_plan(least=2))


def test_without_pyarrow_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(module: str) -> Any:
        raise ModuleNotFoundError(name=module)

    path = write(tmp_path / "x.parquet", a=[1.0], b=[1.5], c=[2.0])
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(ConfigError, match=r"needs pyarrow.*pip install 'sfumato\[parquet\]'"):
        sum_of(path, make_plan())
