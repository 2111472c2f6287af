"""Drift between two pilots: whether records lie elsewhere than they did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learning.calibration.hull import FALSE_ALARM
from learning.estimate.histogram import Floats, Marginal
from shared.errors import DecodingError

_BLOCK = 4
_FAR_DEVIATIONS = 4.0


@dataclass(frozen=True, kw_only=True)
class ColumnDrift:
    """Difference of one dimension between two pilots.

    Parameters
    ----------
    name
        Of the dimension.
    far_share
        Share of the blocks of four bins that differ by more than four standard deviations.
    largest
        The largest difference, in standard deviations.
    lower, upper
        The block of the largest difference, data units.
    change
        Its share of the records in the second pilot minus that in the first.
    has_moved
        Whether noise and sampling explain it with probability at most 0.001 over all blocks of the
        dimension.
    """

    name: str
    far_share: float
    largest: float
    lower: float
    upper: float
    change: float
    has_moved: bool


def compare(first: Sequence[Marginal], second: Sequence[Marginal]) -> tuple[ColumnDrift, ...]:
    """Compare two pilots over the same dimensions and bins.

    Raises
    ------
    DecodingError
        The pilots have other dimensions or other bins.
    """
    if [marginal.name for marginal in first] != [marginal.name for marginal in second]:
        raise DecodingError(
            "must have the same dimensions", field="pilots", fix="use the plan of the first pilot"
        )
    return tuple(_compare(a, b) for a, b in zip(first, second, strict=True))


def _compare(first: Marginal, second: Marginal) -> ColumnDrift:
    if not np.array_equal(first.data_edges, second.data_edges):
        raise DecodingError(
            f"must have the same bins in {first.name}",
            field="pilots",
            fix="use the plan of the first pilot",
        )
    starts = np.arange(0, first.bins.size, _BLOCK)
    widths = np.diff(np.append(starts, first.bins.size)).astype(np.float64)
    sums = [np.add.reduceat(marginal.bins, starts) for marginal in (first, second)]
    p, q = sums[0] / first.n_present, sums[1] / second.n_present
    pooled = np.clip((sums[0] + sums[1]) / (first.n_present + second.n_present), 0.0, 1.0)
    sampling = pooled * (1.0 - pooled) * (1.0 / first.n_present + 1.0 / second.n_present)
    noises = [widths * marginal.deviation**2 for marginal in (first, second)]
    z = (q - p) / np.sqrt(noises[0] + noises[1] + sampling)
    limit = _limit(first, second, widths, sampling)
    excess = np.abs(q - p) / limit
    most = int(np.argmax(np.abs(z)))
    edges = first.data_edges
    return ColumnDrift(
        name=first.name,
        far_share=float(np.mean(np.abs(z) > _FAR_DEVIATIONS)),
        largest=float(np.abs(z[most])),
        lower=float(edges[starts[most]]),
        upper=float(edges[min(starts[most] + _BLOCK, first.bins.size)]),
        change=float(q[most] - p[most]),
        has_moved=bool(np.max(excess) > 1.0),
    )


def _limit(first: Marginal, second: Marginal, widths: Floats, sampling: Floats) -> Floats:
    """Bound each block's difference: three independent parts, each with a third of the risk.

    ``sqrt`` of the sum of squares would be too small for Laplace noise; the sum is a bound.
    """
    exponent = math.log(3.0 * 2.0 * widths.size / FALSE_ALARM)
    bound: Floats = np.sqrt(2.0 * exponent * sampling)
    for marginal in (first, second):
        bound = bound + marginal.noise.bound(widths, exponent) / marginal.n_present
    return bound
