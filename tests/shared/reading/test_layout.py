"""Lines before the records, delimiters between their fields, and the choice of records."""

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.reading import (
    Fields,
    Layout,
    LineCutter,
    RecordTable,
    TimeField,
    WatchedFile,
    make_parser,
    open_rows,
)
from sfumato.shared.reading.layout import keeps_ascii

XY = Fields(values=("x", "y"))
NAN = float("nan")


def parse(data: bytes, layout: Layout, fields: Fields = XY, form: str = "csv") -> RecordTable:
    """Return the records of a whole file."""
    parser = make_parser(form, fields, layout, use_arrow=True)
    block = LineCutter().feed(data)
    assert block is not None
    n_before = 0
    while parser.needs_header:
        parser.read_header(block.part(n_before, n_before + 1).data, "f")
        n_before += 1
    return parser.parse(block.part(n_before, block.n_lines))


@pytest.mark.parametrize(
    ("before", "layout"),
    [
        (b"station 7\n\n", Layout(skip_lines=2)),
        (b'# made "yesterday\n  # x,y\n', Layout(comment="#")),
        (b"first\n#second\n", Layout(comment="#", skip_lines=1)),
        (b"sep=,\r\n", Layout()),
        (b"a,b\nsep=,\n", Layout(skip_lines=1)),
    ],
)
def test_what_stands_before_the_header_is_no_record(before: bytes, layout: Layout) -> None:
    table = parse(before + b"y,x\n1,2\n#3,4\n", layout)
    np.testing.assert_array_equal(table.to_matrix(), [[2.0, 1.0], [4.0, NAN]])


def test_lines_are_skipped_also_where_the_settings_name_the_columns() -> None:
    table = parse(b"logger\n1,2\n", Layout(skip_lines=1, header=("x", "y")))
    np.testing.assert_array_equal(table.to_matrix(), [[1.0, 2.0]])


def test_a_file_that_states_another_separator_than_the_settings_is_refused() -> None:
    with pytest.raises(RecordError, match=r"separated by ';'.*delimiter = \";\"") as refused:
        parse(b"sep=;\nx;y\n1;2\n", Layout())
    assert refused.value.field == "f, line 1"


def test_comments_need_a_header_behind_them() -> None:
    # Without one a first record that begins like a comment would be lost.
    with pytest.raises(ConfigError, match="record that begins like one would be lost"):
        Layout(comment="#", header=("x", "y"))


cells = st.sampled_from(["1", "2.5", "-3e2", "x", "#"])
gaps = st.text(" \t", min_size=1, max_size=4)
edges = st.text(" \t", max_size=3)


@given(
    rows=st.lists(st.tuples(edges, cells, gaps, cells, edges), min_size=1, max_size=40),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_blanks_are_one_delimiter_however_many_and_none_around(
    rows: list[tuple[str, str, str, str, str]], end: str
) -> None:
    spaced = "".join(f"{''.join(row)}{end}" for row in rows).encode()
    plain = "".join(f"{a},{b}{end}" for _, a, _, b, _ in rows).encode()
    blanks = Layout(delimiter="blanks", header=("x", "y"))
    found = parse(spaced, blanks).to_matrix()
    np.testing.assert_array_equal(found, parse(plain, Layout(header=("x", "y"))).to_matrix())


def test_a_long_run_of_blanks_costs_no_more_than_its_length() -> None:
    blanks = Layout(delimiter="blanks", header=("x", "y"))
    table = parse(b"1" + b" " * 60_000 + b"2\n" + b"3 4" + b" \t" * 30_000 + b"5\n", blanks)
    np.testing.assert_array_equal(table.to_matrix()[0], [1.0, 2.0])


@pytest.mark.parametrize("before", [b"1 2\n", b"1 2.55\n"])
def test_how_much_is_kept_of_a_long_line_of_blanks_changes_no_value(before: bytes) -> None:
    blanks = Layout(delimiter="blanks", header=("x", "y"))
    cutter, found = LineCutter(), []
    data = before + b"5" + b" " * 65_530 + b"123456789\n6 7\n"
    parser = make_parser("csv", XY, blanks)
    for start in range(0, len(data), 65_545):
        block = cutter.feed(data[start : start + 65_545])
        if block is not None:
            found += parser.parse(block).to_matrix().tolist()
    np.testing.assert_array_equal(found[1:], [[NAN, NAN], [6.0, 7.0]])


@pytest.mark.parametrize("encoding", ["raw_unicode_escape", "unicode_escape", "utf-7", "utf-16"])
def test_an_encoding_in_which_a_line_may_hold_the_end_of_one_is_refused(encoding: str) -> None:
    assert not keeps_ascii(encoding)


def test_a_date_and_a_time_of_day_are_one_time() -> None:
    def read(text: str) -> datetime:
        return datetime.strptime(f"{text} +0000", "%d.%m.%Y %H:%M:%S %z")

    fields = Fields(values=("x",), time=TimeField(name="day", clock="at", parse=read))
    table = parse(b"day,at,x\n02.01.1970,00:00:05,1\n02.01.1970,,2\n", Layout(), fields)
    np.testing.assert_array_equal(table.timestamps, [86405.0, NAN])
    line = b'{"day": "02.01.1970", "at": "00:00:05", "x": 1}\n'
    assert parse(line, Layout(), fields, "jsonl").timestamps.tolist() == [86405.0]


def test_an_element_of_a_list_is_a_field() -> None:
    fields = Fields(values=("v.0", "v.1.x"))
    table = parse(b'{"v": [1, {"x": 2}]}\n{"v": [3]}\n{"v": 4}\n', Layout(), fields, "jsonl")
    np.testing.assert_array_equal(table.to_matrix(), [[1.0, 2.0], [3.0, NAN], [NAN, NAN]])


def test_no_record_is_chosen_by_an_element_of_a_list() -> None:
    fields = Fields(values=("x",), keys=("v.0",), kinds={("a",): 0})
    with pytest.raises(RecordError, match="cannot be an element of a list"):
        make_parser("jsonl", fields)


CHOSEN = Fields(values=("x",), keys=("s", "n"), kinds={("kitchen", "2"): 0})
ROWS = [("kitchen", 2, 1.0), ("hall", 2, 2.0), ("kitchen", 3, 3.0), ("kitchen", 2, NAN)]


def test_records_are_chosen_alike_in_every_format(tmp_path: Path) -> None:
    csv = "s,n,x\n" + "".join(f"{s},{n},{x}\n" for s, n, x in ROWS) + '"kitchen,2,5\n'
    lines = "".join(f'{{"s": "{s}", "n": {n}, "x": "{x}"}}\n' for s, n, x in ROWS) + "{}\n"
    tables = [parse(csv.encode(), Layout(), CHOSEN), parse(lines.encode(), Layout(), CHOSEN, "j")]
    kind = [("s", "U9"), ("n", "i4"), ("x", "f8")]
    np.save(tmp_path / "r.npy", np.array(ROWS, dtype=kind))
    columns = {name: [row[i] for row in ROWS] for i, name in enumerate("snx")}
    pq.write_table(pa.table(columns), tmp_path / "r.parquet")
    for form in ("npy", "parquet"):
        with WatchedFile(tmp_path / f"r.{form}") as file:
            tables += open_rows(form, file, CHOSEN).tables()
    for table in tables:
        assert table.chosen is not None
        assert table.chosen[:4].tolist() == [True, False, False, True]
        assert not table.chosen[4:].any()
        wanted = table.wanted.to_array() if hasattr(table.wanted, "to_array") else table.wanted
        np.testing.assert_array_equal(wanted, [[1.0], [NAN]])


def test_a_broken_line_is_chosen_by_what_stands_before_the_damage() -> None:
    table = parse(b's,n,x\nkitchen,2,"1\nhall,2,"1\n', Layout(), CHOSEN)
    assert table.chosen is not None
    assert table.chosen.tolist() == [True, False]
    assert list(table.damaged) == [0, 1]
