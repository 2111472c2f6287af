"""Error bars of a solution in the units of the data, and cautions on its number of clusters."""

from __future__ import annotations

from typing import Any

from sfumato.learning.decoding.solution import Solution
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.results import BarsBody, SseBody, StabilityBody

__all__ = ["describe_errors"]


def describe_errors(plan: SketchPlan, solution: Solution) -> dict[str, Any]:
    """Return the members of a result's body about errors and cautions, by name.

    On a logarithmic scale an error is half of the distance between one error either way; those of
    the shares of levels hold before these are put together to 1.
    """
    bars, caution = solution.bars, solution.caution
    curves: dict[str, Any] = {"stability": None, "sse_curve": None}
    if caution is not None:
        curves = {
            "stability": [
                StabilityBody(n_clusters=k, agreement=agreement)
                for k, agreement in zip(caution.counts, caution.agreements, strict=True)
            ],
            "sse_curve": [
                SseBody(n_clusters=k, sse=sse)
                for k, sse in zip(caution.counts, caution.sses, strict=True)
            ],
        }
    if bars is None:
        return {"centroid_errors": None, "weight_errors": None, "bars": None, **curves}
    errors, weights = bars.centroid_errors, bars.weight_errors
    if errors is not None:
        errors = plan.space.encoder.decode_widths(solution.centroids, errors)
    return {
        "centroid_errors": None if errors is None else errors.tolist(),
        "weight_errors": None if weights is None else weights.tolist(),
        "bars": BarsBody(word=bars.word, sentence=bars.sentence),
        **curves,
    }
