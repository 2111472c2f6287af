"""The lattice 24-gon: a body close to the disc, with integer vertices and exact point counts.

All lengths are integers. The number of lattice points of its t-fold multiple is a polynomial in the
integer t, without floors (Ehrhart, Pick); this makes exact K-norm noise possible (``proofs.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Bools, Integers
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.sensitivity import require_neighbouring

Facet = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class LatticePolygon:
    """A lattice polygon P, unchanged by sign changes and by exchange of its coordinates.

    Parameters
    ----------
    corners
        Its vertices with ``x >= y >= 0``, from the x axis to the diagonal.
    facets
        Triples (p, q, c), ``p >= q >= 0``: a point lies in t P iff ``p hi + q lo <= c t`` for each,
        with hi and lo the larger and smaller of its absolute coordinates.
    """

    corners: tuple[tuple[int, int], ...]
    facets: tuple[Facet, ...]

    def __post_init__(self) -> None:
        # The proof of the shifted radius law requires these two.
        if self.linear_share > Fraction(1, 2) or 1 / Fraction(self.area) < self.linear_share**2:
            raise PrivacyError("does not satisfy b <= 1/2 and gamma >= 0", field="polygon")

    @cached_property
    def vertices(self) -> tuple[tuple[int, int], ...]:
        """All vertices, in order of angle."""
        images = {
            (sx * a, sy * b)
            for x, y in self.corners
            for a, b in ((x, y), (y, x))
            for sx in (1, -1)
            for sy in (1, -1)
        }
        return tuple(sorted(images, key=lambda point: math.atan2(point[1], point[0])))

    @cached_property
    def _edges(self) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
        return tuple(zip(self.vertices, self.vertices[1:] + self.vertices[:1], strict=True))

    @property
    def inradius(self) -> int:
        """The largest coordinate of a point of P."""
        return self.corners[0][0]

    @cached_property
    def area(self) -> int:
        """The area, by the shoelace formula."""
        return sum(x * v - y * u for (x, y), (u, v) in self._edges) // 2

    @cached_property
    def boundary(self) -> int:
        """Lattice points on the boundary."""
        return sum(math.gcd(u - x, v - y) for (x, y), (u, v) in self._edges)

    @property
    def linear_share(self) -> Fraction:
        """The b in ``E(t) = area ((t + b)^2 + gamma)``, that is ``boundary / (4 area)``."""
        return Fraction(self.boundary, 4 * self.area)

    @cached_property
    def second_moment(self) -> Fraction:
        """Mean of x^2 over P, exact, by the shoelace formula for second moments."""
        doubled = sum((x * v - y * u) * (x * x + x * u + u * u) for (x, y), (u, v) in self._edges)
        return Fraction(doubled, 12 * self.area)

    def count_points(self, t: int) -> int:
        """Count the lattice points of t P for an integer ``t >= 0`` (Ehrhart polynomial)."""
        return self.area * t * t + self.boundary * t // 2 + 1

    def contains(self, x: Integers, y: Integers, t: int) -> Bools:
        """Return which points lie in t P; arrays of one shape."""
        low, high = _sorted_magnitudes(x, y)
        inside = np.ones(low.shape, dtype=np.bool_)
        for p, q, c in self.facets:
            inside &= p * high + q * low <= c * t
        return inside

    def norm(self, x: Integers, y: Integers) -> Integers:
        """Return the least integer t with the point in t P; this norm is subadditive and even."""
        low, high = _sorted_magnitudes(x, y)
        steps = [-(-(p * high + q * low) // c) for p, q, c in self.facets]
        least: Integers = np.maximum.reduce(steps)
        return least


def _sorted_magnitudes(x: Integers, y: Integers) -> tuple[Integers, Integers]:
    a, b = np.abs(x), np.abs(y)
    return np.minimum(a, b), np.maximum(a, b)


GON24 = LatticePolygon(
    corners=((12, 2), (11, 5), (10, 7)),
    facets=((1, 0, 12), (1, 1, 17), (2, 1, 27), (3, 1, 38)),
)
"""The default: noise on it has 1.25 % more variance than on the disc, which has no exact count."""


def compute_norm_sensitivity(
    table: NDArray[np.int16], polygon: LatticePolygon, *, neighbouring: str
) -> int:
    """Enumerate Delta, the largest norm of the change of one feature by one record.

    Parameters
    ----------
    table
        Shape ``(65536, 2)``: the feature of each phase. A record may also add zero.
    polygon
        The body.
    neighbouring
        ``replace-one`` or ``add-remove-one``.

    Returns
    -------
    int
        For replace-one the norm of ``f - g`` over all pairs of features, zero included: each
        facet's direction and its images have their widest spread over the table.
    """
    require_neighbouring(neighbouring)
    feature = np.vstack([table, np.zeros((1, 2), dtype=table.dtype)]).astype(np.int64)
    x, y = feature[:, 0], feature[:, 1]
    largest = 0
    for p, q, c in polygon.facets:
        for a, b in ((p, q), (q, p), (p, -q), (q, -p)):
            side = a * x + b * y
            spread = np.ptp(side) if neighbouring == "replace-one" else np.max(np.abs(side))
            largest = max(largest, -(-int(spread) // c))
    return largest
