"""Records of the phases of campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sfumato.aggregator.base.columns import KEY, StudyId


@dataclass(frozen=True, kw_only=True)
class PhaseRecord:
    """A phase that was published: how its study goes on.

    Parameters
    ----------
    first, number
        The study of the first phase, and the number of this one.
    n_devices
        The devices that are expected.
    is_automatic
        Whether the next phase is published when this one is over, without the operator's yes.
    is_asked
        Whether the operator has asked for the next phase: silent devices are not awaited then.
    chooses
        Whether decodes choose the number of clusters.
    next_at
        When it is looked at next.
    decode_id
        The decode that the next phase, or the campaign's answer, is made from.
    ended
        When nothing was left to do.
    problem
        Why the next phase was not published; None where nothing is wrong.
    """

    study_id: Annotated[StudyId, KEY]
    first: StudyId
    number: int
    n_devices: int
    is_automatic: bool
    chooses: bool
    next_at: float
    is_asked: bool = False
    decode_id: bytes | None = None
    ended: float | None = None
    problem: Mapping[str, Any] | None = None
