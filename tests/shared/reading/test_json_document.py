"""A document is taken apart as ``json`` would read it, wherever its chunks are cut."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.reading import MAX_LINE_BYTES
from sfumato.shared.reading.json_document import DOCUMENT, DocumentError, ListReader

values: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
extras = st.dictionaries(st.text(max_size=4).filter(lambda k: k not in ("r", "n", "a")), values)


def read(data: bytes, cuts: list[int], way: str = "r") -> tuple[list[bytes], str | None]:
    reader, found, done = ListReader(way, "n"), [], 0
    for cut in [*sorted(cuts), len(data)]:
        reader.feed(data[done : max(cut, done)])
        found += reader.take()
        done = max(done, min(cut, len(data)))
    reader.finish()
    return found, reader.following


@given(
    records=st.lists(values, max_size=6),
    before=extras,
    behind=extras,
    following=st.one_of(st.none(), st.text(max_size=4), st.integers()),
    indent=st.sampled_from([None, 0, 2]),
    is_ascii=st.booleans(),
    way=st.sampled_from([DOCUMENT, "r", "r.a", "r.n.r"]),
    cuts=st.lists(st.integers(0, 300), max_size=8),
)
def test_records_and_cursor_are_found_wherever_chunks_are_cut(
    records: list[Any],
    before: dict[str, Any],
    behind: dict[str, Any],
    following: str | int | None,
    indent: int | None,
    is_ascii: bool,
    way: str,
    cuts: list[int],
) -> None:
    page: Any = records
    first, *inner = way.split(".") if way != DOCUMENT else ["r"]
    for key in reversed(inner):
        page = {**before, key: page, **{each: behind[each] for each in behind if each != key}}
    if way == DOCUMENT:
        following = None
    else:
        page = {**before, first: page, "n": following, **behind}
    data = json.dumps(page, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    found, cursor = read(data, cuts, way)
    assert [json.loads(record) for record in found] == records
    assert cursor == (None if following in (None, "") else str(following))


@given(st.binary(max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_any_bytes_are_a_page_or_refused_alike_wherever_they_are_cut(
    data: bytes, cuts: list[int]
) -> None:
    for page in (data, b'{"r": [' + data, b'{"r": [' + data + b'], "n": "c"}'):
        outcomes = []
        for places in ([], cuts):
            try:
                outcomes.append(str(read(page, places)))
            except DocumentError:
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "page",
    ['{"r": []', '{"r": [}]}', '{"r": []]', '{"r": [] "n": 1}', '{"r": [1}', '{"n": 1, }', "[]"],
)
def test_a_frame_that_is_broken_is_refused(page: str) -> None:
    with pytest.raises(DocumentError):
        read(page.encode(), [])


@pytest.mark.parametrize(
    ("page", "way"),
    [
        ('{"a": {"b": []}, "a": {"b": []}}', "a.b"),
        ('{"a": {"b": [], "b": []}}', "a.b"),
        ('{"a": [{"b": []}]}', "a.b"),
        ('{"a": {"c": []}, "b": []}', "a.b"),
        ('{"a": {"b": []}', "a.b"),
        ('{"a": []}', DOCUMENT),
        ("[1] [2]", DOCUMENT),
        ("[1", DOCUMENT),
        ("1", DOCUMENT),
    ],
)
def test_a_list_elsewhere_than_stated_or_there_twice_is_refused(page: str, way: str) -> None:
    with pytest.raises(DocumentError):
        read(page.encode(), [], way)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read(b"\xef\xbb\xbf" + b'{"r": [1]}', [1, 2, 5]) == ([b"1"], None)


def test_a_record_of_nothing_but_escaped_quotes_is_read_in_one_pass_and_kept_in_bounds() -> None:
    text = '\\"' * 200_000
    page = f'{{"r": [{{"x": "{text}"}}, {{"x": 1}}]}}'.encode()
    found, _ = read(page, list(range(0, len(page), 1009)))
    assert len(found[0]) <= MAX_LINE_BYTES + 1
    assert found[1] == b'{"x": 1}'


def test_a_record_without_an_end_hides_no_record_of_another_page() -> None:
    with pytest.raises(DocumentError):
        read(b'{"r": [{"x": "' + b'\\"' * 1000, [])
