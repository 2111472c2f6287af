"""Comparisons of selections as JSON bodies: clusters, changes and words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.answers.words import name_clusters
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.learning.insight.comparison import Change, Comparison
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.tails import adjust_holm
from sfumato.learning.looks.measurement import Measurement
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.analyses import ChangeBody, ClusterBody, ComparisonBody
from sfumato.shared.wire.objects.answers import DimensionBody
from sfumato.shared.wire.objects.declaration import make_body

Floats = NDArray[np.float64]


def describe_comparison(
    plan: SketchPlan,
    found: Comparison,
    model: StudyModel,
    sides: Sequence[Totals],
    *,
    digests: Sequence[str],
    measured: Sequence[Measurement | None] = (),
) -> ComparisonBody:
    """Return a comparison as a body.

    Parameters
    ----------
    plan, found, model
        The plan, the comparison, and the fit that its changes are of.
    sides
        The sums of both selections.
    digests
        Digests of the snapshots with these sums; none for sums of files.
    measured
        The clusters of both selections, as a second look has measured them.
    """
    looks = [each for each in measured if each is not None]
    if len(looks) == 2:
        found = replace(found, changes=tuple(_measure_changes(found.changes, *looks)))
    counts = [count_records(plan, totals) for totals in sides]
    return make_body(
        ComparisonBody,
        found,
        kind="comparison",
        **describe_common(plan, model, found.describe(), found.assumptions, digests=digests),
        n_records=[count.n_records for count in counts],
        n_sketches=[totals.n_sketches for totals in sides],
        snrs=[
            estimate_utility(plan, totals, count, SIZE_WEIGHTS).snr
            for totals, count in zip(sides, counts, strict=True)
        ],
        changes=[describe_change(change) for change in found.changes],
    )


def _measure_changes(
    changes: Sequence[Change], first: Measurement, second: Measurement
) -> Iterator[Change]:
    """Yield the changes, those of shares as they were measured; noise hides that of a phantom."""
    from scipy.special import ndtr  # noqa: PLC0415 - a server seldom needs it

    is_clear = ~(first.is_phantom | second.is_phantom)
    shares = [np.where(is_clear, each.shares, 1.0) for each in (first, second)]
    # Of the noise, and of the records as a sample.
    variances = [
        (each.shares_error / share) ** 2 + np.maximum(0.0, 1.0 / share - 1.0) / each.n_records
        for each, share in zip((first, second), shares, strict=True)
    ]
    estimates, errors = np.log(shares[1] / shares[0]), np.sqrt(sum(variances))
    z = np.abs(estimates) / errors
    # The tail of the sum lies between those of normal and of Laplace variables.
    p = adjust_holm(np.maximum(2.0 * ndtr(-z), np.exp(-math.sqrt(2.0) * z)))
    for each in changes:
        j = each.cluster
        if each.quantity == "weight" and is_clear[j]:
            estimate, error = float(estimates[j]), float(errors[j])
            yield replace(each, estimate=estimate, error=error, p=float(p[j]), is_measured=True)
        else:
            yield each


def describe_common(
    plan: SketchPlan,
    model: StudyModel,
    words: Sequence[str],
    assumptions: Sequence[str],
    *,
    digests: Sequence[str],
) -> dict[str, Any]:
    """Return the members of :class:`sfumato.shared.wire.objects.analyses.AnswerBody`."""
    return {
        "words": [sentence for sentence in words if sentence not in assumptions],
        "assumptions": list(assumptions),
        "dimensions": [DimensionBody(name=axis.name, unit=axis.unit) for axis in plan.axes],
        "clusters": list_clusters(plan, model),
        "snapshots": list(digests),
    }


def list_clusters(plan: SketchPlan, model: StudyModel) -> list[ClusterBody]:
    """Return the clusters of a fit, in data units."""
    centres, spreads = describe_widths(plan, model.fit.means, np.sqrt(model.fit.variances))
    words = name_clusters(centres, model.fit.weights, [axis.name for axis in plan.axes])
    return [
        ClusterBody(
            words=words[i],
            weight=float(model.fit.weights[i]),
            centre=centres[i].tolist(),
            spread=spreads[i].tolist(),
        )
        for i in range(model.n_clusters)
    ]


def describe_widths(plan: SketchPlan, centres: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """Return centres and widths about them in data units: shapes ``(k, d)``.

    On a scale that is not linear, half of the distance between both ends.
    """
    encoder = plan.space.encoder
    return encoder.decode(centres), encoder.decode_widths(centres, widths)


def describe_change(change: Change) -> ChangeBody:
    """Return the change of one quantity of one cluster."""
    return make_body(
        ChangeBody,
        change,
        dimension=change.axis,
        z=change.estimate / change.error,
        words=change.describe(),
    )
