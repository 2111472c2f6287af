"""Joint grids of two to four dimensions beside the Fourier sketch.

Run as ``python -m benchmarks.grids [--quick] [--json]``; ``--help`` lists the options. The records
of a set are divided into L sums of equal size, each with pure epsilon under replace-one; ``n_eps``
is n epsilon. ``grid`` has the cells that :func:`sfumato.learning.clustering.cells.choose_cells`
chooses and exact discrete Laplace noise; ``fourier`` the mechanism, frequencies, law and sketches
that the planner chooses for the same numbers, its exact noise and the default decoder, at the true
scale. ``box=3`` stands for a public box three times as wide. Relative SSE is as in
:mod:`benchmarks.decoding`. ``verdict`` counts the grid's verdicts, and ``inside`` the share of
answers inside the verdict's band.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.experiments import Bench, Options, run_experiment
from benchmarks.fleets import find_whole
from benchmarks.local import GeneratorSource
from benchmarks.reference import compute_sse, find_reference
from benchmarks.rows import Row
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.clustering.cells import CellNoise, choose_cells
from sfumato.learning.clustering.grid import GridProblem, GridSolver
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise
from sfumato.shared.core import Quantiser, SketchAccumulator
from sfumato.shared.core.statistics.grid import GridStatistic
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace

NAME = "grids"
_RECORDS = 100_000
_TARGET_SSE = 1.1
_RELATION = "replace-one"


@dataclass(frozen=True, kw_only=True)
class GridCase:
    """A study that may use a grid.

    Parameters
    ----------
    source
        Where its records come from.
    n_epsilon
        n epsilon.
    n_sketches
        L.
    box
        Width of the public box over that of the set.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    source: Mixture | RealData
    n_epsilon: int
    n_sketches: int = 1
    box: float = 1.0
    runs: int = 5
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows, without the method."""
        kind = "weather"
        if isinstance(self.source, Mixture):
            kind = f"d={self.source.n_dimensions} k={self.source.n_clusters}"
        return f"{kind} n_eps={self.n_epsilon:.0e} L={self.n_sketches} box={self.box:g}"

    def load(self, seed: int) -> Dataset:
        """Return the records of one seed, in the box of the case."""
        dataset = self.source.load(seed)
        if self.box == 1.0:
            return dataset
        return replace(
            dataset,
            name=f"{dataset.name} box={self.box:g}",
            lower=self.box * dataset.lower,
            upper=self.box * dataset.upper,
        )

    def find_epsilon(self, dataset: Dataset) -> Fraction:
        """Return the epsilon of each sum."""
        return Fraction(self.n_epsilon, len(dataset.records))


Method = Callable[[Dataset, GridCase, int], Solution]


def run_grid(dataset: Dataset, case: GridCase, seed: int) -> Solution:
    """Count records by cell in each sum, add noise to each, and cluster the total."""
    d, k = dataset.n_dimensions, dataset.n_clusters
    epsilon = case.find_epsilon(dataset)
    cells = choose_cells(len(dataset.records), epsilon, _RELATION, case.n_sketches, d)
    mechanism = DiscreteLaplace.calibrate(
        sensitivity_l1=count_records_moved(_RELATION), epsilon=epsilon, neighbouring=_RELATION
    )
    source = GeneratorSource(seed)
    total = sum(
        mechanism.add_noise(count_cells(records, dataset, cells), source)
        for records in np.array_split(dataset.records, case.n_sketches)
    )
    lower, upper = np.full(d, dataset.lower), np.full(d, dataset.upper)
    problem = GridProblem(
        counts=np.asarray(total),
        cells=cells,
        lower=lower,
        upper=upper,
        unit=0.5 * (upper - lower),
        noise=CellNoise.of(mechanism, case.n_sketches),
        n_records=float(len(dataset.records)),
        n_clusters=k,
    )
    return GridSolver().solve(problem, rng=np.random.default_rng(seed))


def count_cells(
    records: NDArray[np.float64], dataset: Dataset, cells: tuple[int, ...]
) -> NDArray[np.int64]:
    """Count records by cell as a device does; the last count is that of missing values, 0 here."""
    d = dataset.n_dimensions
    quantiser = Quantiser.from_bounds([dataset.lower] * d, [dataset.upper] * d)
    accumulator = SketchAccumulator(GridStatistic(quantiser=quantiser, cells=cells))
    accumulator.add(records)
    return accumulator.sums


def run_fourier(dataset: Dataset, case: GridCase, seed: int, *, is_split: bool = True) -> Solution:
    """Sketch, release and decode as the planner plans it; or with all features in every sketch."""
    epsilon = case.find_epsilon(dataset)
    outline = StudyOutline(
        n_records=len(dataset.records),
        n_sketches=case.n_sketches,
        n_dimensions=dataset.n_dimensions,
        n_clusters=dataset.n_clusters,
        devices_differ=False,
    )
    advice = advise(outline, epsilon=epsilon, target_sse=_TARGET_SSE)
    chosen = advice.recommended if is_split else find_whole(advice, _TARGET_SSE)
    study = Study(
        n_frequencies=chosen.n_frequencies,
        scale=dataset.spread or find_reference(dataset).spread,
        noise=Noise(mechanism=chosen.mechanism, epsilon=epsilon),
        n_sketches=case.n_sketches,
        blocks=chosen.n_frequencies // chosen.frequencies_per_sketch,
        law=chosen.law_choice.law,
    )
    problem = Sketcher().pose(dataset, study, seed).problem
    return create_solver().solve(problem, rng=np.random.default_rng(seed))


METHODS: Mapping[str, Method] = {"grid": run_grid, "fourier": run_fourier}


def list_cases() -> tuple[GridCase, ...]:
    """List the cases: over sets, n epsilon and L, and in wider boxes."""
    weather = RealData(name="weather")
    narrow: tuple[Mixture | RealData, ...] = (
        *(
            Mixture(n_dimensions=d, n_clusters=k, n_records=_RECORDS)
            for d, k in ((2, 5), (2, 10), (3, 10), (4, 5), (4, 10))
        ),
        weather,
    )
    wide: tuple[Mixture | RealData, ...] = (
        Mixture(n_dimensions=2, n_clusters=10, n_records=_RECORDS),
        weather,
    )
    quick = (weather, narrow[1])
    return tuple(
        GridCase(
            source=source,
            n_epsilon=n_epsilon,
            n_sketches=size,
            box=box,
            quick_runs=int(source in quick and n_epsilon == 10_000 and box == 1.0),
        )
        for sources, box in ((narrow, 1.0), (wide, 3.0))
        for source in sources
        for size in (1, 100)
        for n_epsilon in (1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
        # Nothing is left to compare there, and exact noise for so many cells takes minutes.
        if size == 1 or n_epsilon < 1_000_000
    )


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, all methods on the same records."""
    for case, names in _select(bench.options).items():
        ratios: dict[str, list[float]] = defaultdict(list)
        answers: dict[str, list[Solution]] = defaultdict(list)
        for seed in bench.options.list_seeds(case.runs, case.quick_runs):
            bench.report(case.name, 0)
            dataset = case.load(seed)
            reference = find_reference(dataset)
            for name in names:
                answer = METHODS[name](dataset, case, seed)
                answers[name].append(answer)
                ratios[name].append(compute_sse(dataset.records, answer.centroids) / reference.sse)
                bench.report(case.name, 1)
        for name in names:
            yield from _summarise(f"{case.name} {name}", ratios[name], answers[name])


def _summarise(name: str, found: Sequence[float], answers: Sequence[Solution]) -> Iterator[Row]:
    verdicts = [answer.verdict for answer in answers]
    inside = [
        verdict is not None and verdict.low <= ratio <= verdict.high
        for verdict, ratio in zip(verdicts, found, strict=True)
    ]
    usable = [verdict is not None and verdict.word in ("sound", "rough") for verdict in verdicts]
    for figure, value in (
        ("median_relative_sse", np.median(found)),
        ("worst_relative_sse", np.max(found)),
        ("share_sound_or_rough", np.mean(usable)),
        ("share_inside_band", np.mean(inside)),
    ):
        yield Row(
            benchmark=NAME,
            case=name,
            figure=figure,
            value=float(value),
            unit="1",
            runs=len(found),
            baseline="k-means on the records" if "sse" in figure else "none",
        )


def _select(options: Options) -> dict[GridCase, list[str]]:
    chosen = {}
    for case in list_cases():
        in_quick = case.quick_runs > 0
        names = [m for m in METHODS if options.includes(f"{case.name} {m}", in_quick=in_quick)]
        if names:
            chosen[case] = names
    return chosen


def _list_names() -> list[str]:
    return [f"{case.name} {name}" for case in list_cases() for name in METHODS]


def _count(options: Options) -> int:
    return sum(
        len(names) * len(options.list_seeds(case.runs, case.quick_runs))
        for case, names in _select(options).items()
    )


if __name__ == "__main__":
    sys.exit(run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count))
