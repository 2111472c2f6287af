"""Rows of a SQLite query, in the order of a key that only ever grows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    Position,
    ReadingReport,
    RecordBatch,
    RecordSource,
)
from device_agent.sources.locking import SharedLock
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.settings import LocalSettings, StreamSettings
from shared.errors import LedgerError, RecordError
from shared.structure import Rule, Seconds, Text, declared, member

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


class SqliteSource(RecordSource):
    """The new rows of a query; see ``RecordSource``. The file is opened for reading alone.

    Raises
    ------
    RecordError
        The file cannot be opened.
    LedgerError
        The stream has read another file before, whose keys are others, or another agent reads it.
    """

    settings = SqliteSettings

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[str],
        known: Sequence[KnownPosition],
        digest_key: bytes,
    ) -> None:
        assert isinstance(stream.source, SqliteSettings)
        self.report = ReadingReport()
        self._settings = stream.source
        self._mapping = RecordMapping(stream, dimensions)
        self._source = f"sqlite:{stream.source.path}"
        self._last = self._find_last(stream.name, known)
        self._n_read = 0
        self._lock = self._hold() if stream.source.lock else None
        try:
            self._connection = self._connect()
        except BaseException:
            self._unlock()
            raise

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

    def close(self) -> None:
        """See ``RecordSource``."""
        self._connection.close()
        # Behind it: closing a descriptor of the file would take SQLite's own locks.
        self._unlock()

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        try:
            cursor = self._connection.execute(
                self._settings.query, {"last": self._last, "n": BATCH_RECORDS}
            )
            header = [column[0] for column in cursor.description or ()]
            keys, fields = self._take_fields(cursor, header)
        except sqlite3.Error as error:
            if _is_busy(error):
                self._note(f"{self._settings.path} is locked by its writer; will be tried again")
                return None
            raise self._make_error(error) from error
        if not keys:
            return None
        self._check_keys(keys)
        places = range(self._n_read + 1, self._n_read + len(keys) + 1)
        table = self._mapping.convert(self._mapping.fields.make_table(fields), self.report, places)
        self._last = keys[-1]
        self._n_read += len(keys)
        return RecordBatch(
            values=table.to_matrix(),
            timestamps=table.timestamps,
            position_after=lambda i: Position(
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
                    "must be a whole number or text that grows from row to row, never empty",
                    field=self._settings.key,
                    fix="use a unique key, WHERE it is > :last, and ORDER BY it; "
                    'with keys of text state first = ""',
                )
            before = key

    def _find_last(self, stream: str, known: Sequence[KnownPosition]) -> int | str:
        for k in known:
            if k.stream != stream or not k.position.source.startswith("sqlite:"):
                continue
            if k.position.source != self._source:
                raise LedgerError(
                    f"the stream has read {k.position.source.removeprefix('sqlite:')} before",
                    field=str(self._settings.path),
                    fix="name that file, or give this one to a stream with another name",
                )
            column = k.position.place.get("column", self._settings.key)
            if column != self._settings.key:
                raise LedgerError(
                    f"was {column!r} when the rows before were read, and says nothing of another "
                    "column",
                    field="streams.source.key",
                    fix=f'write key = "{column}", or give the rows to a stream with another name '
                    "and a part of its own",
                )
            return k.position.place["key"]
        return self._settings.first

    def _hold(self) -> SharedLock | None:
        # What cannot be opened is for SQLite to complain about.
        with suppress(OSError):
            lock = SharedLock(self._settings.path)
            if lock.note:
                self.report.notes.append(lock.note)
            return lock
        return None

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

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

    def _note(self, note: str) -> None:
        if note not in self.report.notes:
            self.report.notes.append(note)

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
