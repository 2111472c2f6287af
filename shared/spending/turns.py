"""One release of a program without a state folder: counted before it is drawn, and drawn once.

A file beside the ledger keeps what a program has begun, and, before anybody sees it, what it has
drawn. If the program is killed, the next one with the same public choices and source finishes that
one: the very same release, counted once. The file goes when the release was shown. Its name and
content follow from public choices and from the release, not from the records.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import BudgetExceededError, ConfigError, LedgerError
from sfumato.shared.privacy import Budget, PrivacyEvent
from sfumato.shared.privacy.accounting import join_events
from sfumato.shared.privacy.limits import DEFAULT_DELTA
from sfumato.shared.spending.ledger import OwnersLedger, Reservation, Spent
from sfumato.shared.spending.lines import START, decode_line, encode_line, write_line
from sfumato.shared.spending.places import find_origins

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

Sums = Integers

_HOLDER_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Account:
    """Where the owner of some records counts what is released of them.

    Parameters
    ----------
    ledger
        The owner's ledger.
    records
        The file or folder that holds the records.
    budget
        The limit.
    budget_name, delta_name
        What messages call the limit of epsilon, and the delta of a release.
    """

    ledger: Path
    records: Path
    budget: Budget
    budget_name: str = "budget"
    delta_name: str = "delta"

    def make_reservation(self, event: PrivacyEvent, holder: bytes) -> Reservation:
        """Return what reserves a release; ``holder`` is the same at every attempt."""
        return Reservation(
            sketch_id=hashlib.sha256(b"sfumato release of a turn" + holder).digest(),
            holder=holder,
            event=event,
            origins=tuple(sorted(find_origins(self.records))),
        )

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Name the parameter behind a refusal of the ledger, and what can be done.

        The delta that all releases of some records are judged at is fixed here.
        """
        try:
            yield
        except BudgetExceededError as error:
            if error.field != "budget.delta":
                error.field = self.budget_name
                error.fix = "raise it if the owner agrees; nothing was released"
                raise
            level = f"{float(DEFAULT_DELTA):g}"
            error.field = self.delta_name
            error.rule = (
                f"must be at most {level} in all releases of these records together, and no bound "
                "on their loss holds at that with this one"
            )
            error.fix = (
                f"use a smaller delta, or noise without one; where earlier releases have spent "
                f"{level}, these records cannot be released again. Nothing was released"
            )
            raise


class Turn:
    """A release that nobody else counts: without a ledger, what is kept is kept in memory alone."""

    def keep(self, design: bytes) -> bytes:
        """Return the design of the release that was cut off; without one, keep and return this."""
        return design

    def require_affordable(self, *events: PrivacyEvent) -> None:
        """Check that all releases of a fit can be counted, before the first one is."""

    def reserve(self, event: PrivacyEvent) -> None:
        """Count the release, before its noise is drawn."""

    def draw(self, draw: Callable[[], Sums]) -> Sums:
        """Return the sums with noise: those that were kept before, or newly drawn ones."""
        return draw()

    def show(self) -> None:
        """Note that the release is where its owner keeps it: no later program will need it."""

    def sum_up(self) -> Spent | None:
        """Return what all releases of these records have cost so far; None if nobody counts."""
        return None


class CountedTurn(Turn):
    """A release that an owner's ledger counts.

    Parameters
    ----------
    file
        The open and locked file of this release.
    ledger, account
        Where it is counted.
    """

    def __init__(self, file: BinaryIO, ledger: OwnersLedger, account: Account) -> None:
        self._file = file
        self._ledger = ledger
        self._account = account
        self._reservation: Reservation | None = None
        self._digest, self._n_bytes = START, 0
        self._kept: dict[str, bytes] = {}
        # A line that was cut off was seen by nobody.
        with suppress(ValueError):
            for line in file:
                self._digest, entry = decode_line(self._digest, line)
                self._kept |= {key: bytes.fromhex(value) for key, value in entry.items()}
                self._n_bytes += len(line)
        # Whether an earlier program was cut off, and this one finishes its release.
        self._is_resumed = bool(self._kept)
        self._is_shown = False

    @property
    def may_be_needed(self) -> bool:
        """Whether a later program can finish this one: it may be counted, and was not shown."""
        return (self._is_resumed or self._reservation is not None) and not self._is_shown

    def keep(self, design: bytes) -> bytes:
        """See :class:`Turn`."""
        if not self._kept:
            self._append(design=design, holder=os.urandom(_HOLDER_BYTES))
        return self._kept["design"]

    def require_affordable(self, *events: PrivacyEvent) -> None:
        """See :class:`Turn`.

        Raises
        ------
        BudgetExceededError
            The budget does not cover them together; nothing was counted.
        ConfigError, StoreError
            The ledger cannot be used.
        """
        if "sums" in self._kept:
            # The first was drawn, and the next is checked when it is reserved.
            return
        reservation = self._name(join_events(events))
        # A program that was cut off may have counted the first.
        with self._account.explaining(), suppress(LedgerError):
            self._ledger.require_affordable(reservation, self._account.budget)

    def reserve(self, event: PrivacyEvent) -> None:
        """See :class:`Turn`.

        Raises
        ------
        BudgetExceededError
            The budget does not cover it; nothing was counted.
        ConfigError, StoreError
            The ledger cannot be used.
        """
        reservation = self._name(event)
        # A release that was drawn already was reserved before, and perhaps confirmed.
        if "sums" not in self._kept:
            with self._account.explaining():
                self._ledger.reserve(reservation, self._account.budget, now=time.time())
        self._reservation = reservation

    def draw(self, draw: Callable[[], Sums]) -> Sums:
        """See :class:`Turn`."""
        if self._reservation is None:
            raise RuntimeError("reserve first")
        if "sums" not in self._kept:
            self._append(sums=draw().astype("<i8").tobytes())
        self._ledger.confirm([self._reservation], now=time.time())
        return np.frombuffer(self._kept["sums"], dtype="<i8").astype(np.int64)

    def show(self) -> None:
        """See :class:`Turn`."""
        self._is_shown = True

    def sum_up(self) -> Spent | None:
        """See :class:`Turn`."""
        if self._reservation is None:
            return None
        return self._ledger.sum_up(self._reservation, self._account.budget)

    def _name(self, event: PrivacyEvent) -> Reservation:
        self.keep(b"")
        return self._account.make_reservation(event, self._kept["holder"])

    def _append(self, **parts: bytes) -> None:
        line = encode_line(self._digest, {key: value.hex() for key, value in parts.items()})
        write_line(self._file.fileno(), self._n_bytes, line)
        self._digest, _ = decode_line(self._digest, line)
        self._n_bytes += len(line)
        self._kept |= parts


@contextmanager
def take_turn(choices: Mapping[str, Any], account: Account | None) -> Iterator[Turn]:
    """Take the turn of a release; finish the one that was cut off.

    Parameters
    ----------
    choices
        Public choices that the release follows from, except fresh ones.
    account
        Where it is counted; None leaves the count to the caller.

    Raises
    ------
    ConfigError
        Another program with these choices is running, the file or the ledger cannot be used, or the
        system has no locks for them.
    """
    if account is None:
        yield Turn()
        return
    if fcntl is None:
        raise ConfigError(
            "cannot be kept: this system has no locks that end with the program that holds them",
            field="ledger",
            fix="release on Linux or macOS; nothing was released",
        )
    named = {**choices, "source": str(account.records.resolve())}
    key = hashlib.sha256(encode_deterministic(named)).hexdigest()
    path = account.ledger.with_name(f"{account.ledger.name}.{key[:32]}.turn")
    ledger = OwnersLedger(account.ledger)
    with _open_locked(path) as file:
        turn = CountedTurn(file, ledger, account)
        try:
            yield turn
        finally:
            if not turn.may_be_needed:
                path.unlink(missing_ok=True)


@contextmanager
def _open_locked(path: Path) -> Iterator[BinaryIO]:
    while True:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"cannot be opened ({error.strerror})",
                field=str(path),
                fix="put the ledger in a folder of this user",
            ) from error
        with os.fdopen(descriptor, "r+b") as file:
            try:
                # The system unlocks it when the process ends, however that happens.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigError(
                    "is in use: another release of these records with these choices is under way",
                    field="ledger",
                    fix="wait until it ends",
                ) from error
            # Another program may have ended, and removed it, since it was opened.
            if os.fstat(file.fileno()).st_nlink:
                yield file
                return
