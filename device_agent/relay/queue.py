"""The relay's queue: messages that wait for the server, and the answers that it gave.

A row is named by the digest of the whole message. So the same bytes are one row however often they
come, and a forged message under the identity of a genuine one is another row, which cannot take its
place.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from sfumato.device_agent.relay.answers import Answer
from sfumato.device_agent.store.database import connect, transaction, translating
from sfumato.device_agent.store.disk import naming_file
from sfumato.shared.errors import DiskError, OverloadedError, StoreError
from sfumato.shared.spending.rows import insert_row
from sfumato.shared.wire import SketchHeader

QUEUE_NAME = "relay.sqlite"
KEEP_ANSWERS = 50_000
"""Answers that are kept, the newest; who sends again after that has the server answer again."""
ANSWER_LASTS_S = 60.0
"""After this long the same bytes go to the server again: it may have been restored meanwhile."""
LONGEST_HOLD_S = 86400.0
"""A server cannot keep a message waiting for longer by one answer."""

_APPLICATION_ID = 0x5366_7552  # SfuR
_VERSION = 1
_FIX = (
    "check the disk; if the file is damaged, stop the relay and move the file away: devices send "
    "again what they have no answer to"
)
# message is NULL once the server has answered; source is the way it came last.
_TABLES = (
    """
    CREATE TABLE messages (
        digest BLOB PRIMARY KEY,
        study BLOB NOT NULL,
        device BLOB NOT NULL,
        sketch_id BLOB NOT NULL,
        n_bytes INTEGER NOT NULL,
        message BLOB,
        source TEXT NOT NULL,
        received_at REAL NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        not_before REAL NOT NULL DEFAULT 0,
        problem TEXT NOT NULL DEFAULT '',
        answered_at REAL,
        status INTEGER,
        headers TEXT,
        body BLOB
    )
    """,
    "CREATE INDEX waiting ON messages (not_before, received_at) WHERE message IS NOT NULL",
    "CREATE INDEX answered ON messages (answered_at) WHERE answered_at IS NOT NULL",
    # Names of files of the spool that have no answer yet.
    "CREATE TABLE spool (name TEXT PRIMARY KEY, digest BLOB NOT NULL)",
)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A message that waits for the server."""

    digest: bytes
    study: bytes
    device: bytes
    sketch_id: bytes
    message: bytes
    source: str
    attempts: int


@dataclass(frozen=True, kw_only=True)
class QueueCounts:
    """Figures of the queue.

    Parameters
    ----------
    waiting, waiting_bytes
        Messages that the server has not answered, and their size.
    oldest
        When the oldest of them came, seconds since 1970-01-01 UTC; None without any.
    stored
        Messages that the server has stored.
    refused
        Numbers of messages that it has refused for good, by problem.
    held
        Numbers of those that wait after an attempt, by problem.
    """

    waiting: int
    waiting_bytes: int
    oldest: float | None
    stored: int
    refused: dict[str, int]
    held: dict[str, int]


class Queue:
    """The queue of one folder; its methods may be called by any thread.

    Parameters
    ----------
    folder
        An existing folder that nobody else can enter.
    most_bytes
        The size of waiting messages at which no further one is kept.

    Raises
    ------
    StoreError
        The file is damaged, or that of another program.
    """

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self.n_changes = 0
        """Grows with every change, for :meth:`wait_for_change`."""
        self._is_server_away = False
        path = folder / QUEUE_NAME
        with naming_file(path):
            # Made here, because SQLite would give it the mode that the umask leaves.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with _naming_queue():
            self._connection = connect(path, has_threads=True)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        with translating(self._connection.folder):
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            mark = self._connection.execute("PRAGMA application_id").fetchone()[0]
        if not version and not mark:
            with transaction(self._connection):
                for statement in _TABLES:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif (mark, version) != (_APPLICATION_ID, _VERSION):
            raise StoreError(
                f"must be the queue of a relay, version {_VERSION}",
                field=QUEUE_NAME,
                fix="name another state_dir, or the release that made it",
            )

    def close(self) -> None:
        """Close the file."""
        with self._changed:
            self._connection.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._changed:
            with _naming_queue(), transaction(self._connection):
                yield self._connection
            self._notify()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._changed, _naming_queue(), translating(self._connection.folder):
            yield self._connection

    def keep(
        self,
        header: SketchHeader,
        message: bytes,
        *,
        source: str,
        now: float,
        name: str | None = None,
    ) -> bytes:
        """Keep a message and return its digest; it is on the disk when this returns.

        One that the server answered long ago waits for it again: a device that sends again then
        has learned that the server, put back to a backup, does not have it.

        Parameters
        ----------
        source
            The way it came.
        name
            The name of its file in the spool, which waits for the answer.

        Raises
        ------
        OverloadedError
            The queue is full; nothing was changed.
        DiskError, StoreError
            It cannot be written; nothing was changed.
        """
        digest = hashlib.sha256(message).digest()
        with self._changing() as connection:
            row = connection.execute(
                "SELECT answered_at FROM messages WHERE digest = ?", (digest,)
            ).fetchone()
            answered_at = None if row is None else row["answered_at"]
            if answered_at is not None and not 0.0 <= now - answered_at <= ANSWER_LASTS_S:
                self._require_room(connection, len(message))
                connection.execute(
                    "UPDATE messages SET message = ?, received_at = ?, attempts = 0,"
                    " not_before = 0, problem = '', answered_at = NULL, status = NULL,"
                    " headers = NULL, body = NULL WHERE digest = ?",
                    (message, now, digest),
                )
            if row is not None:
                connection.execute(
                    "UPDATE messages SET source = ? WHERE digest = ?", (source, digest)
                )
            else:
                self._require_room(connection, len(message))
                named = {name: getattr(header, name) for name in ("study", "device", "sketch_id")}
                content = {"digest": digest, "n_bytes": len(message), "message": message}
                beside = {"source": source, "received_at": now}
                insert_row(connection, "messages", content | named | beside)
            if name is not None:
                connection.execute("INSERT OR REPLACE INTO spool VALUES (?, ?)", (name, digest))
        return digest

    def _require_room(self, connection: sqlite3.Connection, n_bytes: int) -> None:
        _, size, _ = _count_waiting(connection)
        if size + n_bytes > self._most_bytes:
            raise OverloadedError(
                f"is full: {size} bytes of messages wait for the server",
                field="the relay's queue",
                fix="send the same again later; the relay's owner can raise most_megabytes",
            )

    def find_answer(self, digest: bytes) -> Answer | None:
        """Return the server's answer to a message; None if there is none yet."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT status, headers, body FROM messages"
                " WHERE digest = ? AND status IS NOT NULL",
                (digest,),
            ).fetchone()
        return None if row is None else _to_answer(row)

    def note_server(self, *, is_away: bool) -> None:
        """Note whether the server answers; while it does not, nobody waits for an answer of it."""
        with self._changed:
            if is_away != self._is_server_away:
                self._is_server_away = is_away
                self._changed.notify_all()

    def wait_for_answer(self, digest: bytes, seconds: float) -> Answer | None:
        """Return the server's answer to a message as soon as there is one; None after a while."""
        found: list[Answer] = []

        def has_come() -> bool:
            answer = self.find_answer(digest)
            found.extend([] if answer is None else [answer])
            return answer is not None or self._is_server_away

        with self._changed:
            self._changed.wait_for(has_come, seconds)
        return found[0] if found else None

    def wait_for_change(self, seen: int, seconds: float) -> None:
        """Wait until ``n_changes`` is no longer what was seen, or some seconds have passed."""
        with self._changed:
            self._changed.wait_for(lambda: self.n_changes != seen, seconds)

    def wake(self) -> None:
        """End every wait."""
        with self._changed:
            self._notify()

    def _notify(self) -> None:
        self.n_changes += 1
        self._changed.notify_all()

    def next_due(self, now: float) -> Waiting | None:
        """Return the message that is to be sent next; None if none is due."""
        with self._reading() as connection:
            # One that is held for longer than anybody may hold it is due: the clock was set back.
            row = connection.execute(
                "SELECT * FROM messages WHERE message IS NOT NULL"
                " AND (not_before <= ? OR not_before > ?) ORDER BY not_before, received_at LIMIT 1",
                (now, now + LONGEST_HOLD_S),
            ).fetchone()
        return (
            None
            if row is None
            else Waiting(**{each.name: row[each.name] for each in fields(Waiting)})
        )

    def hold(self, digest: bytes, *, problem: str, not_before: float) -> None:
        """Let a message wait on after an attempt."""
        with self._changing() as connection:
            connection.execute(
                "UPDATE messages SET attempts = attempts + 1, problem = ?, not_before = ?"
                " WHERE digest = ?",
                (problem, not_before, digest),
            )

    def settle(self, digest: bytes, answer: Answer, *, problem: str, now: float) -> None:
        """Note the server's last word on a message, and drop its bytes."""
        with self._changing() as connection:
            connection.execute(
                "UPDATE messages SET message = NULL, attempts = attempts + 1, problem = ?,"
                " answered_at = ?, status = ?, headers = ?, body = ? WHERE digest = ?",
                (
                    problem,
                    now,
                    answer.status,
                    json.dumps(dict(answer.headers)),
                    answer.body,
                    digest,
                ),
            )
            connection.execute(
                "DELETE FROM messages WHERE answered_at IS NOT NULL AND digest IN"
                " (SELECT digest FROM messages WHERE answered_at IS NOT NULL"
                " ORDER BY answered_at DESC LIMIT -1 OFFSET ?)"
                " AND digest NOT IN (SELECT digest FROM spool)",
                (KEEP_ANSWERS,),
            )

    def drop(self, digest: bytes) -> None:
        """Drop a message whose bytes the disk has changed; its device sends it again."""
        with self._changing() as connection:
            connection.execute("DELETE FROM spool WHERE digest = ?", (digest,))
            connection.execute("DELETE FROM messages WHERE digest = ?", (digest,))

    def list_spooled(self) -> list[tuple[str, Answer]]:
        """Return the files of the spool that were answered, by name, with the answers."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT name, status, headers, body FROM spool JOIN messages USING (digest)"
                " WHERE status IS NOT NULL ORDER BY name"
            ).fetchall()
        return [(row["name"], _to_answer(row)) for row in rows]

    def forget_spooled(self, name: str) -> None:
        """Note that the answer to a file of the spool was written."""
        with self._changing() as connection:
            connection.execute("DELETE FROM spool WHERE name = ?", (name,))

    def count(self) -> QueueCounts:
        """Count the messages."""
        with self._reading() as connection:
            waiting, size, oldest = _count_waiting(connection)
            rows = connection.execute(
                "SELECT message IS NULL AS is_answered, problem, COUNT(*) AS n FROM messages"
                " GROUP BY 1, 2 ORDER BY problem"
            ).fetchall()
        answered = {row["problem"]: row["n"] for row in rows if row["is_answered"]}
        held = {row["problem"]: row["n"] for row in rows if not row["is_answered"]}
        held.pop("", None)
        return QueueCounts(
            waiting=waiting,
            waiting_bytes=size,
            oldest=oldest,
            stored=answered.pop("", 0),
            refused=answered,
            held=held,
        )


def _count_waiting(connection: sqlite3.Connection) -> tuple[int, int, float | None]:
    row = connection.execute(
        "SELECT COUNT(*), COALESCE(SUM(n_bytes), 0), MIN(received_at) FROM messages"
        " WHERE message IS NOT NULL"
    ).fetchone()
    return row[0], row[1], row[2]


def _to_answer(row: sqlite3.Row) -> Answer:
    return Answer(status=row["status"], headers=json.loads(row["headers"]), body=row["body"])


@contextmanager
def _naming_queue() -> Iterator[None]:
    try:
        yield
    except DiskError as error:
        raise DiskError(error.rule, field=QUEUE_NAME, fix=error.fix) from error
    except StoreError as error:
        if error.field == QUEUE_NAME:
            raise
        # What is damaged must be looked at; until then nothing is taken, and nothing is refused.
        raise DiskError(error.rule, field=QUEUE_NAME, fix=_FIX) from error
