"""First and second moments of clipped records: the statistic behind principal components."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Integers
from sfumato.shared.core.records import Records
from sfumato.shared.core.statistics.interface import PlainStatistic, require_neighbouring
from sfumato.shared.errors import PlanError

MOMENT_STEPS = 2047
"""Steps of the coarser quantiser from the centre of the box to its edge: 12 bits."""
WEIGHT = 7
"""Weight of means and of products of two coordinates."""
DIAGONAL_WEIGHTS = (5, 7)
"""Weights of squares: 5 where noise is measured in L2 (25 >= 49 / 2), 7 where in L1."""
_MOST_COORDINATES = 1 << 21
_PARTS = 1024
"""The free parameter of the bound in L1 is a multiple of 1 / 1024."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentsStatistic(PlainStatistic):
    """Sums of clipped coordinates u and of their products, in integers.

    ``u = (steps + 8) >> 4``, cut to -2047 .. 2047. If ``sum u^2 > R^2``, with N the least integer
    with ``N^2 >= sum u^2``, each ``u_i`` becomes ``sign(u_i) ((|u_i| R) div N)``. Then, with
    ``q = R div 4`` and the diagonal weight w, a record adds

    - ``R^2``, which counts complete records,
    - ``7 q u_i`` for each i,
    - row by row ``w u_i^2``, then ``7 u_i u_j`` for each j > i.

    A record with a missing value adds zero throughout.

    Parameters
    ----------
    quantiser, encoder
        As of ``PlainStatistic``.
    norm_steps
        R, the radius of the ball that records are clipped to, in steps of 1/2047 of a half width:
        1 to ``ceil(2047 sqrt d)``.
    diagonal_weight
        w: 5 for Gaussian noise, 7 for Laplace noise.

    Guarantees
    ----------
    ``sum u_i^2 <= R^2`` after clipping, for ``|u_i'| <= |u_i| R / N``.

    Raises
    ------
    PlanError
        A parameter outside its range.
    """

    norm_steps: int
    diagonal_weight: int = 5

    def __post_init__(self) -> None:
        most = _ceil_sqrt(MOMENT_STEPS**2 * self.n_dimensions)
        if not 1 <= self.norm_steps <= most:
            raise PlanError(
                f"must be 1 to {most}",
                field="statistic.norm_steps",
                fix=f"use about 2047 sqrt(1.5 d) / 3, here {most * 408 // 1000}",
            )
        if self.diagonal_weight not in DIAGONAL_WEIGHTS:
            raise PlanError("must be 5 or 7", field="statistic.diagonal_weight")
        if self.n_coordinates > _MOST_COORDINATES:
            raise PlanError(
                f"would need {self.n_coordinates} sums, and the limit is {_MOST_COORDINATES}",
                field="dimensions",
                fix="leave dimensions out",
            )

    @property
    def n_dimensions(self) -> int:
        """The number of coordinates d of a record."""
        return self.quantiser.n_dimensions

    @property
    def n_coordinates(self) -> int:
        """One constant, d means and ``d (d + 1) / 2`` products."""
        d = self.n_dimensions
        return 1 + d + d * (d + 1) // 2

    @cached_property
    def identity(self) -> bytes:
        """SHA-256 of all that decides what a record adds."""
        box = self.quantiser.centre.tolist(), self.quantiser.half_width.tolist()
        encodings = self.encoder.dimensions if self.encoder else None
        rule = ("moments", *box, self.norm_steps, self.diagonal_weight, encodings)
        return hashlib.sha256(repr(rule).encode()).digest()

    @property
    def constant(self) -> int:
        """Term of a complete record in the first sum, ``R^2``."""
        return self.norm_steps**2

    @property
    def mean_weight(self) -> int:
        """Weight of a coordinate in its sum, 7 q."""
        return WEIGHT * (self.norm_steps // 4)

    @cached_property
    def product_weights(self) -> Integers:
        """Weights of the products, row by row: shape ``(d (d + 1) / 2,)``."""
        rows, columns = np.triu_indices(self.n_dimensions)
        weights = np.where(rows == columns, self.diagonal_weight, WEIGHT).astype(np.int64)
        weights.setflags(write=False)
        return weights

    @property
    def lowest(self) -> int:
        """The least integer that a record adds to a coordinate."""
        return -max(self._largest_mean, self._largest_product)

    @property
    def highest(self) -> int:
        """The largest integer that a record adds to a coordinate."""
        largest = min(self.norm_steps, MOMENT_STEPS)
        square = self.diagonal_weight * largest**2
        return max(self.constant, self._largest_mean, square, self._largest_product)

    @property
    def _largest_mean(self) -> int:
        return self.mean_weight * min(self.norm_steps, MOMENT_STEPS)

    @property
    def _largest_product(self) -> int:
        # 2 |u_i u_j| <= u_i^2 + u_j^2 <= R^2.
        if self.n_dimensions == 1:
            return 0
        return WEIGHT * min(self.norm_steps**2 // 2, MOMENT_STEPS**2)

    def measure_l1(self, neighbouring: str) -> int:
        """Bound the L1 distance of the sums of neighbours; see section 11 of ``proofs.md``."""
        require_neighbouring(neighbouring)
        d, w, r2, q = self.n_dimensions, self.diagonal_weight, self.norm_steps**2, self._quarter
        # sum_i w x_i^2 + 7 sum_{i<j} |x_i x_j| <= (w - 7/2) R^2 + 7/2 d R^2.
        products = -((-(2 * w + WEIGHT * (d - 1)) * r2) // 2)
        one = self.constant + _ceil_sqrt((WEIGHT * q) ** 2 * r2 * d) + products
        if neighbouring == "add-remove-one" or d == 1:
            return one
        # (1 + k) R^2 sqrt(2 |S|^2 + 49 d q^2 / (k R^2)) for every k > 0; this k is near the best.
        twice = 4 * d * w**2 + WEIGHT**2 * d * (d - 1)
        a, b = twice * r2, 2 * WEIGHT**2 * d * q**2
        k = max(1, (math.isqrt(b * b + 8 * a * b) - b) * _PARTS // (4 * a))
        numerator = (_PARTS + k) ** 2 * (twice * r2**2 * k + b * r2 * _PARTS)
        return max(one, _ceil_sqrt(-(-numerator // (2 * _PARTS**2 * k))))

    def measure_l2_squared(self, neighbouring: str) -> int:
        """Bound the squared L2 distance of the sums; see section 11 of ``proofs.md``."""
        require_neighbouring(neighbouring)
        square, r2, q = self.diagonal_weight**2, self.norm_steps**2, self._quarter
        mean = (WEIGHT * q) ** 2
        if neighbouring == "add-remove-one" or self.n_dimensions == 1:
            return square * r2**2 + mean * r2 + self.constant**2
        return 2 * square * r2**2 + 2 * mean * r2 - (-(mean**2) // (2 * square))

    @property
    def _quarter(self) -> int:
        return self.norm_steps // 4

    def clip(self, steps: NDArray[np.int16]) -> Integers:
        """Return clipped coordinates of quantised records: shape ``(n, d)`` both.

        The definition in NumPy.
        """
        u: Integers = np.clip((steps.astype(np.int64) + 8) >> 4, -MOMENT_STEPS, MOMENT_STEPS)
        squares = np.sum(u * u, axis=1)
        far = squares > self.norm_steps**2
        # Exact: a double holds the squares, and its root is at least 1e-6 from the next integer
        # where it is none itself.
        norm = np.ceil(np.sqrt(squares[far].astype(np.float64))).astype(np.int64)
        u[far] = np.sign(u[far]) * (np.abs(u[far]) * self.norm_steps // norm[:, None])
        return u

    def sum_records(self, records: Records, sums: Integers) -> int:
        """Add the moments of each record; see ``PlainStatistic``."""
        d, n_unsketchable = self.n_dimensions, 0
        upper = np.triu_indices(d)
        for steps, present in self.quantiser.quantise_parts(records):
            u = self.clip(steps[np.logical_and.reduce(present, axis=1)])
            n_unsketchable += len(steps) - len(u)
            sums[0] += self.constant * len(u)
            sums[1 : 1 + d] += self.mean_weight * u.sum(axis=0)
            # Exact: at most 2^16 products below 2^22.
            exact = u.astype(np.float64)
            products = (exact.T @ exact)[upper].astype(np.int64)
            sums[1 + d :] += self.product_weights * products
        return n_unsketchable


def _ceil_sqrt(value: int) -> int:
    """Return the least integer whose square is at least ``value``."""
    root = math.isqrt(value)
    return root + (root * root < value)
