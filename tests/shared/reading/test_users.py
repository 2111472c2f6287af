"""The agent and ``sfumato sketch`` read the same bytes into the same records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.analyst.sketching.reader import RecordReader, choose_fields
from sfumato.shared.core import Columns, Records
from sfumato.shared.plan import Dimension
from sfumato.shared.reading import WatchedFile
from tests.analyst.sketching.samples import make_plan, sum_of
from tests.device_agent.sources.raw_sources import collect
from tests.device_agent.sources.streams import Reader, make_dimensions, make_stream
from tests.device_agent.sources.test_records_apart import json_bytes, raw_bytes

NAMES = ("a", "b", "c")
NUMBERS = make_dimensions(*NAMES)
LEVELS = ("2", "-2.5e3", "NA", "nan", "é", 'say "b"', "0x1", "3", "true")
WITH_LEVELS = [NUMBERS[0], Dimension(name="b", unit="1", levels=LEVELS), NUMBERS[2]]
"""The same columns, of which one is text."""
DIMENSIONS = st.sampled_from([NUMBERS, WITH_LEVELS])
NUMBER = st.sampled_from(
    [
        *(b"1", b" -2.5e3", b"1e400", b"nan", b"inf", b"1_0", b"", b"NA", b"0x1", b'"3"', b'"4'),
        *(
            "٣".encode(),
            "é".encode(),
            "e\u0301".encode(),
            b'"say ""b"""',
            b"3 ",
            b'" 2\t"',
            b"true",
        ),
    ]
)
CSV_LINE = st.one_of(
    st.just(b"1,2,3,x"),
    st.lists(st.one_of(NUMBER, raw_bytes), min_size=4, max_size=4).map(b",".join),
    raw_bytes,
)
JSON_LINE = st.one_of(
    st.just(b'{"a": 1, "b": 2, "c": 3}'),
    st.tuples(json_bytes, NUMBER, NUMBER).map(
        lambda v: b'{"note": %s, "a": %s, "b": "%s", "c": 3}' % v
    ),
    raw_bytes,
)
LINES: dict[str, Any] = {"csv": CSV_LINE, "jsonl": JSON_LINE}
HEADERS = {"csv": b"a,c,b,note\n", "jsonl": b""}
BLOCK_BYTES = st.sampled_from([50, 1000, 1 << 22])


def to_rows(records: Records) -> NDArray[np.float64]:
    """Records as one array; a value that is not finite is NaN, as in the agent."""
    rows = records.to_array() if isinstance(records, Columns) else records.astype(np.float64)
    rows[~np.isfinite(rows)] = np.nan
    return rows


def read_as_sketch(
    path: Path, dimensions: Sequence[Dimension] = NUMBERS, *, block_bytes: int = 1 << 22
) -> NDArray[np.float64]:
    with pytest.MonkeyPatch.context() as patch, WatchedFile(path) as file:
        patch.setattr("sfumato.analyst.sketching.reader.BLOCK_BYTES", block_bytes)
        batches = RecordReader(file, choose_fields(dimensions)).batches(2)
        return np.concatenate([np.empty((0, 3)), *map(to_rows, batches)])


def read_as_agent(path: Path, form: str, dimensions: Sequence[Dimension]) -> NDArray[np.float64]:
    # Of files that appear whole a last line without an end is a record, as it is to the sketch.
    stream = make_stream(
        path.parent, kind="folder", path=".", glob=path.name, format=form, whole=True
    )
    return collect(Reader(stream, dimensions).open(), d=3).values


def write(folder: Path, form: str, lines: Sequence[bytes], *, is_ended: bool = True) -> Path:
    path = folder / f"r.{form}"
    path.write_bytes(HEADERS[form] + b"\n".join(lines) + (b"\n" if is_ended else b""))
    return path


@pytest.mark.parametrize("form", LINES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), dimensions=DIMENSIONS, block_bytes=BLOCK_BYTES, is_ended=st.booleans())
def test_agent_and_sketch_read_the_same_text_into_the_same_records(
    form: str,
    data: st.DataObject,
    dimensions: Sequence[Dimension],
    block_bytes: int,
    is_ended: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ends = st.sampled_from([b"", b"", b"\r", b"\r\r"])
    lines = [
        line + data.draw(ends) for line in data.draw(st.lists(LINES[form], min_size=1, max_size=60))
    ]
    # Nothing behind the last line end is no line.
    is_ended |= not lines[-1]
    path = write(tmp_path_factory.mktemp("both"), form, lines, is_ended=is_ended)
    sketched = read_as_sketch(path, dimensions, block_bytes=block_bytes)
    read = read_as_agent(path, form, dimensions)
    assert len(sketched) == len(lines)
    np.testing.assert_array_equal(sketched, read)
    if dimensions is NUMBERS:
        n_unsketchable = sum_of(path, make_plan()).accumulator.n_unsketchable
        assert n_unsketchable == np.isnan(read).any(axis=1).sum()


@settings(deadline=None, max_examples=30)
@given(rows=st.lists(st.tuples(*[st.one_of(st.none(), st.floats())] * 3), min_size=1, max_size=20))
@example(rows=[(None, np.inf, 1.0)])
def test_agent_and_sketch_read_the_same_rows(
    rows: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("rows") / "r.parquet"
    columns = zip(*rows, strict=True)
    pq.write_table(
        pa.table({n: pa.array(c, pa.float64()) for n, c in zip(NAMES, columns, strict=True)}),
        path,
        row_group_size=7,
    )
    np.save(path.with_suffix(".npy"), np.array(rows, dtype=np.float64))
    for kind in ("parquet", "npy"):
        found = path.with_suffix(f".{kind}")
        stream = make_stream(path.parent, kind=kind, path=found.name)
        read = collect(Reader(stream, NAMES).open(), d=3).values
        np.testing.assert_array_equal(read_as_sketch(found), read)
