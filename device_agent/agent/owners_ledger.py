"""The owner's ledger in a file of its own, if the owner has named one (``[budget] ledger``)."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.identity import (
    Identity,
    load_holder,
    load_ledger_id,
    save_ledger_id,
)
from sfumato.device_agent.store.ledger import list_origins, list_sketch_ids, load_entries
from sfumato.shared.errors import LedgerError, SketchError
from sfumato.shared.privacy import Origin, PrivacyEvent
from sfumato.shared.spending import OwnersLedger, Reservation
from sfumato.shared.wire import compute_sketch_id

_NOBODY = bytes(16)
"""Holder of no entry: a state that does not exist yet."""


class SharedBudget:
    """Reservations of a device in the owner's ledger; without a ledger it does nothing.

    Opening it confirms what the state has released since, as after a crash.

    Raises
    ------
    LedgerError
        The ledger knows releases that the state does not: the state was restored from a backup.
    ConfigError, StoreError
        The file cannot be used.
    """

    def __init__(
        self, settings: Settings, identity: Identity, connection: sqlite3.Connection
    ) -> None:
        self._ledger: OwnersLedger | None = None
        self._identity = identity
        self._connection = connection
        self._unconfirmed: list[Reservation] = []
        if settings.budget.ledger is None:
            return
        self._holder = load_holder(connection)
        known = load_ledger_id(connection, settings.budget.ledger)
        self._ledger = OwnersLedger(settings.budget.ledger, known=known)
        if known is None:
            save_ledger_id(connection, settings.budget.ledger, self._ledger.identity)
        self._confirm_all(self._ledger, connection)

    def require_affordable(
        self, settings: Settings, event: PrivacyEvent, origins: Iterable[Origin]
    ) -> None:
        """Check a release against the budget; raises ``BudgetExceededError``, ``LedgerError``."""
        if self._ledger is not None:
            self._ledger.require_affordable(self._name(event, origins), settings.limits)

    def reserve(
        self, settings: Settings, event: PrivacyEvent, origins: Iterable[Origin], *, now: float
    ) -> None:
        """Reserve a release before its noise is drawn; raises as :meth:`require_affordable`."""
        if self._ledger is not None:
            self.require_confirmed()
            self._ledger.reserve(self._name(event, origins), settings.limits, now=now)

    def confirm(self, event: PrivacyEvent, origins: Iterable[Origin], *, now: float) -> None:
        """Confirm a stored release; if that fails now, it is done before the next step.

        It raises nothing: the release has happened, and its reader must go on behind it.
        """
        if self._ledger is not None:
            self._unconfirmed.append(self._name(event, origins))
            with suppress(SketchError):
                self.require_confirmed(now=now)

    def require_confirmed(self, *, now: float | None = None) -> None:
        """Confirm pending releases: nothing is released or sent before.

        Raises
        ------
        ConfigError, StoreError
            The ledger still cannot be written.
        """
        if self._ledger is not None and self._unconfirmed:
            self._ledger.confirm(self._unconfirmed, now=time.time() if now is None else now)
            self._unconfirmed.clear()

    def _name(self, event: PrivacyEvent, origins: Iterable[Origin]) -> Reservation:
        # An open window may hold records that were read under other settings.
        read = {*origins, *list_origins(self._connection, event.reader)}
        return Reservation(
            sketch_id=compute_sketch_id(
                event.study, self._identity.device, event.stream, event.sequence
            ),
            holder=self._holder,
            event=event,
            origins=tuple(sorted(read)),
        )

    def _confirm_all(self, ledger: OwnersLedger, connection: sqlite3.Connection) -> None:
        study = self._identity.study
        # Asked first: an agent at work may release and confirm between the two.
        confirmed = ledger.find_confirmed(self._holder, study)
        events = [entry.event for entry in load_entries(connection)]
        known = {(event.stream, event.sequence) for event in events if event.study == study}
        unknown = [event for event in confirmed if (event.stream, event.sequence) not in known]
        if unknown:
            first = unknown[0]
            raise LedgerError(
                f"{len(unknown)} release(s) are in the ledger and not in this state, the first is "
                f"sketch {first.sequence} of stream {first.stream!r}: the state was restored from "
                "a backup, or copied; nothing was released",
                field=str(ledger.path),
                fix="use the state_dir that released them, or start anew in another one: what was "
                "released stays counted",
            )
        sketch_ids = list_sketch_ids(connection)
        origins = {event.reader: tuple(list_origins(connection, event.reader)) for event in events}
        ledger.confirm(
            [
                Reservation(
                    sketch_id=sketch_ids.get((*one.reader, one.sequence, one.copy))
                    or _name_event(self._holder, one),
                    holder=self._holder,
                    event=one,
                    origins=origins[event.reader],
                )
                for event in events
                for one in _expand(event)
            ],
            now=time.time(),
        )


def require_in_shared_budget(
    settings: Settings,
    connection: sqlite3.Connection | None,
    event: PrivacyEvent,
    origins: Iterable[Origin],
) -> None:
    """Check the first release of a device that has not enrolled yet against the owner's ledger.

    Without a connection the state does not exist yet, and no ledger is made.

    Raises
    ------
    BudgetExceededError
        Others have spent what it would need.
    ConfigError, StoreError
        The file cannot be used.
    """
    path = settings.budget.ledger
    if path is None or (connection is None and not path.exists()):
        return
    holder, known = _NOBODY, None
    if connection is not None:
        holder = load_holder(connection)
        known = load_ledger_id(connection, path)
    reservation = Reservation(
        sketch_id=_name_event(holder, event),
        holder=holder,
        event=event,
        origins=tuple(sorted(origins)),
    )
    ledger = OwnersLedger(path, known=known)
    ledger.require_affordable(reservation, settings.limits)


def _expand(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    """Yield each release of an event; those of another copy of the state have another name."""
    stream = f"{event.stream} of another copy" if event.copy else event.stream
    for i in range(event.count):
        yield replace(event, stream=stream, sequence=event.sequence - i, count=1)


def _name_event(holder: bytes, event: PrivacyEvent) -> bytes:
    """Return a substitute for a sketch's identity that is not known any more."""
    text = f"{event.study.hex()} {event.sequence} {event.copy} {event.stream}"
    return hashlib.sha256(b"sfumato event" + holder + text.encode()).digest()
