"""Cells of a joint grid: how many there are, where they lie, and the noise of their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core.statistics.grid import MOST_CELLS, MOST_GRID_DIMENSIONS
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.errors import PlanError, PrivacyError
from sfumato.shared.privacy.mechanism import Mechanism, require_epsilon
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_SIZE: Final = 4
"""Cells in a dimension, at least: fewer show no clusters."""
MOST_SIZE: Final = 1 << 12
"""Cells in a dimension, at most: a record has 65,535 steps."""
# Most summands whose law is computed exactly; the normal law is as good for more.
_MOST_SUMMANDS: Final = 1000
_BISECTIONS: Final = 60


def choose_cells(
    n_records: int,
    epsilon: Fraction,
    relation: str,
    n_noised_sums: int,
    n_dimensions: int,
    limits: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Choose the grid of a plan with discrete Laplace noise, from public numbers.

        M = (n eps' / sqrt L)^(2 d / (d + 2)),    eps' = epsilon | epsilon / 2

    under add-remove-one | replace-one: the grid of :func:`choose_cells_for_noise`, for noise of
    standard deviation ``sqrt(2 L) / eps'``.

    Parameters
    ----------
    n_records
        n, the expected records of all sums together.
    epsilon
        Epsilon of each sum, an exact rational.
    relation
        ``replace-one`` or ``add-remove-one``.
    n_noised_sums
        L: the sums that have noise of their own; 1 under a secure sum.
    n_dimensions, limits
        As in :func:`choose_cells_for_noise`.

    Raises
    ------
    PlanError, PrivacyError
        A number is out of range.
    """
    _require(n_noised_sums >= 1, "n_noised_sums", "must be at least 1", "count the noised sums")
    moved = count_records_moved(relation)
    deviation = math.sqrt(2.0 * n_noised_sums) * moved / float(require_epsilon(epsilon))
    return choose_cells_for_noise(n_records, deviation, n_dimensions, limits)


def choose_cells_for_noise(
    n_records: int, deviation: float, n_dimensions: int, limits: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Choose a grid for counts with noise of a standard deviation s.

        M = (sqrt 2 n / s)^(2 d / (d + 2))

    Su, Cao, Li, Bertino and Jin (2016) have a tenth of the base, because they keep negative counts
    as weights; where noise is cut off, ``python -m benchmarks.grids`` finds errors from wide cells
    up to three times as large as those of narrow ones. All dimensions have the d-th root of M
    cells, rounded down, the first ones one more, up to a product of M.

    Parameters
    ----------
    n_records
        n.
    deviation
        Deviation of the noise of one cell's count, all sums together.
    n_dimensions
        d, from 1 to ``MOST_GRID_DIMENSIONS``: coordinates of the encoded record.
    limits
        The most cells that each dimension can use, such as 2 for a coordinate of two values; the
        others share the rest.

    Returns
    -------
    tuple of int
        d sizes from ``LEAST_SIZE`` to ``MOST_SIZE``, or down to a limit. Their product is at most
        ``MOST_CELLS``.

    Raises
    ------
    PlanError
        A number is out of range.
    """
    _require(n_records >= 1, "n_records", "must be at least 1", "state the expected number")
    _require(
        1 <= n_dimensions <= MOST_GRID_DIMENSIONS,
        "n_dimensions",
        f"must be from 1 to {MOST_GRID_DIMENSIONS} for a grid, not {n_dimensions}",
        'use fewer dimensions, or the statistic "fourier"',
    )
    _require(0.0 < deviation < math.inf, "deviation", "must be positive", "calibrate the noise")
    most = [MOST_SIZE] * n_dimensions if limits is None else [min(MOST_SIZE, m) for m in limits]
    _require(
        len(most) == n_dimensions and min(most) >= 1,
        "limits",
        "must be a number of cells, at least 1, for each dimension",
        "leave it out where there is no limit",
    )
    return divide_box(compute_cells(math.sqrt(2.0) * n_records / deviation, n_dimensions), most)


def compute_cells(base: float, n_dimensions: int) -> float:
    """Return the number of cells ``base^(2 d / (d + 2))`` of Su et al., at most ``MOST_CELLS``."""
    power = 2.0 * n_dimensions / (n_dimensions + 2.0)
    return float(min(max(base, 1.0) ** power, float(MOST_CELLS)))


def divide_box(wanted: float, most: Sequence[int], least: int = LEAST_SIZE) -> tuple[int, ...]:
    """Grow the least size that may grow, until the product would exceed ``wanted``."""
    sizes = [min(least, limit) for limit in most]
    while True:
        growing = [i for i, limit in enumerate(most) if sizes[i] < limit]
        if not growing:
            return tuple(sizes)
        i = min(growing, key=lambda i: sizes[i])
        if math.prod(sizes) // sizes[i] * (sizes[i] + 1) > wanted:
            return tuple(sizes)
        sizes[i] += 1


@dataclass(frozen=True, kw_only=True, eq=False)
class CellGrid:
    """Places of the cells of a grid in the public box.

    Parameters
    ----------
    sizes
        Number of cells in each dimension; the last dimension varies fastest.
    lower, upper
        Shape ``(d,)``, the box; in the unit of the data or, for a dimension with a transform, of
        its transformed values.
    """

    sizes: tuple[int, ...]
    lower: Floats
    upper: Floats

    @property
    def n_cells(self) -> int:
        """The number of cells M, without the one for records with a missing value."""
        return math.prod(self.sizes)

    @cached_property
    def widths(self) -> Floats:
        """Widths of a cell: shape ``(d,)``."""
        widths: Floats = (self.upper - self.lower) / np.array(self.sizes)
        return widths

    @cached_property
    def places(self) -> Integers:
        """Index of each cell in each dimension: shape ``(d, M)``."""
        return np.indices(self.sizes).reshape(len(self.sizes), -1)

    @cached_property
    def centres(self) -> Floats:
        """Centres of the cells: shape ``(M, d)``."""
        return self.locate(self.places.T.astype(np.float64))

    def locate(self, places: Floats) -> Floats:
        """Convert places in cells, shape ``(..., d)``, to points of the box."""
        return self.lower + (places + 0.5) * self.widths

    def find_blocks(self, level: int) -> tuple[Integers, tuple[int, ...]]:
        """Return the block of each cell, and the shape of the grid of blocks.

        Blocks have ``2^level`` cells in each dimension, or fewer at the upper ends of the box.
        """
        shape = tuple(-(-size >> level) for size in self.sizes)
        blocks = np.ravel_multi_index(tuple(self.places >> level), shape)
        return blocks.astype(np.int64), shape


@dataclass(frozen=True, kw_only=True)
class CellNoise:
    """Law of the noise of one cell's count, independent between cells.

    Parameters
    ----------
    law
        ``laplace`` for sums of L discrete Laplace variates, ``gaussian``.
    variance
        Variance of the L variates together, records squared.
    n_sums
        L.

    Raises
    ------
    PrivacyError
        A number is out of range.
    """

    law: Literal["laplace", "gaussian"]
    variance: float
    n_sums: int = 1

    def __post_init__(self) -> None:
        if not 0.0 <= self.variance < math.inf:
            raise PrivacyError(
                "must be finite and at least 0",
                field="variance",
                fix="take it from the plan's mechanism",
            )
        if self.n_sums < 1:
            raise PrivacyError(
                "must be at least 1", field="n_sums", fix="count the noised sums of the selection"
            )

    @classmethod
    def of(cls, mechanism: Mechanism, n_sums: int) -> CellNoise:
        """Return the noise of L sums of one mechanism.

        Raises
        ------
        PrivacyError
            The mechanism is neither discrete Laplace nor discrete Gaussian.
        """
        variance = n_sums * mechanism.variance
        if isinstance(mechanism, DiscreteLaplace):
            return cls(law="laplace", variance=variance, n_sums=n_sums)
        if isinstance(mechanism, DiscreteGaussian):
            return cls(law="gaussian", variance=variance, n_sums=n_sums)
        raise PrivacyError(
            "must be discrete-laplace or discrete-gaussian for a grid",
            field="mechanism",
            fix="use discrete-laplace, or discrete-gaussian with a delta",
        )

    @property
    def deviation(self) -> float:
        """Standard deviation, records."""
        return math.sqrt(self.variance)

    @property
    def scale(self) -> float:
        """Scale b of the continuous Laplace law of one sum's variance."""
        return math.sqrt(self.variance / (2.0 * self.n_sums))

    def find_limit(self, probability: float, n_cells: int = 1) -> float:
        """Find t such that the noise of a number of cells together exceeds t so seldom.

        For one cell of one sum, ``t = b log(1 / (2 p))``, so that ``p = 1 / (2 M)`` gives
        ``b log M``, (2 / epsilon) log M under replace-one.
        """
        summands = self.n_sums * n_cells
        spread = self.deviation * math.sqrt(n_cells)
        if self.law == "gaussian" or summands > _MOST_SUMMANDS or not spread:
            from scipy.special import ndtri  # noqa: PLC0415 - a server never needs it

            return -float(ndtri(min(probability, 0.5))) * spread
        low, high = 0.0, 1.0
        while compute_laplace_tail(high, summands) > probability:
            high *= 2.0
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            if compute_laplace_tail(middle, summands) > probability:
                low = middle
            else:
                high = middle
        return high * self.scale

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw noise of the continuous law: shape ``(size,)``. For simulation, not for release."""
        if self.law == "gaussian":
            return rng.normal(scale=self.deviation, size=size)
        above, below = rng.gamma(self.n_sums, self.scale, size=(2, size))
        drawn: Floats = above - below
        return drawn


def compute_laplace_tail(limit: float, n_summands: int) -> float:
    """Compute the probability that the sum of L standard Laplace variates exceeds a limit >= 0.

        P(X > t) = sum_{i=1}^{L} C(2 L - 1 - i, L - 1) 2^-(2 L - i) Q(i, t)

    with Q the regularised upper incomplete gamma function. X is the difference of the times of the
    L-th arrivals of two Poisson processes of rate 1; the term i belongs to the event that the one
    whose L-th arrival comes first leaves i arrivals to the other.
    """
    from scipy.special import gammaincc, gammaln  # noqa: PLC0415

    i = np.arange(1, n_summands + 1)
    logs = gammaln(2 * n_summands - i) - gammaln(n_summands) - gammaln(n_summands - i + 1)
    masses = np.exp(logs - (2 * n_summands - i) * math.log(2.0))
    return float(np.sum(masses * gammaincc(i, limit)))


def _require(holds: bool, field: str, rule: str, fix: str) -> None:
    if not holds:
        raise PlanError(rule, field=field, fix=fix)
