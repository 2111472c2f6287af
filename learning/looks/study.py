"""Measurements of a study from the exact sums over its sketches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.looks.measurement import Measurement, measure
from sfumato.learning.looks.noise import LookNoise
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import DecodingError, WrongStatisticError
from sfumato.shared.plan import ClustersPart, SketchPlan

Floats = NDArray[np.float64]
_GAUSSIAN = "discrete-gaussian"


def require_look(plan: SketchPlan) -> ClustersPart:
    """Return the clusters that a plan asks for.

    Raises
    ------
    WrongStatisticError
        It has another statistic.
    """
    if not isinstance(plan.statistic, ClustersPart):
        raise WrongStatisticError(
            f"must be clusters for this and is {plan.kind}",
            field="statistic.kind",
            fix="use a study whose plan is of `sfumato plan look`",
        )
    return plan.statistic


def measure_study(
    plan: SketchPlan,
    totals: Totals,
    *,
    is_exact: bool = False,
    order: NDArray[np.intp] | None = None,
) -> Measurement:
    """Measure the clusters of a study.

    Where a sketch carries only some clusters, the sums of each block stand for all records: they
    are scaled by the records of all sketches over those of the block's.

    Parameters
    ----------
    is_exact
        Whether the sums have no noise.
    order
        The plan's clusters in the order of the answer; None for the plan's own.

    Raises
    ------
    WrongStatisticError
        The plan has another statistic.
    DecodingError
        No sketch carries some of the clusters.
    """
    part = require_look(plan)
    whole = part.build_whole(plan.space)
    sketches = totals.moments.floats[0]
    count = count_records(plan, totals)
    numbers = np.array(count.by_block, dtype=np.float64)
    if not (numbers > 0).all():
        raise DecodingError(
            f"has sketches of {int((numbers > 0).sum())} of {len(numbers)} parts of the clusters",
            field="selection",
            fix="widen the slots or labels, or wait for more sketches",
        )
    factors = count.n_records / numbers if len(numbers) > 1 else np.ones(1)
    deviations = np.sqrt(sketches * plan.released_variance)
    sums, deviation = np.zeros(whole.n_coordinates), np.zeros(whole.n_coordinates)
    stop = whole.n_clusters * whole.block_size
    blocks = [each[:stop].reshape(whole.n_clusters, -1) for each in (sums, deviation)]
    for i, places in enumerate(plan.places):
        found = totals.sums[places]
        clusters = plan.blocks.members[i] if len(numbers) > 1 else np.arange(whole.n_clusters)
        size = len(clusters) * whole.block_size
        blocks[0][clusters] = factors[i] * found[:size].reshape(len(clusters), -1)
        blocks[1][clusters] = factors[i] * deviations[i]
        sums[stop:] += found[size:]
    if order is not None:
        for each in blocks:
            each[:] = each[order]
        whole = replace(
            whole,
            centres=whole.centres[order],
            origins=whole.origins[order],
            radii=whole.radii[order],
        )
    deviation[stop:] = np.sqrt((deviations**2).sum())
    noise = LookNoise(
        deviation=np.full(whole.n_coordinates, np.finfo(float).tiny) if is_exact else deviation,
        n_draws=max(1, int(sketches.min())) * plan.n_noises,
        is_gaussian=plan.release.mechanism == _GAUSSIAN,
    )
    return measure(sums, whole, noise)


def to_units(
    plan: SketchPlan, axes: tuple[int, ...], steps: Floats, widths: Floats | None = None
) -> Floats:
    """Return points on some axes, or widths about them, in data units: shape ``(k, len(axes))``."""
    quantiser, encoder, at = plan.space.quantiser, plan.space.encoder, list(axes)
    whole = np.tile(quantiser.centre, (len(steps), 1))
    whole[:, at] += steps * quantiser.half_width[at] / STEPS
    if widths is None:
        return encoder.decode(whole)[:, at]
    half = np.zeros_like(whole)
    half[:, at] = widths * quantiser.half_width[at] / STEPS
    return encoder.decode_widths(whole, half)[:, at]
