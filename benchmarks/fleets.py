"""Fleets of many small devices: sketches of some features beside sketches of all.

Run as ``python -m benchmarks.fleets [--quick] [--json] [--plot FILE]``; ``--help`` lists the
options. The records of one mixture of ten clusters in ten dimensions are divided into L sketches of
equal size, each with pure epsilon. ``split`` has the m, the r features of a sketch and the law that
the planner chooses for such a fleet, ``whole`` the best that it knows with r = m, and ``one``
is a single sketch of all records: the noise of a central curator. Devices are ``alike``, or each
holds two clusters only (``two clusters``), and then the planner is told that they may differ.
``phones`` have one record each and report its phase (``reports``). ``weather`` is the demo's: each
device holds half a week of one station, one after the other, so that devices differ. Relative SSE
is as in :mod:`benchmarks.decoding`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.experiments import Bench, Options, run_experiment
from benchmarks.reference import compute_sse, find_reference
from benchmarks.rows import Row
from benchmarks.sketches import Noise, Study
from sfumato.learning.planning.candidates import Candidate, choose_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import Advice, advise

NAME = "fleets"
TARGET_SSE = 1.1
_DIMENSIONS = _CLUSTERS = 10
_WEATHER = "weather"


@dataclass(frozen=True, kw_only=True)
class FleetCase:
    """A fleet.

    Parameters
    ----------
    n_records, n_sketches, epsilon
        n, L, and the pure epsilon of each sketch.
    is_alike
        Whether every device holds records of all clusters.
    data
        ``mixture``, or the name of a real set, in whose order devices hold its records.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    n_records: int
    n_sketches: int
    epsilon: Fraction
    is_alike: bool = True
    data: str = "mixture"
    runs: int = 20
    quick_runs: int = 0

    @property
    def has_phones(self) -> bool:
        """Whether every device has one record."""
        return self.n_records == self.n_sketches

    @property
    def source(self) -> Mixture | RealData:
        """Where its records come from."""
        if self.data != "mixture":
            return RealData(name=self.data)
        return Mixture(n_dimensions=_DIMENSIONS, n_clusters=_CLUSTERS, n_records=self.n_records)

    @property
    def name(self) -> str:
        """The name of its rows, without the form of the sketches."""
        kind = "alike" if self.is_alike else "two clusters"
        if self.data != "mixture":
            kind = self.data
        if self.has_phones:
            kind = "phones"
        return f"n={self.n_records:.0e} L={self.n_sketches} eps={float(self.epsilon):g} {kind}"


def list_cases() -> tuple[FleetCase, ...]:
    """List the fleets: over L, over epsilon, alike and not."""
    million, tenth = 10**6, Fraction(1, 10)
    return (
        *(
            FleetCase(
                n_records=million, n_sketches=size, epsilon=tenth, quick_runs=2 * (size == 1000)
            )
            for size in (1, 10, 100, 1000, 10_000)
        ),
        FleetCase(n_records=million, n_sketches=1000, epsilon=tenth, is_alike=False, quick_runs=2),
        FleetCase(n_records=million, n_sketches=1000, epsilon=Fraction(3, 10), is_alike=False),
        FleetCase(n_records=10**7, n_sketches=10_000, epsilon=Fraction(3, 100), runs=5),
        *(
            FleetCase(
                n_records=26_110,
                n_sketches=size,
                epsilon=Fraction(1),
                is_alike=size == 1,
                data=_WEATHER,
            )
            for size in (1, 300)
        ),
        FleetCase(n_records=10**5, n_sketches=10**5, epsilon=Fraction(3), quick_runs=2),
        FleetCase(n_records=million, n_sketches=million, epsilon=Fraction(1)),
    )


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases, in each form of the sketches."""
    for case in _select(bench.options):
        for form in _list_forms(case):
            chosen = choose_design(case, form)
            yield from _summarise(f"{case.name} {form}", chosen, _run(bench, case, form, chosen))


def choose_design(case: FleetCase, form: str) -> Candidate:
    """Choose m, r and the law for sketches of some features, of all, or for one sketch."""
    is_mixture = case.data == "mixture"
    outline = StudyOutline(
        n_records=case.n_records,
        n_sketches=1 if form == "one" else case.n_sketches,
        n_dimensions=_DIMENSIONS if is_mixture else 4,
        n_clusters=_CLUSTERS if is_mixture else 5,
        devices_differ=not case.is_alike,
    )
    advice = advise(outline, epsilon=case.epsilon, target_sse=TARGET_SSE)
    return find_whole(advice, TARGET_SSE) if form == "whole" else advice.recommended


def find_whole(advice: Advice, target_sse: float) -> Candidate:
    """Return the best candidate whose sketches carry all frequencies."""
    mechanism = advice.recommended.mechanism
    whole = [c for c in advice.candidates if c.mechanism == mechanism and not c.is_split]
    return choose_candidate(whole, target_sse)


def divide(dataset: Dataset, case: FleetCase, seed: int) -> Dataset:
    """Put the records in the order of devices; where these differ, each holds two clusters."""
    if case.is_alike or dataset.true_means is None:
        return dataset
    means = dataset.true_means
    nearest = np.argmin(np.sum(means**2, axis=1) - 2.0 * (dataset.records @ means.T), axis=1)
    parts = np.array_split(np.argsort(nearest, kind="stable"), 2 * case.n_sketches)
    order = np.concatenate([parts[i] for i in np.random.default_rng(seed).permutation(len(parts))])
    return replace(dataset, records=dataset.records[order], name=f"{dataset.name} by devices")


def _run(bench: Bench, case: FleetCase, form: str, chosen: Candidate) -> list[float]:
    """Return the relative SSE of each seed."""
    found = []
    solver = bench.options.create_solver()
    for seed in bench.options.list_seeds(case.runs, case.quick_runs):
        bench.report(f"{case.name} {form}", 0)
        dataset = case.source.load(seed)
        reference = find_reference(dataset)
        study = Study(
            n_frequencies=chosen.n_frequencies,
            scale=dataset.spread or reference.spread,
            noise=Noise(mechanism=chosen.mechanism, epsilon=case.epsilon),
            n_sketches=1 if form == "one" else case.n_sketches,
            blocks=chosen.n_frequencies // chosen.frequencies_per_sketch,
            law=chosen.law_choice.law,
        )
        problem = bench.sketcher.pose(divide(dataset, case, seed), study, seed).problem
        bench.sketcher.forget()
        solution = solver.solve(problem, rng=np.random.default_rng(seed))
        found.append(compute_sse(dataset.records, solution.centroids) / reference.sse)
        bench.report(case.name, 1)
    return found


def _summarise(name: str, chosen: Candidate, found: Sequence[float]) -> Iterator[Row]:
    for figure, value, unit in (
        ("median_relative_sse", float(np.median(found)), "1"),
        ("p90_relative_sse", float(np.quantile(found, 0.9)), "1"),
        ("n_frequencies", chosen.n_frequencies, "1"),
        ("frequencies_per_sketch", chosen.frequencies_per_sketch, "1"),
        ("sketch_bytes", chosen.sketch_bytes, "B"),
    ):
        yield Row(
            benchmark=NAME,
            case=name,
            figure=figure,
            value=float(value),
            unit=unit,
            runs=len(found),
            baseline="k-means on the records" if "sse" in figure else "none",
        )


def _list_forms(case: FleetCase) -> Sequence[str]:
    # One sketch cannot be divided; the largest fleet is only measured as it would be run.
    if case.n_sketches == 1:
        return ("one",)
    if case.has_phones:
        return ("reports",)
    return ("split",) if case.n_records > 10**6 else ("split", "whole")


def _select(options: Options) -> list[FleetCase]:
    return [
        case for case in list_cases() if options.includes(case.name, in_quick=case.quick_runs > 0)
    ]


def _list_names() -> list[str]:
    return [case.name for case in list_cases()]


def _count(options: Options) -> int:
    return sum(
        len(_list_forms(case)) * len(options.list_seeds(case.runs, case.quick_runs))
        for case in _select(options)
    )


def _draw(rows: Sequence[Row], path: Path) -> None:
    # Imported here, because matplotlib takes a second to load.
    from benchmarks.figures import draw_fleets  # noqa: PLC0415

    draw_fleets(rows, path)


if __name__ == "__main__":
    sys.exit(
        run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count, _draw)
    )
