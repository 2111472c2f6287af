"""How accurate a second look will be, before it is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.looks.noise import LookNoise
from sfumato.shared.core import ClustersStatistic

Floats = NDArray[np.float64]
_PHANTOM_RATE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class LookPrediction:
    """Standard deviations of the noise of what a look measures.

    Parameters
    ----------
    shares
        Shape ``(k,)``: the error of each share of the records.
    means
        Shape ``(k, e)``, steps: the error of each mean.
    spread
        The relative error of the mean squared distance of all records; None where it is not
        asked for.
    gain
        The error of the gain of a further step, where there is no gain; None where it is not
        asked for.
    excess
        What the noise of the means would add to the squared distances of the refined centres, over
        them; None where not all assigned columns are summed.
    least_share
        The smallest share that is told from an empty cluster.
    """

    shares: Floats
    means: Floats
    spread: float | None
    gain: float | None
    excess: float | None
    least_share: float


def predict_look(
    statistic: ClustersStatistic, noise: LookNoise, *, shares: Floats, spreads: Floats, n: float
) -> LookPrediction:
    """Predict the errors of a look.

    Parameters
    ----------
    noise
        With the standard deviation of one sum of all sketches, the same for all.
    shares
        Shape ``(k,)``: expected shares of the records.
    spreads
        Shape ``(k, d)``, steps: standard deviations along the assigned axes.
    n
        Expected records.
    """
    units, deviation = statistic.units, float(noise.deviation)
    counts = np.maximum(shares * n, 1.0)
    of_count = deviation / units.count
    squares = (statistic.weights * spreads**2).sum(axis=1)
    sse = float((counts * squares).sum())
    spread = None
    if units.square:
        noised = statistic.cap / units.square * deviation * math.sqrt(statistic.n_clusters)
        spread = noised / sse
    means = statistic.radii * deviation / max(1, units.residual) / counts[:, None]
    gain = excess = None
    if set(statistic.assigned) <= set(statistic.summed):
        at = [statistic.summed.index(axis) for axis in statistic.assigned]
        v = means[:, at] ** 2 * statistic.weights
        excess = float((counts * v.sum(axis=1)).sum()) / sse
        if units.square:
            variance = (counts**2 * ((2.0 + noise.kurtosis) * v**2).sum(axis=1)).sum()
            gain = math.sqrt(float(variance)) / sse
    return LookPrediction(
        shares=of_count / n * np.sqrt(1.0 - 2.0 * shares + statistic.n_clusters * shares**2),
        means=means,
        spread=spread,
        gain=gain,
        excess=excess,
        least_share=noise.find_quantile(_PHANTOM_RATE / statistic.n_clusters) * of_count / n,
    )
