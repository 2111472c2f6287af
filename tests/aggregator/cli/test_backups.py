"""`sfumato backup` and `restore` of databases that are damaged, and of those of another version."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from sfumato.shared.command import main
from tests.aggregator.cli.test_check_store import TAMPERED, fill
from tests.aggregator.databases import open_sqlite

pytestmark = pytest.mark.anyio


async def run(*arguments: object) -> int:
    return await anyio.to_thread.run_sync(main, [str(each) for each in arguments])


@pytest.fixture
async def sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "sound.db"
    async with open_sqlite(path) as store:
        await fill(store)
    capsys.readouterr()  # the server's log
    return path


def execute(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def flip_in_payload(path: Path) -> None:
    """Flip one bit, as a disk does, where no page looks wrong."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        ((payload,),) = connection.execute(
            "SELECT payload FROM sketches WHERE payload IS NOT NULL LIMIT 1"
        )
    data = bytearray(path.read_bytes())
    data[data.index(payload[:64])] ^= 1
    path.write_bytes(data)


def tear(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * 4096 + data[8192:])


def spoil_schema(path: Path) -> None:
    """Make a letter of the schema one that is no text: SQLite quotes it."""
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE tokens", b"CREATE TABLE\xfftokens"))


def overwrite(path: Path) -> None:
    path.write_text("no database")


@pytest.mark.parametrize("harm", [flip_in_payload, tear, spoil_schema, overwrite])
async def test_a_damaged_database_is_neither_backed_up_nor_restored_and_is_named(
    harm: Callable[[Path], None],
    sound: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, present = tmp_path / "made.db", tmp_path / "present.db"
    harm(sound)
    assert await run("backup", made, "--database", sound) == 2
    said = capsys.readouterr().err
    assert f"{sound} is damaged" in said
    assert "make room" not in said
    assert await run("restore", sound, "--database", present) == 2
    assert f"{sound} is damaged" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} <= {
        "sound.db",
        "sound.db-wal",
        "sound.db-shm",
    }


async def test_a_backup_finds_whatever_check_store_finds(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tampered = tmp_path / "tampered.db"
    passed = []
    for _, fault, statement in TAMPERED[::4]:
        shutil.copy(sound, tampered)
        execute(tampered, statement)
        status = await run("backup", tmp_path / "made.db", "--database", tampered)
        if status != 2 or "is damaged" not in capsys.readouterr().err:
            passed.append(fault)
    assert passed == []


async def test_a_backup_is_one_file_that_can_be_restored(sound: Path, tmp_path: Path) -> None:
    made, present = tmp_path / "made.db", tmp_path / "present.db"
    assert await run("backup", made, "--database", sound) == 0
    assert [path.name for path in tmp_path.glob("made*")] == ["made.db"]
    assert await run("restore", made, "--database", present) == 0
    assert await run("check-store", "--database", present) == 0


async def test_of_another_schema_version_pages_alone_are_checked_and_that_is_said(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.db"
    execute(sound, "UPDATE alembic_version SET version_num = '0000_before'")
    assert await run("backup", made, "--database", sound) == 0
    assert "only its pages were checked" in capsys.readouterr().err
    assert made.exists()
