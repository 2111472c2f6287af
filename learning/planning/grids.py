"""Grids before any data exist: cells, noise and expected quality, beside the Fourier sketch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from sfumato.learning.clustering.cells import CellNoise, choose_cells_for_noise
from sfumato.learning.planning.laws import SEPARATION
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.core.statistics.grid import MOST_CELLS, MOST_GRID_DIMENSIONS
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import Mechanism
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace

HALF_WIDTH_IN_SPREADS: Final = 4.0
"""Half width of the box over the standard deviation of a column, unless the caller knows it."""
# Excess of the SSE: exp(c_0 + c_1 log h + c_2 log x), quantiles 5 % and 90 % of the answers that
# the verdict is fitted to.
_LOW: Final = (-2.463, 2.11, -0.509)
_HIGH: Final = (-1.489, 1.89, -0.128)
# Where a grid is recommended: see is_grid_better.
_BETTER_DIMENSIONS: Final = 3
_BETTER_STRENGTH: Final = 30.0
_BETTER_HALF_WIDTH: Final = 8.0
# Not measured above.
_WIDEST_CELL: Final = 6.0
_LEAST_STRENGTH: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class GridBand:
    """Expected range of the SSE relative to k-means on the records: a rule of thumb.

        low, high = 1 + exp(c_0 + c_1 log h + c_2 log x)

    Parameters
    ----------
    cell_over_spread
        h: root mean square width of a cell over the expected deviation inside a cluster.
    strength
        ``x = sqrt 2 n / (k s)``: records of a cluster over the noise of a cell; n epsilon' / k for
        one sum with Laplace noise.
    low, high
        Relative SSE, of 90 in 100 studies; ``high`` is infinite beyond h = 6 and below x = 10.
    """

    cell_over_spread: float
    strength: float
    low: float
    high: float

    def reaches(self, relative_sse: float) -> bool:
        """Return whether the whole band lies at or below a relative SSE."""
        return self.high <= relative_sse

    def describe(self) -> str:
        """Describe the band in words."""
        if math.isfinite(self.high):
            return f"relative SSE between {self.low:.2f} and {self.high:.2f} is expected"
        reason = f"cells are {self.cell_over_spread:.2g} times as wide as clusters"
        if self.strength < _LEAST_STRENGTH:
            reason = f"a cluster has only {self.strength:.2g} times the records of a cell's noise"
        return (
            f"relative SSE of {self.low:.2f} or more is expected, without an upper bound: {reason}"
        )


@dataclass(frozen=True, kw_only=True)
class GridCandidate:
    """A grid with its noise and expected quality.

    Parameters
    ----------
    cells
        Number of cells in each dimension.
    mechanism
        Mechanism of each sum.
    noise
        Noise of a cell's count, all sums together.
    band
        Expected relative SSE.
    sketch_bytes
        Size of the payload of one sum.
    """

    cells: tuple[int, ...]
    mechanism: Mechanism
    noise: CellNoise
    band: GridBand
    sketch_bytes: int


def predict_grid(
    outline: StudyOutline,
    *,
    epsilon: Fraction,
    delta: Fraction = Fraction(0),
    half_width_in_spreads: float = HALF_WIDTH_IN_SPREADS,
    cells: tuple[int, ...] | None = None,
) -> GridCandidate:
    """Predict the quality of a grid.

    Parameters
    ----------
    outline
        The study. Each sketch has noise of its own.
    epsilon, delta
        The budget of one sketch: discrete Laplace noise without a delta, else discrete Gaussian.
    half_width_in_spreads
        B: half width of the box over the standard deviation of a column. Clusters are expected to
        have the deviation ``1 / sqrt(1 + (1.5 k^(1/d))^2)`` of a column's, as in
        :func:`sfumato.learning.planning.laws.expect_signal_energy`.
    cells
        The grid; None for that of :func:`choose_cells_for_noise`.

    Raises
    ------
    PlanError, PrivacyError
        There are more than four dimensions, the unit is a device, or the noise cannot be
        calibrated.
    """
    if outline.protects_devices:
        raise PrivacyError(
            "must be record for a grid", field="unit", fix='use the statistic "fourier"'
        )
    mechanism = _calibrate(outline, epsilon, delta)
    noise = CellNoise.of(mechanism, outline.noises)
    d, k, n = outline.n_dimensions, outline.n_clusters, outline.n_records
    chosen = cells or choose_cells_for_noise(n, noise.deviation, d)
    spread = 1.0 / (half_width_in_spreads * math.hypot(1.0, SEPARATION * k ** (1.0 / d)))
    width = float(np.sqrt(np.mean((2.0 / np.array(chosen)) ** 2)))
    bound = outline.most_records + mechanism.noise_bound
    return GridCandidate(
        cells=chosen,
        mechanism=mechanism,
        noise=noise,
        band=predict_grid_band(
            cell_over_spread=width / spread,
            strength=math.sqrt(2.0) * n / (k * noise.deviation),
        ),
        sketch_bytes=(math.prod(chosen) + 1) * -(-(bound.bit_length() + 1) // 8),
    )


def _calibrate(outline: StudyOutline, epsilon: Fraction, delta: Fraction) -> Mechanism:
    moved = count_records_moved(outline.neighbouring)
    if not delta:
        return DiscreteLaplace.calibrate(
            sensitivity_l1=moved, epsilon=epsilon, neighbouring=outline.neighbouring
        )
    return DiscreteGaussian.calibrate(
        # The guarantee hardly depends on the number of cells, which is chosen for the noise.
        n_coordinates=MOST_CELLS + 1,
        sensitivity_l2_squared=moved,
        epsilon=epsilon,
        delta=delta,
        neighbouring=outline.neighbouring,
    )


def predict_grid_band(*, cell_over_spread: float, strength: float) -> GridBand:
    """Predict a band from h and x; see :class:`GridBand`.

    Guarantees
    ----------
    Both ends rise with h and fall with x.
    """
    logs = (1.0, math.log(cell_over_spread), math.log(strength))
    low, high = (
        1.0 + math.exp(min(20.0, sum(c * f for c, f in zip(ends, logs, strict=True))))
        for ends in (_LOW, _HIGH)
    )
    if cell_over_spread > _WIDEST_CELL or strength < _LEAST_STRENGTH:
        high = math.inf
    return GridBand(
        cell_over_spread=cell_over_spread, strength=strength, low=min(low, high), high=high
    )


def allows_grid(outline: StudyOutline) -> bool:
    """Return whether a study can have a grid at all."""
    return outline.n_dimensions <= MOST_GRID_DIMENSIONS and not outline.protects_devices


def find_better_grid(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction = Fraction(0)
) -> GridCandidate | None:
    """Return a grid where it is expected to be better than Fourier features, under pure epsilon."""
    if delta or not is_grid_better(outline, epsilon=epsilon):
        return None
    return predict_grid(outline, epsilon=epsilon)


def is_grid_better(
    outline: StudyOutline,
    *,
    epsilon: Fraction,
    half_width_in_spreads: float = HALF_WIDTH_IN_SPREADS,
) -> bool:
    """Return whether a grid is expected to be better than the Fourier sketch, at pure epsilon.

    It is where there is one noised sum, of at most three dimensions, in a box of half width up to
    8 spreads of a column, and ``n epsilon' < 30 k^1.5 d``, with epsilon' as in
    :func:`sfumato.learning.clustering.cells.choose_cells`: the sketch then misses clusters. Above
    that both are as good as k-means on the records, and the sketch does not depend on the box.

    Measured by ``python -m benchmarks.grids`` (median relative SSE of 5 seeds, grid / sketch, L =
    1): d = 2 and k = 10 1.15 / 6.47 at n epsilon = 1e3 and 1.02 / 1.12 at 3e3; d = 3 and k = 10
    1.72 / 6.91 and 1.17 / 1.59; from 1e4 on both 1.00 to 1.02. The rule is wrong for d = 2 and
    k = 5 at 1e3 (1.10 / 1.05). It leaves out d = 4, where each is the better one now and then:
    1e3 gave 3.50 / 6.90 for k = 10, 3.53 / 2.43 for k = 5 and 1.58 / 1.79 on weather, and at 3e3
    they had 1.85 / 1.97, 1.49 / 1.02 and 1.14 / 1.08. With 100 sums, whose sketches carry few
    features each, the sketch is better wherever either is usable, but for weather at 1e4
    (1.34 / 1.57). In a box three times as wide, 16 spreads, d = 2 and k = 10 had 4.14 / 17.2 at
    1e3, but 1.75 / 1.53 at 3e3.

    Parameters
    ----------
    outline
        The study.
    epsilon
        Epsilon of one sketch.
    half_width_in_spreads
        As in :func:`predict_grid`.
    """
    d, k = outline.n_dimensions, outline.n_clusters
    if not allows_grid(outline) or d > _BETTER_DIMENSIONS or outline.noises > 1:
        return False
    strength = outline.n_records * float(epsilon) / count_records_moved(outline.neighbouring)
    return half_width_in_spreads <= _BETTER_HALF_WIDTH and strength < _BETTER_STRENGTH * k**1.5 * d
