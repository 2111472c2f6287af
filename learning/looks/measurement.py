"""Measure the numbers, means and spreads of clusters, and the gain of a step, in a second look.

Everything follows from noised sums by exact formulas; nothing is fitted. The errors are those of
the noise, about the records that were summed: as a sample of a larger population these err by
their number besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.looks.noise import LookNoise
from sfumato.learning.looks.refinement import Estimate, combine
from sfumato.shared.arrays import Integers
from sfumato.shared.core import ClustersStatistic

Floats = NDArray[np.float64]
_PHANTOM_RATE = 0.05
"""Probability that an empty cluster is not called one, in all clusters together."""
_HALF = 0.5
"""A quotient that is rounded down has lost so much on average."""
_WIDE = 2.5
"""A mean square so many times the median is taken for that of several clusters."""
_CLEAR = 2.0
LARGEST_BEYOND = 0.02
"""With more of the records at the cap or the clip a measurement speaks for the rest alone."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """A measured number, and the standard deviation of its error."""

    value: float
    error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """The records around given centres, measured.

    Parameters
    ----------
    statistic
        What was summed: the centres and all that is public.
    counts, counts_error
        Shape ``(k,)``: records that are nearest to each centre.
    shares, shares_error
        Shape ``(k,)``: the same over all of them.
    means, means_error
        Shape ``(k, e)``, steps of the quantiser: means of the clipped summed coordinates. Not
        finite for a phantom.
    squares, squares_error
        Shape ``(k,)``: mean squared distances, capped, in the plan's weights. None where the plan
        has none.
    beyond
        Share of the records at the cap, or with a clipped residual. None where it is not counted.
    distortions, distortions_error
        Shape ``(1 + c,)``: mean squared distances, capped, to these centres and each candidate
        set. None where the plan has no totals.
    gain
        By what share one more k-means step on these records, with clipped residuals, would lower
        the squared distances. None where not all assigned coordinates are summed.
    is_phantom
        Shape ``(k,)``: whether no record may be near, for the number cannot be told from 0.
    is_wide
        Shape ``(k,)``: whether the mean square is far above the others', as of merged clusters.
    stepped
        The centres after one step, noise included, in steps; nothing is known of a phantom's. None
        where not all assigned coordinates are summed.
    moved
        Shape ``(k, d)``, steps: the same, each shortened by its noise; the centres where there is
        no step.
    """

    statistic: ClustersStatistic
    counts: Floats
    counts_error: Floats
    shares: Floats
    shares_error: Floats
    means: Floats
    means_error: Floats
    squares: Floats | None
    squares_error: Floats | None
    beyond: Number | None
    distortions: Floats | None
    distortions_error: Floats | None
    gain: Number | None
    is_phantom: NDArray[np.bool_]
    is_wide: NDArray[np.bool_]
    stepped: Estimate | None
    moved: Floats

    @property
    def n_records(self) -> float:
        """The records of all clusters."""
        return float(self.counts.sum())


def measure(sums: Floats | Integers, statistic: ClustersStatistic, noise: LookNoise) -> Measurement:
    """Measure clusters from noised sums.

    Parameters
    ----------
    sums
        Shape ``(n_coordinates,)``: the statistic of all records and all clusters, plus noise.
    noise
        Its law.
    """
    blocks, deviation = _Blocks(sums, statistic), _Blocks(noise.deviation, statistic)
    units, k = statistic.units, statistic.n_clusters
    counts, counts_error = blocks.count / units.count, deviation.count / units.count
    is_phantom = counts < noise.find_quantile(_PHANTOM_RATE / k) * counts_error
    n = np.maximum(counts, counts_error)
    total = max(float(counts.sum()), float(np.sqrt((counts_error**2).sum())))
    shares = counts / total
    spread = float((counts_error**2).sum())
    shares_error = np.sqrt(counts_error**2 * (1.0 - 2.0 * shares) + shares**2 * spread) / total
    squares = squares_error = None
    if units.square:
        one = statistic.cap / units.square
        squares = np.maximum(0.0, one * (blocks.square / n + _HALF))
        squares_error = np.hypot(one * deviation.square, squares * counts_error) / n
    distortions = distortions_error = None
    if units.total:
        one = statistic.cap / units.total
        distortions = np.maximum(0.0, one * (blocks.totals / total + _HALF))
        distortions_error = one * deviation.totals / total
    steps = _measure_steps(blocks, deviation, statistic, n, counts_error / n)
    stepped = _step(steps, statistic, is_phantom)
    gain = None
    if stepped is not None and squares is not None and squares_error is not None:
        used = np.where(is_phantom, 0.0, n)
        sse = float((n * squares).sum()), float(((n * squares_error) ** 2).sum())
        gain = _measure_gain(steps, stepped, statistic, used, noise.kurtosis, sse)
    means = statistic.origins + steps.means
    return Measurement(
        statistic=statistic,
        counts=counts,
        counts_error=counts_error,
        shares=shares,
        shares_error=shares_error,
        means=np.where(is_phantom[:, None], np.nan, means),
        means_error=np.sqrt(steps.noise + steps.of_count),
        squares=squares,
        squares_error=squares_error,
        beyond=_measure_beyond(blocks, deviation, statistic, total),
        distortions=distortions,
        distortions_error=distortions_error,
        gain=gain,
        is_phantom=is_phantom,
        is_wide=_find_wide(squares, squares_error, is_phantom),
        stepped=stepped,
        moved=_shorten(stepped, statistic),
    )


class _Blocks:
    """Sums, or their deviations, taken apart."""

    def __init__(self, sums: Floats | Integers, statistic: ClustersStatistic) -> None:
        whole = np.broadcast_to(np.asarray(sums, np.float64), (statistic.n_coordinates,))
        stop = statistic.n_clusters * statistic.block_size
        rows = whole[:stop].reshape(statistic.n_clusters, -1)
        parts = {name: rows[:, place] for name, place in statistic.parts.items()}
        self.count = parts["count"][:, 0]
        self.square = parts["square"].sum(axis=1)
        self.residuals = parts["residuals"]
        self.presences = parts["presences"]
        self.beyond = whole[stop : stop + int(statistic.units.beyond > 0)]
        self.totals = whole[stop + len(self.beyond) :]


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """Mean residuals, and the variances that the noise of sums and of counts gives them."""

    means: Floats
    noise: Floats
    of_count: Floats


def _measure_steps(
    blocks: _Blocks,
    deviation: _Blocks,
    statistic: ClustersStatistic,
    n: Floats,
    relative: Floats,
) -> _Steps:
    """Divide residuals by the records that have them."""
    e, units = len(statistic.summed), statistic.units
    numbers = np.repeat(n[:, None], e, axis=1)
    relatives = np.repeat(relative[:, None], e, axis=1)
    for place, axis in enumerate(statistic.optional):
        if units.presence:
            found, error = (
                each.presences[:, place] / units.presence for each in (blocks, deviation)
            )
            at = statistic.summed.index(axis)
            numbers[:, at] = np.maximum(found, error)
            relatives[:, at] = error / numbers[:, at]
    one = statistic.radii / max(1, units.residual) / numbers
    means = blocks.residuals * one
    return _Steps(
        means=means, noise=(deviation.residuals * one) ** 2, of_count=(means * relatives) ** 2
    )


def _step(
    steps: _Steps, statistic: ClustersStatistic, is_phantom: NDArray[np.bool_]
) -> Estimate | None:
    """Return the centres after one step of k-means."""
    if not set(statistic.assigned) <= set(statistic.summed):
        return None
    at = [statistic.summed.index(axis) for axis in statistic.assigned]
    return Estimate(
        points=statistic.origins[:, at] + steps.means[:, at],
        variances=steps.noise[:, at],
        is_known=~is_phantom,
    )


def _shorten(stepped: Estimate | None, statistic: ClustersStatistic) -> Floats:
    centres = statistic.centres.astype(np.float64)
    if stepped is None:
        return centres
    return combine(Estimate(points=centres), stepped, statistic.weights.astype(np.float64)).points


def _measure_gain(
    steps: _Steps,
    stepped: Estimate,
    statistic: ClustersStatistic,
    used: Floats,
    kurtosis: float,
    sse: tuple[float, float],
) -> Number | None:
    """Measure what one step would gain.

    ``sum_j n_j (|step_j|^2 - z_j)`` over the squared distances, z_j being the energy of the noise;
    its variance is ``sum_i n^2 ((2 + kappa) v_i^2 + 4 v_i mu_i^2)`` in each cluster, and that of
    the count and of the denominator besides.

    Parameters
    ----------
    used
        Shape ``(k,)``: records of each cluster, 0 of a phantom.
    sse
        The squared distances of all records, and the variance of their noise.
    """
    whole, of_whole = sse
    if whole <= 0.0:
        return None
    at = [statistic.summed.index(axis) for axis in statistic.assigned]
    root = np.sqrt(statistic.weights.astype(np.float64))
    assert stepped.variances is not None
    # From the centre, which need not be the origin of residuals.
    mean, v = (stepped.points - statistic.centres) * root, stepped.variances * root**2
    energy, z = (mean**2).sum(axis=1), v.sum(axis=1)
    value = float((used * (energy - z)).sum()) / whole
    mu = np.maximum(0.0, mean**2 - v)
    variance = (used**2 * ((2.0 + kurtosis) * v**2 + 4.0 * v * mu).sum(axis=1)).sum()
    relative = steps.of_count[:, at] * root**2
    variance += (used**2 * energy * relative.sum(axis=1)).sum()
    error = math.sqrt(variance / whole**2 + value**2 * of_whole / whole**2)
    return Number(value=value, error=error)


def _measure_beyond(
    blocks: _Blocks, deviation: _Blocks, statistic: ClustersStatistic, total: float
) -> Number | None:
    unit = statistic.units.beyond
    if not unit:
        return None
    return Number(
        value=float(blocks.beyond[0]) / unit / total,
        error=float(deviation.beyond[0]) / unit / total,
    )


def _find_wide(
    squares: Floats | None, errors: Floats | None, is_phantom: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    if squares is None or errors is None or is_phantom.all():
        return np.zeros(len(is_phantom), dtype=np.bool_)
    usual = float(np.median(squares[~is_phantom]))
    wide: NDArray[np.bool_] = ~is_phantom & (squares - _CLEAR * errors > _WIDE * usual)
    return wide
