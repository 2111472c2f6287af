"""Answers that must outlive a database: what the journal says of them, and what a backup has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, Row, select

from sfumato.helper.acceptance import Plans
from sfumato.helper.journal import Entry, Journal
from sfumato.helper.tables import batches, reports, server, write
from sfumato.shared.errors import HelperRestoredError

CLOCK_SKEW_S = 300
_AT_ONCE = 500
"""Rows of one statement: databases bound the number of its parameters."""


@dataclass(kw_only=True)
class JournalledAnswers:
    """The answers of a helper, in its database and in its journal.

    Parameters
    ----------
    database, plans, journal
        What it keeps.
    now
        The clock, seconds since 1970-01-01 UTC.
    """

    database: Engine
    plans: Plans
    journal: Journal
    now: Callable[[], float]
    _journal_lock: Lock = field(default_factory=Lock)

    def require_up_to_date(self) -> None:
        """Compare the journal with the database, and write lines that a crash kept out of it.

        Raises
        ------
        HelperRestoredError
            The journal has answers that the database does not know: a backup was restored.
        """
        generation, written = 0, list[Entry]()
        for entry in self.journal.entries:
            if entry.kind == "restored":
                generation, written = int(entry.values[0]), []
            else:
                written.append(entry)
        with self.database.connect() as connection:
            known = {
                row.batch_id.hex(): row
                for row in connection.execute(batches.select().where(batches.c.state != "open"))
            }
            own = connection.execute(select(server.c.generation)).scalar_one()
        if own != generation or not all(
            _is_known(entry, known.get(entry.values[0])) for entry in written
        ):
            raise _is_behind()
        for row in known.values():
            self.write_journal(row)

    def require_last_answer(self, connection: Connection) -> None:
        """Check that the database knows the journal's last line: it may be put back meanwhile."""
        last = self.journal.entries[-1] if self.journal.entries else None
        if last is None:
            return
        if last.kind == "restored":
            own = connection.execute(select(server.c.generation)).scalar_one()
            is_known = own == int(last.values[0])
        else:
            is_known = _is_known(last, find_batch(connection, bytes.fromhex(last.values[0])))
        if not is_known:
            raise _is_behind()

    def mark_restored(self) -> tuple[int, float]:
        """Give up every report without an answer; the journal goes on.

        Return how many, and the time before whose slots no report is taken any more.

        No report of a slot that has begun by now is taken any more: the database may have forgotten
        that it was answered. Of batches whose total it has forgotten, it gives no answer again: the
        other server would add a second noise of its own.
        """
        past = [entry for entry in self.journal.entries if entry.kind == "restored"]
        generation = int(past[-1].values[0]) + 1 if past else 1
        # The clock may be behind: no slot that was answered counts as one to come.
        answered = [
            int(entry.values[3]) for entry in self.journal.entries if entry.kind == "answer"
        ]
        opened = [
            bytes.fromhex(entry.values[0])
            for entry in self.journal.entries
            if entry.kind == "total"
        ]
        # Batches of slots that begin so soon may have been answered already.
        burnt_before = max([self.now() + CLOCK_SKEW_S, *(each + 1 for each in answered)])
        with write(self.database) as connection:
            own = connection.execute(select(server.c.generation)).scalar_one()
            generation = max(generation, own + 1)
            dropped = connection.execute(
                reports.update()
                .where(reports.c.state == "accepted")
                .values(state="dropped", seed=None)
            ).rowcount
            connection.execute(batches.delete().where(batches.c.state == "open"))
            for some in cut(opened):
                connection.execute(
                    batches.delete().where(
                        batches.c.state == "answered", batches.c.batch_id.in_(some)
                    )
                )
            connection.execute(
                server.update().values(generation=generation, burnt_before=burnt_before)
            )
        with self._journal_lock:
            self.journal.append(Entry(kind="restored", values=(str(generation),)))
        return dropped, burnt_before

    def write_journal(self, batch: Row[Any]) -> None:
        """Write what a batch says, its answer or its total, unless the journal has it already."""
        name, body = batch.batch_id.hex(), hashlib.sha256(batch.body).hexdigest()
        with self._journal_lock:
            if not self.journal.has_answer(name):
                start, _ = self.plans.read(batch.plan_digest).window.slot_bounds(batch.slot)
                values = (name, batch.members.hex(), body, str(start))
                self.journal.append(Entry(kind="answer", values=values))
            if batch.state == "acknowledged" and not self.journal.has_total(name):
                self.journal.append(Entry(kind="total", values=(name, body)))


def _is_known(entry: Entry, batch: Row[Any] | None) -> bool:
    """Return whether a batch, as the database has it, is as far as a line of the journal."""
    if batch is None or batch.state == "open":
        return False
    if entry.kind == "answer":
        return bool(batch.members.hex() == entry.values[1])
    return bool(
        batch.state == "acknowledged" and hashlib.sha256(batch.body).hexdigest() == entry.values[1]
    )


def _is_behind() -> HelperRestoredError:
    return HelperRestoredError(
        "is older than the journal of answers: a backup was restored",
        field="database",
        fix="stop the helper, and run `sfumato helper restored`: reports that were not answered "
        "are given up, so that none gets a second noise",
    )


def find_batch(connection: Connection, batch_id: bytes, *, lock: bool = False) -> Row[Any] | None:
    """Return the row of a batch, if there is one."""
    query = batches.select().where(batches.c.batch_id == batch_id)
    return connection.execute(query.with_for_update() if lock else query).first()


def cut(values: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    """Divide identities between statements."""
    return (values[i : i + _AT_ONCE] for i in range(0, len(values), _AT_ONCE))
