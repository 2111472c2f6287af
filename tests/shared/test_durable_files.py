import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.shared.durable_files import place_file, replace_file, write_all, write_new_file


def fail(number: int) -> Callable[..., int]:
    def call(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize("write", [replace_file, write_new_file, place_file])
def test_a_file_has_all_bytes_is_its_owners_alone_and_leaves_nothing_beside_it(
    write: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    write(tmp_path / "f", b"whole")
    assert (tmp_path / "f").read_bytes() == b"whole"
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("write", [write_new_file, place_file])
def test_a_file_that_is_there_is_never_replaced_by_a_new_one(
    write: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        write(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("write", [replace_file, place_file])
def test_a_full_disk_leaves_what_was_there_and_no_part(
    write: Callable[[Path, bytes], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_bytes(b"old")
    monkeypatch.setattr(os, "write", fail(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / ("other" if write is replace_file else "f"), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    assert (tmp_path / "other").read_bytes() == b"old"


@pytest.mark.parametrize("is_there", [False, True])
def test_where_there_are_no_links_a_file_gets_its_name_unless_one_has_it(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fail(errno.EPERM))
    if is_there:
        (tmp_path / "f").write_bytes(b"old")
        with pytest.raises(FileExistsError):
            place_file(tmp_path / "f", b"new")
    else:
        place_file(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == (b"old" if is_there else b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_call_that_writes_a_part_is_followed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, bytes(data)[:2]))
    with (tmp_path / "f").open("wb") as file:
        write_all(file.fileno(), b"seven b")
    assert (tmp_path / "f").read_bytes() == b"seven b"
