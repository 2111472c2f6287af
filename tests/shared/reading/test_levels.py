"""Levels: every reader takes a value for the same level, and anything else for missing."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.sketching.reader import RecordReader, choose_fields
from sfumato.shared.core import Columns
from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.plan import Dimension
from sfumato.shared.reading import WatchedFile
from sfumato.shared.reading.records import spell_value
from tests.device_agent.sources.raw_sources import collect
from tests.device_agent.sources.streams import Reader, make_stream

LEVELS = ("red", "1", "true", "0.5", "nan", "ein Grün")
DIMENSIONS = (Dimension(name="c", unit="1", levels=LEVELS), Dimension(name="x", unit="1"))
NONE = np.nan


def read_file(path: Path) -> Any:
    with WatchedFile(path) as file:
        batches = RecordReader(file, choose_fields(DIMENSIONS)).batches(1)
        parts = [b.to_array() if isinstance(b, Columns) else b for b in batches]
    return np.concatenate(parts)[:, 0]


def read_device(path: Path, **source: Any) -> Any:
    stream = make_stream(path.parent, path=path.name, **source)
    return collect(Reader(stream, DIMENSIONS).open(), d=2).values[:, 0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((" red\t", "red"), ("RED", "RED"), (True, "true"), (False, "false"), (7, "7")),
        *((7.0, "7"), (-0.0, "0"), (0.5, "0.5"), (1e300, "1e+300"), (2.0**60, repr(2.0**60))),
        *((None, None), (float("nan"), None), (float("inf"), None), ([], None), (b"red", None)),
    ],
)
def test_each_value_has_one_spelling(value: object, text: str | None) -> None:
    assert spell_value(value) == text


# Also in one block without anything odd, in one with a quote, and in one with a broken line.
@pytest.mark.parametrize("odd", ["", '"red",0\n', "red,0,0\n", '"red,0\n'])
def test_text_is_compared_as_it_stands_but_for_white_space_around_it(
    odd: str, tmp_path: Path
) -> None:
    cells = ["red", " 1 ", "true", "0.5", "nan", "ein Grün", "Red", "1.0", "True", "", "NA", "r ed"]
    path = tmp_path / "r.csv"
    path.write_text("c,x\n" + "".join(f"{cell},0\n" for cell in cells) + odd)
    found = [0, 1, 2, 3, 4, 5, *[NONE] * 6]
    for values in (read_file(path), read_device(path, kind="csv")):
        np.testing.assert_array_equal(values[: len(cells)], found)
        if odd:
            np.testing.assert_array_equal(
                values[len(cells) :], [0.0 if odd[1:5] == 'red"' else NONE]
            )


def test_json_and_sql_give_numbers_and_truth_values_their_spelling(tmp_path: Path) -> None:
    cells = ["red", " red ", 1, 1.0, "1", 0.5, True, False, None, "RED", 2, [1], {}]
    found = [0, 0, 1, 1, 1, 3, 2, *[NONE] * 6]
    path = tmp_path / "r.jsonl"
    lines = [json.dumps({"c": cell, "x": 0}) for cell in cells]
    path.write_text("\n".join([*lines, '{"x": 0}', '{"c": NaN, "x": 0}', "red", ""]))
    for values in (read_file(path), read_device(path, kind="jsonl")):
        np.testing.assert_array_equal(values, [*found, NONE, NONE, NONE])
    with closing(sqlite3.connect(tmp_path / "r.db")) as database:
        database.execute("CREATE TABLE r (k INTEGER PRIMARY KEY, c, x)")
        rows = ["red", 1, 1.0, "1", 0.5, None, b"red", 2]
        database.executemany("INSERT INTO r (c, x) VALUES (?, 0)", [(row,) for row in rows])
        database.commit()
    query = "SELECT k, c, x FROM r WHERE k > :last ORDER BY k LIMIT :n"
    values = read_device(tmp_path / "r.db", kind="sqlite", query=query, key="k")
    np.testing.assert_array_equal(values, [0, 1, 1, 1, 3, NONE, NONE, NONE])


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pa.array(["red", " red ", None, "Red"]), [0, 0, NONE, NONE]),
        (pa.array(["red", "1", None, "red"]).dictionary_encode(), [0, 1, NONE, 0]),
        (pa.array([1, 2, None, 0], pa.int8()), [1, NONE, NONE, NONE]),
        (pa.array([2**63, 1], pa.uint64()), [NONE, 1]),
        (pa.array([1.0, 0.5, None, np.nan]), [1, 3, NONE, NONE]),
        (pa.array([0.5, 1.0, 2.0], pa.float32()), [3, 1, NONE]),
        (pa.array([True, False, None]), [2, NONE, NONE]),
    ],
)
def test_columns_of_every_type_of_parquet(column: Any, found: list[float], tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"c": column, "x": pa.array([0.0] * len(column))}), path)
    for values in (read_file(path), read_device(path, kind="parquet")):
        np.testing.assert_array_equal(values, found)


@pytest.mark.parametrize(
    ("kind", "cells", "found"),
    [
        ("U8", ["red", " 1", "Red"], [0, 1, NONE]),
        ("S8", [b"red", b"\xff", b"1"], [0, NONE, 1]),
        ("?", [True, False], [2, NONE]),
        ("<i2", [1, 0], [1, NONE]),
        (">f4", [0.5, np.nan, 1], [3, NONE, 1]),
    ],
)
def test_fields_of_every_type_of_numpy(
    kind: str, cells: list[Any], found: list[float], tmp_path: Path
) -> None:
    path = tmp_path / "r.npy"
    np.save(path, np.array([(c, 0.0) for c in cells], dtype=[("c", kind), ("x", "f8")]))
    for values in (read_file(path), read_device(path, kind="npy")):
        np.testing.assert_array_equal(values, found)
    np.save(path, np.array([[1.0, 5.0], [0.5, np.nan]]))
    np.testing.assert_array_equal(read_file(path), [1, 3])


def test_a_column_that_cannot_hold_levels_or_is_converted_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"c": pa.array([[1]]), "x": pa.array([0.0])}), path)
    with pytest.raises(RecordError, match="must hold text"):
        read_file(path)
    (tmp_path / "r.csv").write_text("c,x\nred,0\n")
    stream = make_stream(tmp_path, kind="csv", path="r.csv", columns={"c": {"scale": 2.0}})
    with pytest.raises(ConfigError, match="cannot be converted"):
        Reader(stream, DIMENSIONS).open()
