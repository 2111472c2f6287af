"""Bulk parsers give what the line parser gives, or leave the block to it."""

import math

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.core import Columns, Records
from sfumato.shared.reading import Block, Fields, Layout
from sfumato.shared.reading.csv_lines import CsvParser, write_lines
from sfumato.shared.reading.records import read_number

PIECES = [
    *"0123456789+-.eE_ \t",
    *',,,,"""',
    "\n",
    "\r\n",
    "\r",
    "nan",
    "inf",
    "NA",
    "é",
    "\0",
    "x",
    "\ufeff",
]


def to_rows(records: Records) -> NDArray[np.float64]:
    """Records as one array; what is not finite makes the whole record so, here as in a sketch."""
    rows = records.to_array() if isinstance(records, Columns) else records.astype(np.float64)
    rows[~np.isfinite(rows).all(axis=1)] = math.nan
    return rows


def make_parser(n_fields: int, places: tuple[int, ...], *, use_arrow: bool = False) -> CsvParser:
    header = tuple(str(i) for i in range(n_fields))
    fields = Fields(values=tuple(header[i] for i in places))
    return CsvParser(fields, Layout(header=header), use_arrow=use_arrow)


def parse(
    data: bytes, n_fields: int, places: tuple[int, ...], use_arrow: bool
) -> NDArray[np.float64]:
    return to_rows(make_parser(n_fields, places, use_arrow=use_arrow).parse_values(Block(data)))


def require_same(data: bytes, n_fields: int, places: tuple[int, ...]) -> None:
    # Each line by itself: what it is depends on no other.
    lines = data.removesuffix(b"\n").split(b"\n")
    parser = make_parser(n_fields, places)
    expected = np.concatenate([to_rows(parser.parse_by_line(Block(line)).values) for line in lines])
    for use_arrow in (True, False):
        found = parse(data, n_fields, places, use_arrow)
        assert np.array_equal(found, expected, equal_nan=True), (found, expected)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=30), st.integers(1, 3))
@example(['""1', ",", "2", "\n"], 2)
@example(['"1"2', ",", "2", "\n"], 2)
@example(['"1', ",", "2", '"', ",", "3"], 2)
@example(['"1', "\n", '2"', ",", "3", "\n"], 2)
@example(["\n", "\n"], 1)
@example(["\ufeff", "1", "\n"], 1)
@example(["1", ",", "\n", "\n", " ", "\n"], 2)
def test_text_of_any_kind_is_read_alike(pieces: list[str], n_fields: int) -> None:
    require_same("".join(pieces).encode(), n_fields, tuple(range(n_fields)))


ARABIC_ONE = "\u0661"
FIELDS = st.sampled_from(
    [
        *("1", "-2.5", "1e3", "+1", ".5", "5.", "1_0", "", " 7 ", "0x1p3", "1e400", "1e-400"),
        *('"3"', '"3.5 "', '"a,b"', '"a""b"', 'a"b', "NaN", "-Inf", "é", ARABIC_ONE, "True"),
        *("1f", "1d2", "#N/A", "infinity", "nan(1)", "\x0b1", "1" * 400),
    ]
)


@given(
    st.lists(st.lists(FIELDS, min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_lines_of_odd_fields_are_read_alike(
    rows: list[list[str]], end: str, is_ended: bool
) -> None:
    text = end.join(",".join(row) for row in rows) + (end if is_ended else "")
    require_same(text.encode(), 3, (2, 0))


@given(st.lists(st.tuples(*[st.floats(allow_nan=True)] * 2), min_size=1, max_size=8))
def test_every_double_is_read_exactly(rows: list[tuple[float, float]]) -> None:
    text = "".join(f"{a!r},{b!r}\n" for a, b in rows)
    require_same(text.encode(), 2, (0, 1))
    found = parse(text.encode(), 2, (0, 1), use_arrow=True)
    expected = np.array(rows)
    expected[~np.isfinite(expected).all(axis=1)] = math.nan
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("use_arrow", [True, False])
def test_plain_numbers_take_the_fast_way(use_arrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not a fake of anything: the slow way is taken away, so that only the fast one is left.
    monkeypatch.delattr(CsvParser, "parse_by_line")
    parser = make_parser(2, (1,), use_arrow=use_arrow)
    assert to_rows(parser.parse_values(Block(b"1,2.5\r\n3,-4e-1"))).tolist() == [[2.5], [-0.4]]


LONG = b"1" * 300_000


@pytest.mark.parametrize(
    "line",
    [
        b'"3,4',
        b'"5',
        b"1,2\r3,4",
        b'1,"2"x',
        b"",
        b"a,b",
        b"\xef\xbb\xbf3,4",
        b'3,"%s"' % LONG,
        b"%s,2" % (LONG * 4),
    ],
)
def test_a_line_that_readers_understand_differently_has_no_numbers_and_changes_no_other(
    line: bytes,
) -> None:
    for use_arrow in (True, False):
        for n_before in (0, 1):
            found = parse(b"1,2\n" * n_before + line + b"\n5,6\n", 2, (0, 1), use_arrow)
            expected = np.array([[1, 2]] * n_before + [[math.nan, math.nan], [5, 6]])
            assert np.array_equal(found, expected, equal_nan=True)


def test_only_decimal_numbers_are_numbers() -> None:
    assert read_number(" -1.5e3 ") == -1500.0
    for text in ("1_000", ARABIC_ONE, "0x10", "inf", "nan", "1e999", "1,5", "", "one"):
        assert math.isnan(read_number(text))


def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe() -> None:
    rows: list[list[object]] = [
        ["=1+1", "+a", "-", "@x", "\t=1"],
        ["-5.2", "+1e3", -5.2, None, "a=1", ""],
    ]
    written = write_lines(rows)
    assert written == "'=1+1,'+a,'-,'@x,'\t=1\n-5.2,+1e3,-5.2,,a=1,\n"
    assert "'\r=1" in write_lines([["\r=1"]])
