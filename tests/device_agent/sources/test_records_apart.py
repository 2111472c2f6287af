"""No record decides about another: whatever one says, all others stay where and what they are.

The proof of the noise assumes it (``docs/explanation/proofs.md``, sections 1 and 5). So it is tried
on the raw bytes of every kind of source: one record gets any other fields, or is left out.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sfumato.device_agent.windows import SlotSchedule, WindowCutter, WindowState
from sfumato.shared.plan import WindowRule
from tests.device_agent.sources import raw_sources
from tests.device_agent.sources.raw_sources import LEVELS, Found, Pages, Raw

Read = Callable[[Sequence[Raw]], Found]
RULE = WindowRule(kind="time", origin=0, length_s=10)
CUTTER = WindowCutter(rule=RULE, least_records=3, most_records=7)
NOW = 1e6

NASTY = [
    *(
        b"",
        b" ",
        b'"',
        b'""',
        b'"1',
        b'1"',
        b",",
        b",,",
        b";",
        b"\r",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(b"t,x,note", b"x", b't","x"', b"1,2,3", b'1,"', b'",99,"', b"\x1b$B", b"2,2,a"),
    *(b"nan", b"-inf", b"1e999", b"1_0", b"9" * 5000, b"9" * 70_000, b"true", b"null", b"0x1"),
    *(b"[" * 3000, b"{" * 3000, b'{"t": 99}', b'1, "t": 99', b'1, "\\u0074": 99, "n": 9', b"]}"),
    *(b'{"t": 1,', b'"\\', b'"\\ud800"', b"/*", b"#", b"\xe2\x80\xa8", b"\x85", b"\x0b", b"\x0c"),
    # Like levels, or nearly.
    *(b"a", b" a\t", b"A", b'"a"', b"a\0", b'"say ""b"", c"', b'"say \\"b\\", c"', b'say "b", c'),
    *("é".encode(), "e\u0301".encode(), "é".encode("latin-1"), "\uff41".encode(), b"a" * 70_000),
    *(b"1", b"1.0", b"01", b"true", b"True", b'"nan"', b'"\\u0061"', b'"\\u00e9"'),
]
raw_bytes = st.one_of(st.sampled_from(NASTY), st.binary(max_size=12)).map(
    lambda data: data.replace(b"\n", b"")
)
any_bytes = st.one_of(raw_bytes, st.sampled_from([b"\n", b"1\n2", b"\n\n", b'"\n"']))
like_levels = st.sampled_from(
    [*LEVELS, " a ", "A", "e\u0301", "\uff41", "a\0", "a\n", "x" * 100_000, 1, 1.0, True, None]
)
# What a server puts into its page: any JSON, also with strings of bytes that are no text.
any_json = st.one_of(
    like_levels,
    st.sampled_from([b"9" * 5000, b"[" * 3000 + b"]" * 3000, b'"' + b"a" * 70_000 + b'"']),
    st.sampled_from([b'"\xff"', b'"\\ud800"', b'{"x": 1, "x": "]"}', b'"t\\": 99, "']),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text()),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        max_leaves=5,
    ),
)
any_cell = st.one_of(
    like_levels,
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=12),
    st.text(max_size=12),
    st.sampled_from(["9" * 5000, "a\0b", "x" * 100_000, b"x" * 100_000]),
)
any_float = st.one_of(st.none(), st.floats())
any_note = st.one_of(
    st.none(), st.text(max_size=12), like_levels.filter(lambda value: isinstance(value, str))
)

# Other fields of a record, its time and id as they are.
bytes_of_fields = st.fixed_dictionaries({"x": raw_bytes, "note": raw_bytes})
json_bytes = st.one_of(
    raw_bytes,
    st.sampled_from([b'1, "t": 99', b'1, "\\u0074": 99', b'{"t": 9}, "n": 9, "t": 9', b"[" * 3000]),
)
bytes_of_members = st.fixed_dictionaries({"x": json_bytes, "note": json_bytes})
bytes_of_messages = st.fixed_dictionaries({"x": any_bytes, "note": any_bytes})
# All of a record, also what says when it was.
header_again = st.sampled_from([b"t,x,note", b' t , "x",note', b"note,x,t", b"x,t,note,t"])
whole_line = st.fixed_dictionaries({"whole": st.one_of(header_again, raw_bytes)})
whole_message = st.fixed_dictionaries({"whole": st.one_of(header_again, any_bytes)})
any_row = st.fixed_dictionaries({"x": any_cell, "note": any_cell})
whole_row = st.fixed_dictionaries({"time": any_cell, "x": any_cell, "note": any_cell})
any_column = st.fixed_dictionaries({"x": any_float, "note": any_note})
element_note = st.one_of(st.binary(max_size=12), st.text(max_size=12), st.sampled_from(LEVELS))
any_element = st.fixed_dictionaries({"x": st.floats(), "note": element_note})
whole_element = st.fixed_dictionaries({"time": st.floats(), "x": st.floats()})
any_moment = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
whole_column = st.fixed_dictionaries({"time": any_moment, "x": any_float})

whole_json = st.fixed_dictionaries(
    {"whole": any_json.map(lambda x: x if isinstance(x, bytes) else json.dumps(x).encode())}
)
# Also halves of characters, and marks of byte order.
unit = st.one_of(st.sampled_from([0xD83D, 0xDE00, 0xFEFF, 0, 13, 34, 44]), st.integers(0, 0xFFFF))
wide_text = st.lists(unit.filter(lambda n: n != 10), max_size=6).map(
    lambda units: b"".join(n.to_bytes(2, "little") for n in units)
)

Fields = st.SearchStrategy[dict[str, Any]]
mqtt = raw_sources.read_mqtt
# What reads them; other fields; and a whole record, where no id says what was read before.
KINDS: dict[str, tuple[Callable[..., Found], Fields, Fields | None]] = {
    "csv": (raw_sources.read_csv, bytes_of_fields, whole_line),
    "jsonl": (raw_sources.read_jsonl, bytes_of_members, whole_line),
    "packed": (raw_sources.read_packed, bytes_of_fields, whole_line),
    "document": (
        raw_sources.read_document,
        st.fixed_dictionaries({"x": any_json, "note": any_json}),
        whole_json,
    ),
    "utf-16": (
        raw_sources.read_wide,
        st.fixed_dictionaries({"x": wide_text, "note": wide_text}),
        st.fixed_dictionaries({"whole": wide_text}),
    ),
    "csv chosen": (partial(raw_sources.read_chosen, form="csv"), bytes_of_fields, None),
    "jsonl chosen": (partial(raw_sources.read_chosen, form="jsonl"), bytes_of_members, None),
    "influx": (raw_sources.read_points, whole_line, None),
    "folder": (raw_sources.read_folder, bytes_of_fields, whole_line),
    "stdin": (partial(raw_sources.read_stdin, with_ids=False), bytes_of_fields, whole_line),
    "stdin ids": (partial(raw_sources.read_stdin, with_ids=True), bytes_of_fields, None),
    "sqlite": (raw_sources.read_sqlite, any_row, whole_row),
    "parquet": (raw_sources.read_parquet, any_column, whole_column),
    "npy": (raw_sources.read_npy, any_element, whole_element),
    "mqtt csv": (partial(mqtt, form="csv", with_ids=False), bytes_of_messages, whole_message),
    "mqtt json": (partial(mqtt, form="json", with_ids=False), bytes_of_messages, whole_message),
    "mqtt ids": (partial(mqtt, form="json", with_ids=True), bytes_of_messages, None),
}


def make_records(n: int) -> list[Raw]:
    return [Raw(time=2 * i, id=2 * i + 1, x=i / 4, note="" if i % 3 else "a") for i in range(n)]


def cut(timestamps: Any) -> list[tuple[int, int, WindowState | None, WindowState]]:
    found = CUTTER.cut(WindowState(), np.asarray(timestamps), now=NOW)
    return [(c.start, c.stop, c.closed, c.state) for c in found]


def require_apart(read: Read, n: int, i: int, fields: dict[str, Any]) -> Found:
    """Read records as they are, with other fields in one, and without that one; compare."""
    records = make_records(n)
    before = read(records)
    assert len(before.values) == n
    np.testing.assert_array_equal(before.timestamps, [record.time for record in records])

    # Replaced: the same number, and all others as they were.
    replaced = read([*records[:i], replace(records[i], **fields), *records[i + 1 :]])
    assert len(replaced.values) == n
    for name in ("values", "timestamps"):
        np.testing.assert_array_equal(
            np.delete(getattr(replaced, name), i, axis=0),
            np.delete(getattr(before, name), i, axis=0),
        )
    assert replaced.places == before.places
    if i:
        # What it adds follows from its own bytes, whatever stands around it.
        alone = read([records[0], replace(records[i], **fields)])
        np.testing.assert_array_equal(alone.values[1:], replaced.values[[i]])
    if not {"whole", "time"} & fields.keys():
        # A time that was not changed is read, and so each window is what it was.
        np.testing.assert_array_equal(replaced.timestamps, before.timestamps)
        assert cut(replaced.timestamps) == cut(before.timestamps)

    # Added or removed, whatever it says: each other record has its values and its slot.
    removed = read([*records[:i], *records[i + 1 :]])
    np.testing.assert_array_equal(removed.values, np.delete(before.values, i, axis=0))
    np.testing.assert_array_equal(
        assign(removed.timestamps), np.delete(assign(replaced.timestamps), i)
    )
    return replaced


def assign(timestamps: Any) -> Any:
    return SlotSchedule(rule=RULE).assign(timestamps, next_slot=1, last_slot=6)


CASES = [
    (kind, is_whole)
    for kind, (_, _, whole) in KINDS.items()
    for is_whole in ([False] if whole is None else [False, True])
]


@pytest.mark.parametrize(("kind", "is_whole"), CASES)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), n=st.integers(2, 45))
def test_whatever_one_record_says_all_others_stay(
    kind: str,
    is_whole: bool,
    data: st.DataObject,
    n: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    read, other, whole = KINDS[kind]
    fields = whole if is_whole else other
    assert fields is not None
    folder = tmp_path_factory.mktemp("apart")
    i = data.draw(st.integers(0, n - 1))
    require_apart(lambda records: read(folder, records), n, i, data.draw(fields))


@pytest.mark.parametrize("is_whole", [False, True])
def test_whatever_one_record_of_a_page_says_all_others_stay(is_whole: bool, tmp_path: Path) -> None:
    pages = Pages()
    with pages.serving() as url:

        @settings(max_examples=15, deadline=None)
        @given(data=st.data(), n=st.integers(2, 25), x=any_json, note=any_json)
        def examine(data: st.DataObject, n: int, x: Any, note: Any) -> None:
            i = data.draw(st.integers(0, n - 1))
            fields = {"x": x, "note": note}
            if is_whole:
                fields = {"whole": x if isinstance(x, bytes) else json.dumps(x).encode()}
            require_apart(lambda records: pages.read(tmp_path, url, records), n, i, fields)

        examine()
