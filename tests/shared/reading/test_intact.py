"""Public fields are read from the front of a line, up to the first damage."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.reading.csv_lines import split_line
from sfumato.shared.reading.intact import find_intact, split_intact

csv_text = st.lists(st.sampled_from(['"', '""', ",", "a", " ", "é", "\0", ";"]), max_size=12).map(
    "".join
)


@given(csv_text, st.sampled_from(",;"))
def test_a_line_without_damage_is_split_as_any_other(line: str, delimiter: str) -> None:
    expected = split_line(line, delimiter)
    found = split_intact(line, delimiter, is_cut=False)
    if expected is not None:
        assert found == expected
    # Of a cut line the last field may be a part of one.
    cut = split_intact(line, delimiter, is_cut=True)
    assert cut in (found, found[:-1])


@given(csv_text, csv_text)
def test_what_is_behind_the_first_field_does_not_change_it(one: str, other: str) -> None:
    for line in (one, other):
        assert split_intact(f"17,{line}", ",", is_cut=True)[0] == "17"


names = st.sampled_from(["t", "a", "a.t", "a.b.t", "b"])
members: Any = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.none(), st.booleans()),
    lambda inner: st.dictionaries(st.sampled_from("abt"), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("abt"), members, max_size=3), names, st.integers(0, 3))
def test_an_object_without_damage_is_read_as_any_other(
    item: dict[str, Any], name: str, indent: int
) -> None:
    expected: Any = item
    for key in name.split("."):
        expected = expected.get(key) if isinstance(expected, dict) else None
    assert find_intact(json.dumps(item, indent=indent), name) == expected


@given(st.text(), st.sampled_from(['{"t": 17, ', '{"t":17}', ' {"b": {"c": [1]}, "t": 17 ,']))
def test_what_is_behind_a_member_does_not_change_it(behind: str, front: str) -> None:
    assert find_intact(front + behind, "t") == 17


@pytest.mark.parametrize(
    "text",
    ['{"t": 17', '{"t": 17.', '{"t": 17x}', '{"t"', '{"a": [, "t": 17}', '["t"]', "", '{"a": "'],
)
def test_a_member_that_is_not_whole_or_behind_damage_is_none(text: str) -> None:
    assert find_intact(text, "t") is None


def test_a_nested_member_is_found_before_the_damage_in_its_object() -> None:
    assert find_intact('{"a": {"t": 17, "x": [}, "a.t": 18}', "a.t") == 17
    assert find_intact('{"a": {"x": 1}, "a.t": 18}', "a.t") == 18


def test_of_a_nested_member_and_one_with_dots_in_its_name_the_first_counts() -> None:
    assert find_intact('{"a": {"b": 5}, "c": 1, "a.b": 99}', "a.b") == 5
    assert find_intact('{"a.b": 99, "a": {"b": 5}}', "a.b") == 99
    assert find_intact('{"a": {"b": 5}, "a": {"b": 6}}', "a.b") == 5
