import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sfumato.analyst.sketching.output import require_writable, write_once
from sfumato.shared.errors import ConfigError


def test_nothing_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.sketch"
    path.write_bytes(b"precious")
    refusal = r"exists already .* costs the plan's epsilon once"
    with pytest.raises(ConfigError, match=refusal):
        require_writable(path)
    with pytest.raises(ConfigError, match=refusal):
        write_once(path, b"new")
    assert path.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["x.sketch"]


def test_nothing_is_replaced_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "x.sketch"
    write_once(path, b"first")
    with pytest.raises(ConfigError, match="exists already"):
        write_once(path, b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["x.sketch"]


@contextmanager
def little_room(n_bytes: int) -> Iterator[None]:
    """Let the system refuse to write more than so much into a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    with (
        little_room(100),
        pytest.raises(ConfigError, match=r"x\.sketch: cannot be written .*; nothing was released"),
    ):
        write_once(tmp_path / "x.sketch", bytes(1000))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is in a folder that is not there"):
        require_writable(tmp_path / "nowhere" / "x.sketch")
