"""One release of a fit: counted before it is drawn, kept until the fit has shown it.

With an owner's ledger, a file beside the ledger keeps what a fit has begun, and, before anybody
sees it, what it has drawn. If the process is killed, the next fit with the same public choices and
source finishes that one: the very same release, counted once. The file goes when the fit is done.
Its name and content follow from public choices and from the release, not from the records.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.sketching.spending import HOLDER_BYTES, explain_refusal, make_reservation
from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import (
    BudgetExceededError,
    ConfigError,
    LedgerError,
    MalformedMessageError,
)
from sfumato.shared.ledger import OwnersLedger, Reservation
from sfumato.shared.privacy import Budget, PrivacyEvent
from sfumato.shared.privacy.accounting import join_events

Sums = NDArray[np.int64]

_DIGEST_BYTES = 32
_LENGTH_BYTES = 8


class Turn:
    """A release that nobody else counts: without a ledger, what is kept is kept in memory alone."""

    is_resumed = False
    """Whether an earlier fit was cut off, and this one finishes it."""

    def keep(self, design: bytes) -> bytes:
        """Return the design of the fit that was cut off; without one, keep this and return it."""
        return design

    def require_affordable(self, *events: PrivacyEvent) -> None:
        """Check that all releases of a fit can be counted, before the first one is."""

    def reserve(self, event: PrivacyEvent) -> None:
        """Count the release, before its noise is drawn."""

    def draw(self, draw: Callable[[], Sums]) -> Sums:
        """Return the sums with noise: those of the fit that was cut off, or newly drawn ones."""
        return draw()


class CountedTurn(Turn):
    """A release that an owner's ledger counts.

    Parameters
    ----------
    file
        The open and locked file of this fit.
    ledger, source, budget
        The owner's ledger, the file of the records, and the limit.
    """

    def __init__(self, file: BinaryIO, ledger: OwnersLedger, source: Path, budget: Budget) -> None:
        self._file = file
        self._ledger = ledger
        self._source = source
        self._budget = budget
        self._reservation: Reservation | None = None
        self._kept = _read_parts(file)
        self.is_resumed = bool(self._kept)
        self.is_shown = False

    @property
    def may_be_needed(self) -> bool:
        """Whether a later fit can finish this one: it may have been counted, and was not shown."""
        return (self.is_resumed or self._reservation is not None) and not self.is_shown

    def keep(self, design: bytes) -> bytes:
        """See :class:`Turn`."""
        if not self._kept:
            self._append({"design": design, "holder": os.urandom(HOLDER_BYTES)})
        kept: bytes = self._kept[0]["design"]
        return kept

    def require_affordable(self, *events: PrivacyEvent) -> None:
        """See :class:`Turn`.

        Raises
        ------
        BudgetExceededError
            The budget does not cover them together; nothing was counted.
        ConfigError, StoreError
            The ledger cannot be used.
        """
        if len(self._kept) > 1:
            # The first was drawn, and the next is checked when it is reserved.
            return
        together = join_events(events)
        reservation = make_reservation(self._source, together, self._kept[0]["holder"])
        # A fit that was cut off may have counted the first.
        with _explaining(), suppress(LedgerError):
            self._ledger.require_affordable(reservation, self._budget)

    def reserve(self, event: PrivacyEvent) -> None:
        """See :class:`Turn`.

        Raises
        ------
        BudgetExceededError
            The budget does not cover it; nothing was counted.
        ConfigError, StoreError
            The ledger cannot be used.
        """
        reservation = make_reservation(self._source, event, self._kept[0]["holder"])
        # A release that was drawn already was reserved before, and perhaps confirmed.
        if len(self._kept) == 1:
            with _explaining():
                self._ledger.reserve(reservation, self._budget, now=time.time())
        self._reservation = reservation

    def draw(self, draw: Callable[[], Sums]) -> Sums:
        """See :class:`Turn`."""
        if self._reservation is None:
            raise RuntimeError("reserve first")
        if len(self._kept) == 1:
            self._append({"sums": draw().astype("<i8").tobytes()})
        self._ledger.confirm([self._reservation], now=time.time())
        self.is_shown = True
        return np.frombuffer(self._kept[1]["sums"], dtype="<i8").astype(np.int64)

    def _append(self, part: Mapping[str, bytes]) -> None:
        data = encode_deterministic(dict(part))
        length = len(data).to_bytes(_LENGTH_BYTES, "big")
        self._file.write(length + hashlib.sha256(data).digest() + data)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._kept.append(dict(part))


@contextmanager
def _explaining() -> Iterator[None]:
    try:
        yield
    except BudgetExceededError as error:
        explain_refusal(error, budget="budget", delta="delta")
        raise


@contextmanager
def take_turn(
    choices: Mapping[str, Any], *, ledger: Path, source: Path, budget: Budget
) -> Iterator[CountedTurn]:
    """Take the turn of a release that a ledger counts; finish the one that was cut off.

    Parameters
    ----------
    choices
        Public choices that the release follows from, except fresh ones.

    Raises
    ------
    ConfigError
        Another fit with these choices is running, or the file or the ledger cannot be used.
    """
    counted = OwnersLedger(ledger)
    key = hashlib.sha256(encode_deterministic({**choices, "source": str(source.resolve())}))
    path = ledger.with_name(f"{ledger.name}.{key.hexdigest()[:32]}.fit")
    with _open_locked(path) as file:
        turn = CountedTurn(file, counted, source, budget)
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
                    "is in use: another fit of these records with these parameters is running",
                    field="ledger",
                    fix="wait until it ends",
                ) from error
            # Another fit may have ended, and removed it, since it was opened.
            if os.fstat(file.fileno()).st_nlink:
                yield file
                return


def _read_parts(file: BinaryIO) -> list[dict[str, Any]]:
    """Read the parts that were written whole; drop a part that was cut off, which nobody saw."""
    parts: list[dict[str, Any]] = []
    data, end = file.read(), 0
    while True:
        start = end + _LENGTH_BYTES + _DIGEST_BYTES
        length = int.from_bytes(data[end : end + _LENGTH_BYTES], "big")
        part = data[start : start + length]
        digest = data[end + _LENGTH_BYTES : start]
        if not part or hashlib.sha256(part).digest() != digest:
            break
        try:
            parts.append(decode_deterministic(part, what="fit"))
        except MalformedMessageError:
            break
        end = start + length
    file.seek(end)
    file.truncate()
    return parts
