"""Count a sketch made by hand in its owner's ledger: reserve, draw, confirm."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sfumato.shared.errors import BudgetExceededError
from sfumato.shared.file_identity import identify
from sfumato.shared.ledger import OwnersLedger, Reservation
from sfumato.shared.plan import SketchPlan, compute_plan_digest, make_event
from sfumato.shared.privacy import Budget, Origin, PrivacyEvent
from sfumato.shared.privacy.limits import DEFAULT_DELTA

HOLDER_BYTES = 16
"""Length of the identity of one release by hand."""


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
    """

    ledger: Path
    records: Path
    budget: Budget

    def count(self, plan: SketchPlan, stream: str) -> AbstractContextManager[None]:
        """Count the release of a plan's sketch; see :func:`count_event`."""
        event = make_event(plan, stream=stream, study=compute_plan_digest(plan))
        return count_event(self.ledger, self.records, event, self.budget)


@contextmanager
def count_event(
    ledger_path: Path, records: Path, event: PrivacyEvent, budget: Budget
) -> Iterator[None]:
    """Reserve the release of a file of records; confirm it when the block has stored it.

    Noise is drawn inside the block. If the block fails, the release stays counted: nobody can tell
    whether the noise was seen.

    Raises
    ------
    BudgetExceededError
        Together with the earlier releases of this file, it would exceed the budget.
    ConfigError, StoreError
        The ledger cannot be used.
    """
    ledger = OwnersLedger(ledger_path)
    reservation = make_reservation(records, event, os.urandom(HOLDER_BYTES))
    try:
        ledger.reserve(reservation, budget, now=time.time())
    except BudgetExceededError as error:
        explain_refusal(error, budget="--budget", delta="--plan")
        raise
    yield
    ledger.confirm([reservation], now=time.time())


def explain_refusal(error: BudgetExceededError, *, budget: str, delta: str) -> None:
    """Name the parameter behind a refusal of an owner's ledger, and what can be done.

    Parameters
    ----------
    budget, delta
        Names of what states the limit of epsilon, and the delta of a release. The delta that all
        releases of some records are judged at is fixed here.
    """
    if error.field != "budget.delta":
        error.field, error.fix = budget, "raise it if the owner agrees; nothing was released"
        return
    level = f"{float(DEFAULT_DELTA):g}"
    error.field = delta
    error.rule = (
        f"must be at most {level} in all releases of these records together, and no bound on their "
        "loss holds at that with this one"
    )
    error.fix = (
        f"use a smaller delta, or noise without one; where earlier releases have spent {level}, "
        "these records cannot be released again. Nothing was released"
    )


def make_reservation(records: Path, event: PrivacyEvent, holder: bytes) -> Reservation:
    """Make the reservation of a release of a file of records by hand.

    Parameters
    ----------
    holder
        The identity of the release, ``HOLDER_BYTES`` random bytes: the same at every attempt.
    """
    path = records.resolve()
    name = identify(path).source.removeprefix("file:")
    return Reservation(
        sketch_id=hashlib.sha256(b"sfumato sketch by hand" + holder).digest(),
        holder=holder,
        event=event,
        origins=(Origin(kind="path", name=str(path)), Origin(kind="file", name=name)),
    )
