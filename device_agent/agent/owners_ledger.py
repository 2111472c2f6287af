"""The owner's ledger, which outlives state folders, so that a rebuilt device goes on paying."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.identity import (
    Identity,
    load_holder,
    load_ledger_id,
    save_ledger_id,
)
from sfumato.device_agent.store.ledger import list_origins, list_sketch_ids, load_entries
from sfumato.shared.errors import ConfigError, LedgerError, SketchError
from sfumato.shared.plan import SketchPlan, make_event
from sfumato.shared.privacy import Origin, PrivacyEvent, Reader
from sfumato.shared.spending import OwnersLedger, Reservation, Spent, find_ledger
from sfumato.shared.spending.places import LEDGER_VARIABLE
from sfumato.shared.wire import compute_sketch_id

_NOBODY = bytes(16)
"""Holder of no entry: a state that does not exist yet."""
_OF_A_COPY = " of another copy"
"""Ends the name of a stream whose releases another copy of the state has made."""


def locate_ledger(settings: Settings) -> Path:
    """Return the owner's ledger: the one in the settings, or of this user.

    Raises
    ------
    ConfigError
        It cannot be there, or would be lost together with the state folder.
    """
    path = settings.budget.ledger or find_ledger()
    if path.resolve().is_relative_to(settings.state_dir.resolve()):
        raise ConfigError(
            f"must lie outside the state folder {settings.state_dir}, and is {path}: lost with it, "
            "it would let the same records be released again",
            field="budget.ledger" if settings.budget.ledger else LEDGER_VARIABLE,
            fix="name a file in another folder of this user by [budget] ledger",
        )
    return path


class SharedBudget:
    """Reservations of a device in the owner's ledger.

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
        self._identity = identity
        self._connection = connection
        self._unconfirmed: list[Reservation] = []
        self._holder = load_holder(connection)
        path = locate_ledger(settings)
        known = load_ledger_id(connection, path)
        self._ledger = OwnersLedger(path, known=known)
        if known is None:
            save_ledger_id(connection, path, self._ledger.identity)
        self._confirm_all(self._ledger, connection)

    def require_affordable(
        self, settings: Settings, event: PrivacyEvent, origins: Iterable[Origin]
    ) -> None:
        """Check a release against the budget; raises ``BudgetExceededError``, ``LedgerError``."""
        self._ledger.require_affordable(self._name(event, origins), settings.limits)

    def reserve(
        self, settings: Settings, event: PrivacyEvent, origins: Iterable[Origin], *, now: float
    ) -> None:
        """Reserve a release before its noise is drawn; raises as :meth:`require_affordable`."""
        self.require_confirmed()
        self._ledger.reserve(self._name(event, origins), settings.limits, now=now)

    def confirm(self, event: PrivacyEvent, origins: Iterable[Origin], *, now: float) -> None:
        """Confirm a stored release; if that fails now, it is done before the next step.

        It raises nothing: the release has happened, and its reader must go on behind it.
        """
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
        if self._unconfirmed:
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
        # Asked first: an agent at work may release and confirm between the two.
        confirmed = ledger.find_confirmed(self._holder)
        events = [one for entry in load_entries(connection) for one in _expand(entry.event)]
        known = {(one.reader, one.sequence) for one in events}
        unknown = [
            (stream, sequence)
            for (study, stream), sequence in confirmed
            if study == self._identity.study
            and not stream.endswith(_OF_A_COPY)
            and ((study, stream), sequence) not in known
        ]
        if unknown:
            stream, sequence = unknown[0]
            raise LedgerError(
                f"{len(unknown)} release(s) are in the ledger and not in this state, the first is "
                f"sketch {sequence} of stream {stream!r}: the state was restored from a backup, or "
                "copied; nothing was released",
                field=f"ledger {ledger.path}",
                fix="use the state_dir that released them, or start anew in another one: what was "
                "released stays counted",
            )
        counted = set(confirmed)
        missing = [one for one in events if (one.reader, one.sequence) not in counted]
        if not missing:
            return
        sketch_ids = list_sketch_ids(connection)
        ledger.confirm(
            [
                Reservation(
                    sketch_id=sketch_ids.get((*one.reader, one.sequence, one.copy))
                    or _name_event(self._holder, one),
                    holder=self._holder,
                    event=one,
                    origins=tuple(list_origins(connection, _find_reader(one))),
                )
                for one in missing
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
    path = locate_ledger(settings)
    if connection is None and not path.exists():
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


def sum_up_streams(
    settings: Settings, connection: sqlite3.Connection | None, plan: SketchPlan
) -> dict[str, Spent]:
    """Return what all programs of this user have released of the records of each stream.

    Without a connection the state does not exist yet, and no ledger is made.
    """
    path = locate_ledger(settings)
    if not path.exists():
        return {}
    ledger, found = OwnersLedger(path), {}
    holder = _NOBODY if connection is None else load_holder(connection)
    for stream in settings.streams:
        event = make_event(plan, stream=stream.name, study=settings.study)
        read = stream.find_origins(plan)
        if connection is not None:
            read.update(list_origins(connection, event.reader))
        reservation = Reservation(
            sketch_id=b"", holder=holder, event=event, origins=tuple(sorted(read))
        )
        found[stream.name] = ledger.sum_up(reservation, settings.limits)
    return found


def describe_ledger(path: Path, streams: Mapping[str, Spent]) -> Iterator[str]:
    """Describe the owner's ledger, and what it counts of the records of each stream."""
    yield f"ledger: {path} counts the releases of all programs of this user of this machine"
    for name, spent in streams.items():
        loss = spent.describe_loss() if spent.n_releases else ""
        yield f"ledger: {spent.n_releases} release(s) of the records of stream {name}{loss}"


def _expand(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    """Yield each release of an event; those of another copy of the state have another name."""
    stream = event.stream + _OF_A_COPY if event.copy else event.stream
    for i in range(event.count):
        yield replace(event, stream=stream, sequence=event.sequence - i, count=1)


def _find_reader(one: PrivacyEvent) -> Reader:
    return one.study, one.stream.removesuffix(_OF_A_COPY)


def _name_event(holder: bytes, event: PrivacyEvent) -> bytes:
    """Return a substitute for a sketch's identity that is not known any more."""
    text = f"{event.study.hex()} {event.sequence} {event.copy} {event.stream}"
    return hashlib.sha256(b"sfumato event" + holder + text.encode()).digest()
