"""Local model: one private report a device and no trusted party, for :mod:`benchmarks.methods`.

Each record of a mixture of ten clusters in ten dimensions belongs to another device, which reports
it once with pure epsilon. The methods take one round: ``reports`` are phase reports as the planner
plans them, ``grid`` and ``tree`` the references of :mod:`sfumato.lab.clustering`, and ``one
centre`` puts all centroids on the exact mean of the records, so that a method above it found
nothing. Fewer than one record in a thousand lies outside the public box.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset, Mixture
from benchmarks.designs import recover
from benchmarks.fleets import Fleet
from benchmarks.reference import list_quality, measure_ratio
from benchmarks.runner import Case
from benchmarks.sketches import GeneratorSource
from sfumato.lab.clustering import HashingTree, LocalMethod, UnaryGrid
from sfumato.shared.arrays import Floats

_DIMENSIONS = _CLUSTERS = 10
_HALF_WIDTH = 10.0
_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Phones:
    """Devices with one record each: n, and the pure epsilon of a report."""

    n_records: int
    epsilon: Fraction

    @property
    def source(self) -> Mixture:
        """Where the records come from."""
        return Mixture(n_dimensions=_DIMENSIONS, n_clusters=_CLUSTERS, n_records=self.n_records)

    def report_cells(self, dataset: Dataset, seed: int) -> Floats:
        """Report cells of a grid."""
        return _report(UnaryGrid.choose(**self._describe(dataset)), dataset, seed)

    def report_leaves(self, dataset: Dataset, seed: int) -> Floats:
        """Report leaves of a tree, which is another one for each seed."""
        own = seed.to_bytes(32, "little")
        return _report(HashingTree.choose(**self._describe(dataset), seed=own), dataset, seed)

    def report_phases(self, dataset: Dataset, seed: int) -> Floats:
        """Report phases, as the planner plans them for so many phones."""
        fleet = Fleet(source=self.source, n_sketches=self.n_records, epsilon=self.epsilon)
        boxed = replace(dataset, lower=-_HALF_WIDTH, upper=_HALF_WIDTH)
        return recover(boxed, fleet.choose("reports"), seed, n_sketches=self.n_records).centroids

    def report_nothing(self, dataset: Dataset, seed: int) -> Floats:
        """Put all centroids on the mean: neither private nor useful."""
        return np.tile(dataset.records.mean(axis=0), (dataset.n_clusters, 1))

    def _describe(self, dataset: Dataset) -> dict[str, Any]:
        box = np.full(dataset.n_dimensions, _HALF_WIDTH)
        known = {"n_records": self.n_records, "n_clusters": dataset.n_clusters}
        return {**known, "epsilon": self.epsilon, "lower": -box, "upper": box}


def _report(method: LocalMethod, dataset: Dataset, seed: int) -> Floats:
    """Draw all reports, some at once because together they are large, and find centroids."""
    source = GeneratorSource(seed)
    tallies = (
        method.tally(method.report(dataset.records[first : first + _AT_ONCE], source))
        for first in range(0, len(dataset.records), _AT_ONCE)
    )
    rng = np.random.default_rng(seed)
    return method.recover(reduce(operator.add, tallies), n_clusters=dataset.n_clusters, rng=rng)


def make_case(phones: Phones) -> Case[Dataset, float]:
    """Make the case of some phones, with every method."""
    methods: dict[str, Callable[[Dataset, int], Floats]] = {
        "reports": phones.report_phases,
        "grid": phones.report_cells,
        "tree": phones.report_leaves,
        "one centre": phones.report_nothing,
    }

    def judge(report: Callable[[Dataset, int], Floats], dataset: Dataset, seed: int) -> float:
        return measure_ratio(dataset, report(dataset, seed))

    return Case(
        name=f"local d=10 k=10 n={phones.n_records:.0e} eps={float(phones.epsilon):g}",
        load=phones.source.load,
        methods={name: partial(judge, report) for name, report in methods.items()},
        summarise=list_quality,
        runs=3,
    )
