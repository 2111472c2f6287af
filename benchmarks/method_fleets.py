"""Private k-means where no curator holds the records: rows of :mod:`benchmarks.methods`.

``fleet`` cases divide the records of a set over L devices, each with noise of its own, at the same
n epsilon as a curator's: ``compressive`` is the sketch as the planner plans it for so many,
``whole`` one whose devices send all features, and ``grid`` the sum of noisy histograms, up to four
columns. ``local`` cases have one record a device: ``reports`` of phases, and the ``grid`` and
``tree`` of :mod:`benchmarks.local`. Other methods ask the same records again in each round, with
noise that is drawn once for all: they have no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.grids import GridStudy
from benchmarks.local import Phones
from benchmarks.reference import list_quality, measure_ratio
from benchmarks.runner import Case

_RECORDS = 100_000

FleetCase = Case[Dataset, float]
Recover = Callable[[Dataset, int], NDArray[np.float64]]


def make_fleet_case(study: GridStudy, *, runs: int = 5, quick_runs: int = 0) -> FleetCase:
    """Make the case of devices with a part of the records each."""
    methods: dict[str, Recover] = {"compressive": lambda x, s: study.decode_sketch(x, s).centroids}
    if study.n_sketches > 1:
        methods["whole"] = lambda x, s: study.decode_sketch(x, s, is_whole=True).centroids
    if isinstance(study.source, RealData) or study.source.n_dimensions <= 4:
        methods["grid"] = lambda x, s: study.decode_grid(x, s).centroids
    return _make_case(f"fleet {study.name}", study.load, methods, runs, quick_runs)


def make_phone_case(phones: Phones, *, runs: int = 3) -> FleetCase:
    """Make the case of devices with one record each."""

    def find(name: str, dataset: Dataset, seed: int) -> NDArray[np.float64]:
        return phones.methods[name](dataset, seed)[0]

    methods = {name: partial(find, name) for name in phones.methods}
    return _make_case(f"local d=10 k=10 {phones.name}", phones.source.load, methods, runs, 0)


def _make_case(
    name: str,
    load: Callable[[int], Dataset],
    methods: Mapping[str, Recover],
    runs: int,
    quick_runs: int,
) -> FleetCase:
    def judge(method: Recover, dataset: Dataset, seed: int) -> float:
        return measure_ratio(dataset, method(dataset, seed))

    return FleetCase(
        name=name,
        load=load,
        methods={each: partial(judge, method) for each, method in methods.items()},
        summarise=list_quality,
        runs=runs,
        quick_runs=quick_runs,
    )


def list_fleet_cases() -> Iterator[FleetCase]:
    """List the fleets, over L, and the phones, over n."""
    sources: tuple[tuple[Mixture | RealData, int], ...] = (
        (Mixture(n_dimensions=2, n_clusters=10, n_records=_RECORDS), 30_000),
        (Mixture(n_dimensions=10, n_clusters=10, n_records=_RECORDS), 100_000),
        (RealData(name="weather"), 26_110),
    )
    for source, n_epsilon in sources:
        for size in (1, 10, 100, 1000):
            study = GridStudy(source=source, n_epsilon=n_epsilon, n_sketches=size)
            is_quick = size == 100 and n_epsilon == 30_000
            yield make_fleet_case(study, quick_runs=2 * int(is_quick))
    for n in (10**4, 10**5, 10**6):
        for epsilon in (1, 3):
            yield make_phone_case(Phones(n_records=n, epsilon=Fraction(epsilon)))
