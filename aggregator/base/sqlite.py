"""SQLite connections that visit their thread once for each statement.

aiosqlite visits its thread four times: to make a cursor, to execute, to fetch and to close. Each
visit costs more than most statements, and wakes the event loop. docs/decisions/sqlite-driver.md has
the figures.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiosqlite
from sqlalchemy import make_url

_AT_ONCE = 256
"""Rows fetched with the statement, and with each later visit."""


class _Cursor(aiosqlite.Cursor):
    """Executes, and fetches the first rows, in one visit."""

    def __init__(self, connection: aiosqlite.Connection, cursor: sqlite3.Cursor) -> None:
        super().__init__(connection, cursor)
        self._rows: list[Any] = []
        self._has_more = False
        self._is_away = False

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Any = None) -> Self:
        def run() -> list[Any]:
            self._cursor.execute(sql, () if parameters is None else parameters)
            return self._cursor.fetchmany(_AT_ONCE) if self._cursor.description else []

        self._rows = await self._visit(run)
        self._has_more = len(self._rows) == _AT_ONCE
        return self

    async def fetchone(self) -> Any:
        found = await self.fetchmany(1)
        return found[0] if found else None

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        size = self.arraysize if size is None else size
        if len(self._rows) < size and self._has_more:
            more = await self._visit(self._cursor.fetchmany, max(size, _AT_ONCE))
            self._has_more = bool(more)
            self._rows += more
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    async def fetchall(self) -> list[Any]:
        found, self._rows = self._rows, []
        if self._has_more:
            self._has_more = False
            found += await self._visit(self._cursor.fetchall)
        return found

    async def _visit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        self._is_away = True
        found = await self._execute(work, *arguments)  # type: ignore[no-untyped-call]
        self._is_away = False
        return found

    async def close(self) -> None:
        self._rows, self._has_more = [], False
        if self._is_away:
            # Its caller was cancelled, and the statement may still run.
            await self._visit(self._cursor.close)
        else:
            # Quick: it only releases the statement.
            self._cursor.close()


class _Connection(aiosqlite.Connection):
    """Makes its cursors without a visit, and knows which file was there before it was opened."""

    file: tuple[int, int] | None = None

    def cursor(self) -> _Cursor:  # type: ignore[override]
        return _Cursor(self, self._conn.cursor())


def connector_of(database_url: str) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """Return the function that opens a connection to the database of a URL.

    It creates no file: a path with a typing error would be an empty database.
    """
    url = make_url(database_url)
    path = Path(url.database or "").absolute()
    arguments, options = url.get_dialect()().create_connect_args(url)
    if url.database and not url.database.startswith("file:"):
        arguments = [f"{path.as_uri()}?mode=rw"]
        options["uri"] = True
    # Cursors are made, and closed when idle, outside the thread.
    options["check_same_thread"] = False

    def connect() -> Awaitable[aiosqlite.Connection]:
        connection = _Connection(partial(sqlite3.connect, *arguments, **options), _AT_ONCE)
        connection._thread.daemon = True
        # Before: a file that takes its place later is none that this connection writes to.
        connection.file = identify_file(path)
        return connection

    return connect


def identify_file(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path, which a file that replaces it does not have."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
