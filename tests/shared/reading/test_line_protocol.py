"""Lines of InfluxDB's protocol, by the examples and rules of its own reference."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.reading import Block, Fields, TimeField, make_parser
from sfumato.shared.reading.line_protocol import read_point


@pytest.mark.parametrize(
    ("line", "point"),
    [
        (
            r'my\ m,tag\,1=a\=b,t2=c f\ 1="x, \"y\" \\z",f2=1i,f3=2u,f4=-1.5e3,f5=T 15568',
            {
                "measurement": "my m",
                "tag,1": "a=b",
                "t2": "c",
                "f 1": 'x, "y" \\z',
                "f2": "1",
                "f3": "2",
                "f4": "-1.5e3",
                "f5": True,
                "time": 15568,
            },
        ),
        ("m f=1", {"measurement": "m", "f": "1"}),
        ("m  f=1   5\r\n", {"measurement": "m", "f": "1", "time": 5}),
        ('m f="a=b c,d" 7', {"measurement": "m", "f": "a=b c,d", "time": 7}),
        ("m,a=1 a=2 7", None),
        ("m,time=1 a=2 7", None),
        ("m f=1 2 3", None),
        ("m f= 7", None),
        ("m", None),
        ("m f=1, 7", None),
        ('m f="1 7', None),
        ("", None),
    ],
)
def test_a_line_is_a_point_or_none(line: str, point: dict[str, Any] | None) -> None:
    assert read_point(line) == point


keys = st.text(alphabet='ab,= "\\é', min_size=1, max_size=5).filter(lambda key: key[-1] != "\\")


def escape(text: str) -> str:
    return "".join(f"\\{c}" if c in ',= "\\' else c for c in text)


@given(
    names=st.lists(keys, min_size=3, max_size=3, unique=True),
    value=st.floats(allow_nan=False, allow_infinity=False),
)
def test_what_is_escaped_is_read_as_it_was(names: list[str], value: float) -> None:
    measurement, tag, name = names
    if {"measurement", "time"} & set(names):
        return
    point = read_point(
        f"{escape(measurement)},{escape(tag)}={escape(name)} {escape(name)}={value!r} 1"
    )
    assert point == {"measurement": measurement, tag: name, name: repr(value), "time": 1}


pieces = st.sampled_from(["x=1", ",", " ", '"', "s=b", "=", "7", "\\", "measurement=c"])


@given(rest=st.lists(pieces, max_size=8).map("".join))
def test_whatever_stands_behind_measurement_and_tags_a_line_is_chosen_alike(rest: str) -> None:
    fields = Fields(values=("x",), keys=("measurement", "s"), kinds={("c", "a"): 0})
    table = make_parser("influx", fields).parse(Block(f"c,s=a {rest}\nd,s=a {rest}\n".encode()))
    assert table.kinds is not None
    assert table.kinds.tolist() == [0, -1]


def test_a_field_chooses_no_record() -> None:
    fields = Fields(values=("x",), keys=("s",), kinds={("a",): 0})
    table = make_parser("influx", fields).parse(Block(b'c x=1,s="a" 1\nc,s=a x=1 1\n'))
    assert table.kinds is not None
    assert table.kinds.tolist() == [-1, 0]


def test_points_become_records_and_broken_ones_keep_their_place() -> None:
    fields = Fields(
        values=("idle", "n"),
        time=TimeField(name="time", unix_scale=10**9),
        keys=("host",),
        kinds={("a",): 0},
    )
    parser = make_parser("influx", fields)
    data = (
        b'c,host=a idle=97.5,n=3i 1500000000\nc,host=b idle=1 1\nc,host=a n=x" 2\nc,host=a idle=4\n'
    )
    table = parser.parse(Block(data))
    np.testing.assert_array_equal(table.to_matrix()[[0, 3]], [[97.5, 3.0], [4.0, np.nan]])
    np.testing.assert_array_equal(table.timestamps, [1.5, 1e-9, np.nan, np.nan])
    assert table.kinds is not None
    # A broken line is chosen by what stands in front of the damage.
    assert table.kinds.tolist() == [0, -1, 0, 0]
    assert table.damaged == {2: "line"}
    assert parser.read_texts(b"c,host=a idle=4 1\n") == ["4", "", "1", "a"]


def test_a_line_of_any_length_and_kind_is_read_in_one_pass() -> None:
    for piece in (r"\\", ",a=b", " ", '"', '"a', "a=", r"a\ "):
        assert read_point(f"m,{piece * 20_000} f") is None
