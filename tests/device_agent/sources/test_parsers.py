from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.device_agent.sources.mapping import ReadingReport, RecordMapping
from sfumato.device_agent.sources.settings import StreamSettings, TextSettings
from sfumato.shared.reading import Block, LineCutter, LineParser, RecordTable
from tests.device_agent.sources.streams import make_dimensions, make_stream

number = st.one_of(
    st.floats().map(str),
    st.integers().map(str),
    st.sampled_from(
        ["", " 1 ", "1e5", "+.5", "1_0", "\u0661", "nan", "-inf", "1e999", "0x1", "1\0"]
    ),
)
time = st.sampled_from(
    [
        "0",
        "1e300",
        "9.99999999999999999",
        "9007199254740993",
        "1e-999999999",
        "2020-01-01",
        "2020-01-01T00:00:00+02:00",
        "noon",
        "",
    ]
)
text = st.text(alphabet="ab_\"é; \r'", max_size=4)
cells = st.tuples(time, number, text, number).map(",".join)
csv_line = st.one_of(cells, cells, cells, st.text(max_size=8), st.just("t,x,n,y")).map(
    lambda line: line.replace("\n", "").encode("utf-8", "replace")
)


def parse(data: bytes, n: int, **source: Any) -> tuple[RecordTable, ReadingReport]:
    options = {"kind": "csv", "path": "f", "timestamp": "t", **source}
    if options["kind"] == "csv":
        options["header"] = ["t", "x", "n", "y"]
    mapping, parser = make_parser(make_stream(Path("/"), **options), ["x", "y"])
    report = ReadingReport()
    block = LineCutter().feed(data)
    assert block is not None
    assert len(block.ends) == block.n_lines == n
    return mapping.parse(parser, block, report), report


def make_parser(stream: StreamSettings, names: list[str]) -> tuple[RecordMapping, LineParser]:
    assert isinstance(stream.source, TextSettings)
    mapping = RecordMapping(stream, make_dimensions(*names))
    return mapping, mapping.make_parser(stream.source)


@pytest.mark.parametrize(
    ("form", "text", "seconds"),
    [
        ("iso8601 or unix", "2026-01-01T00:00:01Z", 1_767_225_601.0),
        ("iso8601 or unix", " 1767225601 ", 1_767_225_601.0),
        ("iso8601 or unix_ms", "1767225601500", 1_767_225_601.5),
        # Eight digits could be a date too: what is a number is one, whatever other lines hold.
        ("iso8601 or unix", "20260101", 20_260_101.0),
        ("iso8601 or unix", "20260101T000001Z", 1_767_225_601.0),
        ("iso8601 or unix", "noon", None),
        ("excel", "46023", 1_767_225_600.0),
        ("excel", '"46023,5"', 1_767_268_800.0),
        # To the millisecond: spreadsheets write so few digits that a minute would be missed.
        ("excel", "46023.0104166667", 1_767_226_500.0),
        # They count a day in 1900 that there never was.
        ("excel", "60", None),
        ("excel", "1e300", None),
        ("excel", "2026-01-01", None),
    ],
)
def test_a_time_is_read_from_its_own_text_alone(
    form: str, text: str, seconds: float | None
) -> None:
    table, _ = parse(f"{text},1,a,1\n".encode(), 1, timestamp_format=form)
    np.testing.assert_array_equal(table.timestamps, [np.nan if seconds is None else seconds])


def test_numbers_of_json_are_times_too_where_either_may_stand() -> None:
    lines = b'{"t": 1767225601, "x": 1, "y": 1}\n{"t": "2026-01-01T00:00:02Z", "x": 1, "y": 1}\n'
    table, _ = parse(lines, 2, kind="jsonl", timestamp_format="iso8601 or unix")
    assert table.timestamps.tolist() == [1_767_225_601.0, 1_767_225_602.0]


@given(lines=st.lists(csv_line, min_size=1, max_size=70), form=st.sampled_from(["unix", "iso8601"]))
def test_a_block_of_csv_is_read_as_its_lines_are_one_by_one(lines: list[bytes], form: str) -> None:
    whole, report = parse(
        b"".join(line + b"\n" for line in lines), len(lines), timestamp_format=form
    )
    single = [parse(line + b"\n", 1, timestamp_format=form) for line in lines]
    for name in ("values", "timestamps"):
        np.testing.assert_array_equal(
            getattr(whole, name),
            np.concatenate([getattr(table, name) for table, _ in single]),
        )
    assert report.n_unusable == sum(r.n_unusable for _, r in single)
    assert report.n_untimed == sum(r.n_untimed for _, r in single)
    assert not np.isinf(whole.to_matrix()).any()


json_value = st.one_of(
    st.sampled_from(["1", "-2.5e3", "true", "null", '"7"', '"x"', "NaN", "1e999", "9" * 400, "{}"])
)
json_line = st.one_of(
    st.tuples(json_value, json_value, json_value).map(
        lambda v: f'{{"t": {v[0]}, "x": {v[1]}, "y": {v[2]}}}'
    ),
    st.sampled_from(["", "[1]", '{"x":1},{"x":2}', '{"x":[', "1]}", "[" * 5000, '{"x": 1']),
).map(str.encode)


@given(
    lines=st.lists(json_line, min_size=1, max_size=20), form=st.sampled_from(["unix", "iso8601"])
)
def test_a_block_of_json_is_read_as_its_lines_are_one_by_one(lines: list[bytes], form: str) -> None:
    options = {"kind": "jsonl", "timestamp_format": form}
    whole, report = parse(b"".join(line + b"\n" for line in lines), len(lines), **options)
    single = [parse(line + b"\n", 1, **options) for line in lines]
    for name in ("values", "timestamps"):
        np.testing.assert_array_equal(
            getattr(whole, name),
            np.concatenate([getattr(table, name) for table, _ in single]),
        )
    assert report.n_unusable == sum(r.n_unusable for _, r in single)


def test_a_json_record_that_cannot_be_used_keeps_its_place() -> None:
    data = b'{"t":0,"x":1,"y":2}\n{"t":0,"x":true,"y":2}\nnonsense\n\n{"t":0,"x":"3","y":4}\n'
    table, report = parse(data, 5, kind="jsonl", timestamp_format="unix")
    nan = np.nan
    expected = [[1, 2], [nan, 2], [nan, nan], [nan, nan], [3, 4]]
    np.testing.assert_array_equal(table.values, expected)
    assert report.unusable == [(2, "x"), (3, "line"), (4, "line")]
    assert report.untimed == [(3, "t"), (4, "t")]


def test_fields_of_nested_objects_are_named_with_dots(tmp_path: Path) -> None:
    stream = make_stream(tmp_path, kind="jsonl", path="f", columns={"x": "air.temp", "y": "a.b"})
    mapping, parser = make_parser(stream, ["x", "y"])
    block = Block(b'{"air": {"temp": 5}, "a.b": 6}\n')
    assert mapping.parse(parser, block, ReadingReport()).to_matrix().tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("form", "zone", "text", "seconds"),
    [
        ("unix_ms", "UTC", "1500", 1.5),
        ("unix_ns", "UTC", "1500000000", 1.5),
        # Rounded up, it would be in the next slot.
        ("unix_ns", "UTC", "1699999999999999999", np.nextafter(1.7e9, 0)),
        ("unix", "UTC", "1699999999.99999999", np.nextafter(1.7e9, 0)),
        ("iso8601", "Europe/Berlin", "1970-01-01T01:00:00", 0),
        ("iso8601", "Europe/Berlin", "1970-01-01T00:00:00Z", 0),
        ("%d.%m.%Y %H:%M", "America/New_York", "01.01.1970 00:00", 5 * 3600),
        ("%d.%m.%Y %H:%M", "UTC", "1970-01-01", np.nan),
    ],
)
def test_times_are_read_in_their_format_and_zone(
    form: str, zone: str, text: str, seconds: float
) -> None:
    data = f"{text},1,a,2\n".encode()
    table, _ = parse(data, 1, timestamp_format=form, timestamp_zone=zone)
    np.testing.assert_array_equal(table.timestamps, [seconds])


@pytest.mark.parametrize(
    ("column", "raw", "value"),
    [
        ({"convert": "degF -> degC"}, "212", 100),
        ({"convert": "degC -> K"}, "-273.15", 0),
        ({"convert": "km/h -> m/s"}, "36", 10),
        ({"scale": 0.1, "offset": -5}, "100", 5),
        ({"scale": 1e300}, "1e300", np.nan),
    ],
)
def test_units_are_converted(column: dict[str, Any], raw: str, value: float) -> None:
    stream = make_stream(Path("/"), kind="csv", path="f", header=["x"], columns={"x": column})
    mapping, parser = make_parser(stream, ["x"])
    for line in (f"{raw}\n", f'"{raw}"\n'):
        report = ReadingReport()
        table = mapping.parse(parser, Block(line.encode()), report)
        np.testing.assert_allclose(table.to_matrix(), [[value]], atol=1e-9)
        assert report.n_unusable == int(np.isnan(value))
