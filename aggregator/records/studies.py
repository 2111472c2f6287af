"""Studies and their enrolment tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

StudyState = Literal["open", "closed", "withdrawn"]
TokenState = Literal["usable", "used-up", "expired", "revoked"]


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """A study; a withdrawn one stays as a tombstone of its identity.

    Parameters
    ----------
    plan, plan_digest
        The plan's encoding, and the SHA-256 of it.
    accept_until
        Until when a closed study accepts late sketches, if it does.
    version
        The number of changes of ``state`` and ``accept_until``, from 1.
    n_sketches, n_records
        Totals of its sketches; secret numbers of records count 0.
    """

    study_id: bytes
    name: str
    plan: bytes
    plan_digest: bytes
    created: float
    state: StudyState = "open"
    accept_until: float | None = None
    version: int = 1
    n_sketches: int = 0
    n_records: int = 0

    def accepts_sketches(self, now: float) -> bool:
        """Return whether a sketch may be stored now."""
        if self.state == "closed":
            return self.accept_until is not None and now < self.accept_until
        return self.state == "open"


@dataclass(frozen=True, kw_only=True)
class TokenRecord:
    """An enrolment token; ``labels`` are those that its devices must have.

    Its identity is the SHA-256 of the secret, so that a found token can be found in the list.
    """

    token_hash: bytes
    study_id: bytes
    max_uses: int
    created: float
    expires: float
    labels: Mapping[str, str] | None = None
    uses: int = 0
    revoked: float | None = None

    def state_at(self, now: float) -> TokenState:
        """Return whether it can enrol another device now, or why not."""
        if self.revoked is not None:
            return "revoked"
        if self.uses >= self.max_uses:
            return "used-up"
        return "expired" if self.expires <= now else "usable"
