"""Faults at any write of the agent's store: it dies there, or the disk is full from there on."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sfumato.device_agent.store import database, disk, journal, key
from sfumato.shared import durable_files

_WRITES = ("BEGIN", "COMMIT", "INSERT", "UPDATE", "DELETE", "PRAGMA WAL_CHECKPOINT")
_FILE_CALLS = ("write", "fsync", "ftruncate", "truncate", "replace")


class Crash(BaseException):
    """The process is gone; nothing it would still have done is done."""


class Faults:
    """Counts writes, SQLite statements and file calls alike, and fails at the one it is armed for.

    ``kind`` is ``before`` or ``after`` (the process dies before or after that write; of a file it
    writes half), or ``full`` (the disk has no space from that write on).
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        """The statements and calls since it was armed, as they begin."""
        self.disarm()

    def arm(self, kind: str, at: int) -> None:
        self.disarm()
        self.names.clear()
        self._kind, self._at = kind, at

    def disarm(self) -> None:
        self._kind, self._at, self._is_dead = "", 0, False

    @property
    def count(self) -> int:
        return len(self.names)

    def statement(self, sql: str, execute: Any) -> Any:
        is_rollback = sql.lstrip().upper().startswith("ROLLBACK")
        if not sql.lstrip().upper().startswith(_WRITES):
            if is_rollback and self._is_dead:
                raise Crash
            return execute()
        if self._fails(" ".join(sql.split())[:40]):
            if self._kind == "full":
                raise sqlite3.OperationalError("database or disk is full")
            if self._kind == "after" and not self._is_dead:
                execute()
            self._die()
        return execute()

    def call(self, name: str, *arguments: Any) -> Any:
        function = getattr(os, name)
        if self._fails(name):
            if self._kind == "full" and name == "write":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._kind != "full":
                if name == "write" and not self._is_dead:
                    function(arguments[0], arguments[1][: len(arguments[1]) // 2])
                elif self._kind == "after" and not self._is_dead:
                    function(*arguments)
                self._die()
        return function(*arguments)

    def _fails(self, name: str) -> bool:
        self.names.append(name)
        return bool(self._kind) and self.count >= self._at

    def _die(self) -> None:
        self._is_dead = True
        raise Crash


class _Os:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        if name in _FILE_CALLS:
            return lambda *arguments: self._faults.call(name, *arguments)
        return getattr(os, name)


@contextmanager
def injecting() -> Iterator[Faults]:
    """Let every write of the store pass through faults."""
    faults = Faults()

    class Faulty(database.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            cursor: sqlite3.Cursor = faults.statement(
                sql, lambda: super(Faulty, self).execute(sql, *values)
            )
            return cursor

        def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
            cursor: sqlite3.Cursor = faults.statement(
                sql, lambda: super(Faulty, self).executemany(sql, *values)
            )
            return cursor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "Connection", Faulty)
        patch.setattr(journal, "os", _Os(faults))
        patch.setattr(key, "os", _Os(faults))
        patch.setattr(disk, "os", _Os(faults))
        patch.setattr(durable_files, "os", _Os(faults))
        yield faults
