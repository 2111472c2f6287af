"""Private k-means where no curator holds the records: rows of :mod:`benchmarks.methods`.

``fleet`` cases divide the records of a set over L devices, each with noise of its own, at the same
n epsilon as a curator's: ``compressive`` is the sketch as the planner plans it for so many,
``whole`` one whose devices send all features, and ``grid`` the sum of noisy histograms, up to four
columns. ``local`` cases have one record a device: ``reports`` of phases, and the ``grid`` and
``tree`` of :mod:`benchmarks.local`. Other methods ask the same records again in each round, with
noise that is drawn once for all: they have no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks import local
from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.experiments import Bench, Options
from benchmarks.grids import GridCase, run_fourier, run_grid
from benchmarks.local import LocalCase, load_records
from benchmarks.reference import compute_sse, find_reference
from benchmarks.rows import Row
from sfumato.shared.errors import SketchError

NAME = "methods"
_RECORDS = 100_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FleetCase:
    """Records of devices, each with a part of them.

    Parameters
    ----------
    grid
        The set, n epsilon and L.
    runs, quick_runs
        Seeds, in full and with ``--quick``.
    """

    grid: GridCase
    runs: int = 5
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows, without the method."""
        return f"fleet {self.grid.name.removesuffix(' box=1')}"

    @property
    def methods(self) -> Mapping[str, Callable[[Dataset, int], Floats]]:
        """What can be compared."""
        found: dict[str, Callable[[Dataset, int], Floats]] = {
            "compressive": lambda dataset, seed: run_fourier(dataset, self.grid, seed).centroids
        }
        if self.grid.n_sketches > 1:
            found["whole"] = lambda dataset, seed: (
                run_fourier(dataset, self.grid, seed, is_split=False).centroids
            )
        if not isinstance(self.grid.source, Mixture) or self.grid.source.n_dimensions <= 4:
            found["grid"] = lambda dataset, seed: run_grid(dataset, self.grid, seed).centroids
        return found

    def load(self, seed: int) -> Dataset:
        """Return the records of one seed."""
        return self.grid.load(seed)


@dataclass(frozen=True, kw_only=True)
class PhoneCase:
    """Devices with one record each."""

    phones: LocalCase
    runs: int = 3
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows, without the method."""
        return f"local d=10 k=10 {self.phones.name.removesuffix(' box=10')}"

    @property
    def methods(self) -> Mapping[str, Callable[[Dataset, int], Floats]]:
        """What can be compared."""
        return {name: self._bind(run) for name, run in local.METHODS.items()}

    def _bind(self, run: local.Method) -> Callable[[Dataset, int], Floats]:
        return lambda dataset, seed: run(dataset, self.phones, seed).centroids

    def load(self, seed: int) -> Dataset:
        """Return the records of one seed."""
        return load_records(self.phones, seed)


Case = FleetCase | PhoneCase


def list_fleet_cases() -> tuple[Case, ...]:
    """List the fleets, over L, and the phones, over n."""
    sources: tuple[tuple[Mixture | RealData, int], ...] = (
        (Mixture(n_dimensions=2, n_clusters=10, n_records=_RECORDS), 30_000),
        (Mixture(n_dimensions=10, n_clusters=10, n_records=_RECORDS), 100_000),
        (RealData(name="weather"), 26_110),
    )
    fleets = tuple(
        FleetCase(
            grid=GridCase(source=source, n_epsilon=n_epsilon, n_sketches=size),
            quick_runs=2 * int(size == 100 and n_epsilon == 30_000),
        )
        for source, n_epsilon in sources
        for size in (1, 10, 100, 1000)
    )
    phones = tuple(
        PhoneCase(phones=LocalCase(n_records=n, epsilon=Fraction(epsilon)))
        for n in (10**4, 10**5, 10**6)
        for epsilon in (1, 3)
    )
    return (*fleets, *phones)


def measure_fleets(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases, all methods on the same records."""
    for case, names in select_fleets(bench.options).items():
        found: dict[str, list[float]] = {name: [] for name in names}
        for seed in bench.options.list_seeds(case.runs, case.quick_runs):
            dataset = case.load(seed)
            reference = find_reference(dataset)
            for name in names:
                bench.report(case.name, 1)
                try:
                    centroids = case.methods[name](dataset, seed)
                except SketchError:
                    # Such as more clusters than what noise leaves room for.
                    continue
                found[name].append(compute_sse(dataset.records, centroids) / reference.sse)
        for name, ratios in found.items():
            if ratios:
                yield from _summarise(f"{case.name} {name}", ratios)


def select_fleets(options: Options) -> dict[Case, list[str]]:
    """Return the methods to run of each case, and no case without one."""
    chosen = {
        case: [
            name
            for name in case.methods
            if options.includes(f"{case.name} {name}", in_quick=case.quick_runs > 0)
        ]
        for case in list_fleet_cases()
    }
    return {case: names for case, names in chosen.items() if names}


def _summarise(name: str, ratios: Sequence[float]) -> Iterator[Row]:
    for figure, value in (
        ("median_relative_sse", np.median(ratios)),
        ("p90_relative_sse", np.quantile(ratios, 0.9)),
    ):
        yield Row(NAME, name, figure, float(value), "1", len(ratios), "k-means on the records")
