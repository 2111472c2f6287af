"""Count what is sketched by hand in its owner's ledger: reserve, draw, confirm."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from shared.file_identity import identify
from shared.ledger import OwnersLedger, Reservation
from shared.plan import SketchPlan, compute_plan_digest
from shared.privacy import Budget, Origin, PrivacyEvent

_HOLDER_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Spending:
    """A release that an owner's ledger has reserved.

    Parameters
    ----------
    ledger
        The ledger.
    reservation
        The release; every sketch made by hand is one of its own.
    """

    ledger: OwnersLedger
    reservation: Reservation

    def confirm(self) -> None:
        """Note that the sketch is written."""
        self.ledger.confirm([self.reservation], now=time.time())


def reserve_release(
    ledger_path: Path, records: Path, plan: SketchPlan, stream: str, budget: Budget
) -> Spending:
    """Reserve the release of a file of records, before its noise is drawn.

    What breaks off behind this stays counted: nobody can tell whether the noise was seen.

    Raises
    ------
    BudgetExceededError
        With all that the ledger counts on this file already, it would exceed the budget.
    ConfigError, StoreError
        The ledger cannot be used.
    """
    digest, holder = compute_plan_digest(plan), os.urandom(_HOLDER_BYTES)
    path = records.resolve()
    name = identify(path).source.removeprefix("file:")
    event = PrivacyEvent(
        study=digest,
        stream=stream,
        plan_digest=digest,
        sequence=0,
        epsilon=plan.release.epsilon,
        delta=plan.release.delta,
        rho=plan.mechanism.guarantee.rho,
    )
    spending = Spending(
        ledger=OwnersLedger(ledger_path),
        reservation=Reservation(
            sketch_id=hashlib.sha256(b"sfumato sketch by hand" + holder).digest(),
            holder=holder,
            event=event,
            origins=(Origin(kind="path", name=str(path)), Origin(kind="file", name=name)),
        ),
    )
    spending.ledger.reserve(spending.reservation, budget, now=time.time())
    return spending
