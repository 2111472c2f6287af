import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from device_agent.sources import RecordSource
from shared.errors import LedgerError, RecordError, SketchError
from tests.device_agent.sources.streams import Reader, make_stream


def lines(*numbers: int) -> str:
    return "".join(f"{number},{-number}\n" for number in numbers)


HEADER = "x,y\n"


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    stream = make_stream(tmp_path, kind="csv", path="records.csv", replaced="follow")
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
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv", replaced="follow"))
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
    with pytest.raises(LedgerError, match="has changed"):
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


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("n_new", [1, 2, 40])
def test_a_truncated_file_is_read_again_from_its_new_start(
    stopped: bool, n_new: int, reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    append(path, lines(3))
    # Shorter, or longer than what was read; 3 is lost.
    new = list(range(100, 100 + n_new))
    path.write_text(HEADER + lines(*new))
    assert (reader.once() if stopped else reader.poll(tail)) == new
    assert reader.once() == []
    assert stopped or "was truncated" in " ".join(tail.report.describe())


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_a_truncated_file_that_is_renamed_before_its_new_start_was_read_is_not_lost(
    looks: bool, stopped: bool, reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    path.write_text(HEADER)
    if looks:
        assert (reader.once() if stopped else reader.poll(tail)) == []
    append(path, lines(3))
    path.rename(path.with_name("records.csv.1"))
    path.write_text(HEADER + lines(4))
    assert (reader.once() if stopped else reader.poll(tail)) == [3, 4]
    assert reader.once() == []


def test_what_a_copy_saved_before_the_truncation_is_read_after_a_restart(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    append(path, lines(3))
    path.with_name("records.csv.1").write_bytes(path.read_bytes())
    path.write_text(HEADER + lines(4))
    assert reader.once() == [3, 4]


def test_an_older_copy_does_not_displace_what_was_read_since(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    append(path, lines(3))
    path.with_name("records.csv.1").write_bytes(path.read_bytes())
    path.write_text(HEADER + lines(4))
    assert reader.poll(tail) == [4]
    path.with_name("records.csv.2").write_bytes(path.read_bytes())
    path.write_text(HEADER)
    assert reader.once() == []
    assert reader.once() == []


def test_a_copy_of_what_was_read_is_known_though_it_was_rotated_away(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    reader.poll(tail)
    path.rename(path.with_name("records.csv.1"))
    path.write_text(HEADER + lines(3))
    assert reader.poll(tail) == [3]
    copy = Reader(make_stream(path.parent, kind="csv", path="records.csv.1"))
    copy.known = reader.known
    assert copy.once() == []


def test_without_following_a_replaced_or_cut_file_is_refused(tmp_path: Path, path: Path) -> None:
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv"))
    path.write_text(HEADER + lines(1, 2))
    source = reader.open()
    reader.poll(source)
    path.write_text(HEADER + lines(7))
    with pytest.raises(LedgerError, match="has changed"):
        source.read_batch()
    path.unlink()
    path.write_text(HEADER + lines(8, 9, 10))
    with pytest.raises(LedgerError, match="has changed"):
        source.read_batch()
    for numbers in ((7,), (8, 9, 10)):
        path.write_text(HEADER + lines(*numbers))
        with pytest.raises(LedgerError, match="has changed"):
            reader.once()


@pytest.mark.parametrize("replaced", ["refuse", "follow"])
def test_a_file_that_is_rewritten_whole_and_longer_goes_on(
    replaced: str, tmp_path: Path, path: Path
) -> None:
    stream = make_stream(tmp_path, kind="csv", path="records.csv", replaced=replaced)
    reader = Reader(stream)
    path.write_text(HEADER + lines(1) + "2,-")
    source = reader.open()
    assert reader.poll(source) == [1]
    new = tmp_path / "new"
    new.write_text(HEADER + lines(1, 2, 3))
    new.rename(path)
    assert reader.poll(source) == [2, 3]
    source.close()
    assert reader.once() == []


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


def test_columns_that_change_within_a_file_stop_it_at_that_line(
    reader: Reader, tail: RecordSource, path: Path
) -> None:
    append(path, HEADER + lines(3) + "y,x\n-4,4\n")
    batch = tail.read_batch()
    assert batch is not None
    assert batch.values[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(RecordError, match=r"records.csv, line 6: is a header with other columns"):
        tail.read_batch()


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (b"x;y\n1;2\n3;4\n", {"delimiter": ";"}),
        (b"x\ty\n1\t2\n3\t4\n", {"delimiter": "\t"}),
        (b"1,2\n3,4\n", {"header": ["x", "y"]}),
        ("\ufeff1,2\n3,4\n".encode(), {"header": ["x", "y"]}),
        ("größe,x\n1,1\n2,3\n".encode("latin-1"), {"encoding": "latin-1"}),
        ("ort,x\nKöln,1\nWien,3\n".encode("cp1252"), {"encoding": "cp1252"}),
        (b'x,note\n1,"a\nb ""c"""\n3,"d\r\ne"\n', {"multiline": True}),
        (b"x,y\r\n1,2\r\n\r\n3,4\r\n", {}),
    ],
)
def test_forms_of_csv_are_read_as_configured(
    data: bytes, options: dict[str, Any], tmp_path: Path, path: Path
) -> None:
    path.write_bytes(data)
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv", **options))
    assert reader.once() == [1, 3]
    assert reader.messages == []


def test_a_quote_that_never_ends_costs_one_record(tmp_path: Path, path: Path) -> None:
    path.write_text('x,note\n1,a\n2,"b\n' + "3,c\n" * 30_000)
    reader = Reader(make_stream(tmp_path, kind="csv", path="records.csv", multiline=True))
    found = reader.once()
    assert (len(found), found[0], found[2:]) == (30_002, 1, [3.0] * 30_000)
    assert "line 3 (line)" in reader.messages[0]


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
    """A writer that appends, rotates and truncates, and a reader that stops and goes on."""

    folders: Iterator[Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = next(self.folders)
        self.path = self.folder / "records.csv"
        stream = make_stream(self.folder, kind="csv", path="records.csv", replaced="follow")
        self.reader = Reader(stream)
        self.path.write_text(HEADER)
        self.source: RecordSource | None = None
        self.n_written = 0
        self.n_rotated = 0
        self.partial = ""
        self.truncated = False
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

    @precondition(lambda self: not self.partial)
    @rule()
    def copy_and_truncate(self) -> None:
        self.n_rotated += 1
        copy = self.folder / f"records.csv.{self.n_rotated}"
        copy.write_bytes(self.path.read_bytes())
        os.truncate(self.path, 0)
        append(self.path, HEADER)
        self.truncated = True

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
        if not self.truncated:
            assert self.found == sorted(self.found)

    def teardown(self) -> None:
        self.poll()
        if self.source is not None:
            self.source.close()
        assert len(set(self.found)) == len(self.found)
        if not self.truncated:
            n_whole = self.n_written - bool(self.partial)
            assert self.found == list(range(n_whole))


def test_no_rotation_loses_and_no_truncation_doubles_a_record(
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
