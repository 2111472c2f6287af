"""Records of studies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from sfumato.aggregator.base.columns import KEY
from sfumato.learning.estimate.search_box import Stated

StudyState = Literal["open", "closed", "withdrawn"]


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
        The number of changes of ``state``, ``accept_until``, ``search_box`` and ``next_study``,
        from 1.
    next_study
        The study of the next phase of its campaign, once it is published.
    search_box
        The search box of decodes that state none; empty for the plan's box.
    n_sketches, n_records
        Totals of its sketches; secret numbers of records count 0.
    """

    study_id: Annotated[bytes, KEY]
    name: str
    plan: bytes
    plan_digest: bytes
    created: float
    state: StudyState = "open"
    accept_until: float | None = None
    version: int = 1
    next_study: bytes | None = None
    n_sketches: int = 0
    n_records: int = 0
    search_box: Stated = field(default_factory=dict)

    def accepts_sketches(self, now: float) -> bool:
        """Return whether a sketch may be stored now."""
        if self.state == "closed":
            return self.accept_until is not None and now < self.accept_until
        return self.state == "open"
