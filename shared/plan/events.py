"""Privacy events of releases under a plan: the same from a device, a sketch by hand or a fit."""

from __future__ import annotations

from sfumato.shared.plan.documents import compute_plan_digest
from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.privacy import PrivacyEvent


def make_event(
    plan: SketchPlan, *, stream: str, sequence: int = 0, study: bytes = b""
) -> PrivacyEvent:
    """Return the privacy event of one release: what the plan promises, under its relation.

    For a secure sum, it is the loss in the total of a batch against one of the two servers.

    Parameters
    ----------
    stream, sequence, study
        As in :class:`sfumato.shared.privacy.PrivacyEvent`.
    """
    release = plan.release
    return PrivacyEvent(
        study=study,
        stream=stream,
        plan_digest=compute_plan_digest(plan),
        sequence=sequence,
        neighbouring=release.neighbouring,
        epsilon=release.epsilon,
        delta=release.delta,
        rho=plan.mechanism.guarantee.rho,
    )
