"""The fields of a plan that a candidate decides."""

from __future__ import annotations

from typing import Any

from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.core import RadiusLaw
from sfumato.shared.plan.spec import MOST_SKETCHES

__all__ = ["list_decided", "list_law", "list_sizes"]


def list_decided(outline: StudyOutline, best: Candidate, *, n_windows: int = 1) -> dict[str, Any]:
    """Return the fields that a candidate decides, as a specification has them.

    Fields that its kind of release forbids, or whose default it needs, are left out.

    Parameters
    ----------
    outline, best
        The study, and the candidate.
    n_windows
        The sketches of one device.
    """
    fields: dict[str, Any] = {}
    if best.reports_phases or best.is_summed:
        fields["release"] = best.release
    if best.unit == "device":
        fields["unit"] = best.unit
    fields["n_frequencies"] = best.n_frequencies
    if best.is_split or best.reports_phases:
        fields["frequencies_per_sketch"] = best.frequencies_per_sketch
    fields["most_clusters"] = outline.n_clusters
    if not best.reports_phases:
        fields["mechanism"] = best.mechanism
    fields["epsilon"] = str(best.epsilon)
    if not best.reports_phases:
        fields["delta"] = str(best.delta)
    if best.unit == "record":
        fields["neighbouring"] = outline.neighbouring
    if outline.n_sketches > MOST_SKETCHES:
        # Twice as many as one selection: a plan that accepts fewer than it needs locks devices out.
        fields["most_sketches"] = 2 * outline.n_sketches
    if best.reports_phases:
        fields["most_sketches_per_device"] = n_windows
    fields["radius_law"] = list_law(best.law_choice.law)
    return fields


def list_sizes(outline: StudyOutline, best: Candidate) -> dict[str, Any]:
    """Return the sizes of windows in a specification, which follow from the outline."""
    sizes: dict[str, Any] = {}
    if best.reports_phases:
        return sizes
    if best.unit == "record":
        if not (outline.hides_presence or best.is_summed):
            sizes["least_records"] = max(1, outline.n_records // outline.n_sketches // 10)
        sizes["max_records_per_person"] = "unknown"
    return sizes | {"most_records": outline.most_records}


def list_law(law: RadiusLaw) -> dict[str, Any]:
    """Return a law as the table of a specification."""
    tail = {"tail_share": law.tail_share, "tail_high": law.tail_high} if law.tail_share else {}
    return {"kind": law.kind, "sigma_low": law.sigma_low, "sigma_high": law.sigma_high, **tail}
