import itertools
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sfumato.device_agent.sources import RecordSource, known_files
from sfumato.shared import file_identity
from sfumato.shared.errors import LedgerError, RecordError, SketchError
from tests.device_agent.sources.streams import Reader, make_stream


def lines(*numbers: int) -> str:
    return "".join(f"{number},{-number}\n" for number in numbers)


HEADER = "x,y\n"


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    stream = make_stream(tmp_path, kind="csv", path="records.csv", replaced="join_successors")
    return Reader(stream)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.csv"


@pytest.fixture
def tail(reader: Reader, path: Path) -> Iterator[RecordSource]:
    path.write_text(HEADER + lines(1, 2))
    source = reader.open()
    yield source
    source.close()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_growing_file_is_read_line_by_whole_line(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    assert reader.poll(tail) == [1, 2]
    assert tail.read_batch() is None
    append(path, "3,-")
    assert tail.read_batch() is None
    assert tail.report.unfinished_line == 4
    append(path, "3\n4,")
    assert reader.poll(tail) == [3]
    append(path, "-4\n")
    assert reader.poll(tail) == [4]
    assert tail.report.unfinished_line is None


@pytest.mark.parametrize("stopped", [False, True])
def test_a_renamed_file_is_read_to_its_end_before_the_new_one(
    stopped: bool, reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    append(path, lines(3))
    path.rename(path.with_name("records.csv.1"))
    append(path.with_name("records.csv.1"), lines(4) + "5,-5")
    path.write_text(HEADER + lines(6))
    assert (reader.once() if stopped else reader.poll(tail)) == [3, 4, 5, 6]
    assert reader.once() == []


def point(link: Path, name: str) -> None:
    """Let a link point elsewhere, at once, as rotation does."""
    link.with_name("new").symlink_to(name)
    link.with_name("new").replace(link)


def test_a_link_that_points_elsewhere_is_followed_behind_the_end_of_the_old_file(
    tmp_path: Path, path: Path
) -> None:
    for day in (1, 2):
        path.with_name(f"day{day}.csv").write_text(HEADER + lines(day))
    point(path, "day1.csv")
    reader = Reader(
        make_stream(tmp_path, kind="csv", path="records.csv", replaced="join_successors")
    )
    source = reader.open()
    assert reader.poll(source) == [1]
    append(path.with_name("day1.csv"), lines(11))
    point(path, "day2.csv")
    assert reader.poll(source) == [11, 2]
    append(path.with_name("day2.csv"), lines(22))
    assert reader.poll(source) == [22]
    assert reader.once() == []
    source.close()


def test_a_link_that_points_elsewhere_is_not_passed_over_in_silence(
    tmp_path: Path, path: Path
) -> None:
    for day in (1, 2):
        path.with_name(f"day{day}.csv").write_text(HEADER + lines(day))
    point(path, "day1.csv")
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv"))
    source = reader.open()
    assert reader.poll(source) == [1]
    point(path, "day2.csv")
    with pytest.raises(LedgerError, match="must be the file that was read"):
        source.read_batch()
    source.close()


@pytest.mark.parametrize("stopped", [False, True])
def test_several_rotations_between_two_looks_are_read_in_order(
    stopped: bool, reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    for number in (3, 4, 5):
        for old in (2, 1):
            source = path.with_name(f"records.csv.{old}")
            if source.exists():
                source.rename(path.with_name(f"records.csv.{old + 1}"))
        path.rename(path.with_name("records.csv.1"))
        path.write_text(HEADER + lines(number))
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + number))
    assert (reader.once() if stopped else reader.poll(tail)) == [3, 4, 5]
    assert reader.once() == []


@pytest.mark.parametrize("stopped", [False, True])
def test_a_copy_under_a_rotated_name_that_was_made_while_the_file_grew_ends_the_reading(
    stopped: bool, reader: Reader, tail: RecordSource, path: Path
) -> None:
    assert reader.poll(tail) == [1, 2]
    shutil.copy(path, path.with_name("records.csv-20261126"))
    time.sleep(0.02)
    append(path, lines(3))
    path.rename(path.with_name("records.csv.1"))
    path.write_text(HEADER + lines(4))
    source = reader.open() if stopped else tail
    batch = source.read_batch()
    assert batch is not None
    assert batch.values.tolist() == [[3]]
    with pytest.raises(LedgerError, match=r"records\.csv-20261126: may be a copy of records\.csv"):
        source.read_batch()
    source.close()


def test_the_old_file_stays_open_until_the_new_one_holds_something(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    old = path.with_name("records.csv.1")
    path.rename(old)
    assert tail.read_batch() is None
    path.touch()
    append(old, lines(3))
    assert reader.poll(tail) == [3]


REPLACED = ("refuse", "join_successors", "rewritten")


def make_reader(folder: Path, replaced: str, **options: Any) -> Reader:
    return Reader(make_stream(folder, kind="csv", path="records.csv", replaced=replaced, **options))


def truncate(path: Path) -> None:
    path.write_text(HEADER)


def truncate_and_grow(path: Path) -> None:
    path.write_text(HEADER + lines(*range(100, 140)))


def correct_one_digit(path: Path) -> None:
    path.write_text(path.read_text().replace("1,-1", "1,-2"))


def copy_and_truncate(path: Path) -> None:
    path.with_name("records.csv.1").write_bytes(path.read_bytes())
    truncate_and_grow(path)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("replaced", REPLACED)
@pytest.mark.parametrize(
    "change", [truncate, truncate_and_grow, correct_one_digit, copy_and_truncate]
)
def test_a_file_that_changed_before_its_end_is_refused_under_every_setting(
    change: Callable[[Path], None], replaced: str, stopped: bool, tmp_path: Path, path: Path
) -> None:
    reader = make_reader(tmp_path, replaced)
    path.write_text(HEADER + lines(1, 2))
    source = reader.open()
    assert reader.poll(source) == [1, 2]
    change(path)
    with pytest.raises(LedgerError, match="has changed") as caught:
        reader.once() if stopped else source.read_batch()
    assert "rotate by renaming" in str(caught.value.fix)
    source.close()


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("numbers", [(1,), (1, 2), (1, 2, 3)])
def test_another_file_at_the_path_is_refused_whatever_it_holds(
    numbers: tuple[int, ...], stopped: bool, tmp_path: Path, path: Path
) -> None:
    reader = make_reader(tmp_path, "refuse")
    path.write_text(HEADER + lines(1, 2))
    source = reader.open()
    assert reader.poll(source) == [1, 2]
    (tmp_path / "new").write_text(HEADER + lines(*numbers))
    (tmp_path / "new").rename(path)
    for _ in range(2):
        with pytest.raises(LedgerError, match="must be the file that was read"):
            reader.once() if stopped else source.read_batch()
    source.close()


def test_whether_a_file_is_known_does_not_depend_on_whether_it_held_a_record(
    tmp_path: Path, path: Path
) -> None:
    for content in (HEADER, HEADER + lines(1)):
        reader = make_reader(tmp_path, "refuse")
        path.write_text(content)
        reader.once()
        (tmp_path / "new").write_text(HEADER + lines(2))
        (tmp_path / "new").rename(path)
        with pytest.raises(LedgerError, match="must be the file that was read"):
            reader.once()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_file_that_is_always_written_anew_goes_on_where_the_last_one_ended(
    stopped: bool, tmp_path: Path, path: Path
) -> None:
    reader = make_reader(tmp_path, "rewritten")
    path.write_text(HEADER + lines(1) + "2,-")
    source = reader.open()
    assert reader.poll(source) == [1]
    for n, expected in ((3, [2, 3]), (3, []), (4, [4])):
        (tmp_path / "new").write_text(HEADER + lines(*range(1, n + 1)))
        (tmp_path / "new").rename(path)
        if stopped:
            assert reader.once() == expected
        else:
            assert reader.poll(source) == expected
        assert len(reader.known) == 1
    for numbers in ([1, 2, 3], [1, 2, 3, 5], [4, 3, 2, 1, 5]):
        (tmp_path / "new").write_text(HEADER + lines(*numbers))
        (tmp_path / "new").rename(path)
        with pytest.raises(LedgerError, match="has changed"):
            reader.once() if stopped else source.read_batch()
    source.close()


def test_two_versions_that_take_turns_are_read_once(tmp_path: Path, path: Path) -> None:
    reader = make_reader(tmp_path, "rewritten")
    path.write_text(HEADER + lines(1))
    source = reader.open()
    assert reader.poll(source) == [1]
    # None of it is stored before both have been looked at.
    found: list[float] = []
    for n in (2, 3):
        path.rename(tmp_path / "old")
        if n == 2:
            (tmp_path / "new").write_text(HEADER + lines(1, 2))
        else:
            append(tmp_path / "new", lines(2, 3))
        (tmp_path / "new").rename(path)
        while (batch := source.read_batch()) is not None:
            found += batch.values[:, 0].tolist()
            reader.remember(batch.position_after, len(batch.values) - 1)
        (tmp_path / "old").rename(tmp_path / "new")
    assert found == [2, 3]
    assert reader.poll(source) == []
    assert reader.once() == []


def test_a_copy_is_another_file_and_a_renamed_one_is_not(tmp_path: Path, path: Path) -> None:
    reader = make_reader(tmp_path, "refuse")
    path.write_text(HEADER + lines(1, 2))
    assert reader.once() == [1, 2]
    path.with_name("copy.csv").write_bytes(path.read_bytes())
    path.rename(path.with_name("renamed.csv"))
    for name, expected in (("renamed.csv", []), ("copy.csv", [1, 2])):
        other = Reader(make_stream(tmp_path, kind="csv", path=name))
        other.known = reader.known
        assert other.once() == expected


@pytest.mark.parametrize("has_birth", [True, False])
def test_files_that_were_rotated_and_are_gone_are_forgotten_before_they_are_many(
    has_birth: bool, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_files, "MOST_GONE", 3)
    if not has_birth:
        # As a file system that keeps no time of making.
        monkeypatch.setattr(file_identity, "_find_statx", lambda: None)
    away = tmp_path / "away"
    away.mkdir()
    reader = make_reader(tmp_path, "join_successors")
    for number in range(6):
        path.write_text(HEADER + lines(number))
        assert reader.once() == [number]
        path.rename(away / str(number))
    path.write_text(HEADER + lines(9))
    assert reader.once() == [9]
    assert reader.once() == []
    # The present one stays known, and the one before it until there is another.
    assert len(reader.known) <= (5 if has_birth else 2)


@pytest.mark.parametrize("replaced", REPLACED)
def test_a_digest_under_a_secret_that_was_erased_is_neither_right_nor_wrong(
    replaced: str, tmp_path: Path, path: Path
) -> None:
    reader = make_reader(tmp_path, replaced)
    path.write_text(HEADER + lines(1, 2))
    assert reader.once() == [1, 2]
    reader.key = bytes(32)
    # The file is the same by its identity, so it goes on.
    assert reader.once() == []
    append(path, lines(3))
    assert reader.once() == [3]
    correct_one_digit(path)
    with pytest.raises(LedgerError, match="has changed"):
        reader.once()


def test_a_new_version_of_a_file_whose_digest_nobody_can_check_is_refused(
    tmp_path: Path, path: Path
) -> None:
    reader = make_reader(tmp_path, "rewritten")
    path.write_text(HEADER + lines(1, 2))
    assert reader.once() == [1, 2]
    reader.key = bytes(32)
    (tmp_path / "new").write_text(HEADER + lines(1, 2, 3))
    (tmp_path / "new").rename(path)
    with pytest.raises(LedgerError, match="cannot be recognised"):
        reader.once()


def test_nothing_in_a_position_can_be_computed_without_the_secret(
    tmp_path: Path, path: Path
) -> None:
    path.write_text(HEADER + lines(*range(100)))
    found = []
    for secret in (bytes(32), bytes(range(32))):
        reader = make_reader(tmp_path, "refuse")
        reader.key = secret
        reader.once()
        (known,) = reader.known.values()
        found.append(dict(known.position.place))
    differing = {name for name in found[0] if found[0][name] != found[1][name]}
    assert differing == {"digest", "key"}
    assert set(found[0]) - differing == {"offset", "line", "path"}


def test_a_missing_file_is_an_error_or_awaited(tmp_path: Path, path: Path) -> None:
    with pytest.raises(RecordError, match="No such file"):
        Reader(make_stream(tmp_path, kind="csv", path="records.csv")).open()
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv", missing="wait"))
    source = reader.open()
    assert source.read_batch() is None
    path.write_text(HEADER + lines(1))
    assert reader.poll(source) == [1]
    source.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(reader: Reader, path: Path) -> None:
    path.write_text(HEADER)
    path.chmod(0)
    with pytest.raises(RecordError, match="Permission denied"):
        reader.open()


def test_columns_may_change_with_the_file_but_not_vanish(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    path.rename(path.with_name("records.csv.1"))
    path.write_text("y,note,x\n0,a,3\n")
    assert reader.poll(tail) == [3]
    path.rename(path.with_name("records.csv.2"))
    path.write_text("y,z\n0,4\n")
    with pytest.raises(RecordError, match=r"x: the column is not in the header of .*records.csv"):
        tail.read_batch()


def test_no_line_behind_the_header_is_special(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    append(path, HEADER + "\n" + lines(3) + 'y,x\n"\n-4,4\n')
    nan = math.nan
    found = reader.poll(tail)
    np.testing.assert_array_equal(found, [1, 2, nan, nan, 3, nan, nan, -4])
    assert tail.report.unusable == [
        (4, "x"),
        (5, "number of fields"),
        (7, "x"),
        (8, "line"),
    ]


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (b"x;y\n1;2\n3;4\n", {"delimiter": ";"}),
        (b"x\ty\n1\t2\n3\t4\n", {"delimiter": "\t"}),
        (b"1,2\n3,4\n", {"header": ["x", "y"]}),
        ("\ufeff1,2\n3,4\n".encode(), {"header": ["x", "y"]}),
        ("größe,x\n1,1\n2,3\n".encode("latin-1"), {"encoding": "latin-1"}),
        ("ort,x\nKöln,1\nWien,3\n".encode("cp1252"), {"encoding": "cp1252"}),
        (b'x,note\n1,"a;b ""c"""\n3,"d\re"\n', {}),
        (b"x,y\r\n1,2\r\n3,4\r\n", {}),
        (b"sep=;\r\nx;y\r\n1;2\r\n3;4\r\n", {"delimiter": ";"}),
        (b"logger 7\n\n# x,y\nx,y\n1,2\n3,4\n", {"skip_lines": 2, "comment": "#"}),
        (b"  x\ty\n1   2\n 3\t 4 \n", {"delimiter": "blanks"}),
        (b"s,x\na,1\nb,2\na,3\n", {"where": {"s": "a"}}),
    ],
)
def test_forms_of_csv_are_read_as_configured(
    data: bytes, options: dict[str, Any], tmp_path: Path, path: Path
) -> None:
    path.write_bytes(data)
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv", **options))
    assert reader.once() == [1, 3]
    assert reader.messages == []


def test_what_is_skipped_is_skipped_again_after_a_restart_and_nothing_else(
    tmp_path: Path, path: Path
) -> None:
    path.write_bytes("\ufeff# 1\n# 2\ns,x\na,1\nb,7\na,2\nb,8\n".encode())
    options: dict[str, Any] = {"comment": "#", "where": {"s": "a"}}
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv", **options))
    assert reader.once() == [1, 2]
    append(path, "b,9\n# 3\na,3\n")
    assert reader.once() == [3]
    assert reader.once() == []
    append(path, "a,\n")
    assert math.isnan(reader.once()[0])
    # A record that is passed over is nobody's: only the one that cannot be read is counted.
    assert reader.messages == [
        "1 record(s) have a value that is missing or cannot be read: line 11 (x)"
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_quote_that_never_ends_costs_one_record(kind: str, tmp_path: Path, path: Path) -> None:
    if kind == "csv":
        path.write_text('x,note\n1,a\n2,"b\n' + "3,c\n" * 30_000)
    else:
        path.write_text('{"x": 1}\n{"x": "\n' + '{"x": 3}\n' * 30_000)
    reader = Reader(make_stream(tmp_path, kind=kind, path="records.csv"))
    found = reader.once()
    assert (len(found), found[0], found[2:]) == (30_002, 1, [3.0] * 30_000)


def test_a_line_without_bounds_is_one_record_and_is_not_kept(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    for _ in range(5):
        append(path, "9" * 700_000)
        assert tail.read_batch() is None
    append(path, "\n" + lines(3))
    found = reader.poll(tail)
    assert (len(found), found[1]) == (2, 3)
    assert "line 4 (line)" in tail.report.describe()[0]
    assert reader.once() == []


class Rotating(RuleBasedStateMachine):
    """A writer that appends and rotates, and a reader that stops and goes on."""

    folders: Iterator[Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = next(self.folders)
        self.path = self.folder / "records.csv"
        # Times of writing are set by hand below, and say nothing of copies.
        options: dict[str, Any] = {"replaced": "join_successors", "copies": "new_records"}
        self.reader = Reader(make_stream(self.folder, kind="csv", path="records.csv", **options))
        self.path.write_text(HEADER)
        self.source: RecordSource | None = None
        self.n_written = 0
        self.n_rotated = 0
        self.partial = ""
        self.found: list[float] = []
        # What is rotated away before a first record was read is not looked for.
        self.append(1)
        self.poll()

    @rule(n=st.integers(1, 5))
    def append(self, n: int) -> None:
        text = lines(*range(self.n_written, self.n_written + n))
        append(self.path, self.partial + text)
        self.partial = ""
        self.n_written += n

    @precondition(lambda self: not self.partial)
    @rule()
    def append_part_of_a_line(self) -> None:
        text = lines(self.n_written)
        append(self.path, text[:-2])
        self.partial = text[-2:]
        self.n_written += 1

    @precondition(lambda self: not self.partial)
    @rule()
    def rename(self) -> None:
        self.n_rotated += 1
        self.path.rename(self.folder / f"records.csv.{self.n_rotated}")
        self.path.write_text(HEADER)
        # Files are ordered by when they were written; clocks of file systems are coarse.
        later = self.path.with_name(f"records.csv.{self.n_rotated}").stat().st_mtime_ns + 1000
        os.utime(self.path, ns=(later, later))

    @rule()
    def poll(self) -> None:
        if self.source is None:
            self.source = self.reader.open()
        self.found += self.reader.poll(self.source)

    @rule(limit=st.integers(0, 3))
    def poll_and_crash(self, limit: int) -> None:
        if self.source is None:
            self.source = self.reader.open()
        self.found += self.reader.poll(self.source, limit=limit)
        self.source.close()
        self.source = None

    @invariant()
    def nothing_is_read_twice_nor_out_of_order(self) -> None:
        assert len(set(self.found)) == len(self.found)
        assert self.found == sorted(self.found)

    def teardown(self) -> None:
        self.poll()
        if self.source is not None:
            self.source.close()
        n_whole = self.n_written - bool(self.partial)
        assert self.found == list(range(n_whole))


def test_no_rotation_loses_or_doubles_a_record(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("rotating")

    class Machine(Rotating):
        folders: Iterator[Path] = (root / str(i) for i in itertools.count())

        def __init__(self) -> None:
            folder = next(self.folders)
            folder.mkdir()
            self.folders = iter([folder])
            super().__init__()

    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=60, stateful_step_count=25, deadline=None),
    )


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    records=st.lists(st.sampled_from(["1,2", '"3",4', "", "x,y", "5", '{"x": 1}', "6,é"])),
    cuts=st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=6),
    kind=st.sampled_from(["csv", "jsonl"]),
)
def test_chunks_and_stops_change_nothing(
    records: list[str],
    cuts: list[tuple[int, bool]],
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    data = ("x,y\n" + "".join(record + "\n" for record in records)).encode()
    stream = make_stream(folder, kind=kind, path="records")
    whole = Reader(stream)
    (folder / "records").write_bytes(data)
    expected = whole.once()
    reader, found, done = Reader(stream), [], 0
    (folder / "records").write_bytes(b"")
    source = reader.open()
    for cut, stops in [*sorted(cuts), (len(data), False)]:
        with (folder / "records").open("ab") as file:
            file.write(data[done : max(done, cut)])
        done = max(done, min(cut, len(data)))
        found += reader.poll(source)
        if stops:
            source.close()
            source = reader.open()
    source.close()
    assert list(map(str, found)) == list(map(str, expected))


def test_errors_name_field_rule_and_fix_but_no_value(reader: Reader, path: Path) -> None:
    path.write_text("a,b\n987654,1\n")
    source = reader.open()
    with pytest.raises(SketchError) as caught:
        source.read_batch()
    source.close()
    assert (caught.value.field, caught.value.fix is not None) == ("x", True)
    assert "987654" not in str(caught.value)
