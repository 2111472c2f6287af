"""Pilots drawn for tests: histograms of made-up records with seeded noise of the stated law."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.calibration.strength import choose_bins_log2
from sfumato.learning.estimate.histogram import BinNoise, Marginal, read_marginals
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.shared.core import (
    DimensionEncoding,
    HistogramStatistic,
    Quantiser,
    RecordEncoder,
    SketchAccumulator,
)
from sfumato.shared.privacy.circle import choose_bin_law

REACH = 2.0**40


def draw_marginals(
    records: NDArray[np.float64],
    *,
    strength: float,
    seed: int,
    bins_log2: int | None = None,
    resolution: float | None = 1e-6,
    bounds: tuple[float, float] | None = None,
    n_sums: int = 1,
    is_gaussian: bool = False,
) -> tuple[Marginal, ...]:
    """Return the marginals of a pilot of strength x; without bounds, and bins by the rule."""
    n, d = records.shape
    bits = bins_log2 or choose_bins_log2(strength)
    encoder = RecordEncoder(dimensions=(DimensionEncoding(resolution=resolution),) * d)
    reach = REACH * (resolution or 1.0)
    low, high = bounds or (-reach, reach)
    box = encoder.transform_bounds(np.full(d, low), np.full(d, high))
    statistic = HistogramStatistic(
        quantiser=Quantiser.from_bounds(*box), bins_log2=(bits,) * d, encoder=encoder
    )
    accumulator = SketchAccumulator(statistic)
    accumulator.add(records)
    noise = BinNoise(variance=8.0 * (n / strength) ** 2, n_sums=n_sums, is_gaussian=is_gaussian)
    drawn = noise.draw(np.random.default_rng(seed), accumulator.sums.shape)
    return read_marginals(
        statistic,
        [f"x{i}" for i in range(d)],
        sums=accumulator.sums + drawn.astype(np.int64),
        n_records=[float(n)] * d,
        noises=[noise] * d,
    )


def draw_marginal(values: Sequence[float] | NDArray[np.float64], **options: object) -> Marginal:
    """Return the marginal of one column."""
    column = np.asarray(values, dtype=np.float64)[:, None]
    return draw_marginals(column, **options)[0]  # type: ignore[arg-type]


def draw_reports(values: NDArray[np.float64], *, epsilon: str, seed: int) -> ReportedMarginal:
    """Return reports of the bins of one column, a device each, without bounds."""
    encoder = RecordEncoder(dimensions=(DimensionEncoding(resolution=1e-6),))
    box = encoder.transform_bounds(np.array([-REACH * 1e-6]), np.array([REACH * 1e-6]))
    statistic = HistogramStatistic(
        quantiser=Quantiser.from_bounds(*box), bins_log2=(8,), encoder=encoder
    )
    n_places = statistic.count_bins(0)
    marginal = ReportedMarginal(
        name="x",
        reports=np.ones(n_places),
        law=choose_bin_law(Fraction(epsilon), 1, circle=n_places, is_ordered=True),
        edges=statistic.compute_edges(0),
        resolution=1e-6,
    )
    places = np.argsort(statistic.arrange_bins(0))[statistic.find_bins(values, 0)]
    # Not the stream of a test that draws its values from the same seed.
    rng = np.random.default_rng((seed, n_places))
    offsets = rng.choice(n_places, len(values), p=marginal.kernel)
    reports = np.bincount((places + offsets) % n_places, minlength=n_places)
    return replace(marginal, reports=reports.astype(np.float64))
