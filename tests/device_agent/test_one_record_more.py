"""One record more changes one record: nothing that the agent bounds is a cliff.

Every bound on what is read stands in a table, with what happens where it is passed. A bound that is
not in the table fails a test, so that whoever adds one has to think of the records beside it.
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.device_agent.sources import line_file, pages, row_source, sqlite_source
from sfumato.device_agent.sources.folder_source import _MOST_PLACES
from sfumato.device_agent.windows import WindowCutter, WindowState
from sfumato.shared.plan import WindowRule
from sfumato.shared.reading import BOM, MAX_LINE_BYTES
from tests.device_agent.sources import raw_sources
from tests.device_agent.sources.raw_sources import Found, Pages, Raw
from tests.device_agent.sources.streams import Reader, make_stream

ROOT = Path(__file__).parents[2]
BOUND = re.compile(r"MOST|MAX|BATCH|LARGEST|KEPT|CHUNK|PIECE|RECORDS|LINES|BYTES|CHARACTERS|PLACES")

DIVIDES = "work is divided otherwise, and no record changes"
OWN = "the record that passes it adds zero, and no other changes"
SHOWN = "less is shown to the owner, and nothing of it is released"
ENDS = "reading ends with its reason, for public facts alone; what was given before stays"
ASSUMED = "a file that comes back later is new: the proofs assume that none does"
SKETCH = "sketches and answers wait or are refused one by one, and no record is read again"
FORM = "no bound on records: the form of a digest, a key or a name"

ANALYST = "what an analyst sketches from a file of their own; no device asks it"

BOUNDS = {
    "agent/clusters._CHUNK_BYTES": DIVIDES,
    "agent/dry_run_limits._MOST_SPREAD": SHOWN,
    "agent/dry_run_limits._MOST_UNUSUAL": SHOWN,
    "agent/exchange/comparison._MOST_NAMED": SHOWN,
    "agent/exchange/sender._MOST_HELD": SKETCH,
    "agent/guess/addresses._MOST_BYTES": SHOWN,
    "agent/guess/columns._MOST_KEYS": SHOWN,
    "agent/guess/tables.MOSTLY": SHOWN,
    "agent/guess/tables._MOST_COLUMNS": SHOWN,
    "agent/guess/tables._MOST_DOCUMENT": SHOWN,
    "agent/guess/tables._MOST_LINES": SHOWN,
    "agent/guess/tables._MOST_PREFACE": SHOWN,
    "agent/guess/tables._MOST_UNITS": SHOWN,
    "agent/guess/topics._MOST_MESSAGES": SHOWN,
    "agent/reading/release._REPORT_ID_BYTES": FORM,
    "agent/reading/slots._MOST_OPENED": DIVIDES,
    "agent/reading/windows.ENVELOPE_BYTES": SHOWN,
    "agent/reading/worker._SAVE_RECORDS": DIVIDES,
    "agent/reading/worker._SAVE_RECORDS_ONCE": DIVIDES,
    "cli/dry_run._MOST_SHOWN": SHOWN,
    "relay/answers._KEPT": FORM,
    "relay/forwarding._MOST_ANSWER_BYTES": SKETCH,
    "relay/http_source.MOST_CONNECTIONS": SKETCH,
    "relay/intake.MOST_REQUEST_BYTES": SKETCH,
    "server/http_connection._MAX_ANSWER_BYTES": SKETCH,
    "server/http_connection._OF_THE_BYTES": FORM,
    "server/messages._MOST_CHARACTERS": SKETCH,
    "sources/cells.BATCH_RECORDS": DIVIDES,
    "sources/folder_source._COMPARED_BYTES": SHOWN,
    "sources/folder_source._MOST_PLACES": DIVIDES,
    "sources/known_files.MOST_GONE": ASSUMED,
    "sources/line_file.BATCH_RECORDS": DIVIDES,
    "sources/line_file._CHUNK_BYTES": DIVIDES,
    "sources/mapping.SHOWN_LINES": SHOWN,
    "sources/mqtt_client._MAX_TOPIC_BYTES": FORM,
    "sources/mqtt_source.BATCH_MESSAGES": DIVIDES,
    "sources/pages._LEAST_BYTES_PER_S": ENDS,
    "sources/pages._MOST_PIECES": DIVIDES,
    "sources/pages._MOST_TIMEOUTS": ENDS,
    "sources/pages._PIECE_RECORDS": DIVIDES,
    "sources/passed.MOST_CURSORS": ENDS,
    "sources/passed._BYTES": FORM,
    "sources/positions.TAIL_BYTES": DIVIDES,
    "sources/positions._CHUNK_BYTES": DIVIDES,
    "sources/positions._DIGEST_CHARACTERS": FORM,
    "sources/row_source.BATCH_RECORDS": DIVIDES,
    "sources/row_source._CHUNK_BYTES": DIVIDES,
    "sources/settings._PLACES": FORM,
    "sources/shown_rows._MOST_CHARACTERS": SHOWN,
    "sources/sqlite_source.BATCH_RECORDS": DIVIDES,
    "sources/sqlite_source._TEXT_BYTES": OWN,
    "sources/stdin_source._CHUNK_BYTES": DIVIDES,
    "store/identity._HOLDER_BYTES": FORM,
    "store/key._KEY_BYTES": FORM,
    "store/key._SECRET_BYTES": FORM,
    "store/key_change.MOST_KEPT": SKETCH,
    "store/positions.PLACES_NAME": FORM,
    "store/positions._DIGEST_CHARACTERS": FORM,
    "store/rebuild._KEPT": FORM,
    "store/schema._SEAL_BYTES": FORM,
    "reading/csv_lines._CAREFUL_LINES": DIVIDES,
    "reading/interface._TABLE_BYTES": DIVIDES,
    "reading/json_document._KEPT_BYTES": OWN,
    "reading/json_lines._PLACES": FORM,
    "reading/lines.MAX_LINE_BYTES": OWN,
    "reading/lines._KEPT_BYTES": OWN,
    "reading/parquet._BUFFER_BYTES": DIVIDES,
    "reading/records.LARGEST_ID": OWN,
    "reading/records._MOST_EXACT": OWN,
    "reading/text_files.MOST_TEXT_BYTES": ENDS,
    "reading/text_files._CHUNK_BYTES": DIVIDES,
    "reading/unreadable.MOST_LOST": ANALYST,
    "reading/unreadable.MOST_UNREADABLE": ANALYST,
}


def list_bounds() -> set[str]:
    """Return the constants of the agent and of all readers that are named as bounds are."""
    found = set()
    for root, folder in ((ROOT / "device_agent", "."), (ROOT / "shared", "reading")):
        for path in (root / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if not isinstance(node, ast.Assign) or isinstance(node.value, ast.Dict | ast.Set):
                    continue
                names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
                found |= {
                    f"{path.relative_to(root).with_suffix('')}.{each.id}"
                    for each in names
                    if isinstance(each.ctx, ast.Store) and BOUND.search(each.id)
                }
    return found


def test_every_bound_on_what_is_read_says_what_one_more_does() -> None:
    assert list_bounds() == set(BOUNDS)


def make_records(n: int) -> list[Raw]:
    return [Raw(time=2 * i, id=2 * i + 1, x=i % 9 / 4, note="a") for i in range(n)]


class OnePage(Pages):
    """A server that gives all records in one page."""

    def put(self, records: Sequence[Raw]) -> None:
        """See ``Pages``."""
        self.pages = [b'{"records": [%s]}' % b",".join(map(raw_sources.to_json, records))]


def read_page(folder: Path, records: Sequence[Raw]) -> Found:
    """Read them from one page of a server."""
    server = OnePage()
    with server.serving() as url:
        return server.read(folder, url, records)


Read = Callable[[Path, Sequence[Raw]], Found]
READS: dict[str, tuple[Read, int]] = {
    "csv": (raw_sources.read_csv, line_file.BATCH_RECORDS),
    "jsonl": (raw_sources.read_jsonl, line_file.BATCH_RECORDS),
    "folder": (raw_sources.read_folder, line_file.BATCH_RECORDS),
    "stdin": (partial(raw_sources.read_stdin, with_ids=False), line_file.BATCH_RECORDS),
    "stdin ids": (partial(raw_sources.read_stdin, with_ids=True), line_file.BATCH_RECORDS),
    "sqlite": (raw_sources.read_sqlite, sqlite_source.BATCH_RECORDS),
    "npy": (raw_sources.read_npy, row_source.BATCH_RECORDS),
    "parquet": (raw_sources.read_parquet, row_source.BATCH_RECORDS),
    "http": (read_page, pages._PIECE_RECORDS),
}


def require_first(found: Found, first: Found) -> None:
    """Check that one more record has left all others as they were."""
    np.testing.assert_array_equal(found.values[:-1], first.values)
    np.testing.assert_array_equal(found.timestamps[:-1], first.timestamps)


@pytest.mark.parametrize("kind", READS)
def test_one_record_beyond_a_full_batch_changes_no_other(kind: str, tmp_path: Path) -> None:
    read, limit = READS[kind]
    before = read(tmp_path, make_records(limit - 1))
    for n in (limit, limit + 1, limit + 2):
        after = read(tmp_path, make_records(n))
        assert len(after.values) == n
        require_first(after, before)
        before = after


LONG: dict[str, Read] = {
    "csv": raw_sources.read_csv,
    "jsonl": raw_sources.read_jsonl,
    "folder": raw_sources.read_folder,
    "stdin": partial(raw_sources.read_stdin, with_ids=False),
    "sqlite": raw_sources.read_sqlite,
    "parquet": raw_sources.read_parquet,
    "mqtt csv": partial(raw_sources.read_mqtt, form="csv", with_ids=False),
    "mqtt json": partial(raw_sources.read_mqtt, form="json", with_ids=False),
    "http": read_page,
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("size", [MAX_LINE_BYTES, line_file._CHUNK_BYTES])
def test_one_byte_beyond_a_length_changes_no_other_record(
    kind: str, size: int, tmp_path: Path
) -> None:
    records = make_records(30)
    before = LONG[kind](tmp_path, records)
    for more in (-60, -46, -20, -14, -13, -12, -11, -10, -9, -2, -1, 0, 1, 2, 3):
        records[3] = replace(records[3], note="a" * (size + more))
        after = LONG[kind](tmp_path, records)
        assert len(after.values) == len(records)
        for name in ("values", "timestamps"):
            np.testing.assert_array_equal(
                np.delete(getattr(after, name), 3, axis=0),
                np.delete(getattr(before, name), 3, axis=0),
            )
        assert after.timestamps[3] == before.timestamps[3]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "stdin"])
def test_where_a_chunk_ends_changes_no_record(kind: str, tmp_path: Path) -> None:
    records = make_records(40)
    for i in range(20):
        records[i] = replace(records[i], note="b" * 60_000)
    before = LONG[kind](tmp_path, records)
    for more in range(1, 40):
        records[0] = replace(records[0], note="b" * (60_000 + 600 * more))
        after = LONG[kind](tmp_path, records)
        np.testing.assert_array_equal(after.timestamps, before.timestamps)
        np.testing.assert_array_equal(after.values[1:], before.values[1:])


def test_one_file_more_than_are_kept_at_hand_is_read_on_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    reader = Reader(make_stream(tmp_path, kind="folder", path="in"))
    source = reader.open()
    for n in range(_MOST_PLACES - 1, _MOST_PLACES + 2):
        for i in range(n):
            with (folder / f"f{i}x").open("a") as file:
                file.write("" if file.tell() else "x\n")
                file.write(f"{n * 1000 + i}\n")
        assert sorted(reader.poll(source)) == [n * 1000 + i for i in range(n)]
    source.close()
    assert reader.once() == []


@pytest.mark.parametrize("mark", [b"", BOM])
def test_a_header_of_the_most_bytes_is_read_again_after_a_restart(
    mark: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "r"
    path.write_bytes(mark + b"x," + b"y" * (MAX_LINE_BYTES - 3) + b"\n1,0\n")
    reader = Reader(make_stream(tmp_path, kind="csv", path="r"))
    assert reader.once() == [1]
    with path.open("a") as file:
        file.write("2,0\n")
    assert reader.once() == [2]


HOUR = 3600
RULES = {
    "count": WindowCutter(rule=WindowRule(kind="count", length=5), least_records=1, most_records=5),
    "time": WindowCutter(
        rule=WindowRule(kind="time", origin=0, length_s=HOUR), least_records=1, most_records=5
    ),
    "unit = device": WindowCutter(
        rule=WindowRule(kind="time", origin=0, length_s=HOUR),
        least_records=1,
        most_records=5,
        leaves_out=True,
    ),
}


def assign(cutter: WindowCutter, times: Sequence[float]) -> tuple[list[int], list[WindowState]]:
    """Return the number of each record's window, -1 for one left out; and the closed windows."""
    numbers, closed = [-1] * len(times), list[WindowState]()
    for cut in cutter.cut(WindowState(), np.array(times, dtype=float), now=1e9):
        for i in range(cut.start, cut.taken):
            numbers[i] = len(closed)
        if cut.closed is not None:
            closed.append(cut.closed)
    return numbers, closed


@pytest.mark.parametrize("rule", RULES)
@given(counts=st.lists(st.integers(1, 8), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_one_record_more_at_the_end_moves_no_record_from_its_window(
    rule: str, counts: list[int]
) -> None:
    times = [slot * HOUR + i for slot, n in enumerate(counts) for i in range(n)]
    before, closed = assign(RULES[rule], times)
    after, closed_after = assign(RULES[rule], [*times, (len(counts) - 1) * HOUR + 100])
    assert after[:-1] == before
    assert closed_after[: len(closed)] == closed


@given(counts=st.lists(st.integers(1, 8), min_size=1, max_size=4), slot=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_where_a_device_is_the_unit_one_record_more_stays_in_its_slot(
    counts: list[int], slot: int
) -> None:
    slot %= len(counts)
    times = [s * HOUR + i for s, n in enumerate(counts) for i in range(n)]
    more = sorted([*times, slot * HOUR + 100])
    place = more.index(slot * HOUR + 100)
    cutter = RULES["unit = device"]
    (before, closed), (after, closed_after) = assign(cutter, times), assign(cutter, more)
    # Each record has the window that it had, full or not, and as many windows are closed.
    assert after[:place] + after[place + 1 :] == before
    assert [(w.first_slot, w.last_slot) for w in closed_after] == [
        (w.first_slot, w.last_slot) for w in closed
    ]
