import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.sources import Position, RecordSource
from shared.errors import RecordError
from tests.device_agent.sources.streams import Reader, make_stream

HEADER = "x,y\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def make_reader(folder: Path, **options: Any) -> Reader:
    return Reader(make_stream(folder.parent, kind="folder", path="in", glob="*.csv", **options))


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


def test_a_copy_under_another_name_is_passed_over(folder: Path) -> None:
    reader = make_reader(folder)
    shutil.copy(put(folder, "a.csv", 1, 2), folder / "b.csv")
    source = reader.open()
    assert reader.poll(source) == [1, 2]
    assert "b.csv: begins with records already read" in source.report.describe()[0]
    source.close()
    (folder / "a.csv").rename(folder / "z.csv")
    shutil.copy(folder / "z.csv", folder / "y.csv")
    with (folder / "y.csv").open("a") as file:
        file.write("3,0\n")
    assert reader.once() == [3]


def test_a_bad_file_does_not_hold_up_the_others(folder: Path) -> None:
    reader = make_reader(folder)
    (folder / "a.csv").write_text("time,z\n1,1\n")
    put(folder, "b.csv", 1)
    assert reader.once() == [1]
    assert "x: the column is not in the header" in reader.messages[0]
    put(folder, "b.csv", 7, 8)
    put(folder, "c.csv", 2)
    assert reader.once() == [2]
    assert "b.csv: the part that was already read has changed" in reader.messages[1]


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
    assert reader.poll(source) == [2]
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
def test_whatever_happens_to_names_each_record_is_read_once(
    files: list[int],
    actions: list[tuple[str, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("folder") / "in"
    folder.mkdir()
    reader = make_reader(folder)
    n_written = 0
    for i, n in enumerate(files):
        put(folder, f"{i}.csv", *range(n_written, n_written + n))
        n_written += n
    found: list[float] = []
    source = reader.open()
    for i, (action, argument) in enumerate(actions):
        path = sorted(folder.iterdir())[argument % len(list(folder.iterdir()))]
        if action == "append":
            # To the longest of the copies, or its content would fork.
            group = [p for p in folder.iterdir() if _first(p) == _first(path)]
            longest = max(group, key=lambda p: p.stat().st_size)
            with longest.open("a") as file:
                file.write(f"{n_written},0\n")
            n_written += 1
        elif action == "copy":
            shutil.copy(path, folder / f"copy{i}.csv")
        elif action == "rename":
            path.rename(folder / f"renamed{i}.csv")
        elif action == "poll":
            found += reader.poll(source)
        else:
            source.close()
            source = reader.open()
    found += reader.poll(source)
    source.close()
    assert sorted(found) == list(range(n_written))


def _first(path: Path) -> str:
    return path.read_text().splitlines()[1]


def test_positions_are_plain_values(folder: Path) -> None:
    reader = make_reader(folder)
    put(folder, "a.csv", 1)
    reader.once()
    (known,) = reader.known.values()
    assert isinstance(known.position, Position)
    assert all(isinstance(value, int | str) for value in known.position.place.values())
