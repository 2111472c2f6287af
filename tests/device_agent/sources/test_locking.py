"""Ledger and source are locked: two agents on one source would release its records twice."""

import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sfumato.device_agent.sources import RecordSource
from sfumato.shared.errors import ConfigError, LedgerError, RecordError
from tests.device_agent.sources.streams import Reader, make_stream

QUERY = "SELECT id, x FROM r WHERE id > :last ORDER BY id LIMIT :n"
KINDS = ("csv", "jsonl", "folder", "sqlite", "parquet")

# As another agent would hold it: the process is ready when it has said so.
_HOLDER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Let another process hold the lock of a path."""
    command = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait()


def make(folder: Path, kind: str, **more: Any) -> tuple[Reader, Path]:
    """Return a reader of a source with the one record 1, and the path that it locks."""
    path = folder / f"records.{kind}"
    source: dict[str, Any] = {"kind": kind, "path": path.name, **more}
    match kind:
        case "csv":
            path.write_text("x\n1\n")
        case "jsonl":
            path.write_text('{"x": 1}\n')
        case "folder":
            path.mkdir()
            (path / "a.csv").write_text("x\n1\n")
        case "sqlite":
            with closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, x)")
                database.execute("INSERT INTO r VALUES (1, 1)")
                database.commit()
            source |= {"query": QUERY, "key": "id"}
        case _:
            pyarrow = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(
                pyarrow.table({"x": [1.0]}), str(path)
            )
    return Reader(make_stream(folder, **source)), path


def is_free(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_another_agent_reads_is_refused_until_it_ends(
    kind: str, tmp_path: Path
) -> None:
    reader, path = make(tmp_path, kind)
    with held(path):
        with pytest.raises(LedgerError) as caught:
            reader.once()
        assert caught.value.field == str(path)
        assert "read by two sfumato-agents" in caught.value.rule
        assert "stop the other one" in str(caught.value.fix)
    assert reader.once() == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_is_locked_as_long_as_it_is_read(kind: str, tmp_path: Path) -> None:
    reader, path = make(tmp_path, kind)
    source = reader.open()
    assert not is_free(path)
    assert reader.poll(source) == [1]
    assert not is_free(path)
    source.close()
    source.close()
    assert is_free(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_cannot_be_opened_is_not_left_locked(kind: str, tmp_path: Path) -> None:
    reader, path = make(tmp_path, kind)
    broken = Reader(reader.stream, dimensions=("y",))
    # Some kinds report what they cannot read, and go on.
    with suppress(RecordError):
        broken.once()
    assert is_free(path)


@pytest.mark.parametrize("kind", KINDS)
def test_where_its_writer_holds_the_lock_the_owner_says_so(kind: str, tmp_path: Path) -> None:
    reader, path = make(tmp_path, kind, lock=False)
    with held(path):
        assert reader.once() == [1]


def test_no_other_kind_of_source_has_a_lock(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lock"):
        make_stream(tmp_path, kind="stdin", lock=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP])
def test_what_cannot_be_locked_is_read_with_one_warning(
    number: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, _ = make(tmp_path, kind)

    def refuse(*_: object) -> None:
        # As a network file system does.
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert reader.once() == [1]
    assert [m for m in reader.messages if "cannot be locked" in m] == reader.messages
    assert len(reader.messages) == 1


def rename(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.1"))
    path.write_text("x\n2\n")


def test_the_lock_follows_the_file_that_is_read(tmp_path: Path) -> None:
    reader, path = make(tmp_path, "csv", replaced="join_successors")
    source = reader.open()
    assert reader.poll(source) == [1]
    rename(path)
    assert reader.poll(source) == [2]
    assert not is_free(path)
    assert is_free(path.with_name(f"{path.name}.1"))
    source.close()
    assert is_free(path)


def test_a_rotated_file_that_another_agent_reads_is_refused(tmp_path: Path) -> None:
    reader, path = make(tmp_path, "csv", replaced="join_successors")
    with closing(reader.open()) as source:
        assert reader.poll(source) == [1]
        rename(path)
        with held(path), pytest.raises(LedgerError, match="two sfumato-agents"):
            reader.poll(source)
    assert reader.once() == [2]


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_streams_of_one_agent_share_a_folder_or_a_database(kind: str, tmp_path: Path) -> None:
    reader, path = make(tmp_path, kind)
    other = Reader(reader.stream)
    sources: list[RecordSource] = [reader.open(), other.open()]
    for source in sources:
        assert not is_free(path)
        source.close()
    assert is_free(path)


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_database_is_written_while_it_is_read_and_locked(mode: str, tmp_path: Path) -> None:
    reader, path = make(tmp_path, "sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA journal_mode = {mode}").fetchall()
        source = reader.open()
        with closing(source):
            for number in range(2, 6):
                database.execute("INSERT INTO r VALUES (?, ?)", (number, number))
            assert reader.poll(source) == [1, 2, 3, 4, 5]
            # Another reader of the agent that ends takes no lock of SQLite away.
            Reader(reader.stream).open().close()
            database.execute("INSERT INTO r VALUES (6, 6)")
            assert reader.poll(source) == [6]


def test_a_file_that_may_only_be_read_is_locked_too(tmp_path: Path) -> None:
    reader, path = make(tmp_path, "csv")
    path.chmod(0o444)
    with closing(reader.open()):
        assert not is_free(path)
