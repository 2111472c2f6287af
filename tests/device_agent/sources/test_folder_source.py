import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.device_agent.sources import Position, RecordSource, known_files
from sfumato.device_agent.sources.known_files import KnownFiles
from sfumato.shared import file_identity
from sfumato.shared.errors import RecordError
from tests.device_agent.sources.streams import Reader, make_stream

HEADER = "x,y\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def make_reader(folder: Path, *, glob: str = "*.csv", **options: Any) -> Reader:
    return Reader(make_stream(folder.parent, kind="folder", path="in", glob=glob, **options))


def put(folder: Path, name: str, *numbers: int, end: str = "\n") -> Path:
    path = folder / name
    path.write_text(HEADER + "\n".join(f"{number},0" for number in numbers) + end)
    return path


def tell_released(reader: Reader, source: RecordSource) -> None:
    source.released(k.position for k in reader.known.values())


def test_each_matching_file_is_consumed_once(folder: Path) -> None:
    reader = make_reader(folder)
    put(folder, "b.csv", 3, 4)
    put(folder, "a.csv", 1, 2)
    put(folder, "note.txt", 9)
    put(folder, ".hidden.csv", 9)
    source = reader.open()
    assert reader.poll(source) == [1, 2, 3, 4]
    assert source.read_batch() is None
    put(folder, "c.csv", 5)
    assert reader.poll(source) == [5]
    with (folder / "a.csv").open("a") as file:
        file.write("6,0\n")
    assert reader.poll(source) == [6]
    source.close()
    assert reader.once() == []


def test_a_file_is_known_by_its_identity_and_not_by_what_it_holds(folder: Path) -> None:
    reader = make_reader(folder)
    put(folder, "a.csv", 1, 2)
    assert reader.once() == [1, 2]
    # Another name, or one more, is the same file; what holds the same is another.
    (folder / "a.csv").rename(folder / "z.csv")
    os.link(folder / "z.csv", folder / "y.csv")
    assert reader.once() == []
    shutil.copy(folder / "z.csv", folder / "c.csv")
    assert reader.once() == [1, 2]
    with (folder / "y.csv").open("a") as file:
        file.write("3,0\n")
    assert reader.once() == [3]


@pytest.mark.parametrize("stopped", [False, True])
def test_another_file_under_a_known_name_is_left_alone_unless_names_are_used_again(
    stopped: bool, folder: Path
) -> None:
    put(folder, "a.csv", 1, 2)
    for options, expected in (({}, []), ({"replaced": "join_successors"}, [1, 2, 3])):
        reader = make_reader(folder, **options)
        source = reader.open()
        assert reader.poll(source) == [1, 2]
        # As an editor saves it.
        put(folder, ".new", 1, 2, 3).rename(folder / "a.csv")
        if stopped:
            source = reader.open()
        assert reader.poll(source) == expected
        said = "a.csv: must be the file that was read" in str(source.report.describe())
        assert said is not bool(expected)
        put(folder, ".new", 1, 2).rename(folder / "a.csv")


def test_a_renamed_file_leaves_its_name_to_another(folder: Path) -> None:
    reader = make_reader(folder)
    put(folder, "a.csv", 1)
    assert reader.once() == [1]
    (folder / "a.csv").rename(folder / "b.csv")
    put(folder, "a.csv", 2)
    assert reader.once() == [2]


@pytest.mark.parametrize("has_birth", [True, False])
def test_files_that_are_gone_are_forgotten_before_they_are_many(
    has_birth: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_files, "MOST_GONE", 3)
    if not has_birth:
        # As a file system that keeps no time of making.
        monkeypatch.setattr(file_identity, "_find_statx", lambda: None)
    reader = make_reader(folder)
    away = folder.parent / "away"
    away.mkdir()
    for number in range(6):
        path = put(folder, f"{number}.csv", number)
        assert reader.once() == [number]
        path.rename(away / path.name)
    assert reader.once() == []
    assert len(reader.known) == (3 if has_birth else 0)
    if has_birth:
        # One that comes back goes on.
        (away / "5.csv").rename(folder / "back.csv")
        assert reader.once() == []


def test_a_folder_that_is_not_mounted_is_not_forgotten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_identity, "_find_statx", lambda: None)
    reader = make_reader(folder)
    put(folder, "a.csv", 1)
    assert reader.once() == [1]
    known = KnownFiles("meter", list(reader.known.values()))
    known.drop_gone(set(), device=folder.stat().st_dev + 1)
    assert known.take_changes().gone == ()
    known.drop_gone(set(), device=folder.stat().st_dev)
    assert len(known.take_changes().gone) == 1


def test_a_bad_file_does_not_hold_up_the_others(folder: Path) -> None:
    reader = make_reader(folder)
    (folder / "a.csv").write_text("time,z\n1,1\n")
    put(folder, "b.csv", 1)
    assert reader.once() == [1]
    assert "x: the column is not in the header" in reader.messages[0]
    put(folder, "b.csv", 7, 8)
    put(folder, "c.csv", 2)
    assert reader.once() == [2]
    assert "b.csv: cannot be read on: the part that was read has changed" in reader.messages[1]


def test_a_last_line_without_an_end_waits_unless_files_appear_whole(folder: Path) -> None:
    put(folder, "a.csv", 1, 2, end="")
    assert make_reader(folder).once() == [1]
    reader = make_reader(folder, whole=True)
    assert reader.once() == [1, 2]
    assert reader.once() == []


@pytest.mark.parametrize("options", [{"released": "delete"}, {"released": "move"}])
def test_files_leave_only_when_all_of_them_is_released(
    options: dict[str, Any], folder: Path
) -> None:
    moved = {"move_to": "done"} if options["released"] == "move" else {}
    reader = make_reader(folder, whole=True, **options, **moved)
    put(folder, "a.csv", 1, 2)
    put(folder, "b.csv", 3, 4)
    source = reader.open()
    batch = source.read_batch()
    assert batch is not None
    source.released([batch.position_after(0)])
    assert (folder / "a.csv").exists()
    last = batch.position_after(1)
    source.read_batch()
    source.released([last])
    assert [path.name for path in folder.iterdir()] == ["b.csv"]
    # The same name, used again.
    put(folder, "a.csv", 5)
    reader.known.clear()
    assert reader.poll(source) == [5]
    tell_released(reader, source)
    source.close()
    assert [path.name for path in folder.iterdir()] == ["b.csv"]
    if moved:
        done = sorted((folder.parent / "done").iterdir())
        assert [path.name for path in done] == ["a.1.csv", "a.csv"]


def test_a_crash_between_release_and_deletion_is_made_good_later(folder: Path) -> None:
    reader = make_reader(folder, whole=True, released="delete")
    put(folder, "a.csv", 1)
    assert reader.once() == [1]
    assert (folder / "a.csv").exists()
    source = reader.open()
    assert reader.poll(source) == []
    source.released([])
    source.close()
    assert list(folder.iterdir()) == []


def test_a_file_that_changed_since_it_was_read_is_not_deleted(folder: Path) -> None:
    reader = make_reader(folder, whole=True, released="delete")
    put(folder, "a.csv", 1)
    source = reader.open()
    assert reader.poll(source) == [1]
    put(folder, "a.csv", 2)
    tell_released(reader, source)
    assert (folder / "a.csv").exists()
    assert reader.poll(source) == []
    assert (
        "a.csv: cannot be read on: the part that was read has changed"
        in source.report.describe()[0]
    )
    source.close()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="No such file"):
        make_reader(tmp_path / "in").open()


@settings(deadline=None)
@given(
    files=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    actions=st.lists(
        st.tuples(st.sampled_from(["append", "copy", "rename", "poll", "stop"]), st.integers(0, 9)),
        max_size=25,
    ),
)
def test_whatever_happens_to_names_each_record_of_each_file_is_read_once(
    files: list[int],
    actions: list[tuple[str, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("folder") / "in"
    folder.mkdir()
    reader = make_reader(folder)
    n_written = 0
    expected: Counter[float] = Counter()
    for i, n in enumerate(files):
        put(folder, f"{i}.csv", *range(n_written, n_written + n))
        n_written += n
    expected.update(range(n_written))
    found: list[float] = []
    source = reader.open()
    for i, (action, argument) in enumerate(actions):
        path = sorted(folder.iterdir())[argument % len(list(folder.iterdir()))]
        if action == "append":
            with path.open("a") as file:
                file.write(f"{n_written},0\n")
            expected[n_written] += 1
            n_written += 1
        elif action == "copy":
            shutil.copy(path, folder / f"copy{i}.csv")
            expected.update(float(line.split(",")[0]) for line in path.read_text().split()[1:])
        elif action == "rename":
            path.rename(folder / f"renamed{i}.csv")
        elif action == "poll":
            found += reader.poll(source)
        else:
            source.close()
            source = reader.open()
    found += reader.poll(source)
    source.close()
    assert Counter(found) == expected


def test_positions_are_plain_values(folder: Path) -> None:
    reader = make_reader(folder)
    put(folder, "a.csv", 1)
    reader.once()
    (known,) = reader.known.values()
    assert isinstance(known.position, Position)
    assert all(isinstance(value, int | str) for value in known.position.place.values())


COPIES = [
    *("a.csv.1", "a-20261126.csv", "a.csv-20261126", "a_2026-11-26T00:00.csv", "a.1.csv"),
    *("a copy.csv", "a - Copy.csv", "a (1).csv", "a.csv.bak", "a.csv~", "a-20261126.csv.2"),
]


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("content", ["1,0\n2,0\n", "8,0\n", "no record", ""])
def test_what_is_named_as_a_copy_and_not_older_is_left_alone_whatever_it_holds(
    name: str, content: str, folder: Path
) -> None:
    reader = make_reader(folder, glob="*")
    put(folder, "a.csv", 1, 2)
    assert reader.once() == [1, 2]
    (folder / name).write_text(HEADER + content)
    assert reader.once() == []
    assert f"{name}: may be a copy of a.csv" in str(reader.messages)
    (folder / name).unlink()


@pytest.mark.parametrize("name", ["b.csv", "a2.csv", "a-north.csv", "ab.csv.1", "1.csv", "a.1.txt"])
def test_other_names_are_those_of_other_files(name: str, folder: Path) -> None:
    reader = make_reader(folder, glob="*")
    put(folder, "a.csv", 1, 2)
    put(folder, name, 3)
    assert sorted(reader.once()) == [1, 2, 3]


def test_a_file_that_is_rotated_by_copying_and_cutting_gives_no_record_twice(folder: Path) -> None:
    reader = make_reader(folder, glob="*")
    first = put(folder, "a.csv", 1, 2)
    assert reader.once() == [1, 2]
    for number in range(3):
        shutil.copy(first, folder / f"a.csv-2026010{number}")
        put(folder, "a.csv", 3 + number)
        assert reader.once() == []
        assert "a.csv: cannot be read on" in str(reader.messages)
    # The owner says that no file repeats a record of another.
    shutil.copy(first, folder / "a.csv.7")
    trusting = make_reader(folder, glob="*.7", copies="new_records")
    assert trusting.once() == [5]


class Numbers:
    """A writer of numbers that never come twice, and what else may happen to its files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.n_written, self.n_copies = folder, 0, 0

    def write(self) -> None:
        self.n_written += 1
        path = self.folder / "a.csv"
        text = "" if path.exists() else HEADER
        with path.open("a") as file:
            file.write(f"{text}{self.n_written},0\n")

    def name(self) -> Path:
        self.n_copies += 1
        forms = ("a.csv.{}", "a-2026{}.csv", "a.csv-{}", "a ({}).csv", "a.csv.{}.bak")
        return self.folder / forms[self.n_copies % len(forms)].format(self.n_copies)

    def copy(self) -> None:
        if (self.folder / "a.csv").exists():
            shutil.copy(self.folder / "a.csv", self.name())

    def cut(self) -> None:
        if (self.folder / "a.csv").exists():
            self.copy()
            (self.folder / "a.csv").write_text(HEADER)

    def rename(self) -> None:
        if (self.folder / "a.csv").exists():
            (self.folder / "a.csv").rename(self.name())


@given(
    steps=st.lists(
        st.sampled_from(["write", "write", "copy", "cut", "rename", "once", "poll"]), max_size=25
    ),
    replaced=st.sampled_from(["refuse", "join_successors"]),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_copied_cut_and_renamed_no_number_comes_twice(
    steps: list[str], replaced: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("copies") / "in"
    folder.mkdir()
    writer, found = Numbers(folder), list[float]()
    reader = make_reader(folder, glob="*", replaced=replaced)
    # A copy is told by a file that was looked at under its name; and where names are used again,
    # as long as it has it.
    writer.write()
    source = reader.open()
    found += reader.poll(source)
    for step in steps:
        if step == "poll":
            found += reader.poll(source)
        elif step == "once":
            found += reader.once()
            source = reader.open()
        else:
            getattr(writer, step)()
            if step == "rename" or replaced == "join_successors":
                found += reader.poll(source)
            if step == "rename":
                writer.write()
                found += reader.poll(source)
    found += reader.poll(source)
    source.close()
    assert max(Counter(found).values()) == 1


def test_files_that_begin_alike_are_shown_to_the_owner_and_change_nothing_by_themselves(
    folder: Path,
) -> None:
    reader = make_reader(folder)
    put(folder, "a.csv", 1, 2)
    put(folder, "grown.csv", 1, 2, 3)
    put(folder, "other.csv", 1, 7)  # the first record alone is the same
    put(folder, "header.csv", 9)
    (folder / "empty.csv").write_text(HEADER)
    (folder / "bare.csv").write_text(HEADER)
    (folder / "a-1.csv").write_text(HEADER)
    source = reader.open()
    found = {(Path(c.name).name, c.original, c.is_left) for c in source.find_copies()}
    assert found == {("grown.csv", "a.csv", False), ("a-1.csv", "a.csv", True)}
    assert sorted(reader.poll(source)) == [1, 1, 1, 2, 2, 3, 7, 9]
    source.close()
    for copies, n_left in (("refuse", 1), ("new_records", 0)):
        source = make_reader(folder, copies=copies).open()
        assert len(source.find_copies()) == n_left
        source.close()
