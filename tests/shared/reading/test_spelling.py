"""Numbers as loggers and spreadsheets spell them: a decimal comma, and a unit behind the number."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import ConfigError
from sfumato.shared.reading import Fields, Layout, make_parser
from sfumato.shared.reading.lines import Block
from sfumato.shared.reading.records import read_value
from sfumato.shared.reading.spelling import PLAIN, Spelling

GERMAN = Spelling(decimal=",", strip=("°C", "%"))


def parse(form: str, line: str, spelling: Spelling, delimiter: str = ";") -> list[float]:
    fields = Fields(values=("t", "h"), spelling=spelling)
    layout = Layout(delimiter=delimiter, header=("t", "h")) if form == "csv" else Layout()
    parser = make_parser(form, fields, layout, use_arrow=True)
    block = Block(f"{line}\n".encode())
    return [float(x) for x in parser.parse(block).to_matrix()[0]]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("52,39", 52.39),
        (" -0,5 °C", -0.5),
        ("9,39%", 9.39),
        ("1e3", 1000.0),
        ("52.39", math.nan),
        ("1.234,5", math.nan),
        ("1,234,5", math.nan),
        ("9 °F", math.nan),
        ("", math.nan),
        (5, 5.0),
        (True, math.nan),
        (None, math.nan),
    ],
)
def test_a_text_is_the_number_that_it_spells_or_none(text: object, number: float) -> None:
    assert read_value(GERMAN.read(text)) == pytest.approx(number, nan_ok=True)


def test_csv_and_json_read_the_same_and_a_comma_may_be_quoted() -> None:
    expected = [52.39, 9.39]
    assert parse("csv", "52,39 °C;9,39%", GERMAN) == expected
    assert parse("csv", '"52,39","9,39"', GERMAN, ",") == expected
    assert parse("jsonl", '{"t": "52,39 °C", "h": 9.39}', GERMAN) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.234,5", 1234.5),
        ("-1.234.567", -1234567.0),
        ("12,5", 12.5),
        ("999", 999.0),
        # A wrong mark never gives another number: these are none.
        ("1.5", math.nan),
        ("12.34,5", math.nan),
        ("1.2345", math.nan),
        ("1234.567", math.nan),
        ("1,234.5", math.nan),
        (".123", math.nan),
        (1234.5, 1234.5),
    ],
)
def test_a_mark_of_thousands_stands_before_every_third_digit_or_there_is_no_number(
    text: object, number: float
) -> None:
    german = Spelling(decimal=",", thousands=".")
    assert read_value(german.read(text)) == pytest.approx(number, nan_ok=True)


def test_a_marked_value_is_missing_however_it_is_spelled_and_in_every_format() -> None:
    marked = Spelling(missing=("-999", "7.5", "off"))
    assert parse("csv", "-999.00;1", marked) == pytest.approx([math.nan, 1.0], nan_ok=True)
    assert parse("csv", "-9.99e2;-998", marked) == pytest.approx([math.nan, -998.0], nan_ok=True)
    line = '{"t": -999, "h": "-999"}'
    assert parse("jsonl", line, marked) == pytest.approx([math.nan] * 2, nan_ok=True)
    assert parse("jsonl", '{"t": 7.5, "h": "off"}', marked) == pytest.approx(
        [math.nan] * 2, nan_ok=True
    )
    # A number of 32 bits is compared as such.
    narrow = np.array([-999.0, 7.5, 1.0], dtype=np.float32)
    np.testing.assert_array_equal(np.isnan(marked.clear(narrow)), [True, True, False])


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2))
def test_with_a_decimal_comma_every_number_is_as_with_a_point(values: list[float]) -> None:
    line = ";".join(map(repr, values))
    assert parse("csv", line.replace(".", ","), GERMAN) == parse("csv", line, PLAIN)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"decimal": ";"}, "decimal"),
        ({"thousands": "x"}, "thousands"),
        ({"thousands": "."}, "thousands"),
        ({"strip": ("m2",)}, "strip"),
        ({"strip": (" ",)}, "strip"),
    ],
)
def test_what_would_change_numbers_is_refused(given: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Spelling(**given)  # type: ignore[arg-type]
    assert refused.value.field == field
