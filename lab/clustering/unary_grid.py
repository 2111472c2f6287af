"""Grid under local privacy: each device reports its cell, k-means clusters the cells.

A reference to compare with. It is the grid EUGkM of Su, Cao, Li, Bertino and Jin, "Differentially
Private K-Means Clustering" (2016), with optimised unary encoding (Wang et al. 2017) in place of the
curator's Laplace noise. It differs from the former at three points: the number of cells follows the
standard deviation of the local noise, counts are projected on the simplex where the paper keeps
negative ones, and the box is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.lab.clustering.local_method import (
    LocalMethod,
    Tally,
    build_quantiser,
    require_sizes,
    require_tally,
    restore_units,
)
from sfumato.lab.clustering.unary import BLANK, Bytes, UnaryLaw, choose_unary_law
from sfumato.learning.clustering.weighted_points import cluster_weighted, project_on_simplex
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import PlanError
from sfumato.shared.privacy.samplers import RandomSource

MOST_CELLS: Final = 1 << 11
"""A report has a bit a cell: 256 bytes."""
_COUNT_IN_DEVIATIONS: Final = 4.0


@dataclass(frozen=True, kw_only=True, eq=False)
class UnaryGrid(LocalMethod):
    """Reports of cells of a public grid; see :class:`LocalMethod` for the methods.

    Parameters
    ----------
    epsilon, lower, upper
        As of ``LocalMethod``.
    sizes
        Number of cells in each dimension, d of them; their product is at most ``MOST_CELLS``.

    Raises
    ------
    PlanError
        The box or the sizes cannot be used.
    PrivacyError
        epsilon is no rational from ``LEAST_EPSILON`` to ``LARGEST_EPSILON``.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != self.quantiser.n_dimensions or min(self.sizes) < 1:
            raise PlanError(
                "must be a number of cells, at least 1, for each dimension",
                field="sizes",
                fix="take the sizes from choose",
            )
        if self.n_cells > MOST_CELLS:
            raise PlanError(
                f"must have a product of at most {MOST_CELLS} and have {self.n_cells}",
                field="sizes",
                fix="use fewer cells; a report has a bit for each",
            )
        # An epsilon out of range is refused here rather than at the first report.
        _ = self.law

    @classmethod
    def choose(
        cls,
        *,
        n_records: int,
        n_clusters: int,
        epsilon: Fraction,
        lower: ArrayLike,
        upper: ArrayLike,
    ) -> UnaryGrid:
        """Choose the grid from public numbers.

        ``M = (n / (4 s))^(2 d / (d + 2))`` cells, with s the standard deviation of the estimated
        count of an empty cell. Su et al. have ``n epsilon / 10`` in the brackets; the factor here
        was chosen on the mixtures of ``benchmarks.phones``, with other seeds. All dimensions have
        the d-th root of M cells, rounded down, and the first ones one more, up to a product of M.

        Parameters
        ----------
        n_records, n_clusters
            n, and k, which does not affect the grid.
        epsilon, lower, upper
            As in the class.

        Raises
        ------
        PlanError, PrivacyError
            A number is out of range.
        """
        require_sizes(n_records, n_clusters)
        d = build_quantiser(lower, upper).n_dimensions
        deviation = math.sqrt(choose_unary_law(epsilon, 1).compute_noise_variance(n_records))
        power = 2 * d / (d + 2)
        wanted = max(1.0, n_records / (_COUNT_IN_DEVIATIONS * deviation)) ** power
        return cls(
            epsilon=epsilon,
            lower=lower,
            upper=upper,
            sizes=_divide_box(d, min(wanted, float(MOST_CELLS))),
        )

    @property
    def n_cells(self) -> int:
        """The number of cells M."""
        return math.prod(self.sizes)

    @cached_property
    def law(self) -> UnaryLaw:
        """The law of a report."""
        return choose_unary_law(self.epsilon, self.n_cells)

    def find_cells(self, records: NDArray[np.floating]) -> Integers:
        """Find the cell of each record, or ``BLANK`` for a row that is not finite.

        In dimension i it is ``((u + 32767) m_i) div 65535``, integers; the last dimension varies
        fastest.

        Parameters
        ----------
        records
            Shape ``(n, d)``, data units.
        """
        quantised, sketchable = self.quantiser.quantise(records)
        cells = np.zeros(len(quantised), dtype=np.int64)
        for column, size in zip(quantised.T, self.sizes, strict=True):
            cells *= size
            cells += (column.astype(np.int64) + STEPS) * size // (2 * STEPS + 1)
        return np.where(sketchable, cells, BLANK)

    def find_centres(self) -> Floats:
        """Return the centres of the cells: shape ``(M, d)``, data units."""
        sizes = np.array(self.sizes)
        index = np.stack(np.unravel_index(np.arange(self.n_cells), self.sizes), axis=1)
        return restore_units(self.quantiser, STEPS * ((2.0 * index + 1.0) / sizes - 1.0))

    def report(self, records: NDArray[np.floating], source: RandomSource) -> Bytes:
        """Draw the reports of records: shape ``(n, report_bytes)``, a bit a cell."""
        return self.law.draw_reports(self.find_cells(records), source)

    def tally(self, reports: Bytes) -> Tally:
        """Add up reports; a tally has one group of M symbols."""
        ones = self.law.count_ones(reports)
        return Tally(ones=ones[None], n_reports=np.array([len(reports)], dtype=np.int64))

    def estimate_counts(self, tally: Tally) -> Floats:
        """Estimate the number of records in each cell, unbiased: shape ``(M,)``."""
        require_tally(tally, 1, self.n_cells)
        return self.law.estimate_counts(tally.ones[0], tally.total)

    def recover(self, tally: Tally, *, n_clusters: int, rng: np.random.Generator) -> Floats:
        """Cluster the centres of the cells, weighted by counts projected on the simplex."""
        weights = project_on_simplex(self.estimate_counts(tally), tally.total)
        return cluster_weighted(self.find_centres(), weights, n_clusters, rng)


def _divide_box(n_dimensions: int, most_cells: float) -> tuple[int, ...]:
    """Return sizes that differ by one at most, with a product of at most ``most_cells``."""
    sizes = [1] * n_dimensions
    while True:
        for i in range(n_dimensions):
            if math.prod(sizes) // sizes[i] * (sizes[i] + 1) > most_cells:
                return tuple(sizes)
            sizes[i] += 1
