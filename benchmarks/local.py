"""Local model: one private report a device, and no trusted party.

Run as ``python -m benchmarks.local [--quick] [--json]``; ``--help`` lists the options. Each record
of a mixture of ten clusters in ten dimensions belongs to another device, which reports it once with
pure epsilon. The methods take one round: ``reports`` are phase reports as the planner plans them,
``grid`` and ``tree`` the references of :mod:`sfumato.lab.clustering`, and ``one
centre`` puts all centroids on the exact mean of the records, so that a method above it found
nothing. The public box of a method is [-h, h] in each dimension, ``box=h`` in the name of a case:
fewer than one record in a thousand lies outside 10, and 20 is the box of the other benchmarks.
Relative SSE is as in :mod:`benchmarks.decoding`. Cases of ``marginal`` methods are those of
:mod:`benchmarks.local_marginals`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset, Mixture
from benchmarks.experiments import Bench, Options, run_experiment
from benchmarks.fleets import FleetCase, choose_design
from benchmarks.local_marginals import METHODS as MARGINAL_METHODS, measure_marginals
from benchmarks.reference import compute_sse, find_reference
from benchmarks.rows import Row
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.lab.clustering import HashingTree, LocalMethod, UnaryGrid
from sfumato.learning.decoding.registry import create_solver

NAME = "local"
_DIMENSIONS = _CLUSTERS = 10
_AT_ONCE = 1 << 16

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LocalCase:
    """A fleet whose devices have one record each.

    Parameters
    ----------
    n_records, epsilon
        n, and the pure epsilon of each report.
    half_width
        Half width of the public box, data units.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    n_records: int
    epsilon: Fraction
    half_width: float = 10.0
    runs: int = 20
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows, without the method."""
        return f"n={self.n_records:.0e} eps={float(self.epsilon):g} box={self.half_width:g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a method found.

    Parameters
    ----------
    centroids
        Shape ``(k, d)``, data units.
    report_bytes
        The length of a report.
    """

    centroids: Floats
    report_bytes: int


Method = Callable[[Dataset, LocalCase, int], Outcome]
"""From records, the case and a seed to centroids; the numbers n, d, k and the box are public."""


class GeneratorSource:
    """A seeded source many times faster than the hash that tests use, for billions of bytes."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def draw_bytes(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        return self._rng.bytes(count)


def run_grid(dataset: Dataset, case: LocalCase, seed: int) -> Outcome:
    """Report cells of a grid."""
    box = np.full(dataset.n_dimensions, case.half_width)
    grid = UnaryGrid.choose(
        n_records=case.n_records,
        n_clusters=dataset.n_clusters,
        epsilon=case.epsilon,
        lower=-box,
        upper=box,
    )
    return _report(grid, dataset, seed)


def run_tree(dataset: Dataset, case: LocalCase, seed: int) -> Outcome:
    """Report leaves of a tree, which is another one for each seed."""
    box = np.full(dataset.n_dimensions, case.half_width)
    tree = HashingTree.choose(
        n_records=case.n_records,
        n_clusters=dataset.n_clusters,
        epsilon=case.epsilon,
        lower=-box,
        upper=box,
        seed=seed.to_bytes(32, "little"),
    )
    return _report(tree, dataset, seed)


def run_one_centre(dataset: Dataset, case: LocalCase, seed: int) -> Outcome:
    """Put all centroids on the mean: neither private nor useful."""
    mean = dataset.records.mean(axis=0)
    return Outcome(centroids=np.tile(mean, (dataset.n_clusters, 1)), report_bytes=0)


def run_reports(dataset: Dataset, case: LocalCase, seed: int) -> Outcome:
    """Report phases, as the planner plans them for so many phones."""
    phones = FleetCase(n_records=case.n_records, n_sketches=case.n_records, epsilon=case.epsilon)
    chosen = choose_design(phones, "reports")
    study = Study(
        n_frequencies=chosen.n_frequencies,
        scale=dataset.spread or find_reference(dataset).spread,
        noise=Noise(mechanism=chosen.mechanism, epsilon=case.epsilon),
        n_sketches=case.n_records,
        blocks=chosen.shortest_selection,
        law=chosen.law_choice.law,
    )
    boxed = replace(
        dataset,
        name=f"{dataset.name} box={case.half_width:g}",
        lower=-case.half_width,
        upper=case.half_width,
    )
    problem = Sketcher().pose(boxed, study, seed).problem
    solution = create_solver().solve(problem, rng=np.random.default_rng(seed))
    return Outcome(centroids=solution.centroids, report_bytes=chosen.sketch_bytes)


METHODS: Mapping[str, Method] = {
    "reports": run_reports,
    "grid": run_grid,
    "tree": run_tree,
    "one centre": run_one_centre,
}
"""Every method by the name of its rows; to compare another one, add it here."""


def list_cases() -> tuple[LocalCase, ...]:
    """List the fleets: over n and epsilon, and in a wider box."""
    small, large = 10**5, 10**6
    third, one, three, ten = Fraction(3, 10), Fraction(1), Fraction(3), Fraction(10)
    return (
        *(
            LocalCase(n_records=small, epsilon=e, quick_runs=2 * (e == 3))
            for e in (one, three, ten)
        ),
        *(LocalCase(n_records=large, epsilon=e, runs=5) for e in (third, one, three)),
        LocalCase(n_records=small, epsilon=three, half_width=20.0),
        LocalCase(n_records=large, epsilon=three, half_width=20.0, runs=5),
    )


def list_marginal_cases() -> tuple[LocalCase, ...]:
    """List the fleets whose marginals are estimated, in the wider box."""
    return tuple(
        LocalCase(
            n_records=n,
            epsilon=Fraction(e),
            half_width=20.0,
            runs=5,
            quick_runs=int((n, e) == (10**5, 1)),
        )
        for n in (10**4, 10**5, 10**6)
        for e in (1, 3)
    )


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, all methods on the same records."""
    for case, names in _select(bench.options, list_marginal_cases(), MARGINAL_METHODS).items():
        seeds = bench.options.list_seeds(case.runs, case.quick_runs)
        yield from measure_marginals(
            bench,
            NAME,
            case.name,
            names,
            draws=((load_records(case, i).records, GeneratorSource(i)) for i in seeds),
            half_width=case.half_width,
            epsilon=case.epsilon,
        )
    for case, names in _select(bench.options).items():
        found: dict[str, list[float]] = defaultdict(list)
        lengths: dict[str, int] = {}
        for seed in bench.options.list_seeds(case.runs, case.quick_runs):
            bench.report(case.name, 0)
            dataset = load_records(case, seed)
            reference = find_reference(dataset)
            for name in names:
                outcome = METHODS[name](dataset, case, seed)
                found[name].append(compute_sse(dataset.records, outcome.centroids) / reference.sse)
                lengths[name] = outcome.report_bytes
                bench.report(case.name, 1)
        for name in names:
            yield from _summarise(f"{case.name} {name}", found[name], lengths[name])


def load_records(case: LocalCase, seed: int) -> Dataset:
    """Draw the mixture of one seed."""
    source = Mixture(n_dimensions=_DIMENSIONS, n_clusters=_CLUSTERS, n_records=case.n_records)
    return source.load(seed)


def _report(method: LocalMethod, dataset: Dataset, seed: int) -> Outcome:
    """Draw all reports, some at once because together they are large, and recover centroids."""
    source = GeneratorSource(seed)
    parts = range(0, len(dataset.records), _AT_ONCE)
    tallies = [
        method.tally(method.report(dataset.records[first : first + _AT_ONCE], source))
        for first in parts
    ]
    total = tallies[0]
    for tally in tallies[1:]:
        total += tally
    centroids = method.recover(
        total, n_clusters=dataset.n_clusters, rng=np.random.default_rng(seed)
    )
    return Outcome(centroids=centroids, report_bytes=method.report_bytes)


def _summarise(name: str, found: Sequence[float], report_bytes: int) -> Iterator[Row]:
    for figure, value, unit in (
        ("median_relative_sse", float(np.median(found)), "1"),
        ("p90_relative_sse", float(np.quantile(found, 0.9)), "1"),
        ("report_bytes", float(report_bytes), "B"),
    ):
        yield Row(
            benchmark=NAME,
            case=name,
            figure=figure,
            value=value,
            unit=unit,
            runs=len(found),
            baseline="k-means on the records" if "sse" in figure else "none",
        )


def _select(
    options: Options,
    cases: Sequence[LocalCase] | None = None,
    methods: Iterable[str] = METHODS,
) -> dict[LocalCase, list[str]]:
    """Return the methods to run of each case, and no case without one."""
    chosen = {
        case: [
            name
            for name in methods
            if options.includes(f"{case.name} {name}", in_quick=case.quick_runs > 0)
        ]
        for case in (list_cases() if cases is None else cases)
    }
    return {case: names for case, names in chosen.items() if names}


def _list_names() -> list[str]:
    marginals = [f"{c.name} {name}" for c in list_marginal_cases() for name in MARGINAL_METHODS]
    return [*marginals, *(f"{case.name} {name}" for case in list_cases() for name in METHODS)]


def _count(options: Options) -> int:
    marginals = _select(options, list_marginal_cases(), MARGINAL_METHODS)
    n_draws = sum(len(options.list_seeds(each.runs, each.quick_runs)) for each in marginals)
    return n_draws + sum(
        len(names) * len(options.list_seeds(case.runs, case.quick_runs))
        for case, names in _select(options).items()
    )


if __name__ == "__main__":
    sys.exit(run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count))
