"""Marginals from one private report a device, without a trusted party.

Run as ``python -m benchmarks.local [--quick] [--json]``; ``--help`` lists the options. Each record
of a mixture of ten clusters in ten dimensions belongs to another device, which reports one of the
dimensions once with pure epsilon: ``marginal reports`` are reports of bins, ``marginal laplace`` a
histogram of one record with Laplace noise in each bin. The public box is [-20, 20]. The figures are
the error of the median, over the standard deviation of the records, and that of the distance of the
quartiles, relative; both are root mean squares over dimensions and seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset, Mixture, Source
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from benchmarks.sketches import GeneratorSource
from sfumato.learning.estimate.histogram import BinNoise, Marginal, estimate_distribution
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.shared.arrays import Floats, Integers
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

NAME = "local"
_QUARTILES = (0.25, 0.5, 0.75)

Estimate = Callable[[SketchPlan, HistogramStatistic, Floats, RandomSource], Floats]
"""From a plan, its statistic, one column and a source to quartiles."""
Errors = tuple[list[tuple[float, float]], int]
"""Errors of the medians and of the distances of the quartiles, and the bytes of a report."""


def report_bins(
    plan: SketchPlan, values: Floats, draw: Callable[[ReportedMarginal, int], Integers]
) -> ReportedMarginal:
    """Let each device report the bin of its number, moved by a drawn offset."""
    assert isinstance(plan.statistic, HistogramPart)
    assert isinstance(plan.mechanism, BinReports)
    whole, law = plan.statistic.build_whole(plan.space), plan.mechanism.law
    marginal = ReportedMarginal(
        name="x",
        reports=np.ones(law.circle),
        law=law,
        edges=whole.compute_edges(0),
        resolution=whole.encodings[0].resolution,
    )
    places = np.argsort(whole.arrange_bins(0))[whole.find_bins(values, 0)]
    moved = (places + draw(marginal, len(values))) % law.circle
    return replace(marginal, reports=np.bincount(moved, minlength=law.circle).astype(np.float64))


def estimate_by_reports(
    plan: SketchPlan, statistic: HistogramStatistic, column: Floats, source: RandomSource
) -> Floats:
    """Report a bin each."""

    def draw(marginal: ReportedMarginal, n: int) -> Integers:
        return np.array([marginal.law.draw_offset(source) for _ in range(n)])

    found = report_bins(plan, column, draw)
    return np.array([found.find_quantile(share) for share in _QUARTILES])


def estimate_by_laplace(
    plan: SketchPlan, statistic: HistogramStatistic, column: Floats, source: RandomSource
) -> Floats:
    """Add noise to each bin of a record; the sum of all noises has a known law."""
    n = len(column)
    noise = BinNoise(variance=n * plan.mechanism.variance, n_sums=n)
    rng = np.random.default_rng(int.from_bytes(source.draw_bytes(8), "little"))
    counts = np.bincount(statistic.find_bins(column, 0), minlength=statistic.count_bins(0))
    *inner, below, above, missing = counts + noise.draw(rng, counts.shape)
    marginal = Marginal(
        name="x",
        bins=np.array(inner),
        below=below,
        above=above,
        missing=missing,
        edges=statistic.compute_edges(0),
        n_records=float(n),
        noise=noise,
    )
    shares = estimate_distribution(marginal, 0, len(inner))
    return np.interp(_QUARTILES, shares + 1e-12 * np.arange(shares.size), marginal.edges)


def make_marginal_case(
    name: str, source: Source, *, half_width: float, epsilon: Fraction, quick_runs: int
) -> Case[tuple[Dataset, RandomSource], Errors]:
    """Make a case whose methods see the same records, and take turns with one source of noise."""

    def judge(
        estimate: Estimate, choices: dict[str, Any], data: tuple[Dataset, RandomSource], seed: int
    ) -> Errors:
        records, d = data[0].records, data[0].n_dimensions
        plan = _plan(half_width, epsilon, d, **choices)
        assert isinstance(plan.statistic, HistogramPart)
        statistic, errors = plan.statistic.build_whole(plan.space), []
        for i in range(d):
            own = records[i::d, i]
            found = estimate(plan, statistic, own, data[1])
            low, middle, high = np.quantile(own, _QUARTILES)
            wide = (found[2] - found[0]) / (high - low) - 1.0
            errors.append(((found[1] - middle) / own.std(), wide))
        return errors, plan.payload_bytes

    laplace = {"unit": "device", "most_records": 1}
    return Case(
        name=name,
        load=lambda seed: (source.load(seed), GeneratorSource(seed)),
        methods={
            "marginal reports": partial(judge, estimate_by_reports, {"release": "phase.v1"}),
            "marginal laplace": partial(judge, estimate_by_laplace, laplace),
        },
        summarise=_summarise_marginals,
        runs=5,
        quick_runs=quick_runs,
    )


def _summarise_marginals(found: Sequence[Errors]) -> Iterator[Figure]:
    mean = np.sqrt(np.mean(np.square(np.concatenate([errors for errors, _ in found])), axis=0))
    yield "median_error", mean[0], "1", "the records"
    yield "quartile_distance_error", mean[1], "1", "the records"
    yield "report_bytes", found[0][1], "B"


def _plan(half_width: float, epsilon: Fraction, n_dimensions: int, **choices: Any) -> SketchPlan:
    dimensions = tuple(
        Dimension(name=f"x{i}", unit="1", lower=-half_width, upper=half_width)
        for i in range(n_dimensions)
    )
    return create_plan(
        PlanSpec(
            dimensions=dimensions,
            statistic="histogram",
            dimensions_per_sketch=1,
            epsilon=epsilon,
            window=WindowRule(kind="time", length_s=86400),
            **choices,
        )
    )


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, all methods on the same records."""
    ten = partial(Mixture, n_dimensions=10, n_clusters=10)
    marginals = (
        make_marginal_case(
            f"n={n:.0e} eps={epsilon} box=20",
            ten(n_records=n),
            half_width=20.0,
            epsilon=Fraction(epsilon),
            quick_runs=int((n, epsilon) == (10**5, 1)),
        )
        for n in (10**4, 10**5, 10**6)
        for epsilon in (1, 3)
    )
    yield from measure_cases(NAME, bench, marginals)


if __name__ == "__main__":
    run(NAME, __doc__, measure)
