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

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset, Mixture
from benchmarks.designs import recover
from benchmarks.fleets import Fleet
from benchmarks.local_marginals import make_marginal_case
from benchmarks.reference import list_quality, measure_ratio
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from benchmarks.sketches import GeneratorSource
from sfumato.lab.clustering import HashingTree, LocalMethod, UnaryGrid

NAME = "local"
_DIMENSIONS = _CLUSTERS = 10
_AT_ONCE = 1 << 16

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
