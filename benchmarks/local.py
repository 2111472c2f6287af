"""Local model: one private report a device, and no trusted party.

Run as ``python -m benchmarks.local [--quick] [--json]``; ``--help`` lists the options. Each record
of a mixture of ten clusters in ten dimensions belongs to another device, which reports it once with
pure epsilon. The methods take one round: ``reports`` are phase reports as the planner plans them,
``grid`` and ``tree`` the references of :mod:`sfumato.lab.clustering`, and ``one
centre`` puts all centroids on the exact mean of the records, so that a method above it found
nothing. The public box of a method is [-h, h] in each dimension, ``box=h`` in the name of a case:
fewer than one record in a thousand lies outside 10, and 20 is the box of the other benchmarks.
Relative SSE is as in :mod:`benchmarks.decoding`.

In cases of ``marginal`` methods each device reports one of ten dimensions: ``marginal reports`` are
reports of bins, ``marginal laplace`` a histogram of one record with Laplace noise in each bin. The
figures are the error of the median, over the standard deviation of the records, and that of the
distance of the quartiles, relative; both are root mean squares over dimensions and seeds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset, Mixture, Source
from benchmarks.designs import recover
from benchmarks.fleets import Fleet
from benchmarks.reference import list_quality, measure_ratio
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from benchmarks.sketches import GeneratorSource
from sfumato.lab.clustering import HashingTree, LocalMethod, UnaryGrid
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

NAME = "local"
_DIMENSIONS = _CLUSTERS = 10
_AT_ONCE = 1 << 16
_QUARTILES = (0.25, 0.5, 0.75)

Floats = NDArray[np.float64]
Outcome = tuple[Floats, int]
"""Centroids of shape ``(k, d)`` in data units, and the bytes of a report."""


@dataclass(frozen=True, kw_only=True)
class Phones:
    """Devices with one record each: n, the pure epsilon of a report, and the half width of the box.

    All of them are public.
    """

    n_records: int
    epsilon: Fraction
    half_width: float = 10.0

    @property
    def name(self) -> str:
        """The name of its rows, without box and method."""
        return f"n={self.n_records:.0e} eps={float(self.epsilon):g}"

    @property
    def source(self) -> Mixture:
        """Where the records come from."""
        return Mixture(n_dimensions=_DIMENSIONS, n_clusters=_CLUSTERS, n_records=self.n_records)

    def report_cells(self, dataset: Dataset, seed: int) -> Outcome:
        """Report cells of a grid."""
        return self._report(UnaryGrid.choose(**self._describe(dataset)), dataset, seed)

    def report_leaves(self, dataset: Dataset, seed: int) -> Outcome:
        """Report leaves of a tree, which is another one for each seed."""
        own = seed.to_bytes(32, "little")
        return self._report(HashingTree.choose(**self._describe(dataset), seed=own), dataset, seed)

    def report_phases(self, dataset: Dataset, seed: int) -> Outcome:
        """Report phases, as the planner plans them for so many phones."""
        fleet = Fleet(source=self.source, n_sketches=self.n_records, epsilon=self.epsilon)
        chosen = fleet.choose("reports")
        boxed = replace(
            dataset,
            name=f"{dataset.name} box={self.half_width:g}",
            lower=-self.half_width,
            upper=self.half_width,
        )
        found = recover(boxed, chosen, seed, n_sketches=self.n_records)
        return found.centroids, chosen.sketch_bytes

    def report_nothing(self, dataset: Dataset, seed: int) -> Outcome:
        """Put all centroids on the mean: neither private nor useful."""
        return np.tile(dataset.records.mean(axis=0), (dataset.n_clusters, 1)), 0

    @property
    def methods(self) -> Mapping[str, Callable[[Dataset, int], Outcome]]:
        """Every method by the name of its rows; to compare another one, add it here."""
        return {
            "reports": self.report_phases,
            "grid": self.report_cells,
            "tree": self.report_leaves,
            "one centre": self.report_nothing,
        }

    def _describe(self, dataset: Dataset) -> dict[str, Any]:
        box = np.full(dataset.n_dimensions, self.half_width)
        known = {"n_records": self.n_records, "n_clusters": dataset.n_clusters}
        return {**known, "epsilon": self.epsilon, "lower": -box, "upper": box}

    def _report(self, method: LocalMethod, dataset: Dataset, seed: int) -> Outcome:
        """Draw all reports, some at once because together they are large, and find centroids."""
        source = GeneratorSource(seed)
        tallies = (
            method.tally(method.report(dataset.records[first : first + _AT_ONCE], source))
            for first in range(0, len(dataset.records), _AT_ONCE)
        )
        total = reduce(operator.add, tallies)
        rng = np.random.default_rng(seed)
        centroids = method.recover(total, n_clusters=dataset.n_clusters, rng=rng)
        return centroids, method.report_bytes


PhoneCase = Case[Dataset, tuple[float, int]]


def make_case(phones: Phones, *, runs: int = 20, quick_runs: int = 0) -> PhoneCase:
    """Make the case of some phones, with every method."""

    def judge(
        method: Callable[[Dataset, int], Outcome], dataset: Dataset, seed: int
    ) -> tuple[float, int]:
        centroids, n_bytes = method(dataset, seed)
        return measure_ratio(dataset, centroids), n_bytes

    return PhoneCase(
        name=f"{phones.name} box={phones.half_width:g}",
        load=phones.source.load,
        methods={name: partial(judge, method) for name, method in phones.methods.items()},
        summarise=_summarise,
        runs=runs,
        quick_runs=quick_runs,
    )


def _summarise(found: Sequence[tuple[float, int]]) -> Iterator[Figure]:
    yield from list_quality([ratio for ratio, _ in found])
    yield "report_bytes", found[0][1], "B"


def list_cases() -> Iterator[Case[Dataset, tuple[float, int]]]:
    """List the fleets: over n and epsilon, and in a wider box."""
    for n, epsilons, runs, half_width in (
        (10**5, (Fraction(1), Fraction(3), Fraction(10)), 20, 10.0),
        (10**6, (Fraction(3, 10), Fraction(1), Fraction(3)), 5, 10.0),
        (10**5, (Fraction(3),), 20, 20.0),
        (10**6, (Fraction(3),), 5, 20.0),
    ):
        for epsilon in epsilons:
            is_quick = n == 10**5 and epsilon == 3 and half_width == 10.0
            phones = Phones(n_records=n, epsilon=epsilon, half_width=half_width)
            yield make_case(phones, runs=runs, quick_runs=2 * is_quick)


# ---- marginals: what decodes nothing ----

Estimate = Callable[[SketchPlan, HistogramStatistic, Floats, RandomSource], Floats]
"""From a plan, its statistic, one column and a source to quartiles."""
Errors = tuple[list[tuple[float, float]], int]
"""Errors of the medians and of the distances of the quartiles, and the bytes of a report."""


def report_bins(
    plan: SketchPlan, values: Floats, draw: Callable[[ReportedMarginal, int], NDArray[np.int64]]
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

    def draw(marginal: ReportedMarginal, n: int) -> NDArray[np.int64]:
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
    marginals = (
        make_marginal_case(
            f"n={n:.0e} eps={epsilon} box=20",
            Phones(n_records=n, epsilon=Fraction(epsilon)).source,
            half_width=20.0,
            epsilon=Fraction(epsilon),
            quick_runs=int((n, epsilon) == (10**5, 1)),
        )
        for n in (10**4, 10**5, 10**6)
        for epsilon in (1, 3)
    )
    yield from measure_cases(NAME, bench, [*marginals, *list_cases()])


if __name__ == "__main__":
    run(NAME, __doc__, measure)
