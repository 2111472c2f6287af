"""Marginals in the local model: the cases of :mod:`benchmarks.local` that decode nothing.

Each device reports one of ten dimensions, once, with pure epsilon. ``marginal reports`` are reports
of bins, ``marginal laplace`` a histogram of one record with Laplace noise in each bin. The figures
are the error of the median, over the standard deviation of the records, and that of the distance of
the quartiles, relative; both are root mean squares over dimensions and seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments import Bench
from benchmarks.rows import Row
from sfumato.learning.estimate.histogram import BinNoise, Marginal, estimate_distribution
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.shared.core import HistogramStatistic
from sfumato.shared.plan import (
    Dimension,
    HistogramPart,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from sfumato.shared.privacy import RandomSource
from sfumato.shared.privacy.mechanisms.bins import BinReports

_QUARTILES = (0.25, 0.5, 0.75)

Floats = NDArray[np.float64]
Estimate = Callable[[Floats, float, Fraction, int, RandomSource], tuple[Floats, int]]
"""From one column, half width, epsilon, dimensions and source to quartiles and report bytes."""


def estimate_by_reports(
    column: Floats, half_width: float, epsilon: Fraction, n_dimensions: int, source: RandomSource
) -> tuple[Floats, int]:
    """Report a bin each."""
    plan = _plan(half_width, epsilon, n_dimensions, release="phase.v1")
    statistic, mechanism = _find_statistic(plan), plan.mechanism
    assert isinstance(mechanism, BinReports)
    law = mechanism.law
    places = np.argsort(statistic.arrange_bins(0))[statistic.find_bins(column, 0)]
    offsets = [law.draw_offset(source) for _ in range(len(column))]
    reports = np.bincount((places + offsets) % law.circle, minlength=law.circle)
    found = ReportedMarginal(
        name="x",
        reports=reports.astype(np.float64),
        law=law,
        edges=statistic.compute_edges(0),
    )
    return np.array([found.find_quantile(share) for share in _QUARTILES]), plan.payload_bytes


def estimate_by_laplace(
    column: Floats, half_width: float, epsilon: Fraction, n_dimensions: int, source: RandomSource
) -> tuple[Floats, int]:
    """Add noise to each bin of a record; the sum of all noises has a known law."""
    plan = _plan(half_width, epsilon, n_dimensions, unit="device", most_records=1)
    statistic, n = _find_statistic(plan), len(column)
    noise = BinNoise(variance=n * plan.mechanism.variance, n_sums=n)
    rng = np.random.default_rng(int.from_bytes(source.draw_bytes(8), "little"))
    counts = np.bincount(statistic.find_bins(column, 0), minlength=statistic.count_bins(0))
    *inner, below, above, missing = counts + noise.draw(rng, counts.shape)
    edges = statistic.compute_edges(0)
    marginal = Marginal(
        name="x",
        bins=np.array(inner),
        below=below,
        above=above,
        missing=missing,
        edges=edges,
        n_records=float(n),
        noise=noise,
    )
    shares = estimate_distribution(marginal, 0, len(inner))
    rising = shares + 1e-12 * np.arange(shares.size)
    return np.interp(_QUARTILES, rising, edges), plan.payload_bytes


METHODS: Mapping[str, Estimate] = {
    "marginal reports": estimate_by_reports,
    "marginal laplace": estimate_by_laplace,
}
"""Every method by the name of its rows."""


def measure_marginals(
    bench: Bench,
    benchmark: str,
    case: str,
    names: list[str],
    *,
    draws: Iterator[tuple[Floats, RandomSource]],
    half_width: float,
    epsilon: Fraction,
) -> Iterator[Row]:
    """Yield the rows of one case, all methods on the same records.

    Parameters
    ----------
    draws
        Records, shape ``(n, d)``, and a source of randomness, seed by seed.
    """
    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    lengths: dict[str, int] = {}
    n_runs = 0
    for records, source in draws:
        n_runs += 1
        d = records.shape[1]
        for name in names:
            for i in range(d):
                own = records[i::d, i]
                found, lengths[name] = METHODS[name](own, half_width, epsilon, d, source)
                low, middle, high = np.quantile(own, _QUARTILES)
                wide = (found[2] - found[0]) / (high - low) - 1.0
                errors[name].append(((found[1] - middle) / own.std(), wide))
            bench.report(case, 1)
    for name in names:
        mean = np.sqrt(np.mean(np.square(errors[name]), axis=0))
        for figure, value, unit in (
            ("median_error", float(mean[0]), "1"),
            ("quartile_distance_error", float(mean[1]), "1"),
            ("report_bytes", float(lengths[name]), "B"),
        ):
            yield Row(
                benchmark=benchmark,
                case=f"{case} {name}",
                figure=figure,
                value=value,
                unit=unit,
                runs=n_runs,
                baseline="none" if figure == "report_bytes" else "the records",
            )


def _plan(half_width: float, epsilon: Fraction, n_dimensions: int, **choices: Any) -> SketchPlan:
    return create_plan(
        PlanSpec(
            dimensions=tuple(
                Dimension(name=f"x{i}", unit="1", lower=-half_width, upper=half_width)
                for i in range(n_dimensions)
            ),
            statistic="histogram",
            dimensions_per_sketch=1,
            epsilon=epsilon,
            window=WindowRule(kind="time", length_s=86400),
            **choices,
        )
    )


def _find_statistic(plan: SketchPlan) -> HistogramStatistic:
    assert isinstance(plan.statistic, HistogramPart)
    return plan.statistic.build_whole(plan.space)
