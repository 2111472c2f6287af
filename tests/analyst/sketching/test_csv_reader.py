import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.analyst.sketching import reader
from sfumato.analyst.sketching.reader import RecordReader
from sfumato.shared.core import Columns, SketchAccumulator
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.reading import Fields, WatchedFile, csv_lines
from tests.analyst.sketching.samples import NAMES, make_plan, make_records, sum_of

LINES = ("1,2,3", "4,,6", "", "7,8", '"9",10,"11"', "x,13,14", "15,16,17,18", "-1e-3, 2 ,nan")
ROWS = [[1, 2, 3], None, None, None, [9, 10, 11], None, None, None]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path, names: tuple[str, ...] = NAMES, block_bytes: int = 1 << 22) -> list[object]:
    """The records; None in the place of one that cannot be sketched."""
    with pytest.MonkeyPatch.context() as patch, WatchedFile(path) as file:
        patch.setattr(reader, "BLOCK_BYTES", block_bytes)
        rows: list[object] = []
        for batch in RecordReader(file, Fields(values=names)).batches(2):
            array = batch.to_array() if isinstance(batch, Columns) else batch
            rows += [row.tolist() if np.isfinite(row).all() else None for row in array]
        return rows


@given(
    block_bytes=st.integers(1, 60),
    end=st.sampled_from(["\n", "\r\n"]),
    is_ended=st.booleans(),
)
def test_where_blocks_are_cut_changes_no_record(
    block_bytes: int, end: str, is_ended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "x.csv"
    write(path, end.join(("a,b,c", *LINES)) + (end if is_ended else ""))
    assert read(path, block_bytes=block_bytes) == ROWS


@pytest.mark.parametrize("masked", [False, True])
def test_a_file_of_many_blocks_gives_the_sums_of_its_records(masked: bool, tmp_path: Path) -> None:
    records = make_records(BLOCK_RECORDS + 1000)
    lines = (",".join(map(repr, [row[2], "text", *row[:2]])) for row in records.tolist())
    path = write(tmp_path / "x.csv", "c,note,a,b\n" + "\n".join(lines))
    plan = make_plan(masked=masked)
    expected = SketchAccumulator(plan.statistic_of(b"file/main"))
    expected.add(records)
    summed = sum_of(path, plan)
    assert summed.accumulator.sums.tolist() == expected.sums.tolist()
    assert summed.accumulator.n_records == len(records)
    assert summed.accumulator.n_unsketchable == expected.n_unsketchable > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a,b\n1,2\n", "c: the column is not in the header of .*x.csv .a, b."),
        (b"a;b;c\n1;2;3\n", "delimiter=;"),
        (b"a,b,c,a\n1,2,3,4\n", "a: the column is in the header more than once"),
        (b"a,b,\xff\n1,2,3\n", "line 1: must be a header in UTF-8"),
        (b'a,"b,c\n1,2,3\n', "line 1: must be a header in UTF-8"),
        (b"a,b,c\r1,2,3\r", "line 1: must be a header in UTF-8"),
        (b"a,b,c", "holds 0 records"),
        (b"", "is empty"),
    ],
)
def test_a_file_that_readers_understand_differently_is_refused(
    text: bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises((RecordError, ConfigError), match=message):
        sum_of(write(tmp_path / "x.csv", text), make_plan())


def test_a_file_that_shrinks_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BLOCK_BYTES", 600)
    path = write(tmp_path / "x.csv", "a,b,c\n" + "1,2,3\n" * 1000)
    with WatchedFile(path) as file:
        batches = RecordReader(file, Fields(values=NAMES)).batches(1)
        next(batches)
        os.truncate(path, 100)
        with pytest.raises(RecordError, match=r"ended at byte \d+, before its 6006 bytes"):
            list(batches)


def test_too_many_records_stop_the_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "a,b,c\n" + "1,2,3\n" * 1001)
    with pytest.raises(RecordError, match=r"x\.csv: holds more records than .* = 1000"):
        sum_of(path, make_plan(most=1000))
    with pytest.raises(RecordError, match=r"x\.csv: holds 1001 records, fewer than .* = 2000"):
        sum_of(path, make_plan(least=2000))


def test_columns_are_found_by_name_wherever_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", b'\xef\xbb\xbf"c","the ""a""",b,\xc3\xa9\r\n1,2,3,\xff\r\n')
    assert read(path, ('the "a"', "b", "c")) == [[2, 3, 1]]
    assert read(path, ("b", "b", "c")) == [[3, 3, 1]]


def test_an_empty_line_of_a_single_column_is_a_record(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "a\n1\n\n3\n")
    assert read(path, ("a",)) == [[1], None, [3]]


def test_a_header_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reader, csv_lines):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 50)
    path = write(tmp_path / "x.csv", "9" * 200)
    with pytest.raises(RecordError, match="line 1: must be a header"):
        read(path, block_bytes=30)


def test_a_line_that_repeats_the_header_is_a_record(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", 'a,b,c\n1,2,3\na,b,c\nb,a,c\n\n"\n4,5,6')
    assert read(path) == [[1, 2, 3], None, None, None, None, [4, 5, 6]]
