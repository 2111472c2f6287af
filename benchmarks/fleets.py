"""Fleets of many small devices: sketches of some features beside sketches of all.

Run as ``python -m benchmarks.fleets [--quick] [--json]``; ``--help`` lists the options. The records
of one mixture of ten clusters in ten dimensions are divided into L sketches of equal size, each
with pure epsilon. ``split`` has the m, the r features of a sketch and the law that the planner
chooses for such a fleet, ``whole`` the best that it knows with r = m, and ``one`` is a single
sketch of all records: the noise of a central curator. Devices are ``alike``, or each holds two
clusters only (``two clusters``), and then the planner is told that they may differ. ``phones`` have
one record each and report its phase (``reports``). ``weather`` is the demo's: each device holds
half a week of one station, one after the other, so that devices differ. Relative SSE is as in
:mod:`benchmarks.decoding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.designs import advise_study, recover
from benchmarks.reference import list_quality, measure_ratio
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.outline import StudyOutline

NAME = "fleets"


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A fleet: its records, L, the pure epsilon of each sketch, and whether devices are alike."""

    source: Mixture | RealData
    n_sketches: int
    epsilon: Fraction
    is_alike: bool = True

    @property
    def has_phones(self) -> bool:
        """Whether every device has one record."""
        return self.source.n_records == self.n_sketches

    @property
    def name(self) -> str:
        """The name of its rows, without the form of the sketches."""
        kind = "alike" if self.is_alike else "two clusters"
        if isinstance(self.source, RealData):
            kind = self.source.name
        if self.has_phones:
            kind = "phones"
        n, epsilon = self.source.n_records, float(self.epsilon)
        return f"n={n:.0e} L={self.n_sketches} eps={epsilon:g} {kind}"

    @property
    def forms(self) -> Sequence[str]:
        """Forms of the sketches: one cannot be divided."""
        if self.n_sketches == 1:
            return ("one",)
        if self.has_phones:
            return ("reports",)
        return ("split", "whole")

    def choose(self, form: str) -> Candidate:
        """Choose m, r and the law for sketches of some features, of all, or for one sketch."""
        d, k = (4, 5)
        if isinstance(self.source, Mixture):
            d, k = self.source.n_dimensions, self.source.n_clusters
        outline = StudyOutline(
            n_records=self.source.n_records,
            n_sketches=self.n_sketches,
            n_dimensions=d,
            n_clusters=k,
            devices_differ=not self.is_alike,
        )
        return advise_study(outline, self.epsilon, is_whole=form == "whole")

    def divide(self, dataset: Dataset, seed: int) -> Dataset:
        """Put the records in the order of devices; where these differ, each holds two clusters."""
        if self.is_alike or dataset.true_means is None:
            return dataset
        means = dataset.true_means
        nearest = np.argmin(np.sum(means**2, axis=1) - 2.0 * (dataset.records @ means.T), axis=1)
        parts = np.array_split(np.argsort(nearest, kind="stable"), 2 * self.n_sketches)
        order = np.random.default_rng(seed).permutation(len(parts))
        records = dataset.records[np.concatenate([parts[i] for i in order])]
        return replace(dataset, records=records, name=f"{dataset.name} by devices")

    def decode(self, chosen: Candidate, dataset: Dataset, seed: int) -> tuple[float, Candidate]:
        """Return the relative SSE of one seed, and the choice."""
        own = self.divide(dataset, seed)
        found = recover(own, chosen, seed, n_sketches=self.n_sketches)
        return measure_ratio(dataset, found.centroids), chosen


FleetCase = Case[Dataset, tuple[float, Candidate]]


def make_case(fleet: Fleet, *, runs: int = 20, quick_runs: int = 0) -> FleetCase:
    """Make the case of a fleet, in each form of its sketches."""
    return FleetCase(
        name=fleet.name,
        load=fleet.source.load,
        methods={form: partial(fleet.decode, fleet.choose(form)) for form in fleet.forms},
        summarise=_summarise,
        runs=runs,
        quick_runs=quick_runs,
    )


def _summarise(found: Sequence[tuple[float, Candidate]]) -> Iterator[Figure]:
    yield from list_quality([ratio for ratio, _ in found])
    chosen = found[0][1]
    yield "n_frequencies", chosen.n_frequencies
    yield "frequencies_per_sketch", chosen.frequencies_per_sketch
    yield "sketch_bytes", chosen.sketch_bytes, "B"


def list_cases() -> Iterator[FleetCase]:
    """List the fleets: over L, over epsilon, alike and not."""
    ten = partial(Mixture, n_dimensions=10, n_clusters=10)
    million, weather, tenth = ten(n_records=10**6), RealData(name="weather"), Fraction(1, 10)
    for size in (1, 10, 100, 1000, 10_000):
        fleet = Fleet(source=million, n_sketches=size, epsilon=tenth)
        yield make_case(fleet, quick_runs=2 * (size == 1000))
    unlike = Fleet(source=million, n_sketches=1000, epsilon=tenth, is_alike=False)
    yield make_case(unlike, quick_runs=2)
    for size in (1, 300):
        yield make_case(
            Fleet(source=weather, n_sketches=size, epsilon=Fraction(1), is_alike=size == 1)
        )
    phones = ten(n_records=10**5)
    yield make_case(Fleet(source=phones, n_sketches=10**5, epsilon=Fraction(3)), quick_runs=2)
    yield make_case(Fleet(source=million, n_sketches=10**6, epsilon=Fraction(1)))


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases, in each form of the sketches."""
    yield from measure_cases(NAME, bench, list_cases())


if __name__ == "__main__":
    run(NAME, __doc__, measure)
