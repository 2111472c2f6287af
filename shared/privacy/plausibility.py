"""Longest vector of an honest release: a bound on all coordinates together.

A coordinate alone may be as large as noise ever gets; all of them together may not. What is longer
than this bound no honest device sends, but for one release in 2^40; so the bound is also what a
device that lies can move a sum by (``proofs.md``, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from shared.core import AMPLITUDE
from shared.privacy.calibration import PrivacyTarget
from shared.privacy.gaussian import DiscreteGaussian
from shared.privacy.knorm import DiscreteKNorm
from shared.privacy.laplace import DiscreteLaplace
from shared.privacy.mechanism import Mechanism
from shared.privacy.polygon import LatticePolygon

HONEST_BITS = 40
"""An honest release is longer than the bound with probability below two to minus this."""
_CELLS = 1 << 14
_ROUNDING = 1e-9
"""Relative; more than the floats in here can be off by."""


@dataclass(frozen=True, kw_only=True)
class NoiseTail:
    """Bounds that the noise Y on the features of one release hardly ever exceeds.

    Parameters
    ----------
    exponent
        x: each of the bounds fails with probability at most ``exp(-x)``; there are at most four.
    squared_norm
        Bounds ``|Y|_2^2``, in squared units of the sum.
    spread, reach
        k and b of ``log E exp(l <S, Y>) <= k l^2 |S|_2^2 / (1 - (l b max |S_j|)^2)`` for every
        fixed S; units of the sum, k squared.
    """

    exponent: float
    squared_norm: float
    spread: float
    reach: float

    def bound_projection(self, *, norm: float, largest: float) -> float:
        """Bound ``<S, Y>`` for a fixed S of that L2 norm whose features are no larger than that."""
        if not norm:
            return 0.0
        root, flat = math.sqrt(self.exponent), math.sqrt(self.spread) * norm
        peak = self.reach * largest * root / flat
        return 2 * root * flat * (1 + peak) ** 2 / (1 + 2 * peak)


def bound_squared_norm(
    target: PrivacyTarget, mechanism: Mechanism, *, n_records: int, bits: int = HONEST_BITS
) -> float:
    """Bound ``|S + Y|_2^2`` of the features of a release of at most ``n_records`` records.

    With R = n A sqrt(r), the most that records add up to, it is ``R^2 + 2 <S, Y> + |Y|_2^2`` with
    the last two at their bounds. Clipping only makes a release shorter.

    Parameters
    ----------
    n_records
        At least 0.
    bits
        An honest release is longer with probability below ``2^-bits``.

    Returns
    -------
    float
        In squared units of the sum. The released count is no part of it.
    """
    tail = bound_noise(mechanism, target.n_frequencies, bits=bits)
    largest = float(n_records * AMPLITUDE)
    norm = largest * math.sqrt(target.measurements_per_record)
    # The second is what the triangle inequality gives.
    cross = min(
        tail.bound_projection(norm=norm, largest=largest), norm * math.sqrt(tail.squared_norm)
    )
    return (norm**2 + 2 * cross + tail.squared_norm) * (1 + _ROUNDING)


def compute_influence(target: PrivacyTarget, mechanism: Mechanism, *, n_records: int) -> float:
    """Return how many records, all alike, would move a sum as far as one sketch is able to.

    What a device that lies can do with a sketch that says ``n_records``: the L2 norm of W equal
    records is ``W A sqrt(r)``, and none of their features points elsewhere, so W bounds what the
    sketch adds in the direction of any one point.
    """
    limit = bound_squared_norm(target, mechanism, n_records=n_records)
    return math.sqrt(limit / target.measurements_per_record) / AMPLITUDE


def bound_noise(mechanism: Mechanism, n_frequencies: int, *, bits: int = HONEST_BITS) -> NoiseTail:
    """Bound the noise of a mechanism on m complex features."""
    return _bound_once(cast("Any", mechanism), n_frequencies, bits)


@lru_cache(maxsize=256)
def _bound_once(mechanism: Any, m: int, bits: int) -> NoiseTail:
    return _BOUNDS[type(mechanism)](mechanism, m, (bits + 2) * math.log(2.0))


def _bound_gaussian(mechanism: DiscreteGaussian, m: int, x: float) -> NoiseTail:
    """Take chi-square's tail: no moment is larger than that of the continuous Gaussian."""
    variance, n = float(mechanism.sigma) ** 2, 2 * m
    return NoiseTail(
        exponent=x,
        squared_norm=variance * (n + 2 * math.sqrt(n * x) + 2 * x),
        spread=variance / 2,
        reach=0.0,
    )


def _bound_laplace(mechanism: DiscreteLaplace, m: int, x: float) -> NoiseTail:
    """Cut the law off where no coordinate gets: its squares have no exponential moments."""
    b, n = float(mechanism.scale), 2 * m
    furthest = math.floor(b * (math.log(2 * n) + x))
    edges = np.unique(np.linspace(0, furthest + 1, _CELLS + 1).astype(np.int64))
    # P(|y| >= k) = 2 q^k / (1 + q) for k >= 1; a cell counts as if all of it were at its end.
    beyond = 2 * np.exp(-edges / b) / (1 + math.exp(-1 / b))
    beyond[0] = 1.0
    masses, squares = -np.diff(beyond), (edges[1:] - 1.0) ** 2
    limits = []
    for share in np.geomspace(0.01, 2.0, 40):
        rate = share / (b * max(furthest, b))
        moment = float(np.sum(masses * np.exp(rate * squares)))
        limits.append((n * math.log(moment) + x) / rate)
    return NoiseTail(exponent=x, squared_norm=max(0.0, min(limits)), spread=b**2, reach=b)


def _bound_knorm(mechanism: DiscreteKNorm, m: int, x: float) -> NoiseTail:
    """Bound a Gamma radius, and given it the independent features on one bounded body."""
    n = mechanism.n_coordinates + 1
    gamma = n + math.sqrt(2 * n * x) + x
    polygon = mechanism.polygon
    margin = _compute_margin(polygon)
    radius = mechanism.shift + float(mechanism.scale) * gamma + margin
    corner, mean, fourth = _describe_polygon(polygon)
    # Lattice points stand for unit squares, which fill a body larger by the margin.
    paid = x + 2 * m * margin / mechanism.shift
    spread = math.sqrt(2 * m * (fourth - mean**2) * paid) + (corner - mean) * paid / 3
    return NoiseTail(
        exponent=paid,
        squared_norm=radius**2 * min(m * mean + spread, m * corner),
        spread=radius**2 * mean / 4,
        reach=radius * math.sqrt(corner / 12),
    )


_BOUNDS: dict[type, Callable[[Any, int, float], NoiseTail]] = {
    DiscreteGaussian: _bound_gaussian,
    DiscreteLaplace: _bound_laplace,
    DiscreteKNorm: _bound_knorm,
}


def _compute_margin(polygon: LatticePolygon) -> float:
    """Return the d for which d P holds the unit square around the origin."""
    return max((p + q) / (2 * c) for p, q, c in polygon.facets)


@lru_cache(maxsize=8)
def _describe_polygon(polygon: LatticePolygon) -> tuple[float, float, float]:
    """Return the largest ``|x|^2`` of P, and the means of ``|x|^2`` and ``|x|^4`` over it.

    Over a triangle from the origin the integral of what is homogeneous of degree k is its doubled
    area over k + 2 times the integral along its outer edge.
    """
    second = fourth = 0.0
    corners = polygon.vertices
    for (x, y), (u, v) in zip(corners, corners[1:] + corners[:1], strict=True):
        doubled = x * v - y * u
        a, b, c = x * x + y * y, x * (u - x) + y * (v - y), (u - x) ** 2 + (v - y) ** 2
        second += doubled * (a + b + c / 3) / 4
        fourth += (
            doubled * (a * a + 2 * a * b + (4 * b * b + 2 * a * c) / 3 + b * c + c * c / 5) / 6
        )
    largest = max(x * x + y * y for x, y in corners)
    return float(largest), second / polygon.area, fourth / polygon.area
