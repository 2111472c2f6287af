"""Rows of a SQLite query, in the order of a key that only ever grows."""

from __future__ import annotations

import re
import sqlite3
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

from sfumato.device_agent.sources.interface import Guarantee, RecordBatch
from sfumato.device_agent.sources.local_source import LocalSource
from sfumato.device_agent.sources.positions import Position
from sfumato.device_agent.sources.settings import LocalSettings
from sfumato.shared.errors import LedgerError, RecordError
from sfumato.shared.structure import Rule, Seconds, Text, declared, member

BATCH_RECORDS = 4096
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_RAISED = ("SQLITE_ERROR", "SQLITE_TOOBIG", "SQLITE_MISMATCH", "SQLITE_CONSTRAINT")
_TEXT_BYTES = 1 << 16
_BUSY_S = 0.5
"""Seconds that a call waits for the writer; other streams wait with it."""


def _has_parameters(query: str) -> bool:
    return bool(re.search(r":last\b", query) and re.search(r":n\b", query))


@declared
class SqliteSettings(LocalSettings):
    """Settings of a query on a SQLite file."""

    query: Annotated[
        Text,
        Rule(
            _has_parameters,
            "must use :last and :n",
            'write "SELECT ... WHERE id > :last ORDER BY id LIMIT :n"',
        ),
    ] = member("A SELECT with `:last` and `:n`, ordered by the key.")
    key: Text = member("The column that is unique and only grows.")
    first: Annotated[
        int | str,
        Rule(
            lambda _: True,
            "must be a whole number or text",
            "write the key behind which to begin",
        ),
    ] = member('The value of `:last` at the very beginning; `""` with keys of text.', default=0)
    poll_s: Seconds = member("Seconds between looks.", default=10.0)


class SqliteSource(LocalSource):
    """The new rows of a query; see ``RecordSource``. The file is opened for reading alone.

    Raises
    ------
    RecordError
        The file cannot be opened.
    LedgerError
        The stream has read another file before, whose keys are others, or another agent reads it.
    """

    settings = SqliteSettings
    _settings: SqliteSettings

    def _open(self) -> None:
        self._source = f"sqlite:{self._settings.path}"
        self._last = self._find_last()
        self._n_read = 0
        self._is_locked = False
        # What cannot be opened is for SQLite to complain about.
        with suppress(OSError):
            # Released behind the connection: closing a descriptor of the file would take SQLite's
            # own locks.
            self._hold_lock(self._settings.path)
        self._connection = self._connect()
        self._resources.callback(self._connection.close)

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        return Guarantee(
            delivery="exactly once", loses="rows written later under a key that was passed already"
        )

    @property
    def pause_s(self) -> float:
        """See ``RecordSource``."""
        return self._settings.poll_s

    @property
    def is_waiting(self) -> bool:
        """See ``RecordSource``."""
        return self._is_locked

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        try:
            cursor = self._connection.execute(
                self._settings.query, {"last": self._last, "n": BATCH_RECORDS}
            )
            header = [column[0] for column in cursor.description or ()]
            keys, fields = self._take_fields(cursor, header)
        except sqlite3.Error as error:
            self._is_locked = _is_busy(error)
            if self._is_locked:
                self.report.note(
                    f"{self._settings.path} is locked by its writer; the agent tries again"
                )
                return None
            raise self._make_error(error) from error
        self._is_locked = False
        if not keys:
            return None
        self._check_keys(keys)
        places = range(self._n_read + 1, self._n_read + len(keys) + 1)
        table = self._mapping.convert(
            self._mapping.fields.make_table(fields),
            self.report,
            places,
            lambda i: ["" if column[i] is None else str(column[i]) for column in fields],
        )
        self._last = keys[-1]
        self._n_read += len(keys)
        return RecordBatch.of_table(
            table,
            lambda i: Position(
                source=self._source, place={"key": keys[i], "column": self._settings.key}
            ),
        )

    def _take_fields(
        self, cursor: sqlite3.Cursor, header: list[str]
    ) -> tuple[list[Any], list[list[Any]]]:
        """Return the keys, and the columns that are read; of a row nothing else is kept."""
        where = f"the query on {self._settings.path}"
        if header.count(self._settings.key) != 1:
            raise RecordError(
                f"must be a column of {where}, once", field=self._settings.key, fix="select it"
            )
        key_at, fields_at = (
            header.index(self._settings.key),
            self._mapping.fields.find(header, where),
        )
        keys: list[Any] = []
        fields: list[list[Any]] = [[] for _ in fields_at]
        for row in cursor:
            keys.append(row[key_at])
            for column, i in zip(fields, fields_at, strict=True):
                column.append(None if isinstance(row[i], bytes) else row[i])
        return keys, fields

    def _check_keys(self, keys: list[Any]) -> None:
        before: Any = self._last
        for key in keys:
            # Two rows of one key might be torn apart by the end of a batch.
            if type(key) is not type(before) or key <= before:
                raise RecordError(
                    "must be a whole number or text that grows from row to row, and never empty",
                    field=self._settings.key,
                    fix="use a unique key, WHERE it is > :last, and ORDER BY it; "
                    'with keys of text state first = ""',
                )
            before = key

    def _find_last(self) -> int | str:
        place = self._find_place(self._source, name=str(self._settings.path))
        column = place.get("column", self._settings.key)
        if column != self._settings.key:
            raise LedgerError(
                f"must stay {column!r}, in whose order the rows before were read",
                field="streams.source.key",
                fix=f'write key = "{column}", or give the rows to a stream with another name and a '
                "part of its own",
            )
        return place.get("key", self._settings.first)

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(self._settings.path))}?mode=ro", uri=True, timeout=_BUSY_S
            )
        except sqlite3.Error as error:
            raise self._make_error(error) from error
        # Text that is not UTF-8 is no number: it is for its record alone, and not for the query.
        # Nor is text without bounds, of which no more is kept than shows that.
        connection.text_factory = lambda data: data[:_TEXT_BYTES].decode("utf-8", "replace")
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            connection.close()
            raise self._make_error(error) from error
        return connection

    def _make_error(self, error: sqlite3.Error) -> RecordError:
        # The name of the error alone: its text may quote a value.
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        fix = "name a SQLite file that this user may read, and try the query with sqlite3"
        if _is_busy(error):
            fix = "let its writer end its transaction"
        elif name in _RAISED:
            fix = (
                "try the query with sqlite3; an expression that can fail at a value ends the "
                "reading for all rows behind it, so guard it: CASE WHEN json_valid(data) THEN "
                "json_extract(data, '$.x') END"
            )
        return RecordError(f"cannot be read ({name})", field=str(self._settings.path), fix=fix)


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(_BUSY)
