"""Files whose lines do not lie in them as they are: packed, in UTF-16, or one document."""

import gzip
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sfumato.shared.errors import LedgerError, RecordError
from sfumato.shared.reading import FileLayout, TextFile, text_files
from tests.device_agent.sources.streams import Reader, make_stream


def pack(*lines: str) -> bytes:
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def widen(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-16")


def put_into(*lines: str) -> bytes:
    return json.dumps({"r": [{"x": line} for line in lines[1:]]}, indent=1).encode()


WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "packed": (pack, {"kind": "csv", "packed": "gzip"}),
    "utf-16": (widen, {"kind": "csv", "encoding": "utf-16"}),
    "document": (put_into, {"kind": "jsonl", "records": "r"}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_running", [False, True])
def test_what_was_read_is_never_read_again_and_what_is_added_once(
    way: str, is_running: bool, tmp_path: Path
) -> None:
    write, options = WAYS[way]
    path = tmp_path / "f"
    path.write_bytes(write("x", "1", "2"))
    reader = Reader(make_stream(tmp_path, path="f", **options))
    source = reader.open()
    assert reader.poll(source) == [1.0, 2.0]
    for lines, found in [(("1", "2"), []), (("1", "2", "3", "4"), [3.0, 4.0])]:
        path.write_bytes(write("x", *lines))
        source = source if is_running else reader.open()
        assert reader.poll(source) == found
    # Another record among those that were read: which of them were counted is not known.
    path.write_bytes(write("x", "1", "7", "3", "4", "5"))
    with pytest.raises(LedgerError, match="the part that was read has changed"):
        reader.poll(source if is_running else reader.open())
    source.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_version_that_is_renamed_into_place_goes_on_behind_the_one_before(
    way: str, tmp_path: Path
) -> None:
    write, options = WAYS[way]
    (tmp_path / "f").write_bytes(write("x", "1", "2"))
    reader = Reader(make_stream(tmp_path, path="f", replaced="rewritten", **options))
    assert reader.once() == [1.0, 2.0]
    (tmp_path / "new").write_bytes(write("x", "1", "2", "3"))
    (tmp_path / "new").rename(tmp_path / "f")
    assert reader.once() == [3.0]


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (pack("x", "1", "2")[:-1], {"packed": "gzip"}, "must be a whole gzip file"),
        (pack("x", "1")[:-8] + bytes(8), {"packed": "gzip"}, "must be a whole gzip file"),
        (b"x\n1\n", {"packed": "gzip"}, "must be a whole gzip file"),
        (b"x\n1\n", {"packed": "zstd"}, "must be a whole zstd file"),
        (b"x\n1\n", {"encoding": "utf-16"}, "must begin with a mark of byte order"),
        (b'{"r": [{"x": 1}, {"x": 2}]', {"kind": "jsonl", "records": "r"}, "holds no JSON object"),
        (b'{"r": [{"x": 1}, {"x": "2}]}', {"kind": "jsonl", "records": "r"}, "holds no JSON obj"),
        (b'{"r": {"x": 1}}', {"kind": "jsonl", "records": "r"}, "holds records that are not a li"),
    ],
)
def test_a_file_that_is_broken_gives_none_of_its_records(
    data: bytes, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(RecordError, match=words):
        Reader(make_stream(tmp_path, path="f", **{"kind": "csv", **options})).open()


def test_half_a_character_at_the_end_makes_no_other_number(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_bytes("x\n1\n215".encode("utf-16")[:-1])
    stream = make_stream(tmp_path, kind="folder", path="in", whole=True, encoding="utf-16")
    found = Reader(stream).once()
    assert found[0] == 1.0
    assert found[1] != found[1]


def test_a_packed_file_of_a_folder_is_read_once_it_is_whole_and_deleted_once_released(
    tmp_path: Path,
) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "a.gz").write_bytes(pack("x", "1", "2")[:-3])
    (inbox / "b.gz").write_bytes(pack("x", "3"))
    (inbox / "c.csv").write_bytes(b"x\n9\n")
    options: dict[str, Any] = {"whole": True, "released": "delete", "packed": "gzip"}
    reader = Reader(make_stream(tmp_path, kind="folder", path="in", **options))
    source = reader.open()
    assert reader.poll(source) == [3.0]
    assert [note.partition(": ")[2][:10] for note in source.report.notes] == ["must be a "] * 2
    (inbox / "a.gz").write_bytes(pack("x", "1", "2"))
    assert reader.poll(source) == [1.0, 2.0]
    source.released([known.position for known in reader.known.values()])
    assert [path.name for path in inbox.iterdir()] == ["c.csv"]
    source.close()


def test_a_name_that_tells_a_packed_file_is_not_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(b"x\n1\n")
    with pytest.raises(RecordError, match=r'packed = "gzip", or unpack it: gunzip -k f\.gz'):
        Reader(make_stream(tmp_path, kind="csv", path="f.gz")).open()


@pytest.mark.parametrize(
    ("layout", "data", "command"),
    [
        (FileLayout(packed="gzip"), gzip.compress(b"x\n" * 9), "gunzip -k f.gz"),
        (FileLayout(records="a.b"), b'{"a": {"b": [1, 2, 3, 4, 5, 6]}}', "jq -c '.a.b[]' f > f."),
        (FileLayout(encoding="utf-16"), widen("x", "1" * 9), "iconv -f utf-16 -t utf-8 f > f."),
    ],
)
def test_more_text_than_is_read_as_a_whole_is_refused_with_the_command(
    layout: FileLayout,
    data: bytes,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_files, "MOST_TEXT_BYTES", 8)
    path = tmp_path / ("f.gz" if layout.packed else "f")
    path.write_bytes(data)
    with pytest.raises(RecordError) as refused:
        TextFile(path, layout)
    assert command in str(refused.value)


def test_the_lines_of_a_plain_file_are_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x\n")
    with closing(TextFile(tmp_path / "f", FileLayout())) as text:
        assert text.fileno() == text.file.fileno()
