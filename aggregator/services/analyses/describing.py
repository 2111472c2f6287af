"""Members that the answers of all kinds of analyses have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator.services.analyses.kind import Inputs
from learning.insight.comparing import Change
from learning.insight.model import StudyModel
from shared.plan import SketchPlan
from shared.wire.bodies.analyses import ChangeBody, ClusterBody
from shared.wire.bodies.declaring import make_body
from shared.wire.bodies.results import DimensionBody


def describe_common(
    inputs: Inputs, model: StudyModel, words: Sequence[str], assumptions: Sequence[str]
) -> dict[str, Any]:
    """Return the members of :class:`shared.wire.bodies.analyses.AnswerBody`."""
    plan = inputs.plan
    return {
        "words": [sentence for sentence in words if sentence not in assumptions],
        "assumptions": list(assumptions),
        "dimensions": [DimensionBody(name=axis.name, unit=axis.unit) for axis in plan.axes],
        "clusters": list_clusters(plan, model),
        "snapshots": inputs.digests,
    }


def list_clusters(plan: SketchPlan, model: StudyModel) -> list[ClusterBody]:
    """Return the clusters of a fit, in data units."""
    centres, spreads = describe_widths(plan, model.fit.means, np.sqrt(model.fit.variances))
    return [
        ClusterBody(
            weight=float(model.fit.weights[i]),
            centre=centres[i].tolist(),
            spread=spreads[i].tolist(),
        )
        for i in range(model.n_clusters)
    ]


def describe_widths(
    plan: SketchPlan, centres: NDArray[np.float64], widths: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return centres and widths about them in data units: shapes ``(k, d)``.

    On a scale that is not linear, half of the distance between both ends.
    """
    decode = plan.space.encoder.decode
    ends = decode(centres - widths), decode(centres + widths)
    return decode(centres), np.abs(ends[1] - ends[0]) / 2.0


def describe_change(change: Change) -> ChangeBody:
    """Return the change of one quantity of one cluster."""
    return make_body(
        ChangeBody,
        change,
        dimension=change.axis,
        z=change.estimate / change.error,
        words=change.describe(),
    )
