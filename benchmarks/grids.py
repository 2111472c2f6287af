"""Joint grids of two to four dimensions beside the Fourier sketch.

Run as ``python -m benchmarks.grids [--quick] [--json]``; ``--help`` lists the options. The records
of a set are divided into L sums of equal size, each with pure epsilon under replace-one; ``n_eps``
is n epsilon. ``grid`` has the cells that :func:`sfumato.learning.clustering.cells.choose_cells`
chooses and exact discrete Laplace noise; ``fourier`` the mechanism, frequencies, law and sketches
that the planner chooses for the same numbers, its exact noise and the default decoder, at the true
scale, and ``whole`` with all frequencies in every sketch. ``box=3`` stands for a public box three
times as wide. Relative SSE is as in :mod:`benchmarks.decoding`. ``verdict`` counts the grid's
verdicts, and ``inside`` the share of answers inside the verdict's band.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.designs import advise_study, recover, resize
from benchmarks.reference import KMEANS, measure_ratio
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from benchmarks.sketches import GeneratorSource
from sfumato.learning.clustering.cells import CellNoise, choose_cells
from sfumato.learning.clustering.grid import GridProblem, GridSolver
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import Quantiser, SketchAccumulator
from sfumato.shared.core.statistics.grid import GridStatistic
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace

NAME = "grids"
_RECORDS = 100_000
_RELATION = "replace-one"


@dataclass(frozen=True, kw_only=True)
class GridStudy:
    """A study that may use a grid: its records, n epsilon, L, and the width of the public box."""

    source: Mixture | RealData
    n_epsilon: int
    n_sketches: int = 1
    box: float = 1.0

    @property
    def name(self) -> str:
        """The name of its rows, without box and method."""
        kind = "weather"
        if isinstance(self.source, Mixture):
            kind = f"d={self.source.n_dimensions} k={self.source.n_clusters}"
        return f"{kind} n_eps={self.n_epsilon:.0e} L={self.n_sketches}"

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of each sum."""
        return Fraction(self.n_epsilon, self.source.n_records)

    def load(self, seed: int) -> Dataset:
        """Return the records of one seed, in the box of the case."""
        return resize(self.source.load(seed), self.box)

    def decode_grid(self, dataset: Dataset, seed: int) -> Solution:
        """Count records by cell in each sum, add noise to each, and cluster the total."""
        n, d = dataset.records.shape
        cells = choose_cells(n, self.epsilon, _RELATION, self.n_sketches, d)
        mechanism = DiscreteLaplace.calibrate(
            sensitivity_l1=count_records_moved(_RELATION),
            epsilon=self.epsilon,
            neighbouring=_RELATION,
        )
        source = GeneratorSource(seed)
        total = sum(
            mechanism.add_noise(count_cells(records, dataset, cells), source)
            for records in np.array_split(dataset.records, self.n_sketches)
        )
        lower, upper = np.full(d, dataset.lower), np.full(d, dataset.upper)
        problem = GridProblem(
            counts=np.asarray(total),
            cells=cells,
            lower=lower,
            upper=upper,
            unit=0.5 * (upper - lower),
            noise=CellNoise.of(mechanism, self.n_sketches),
            n_records=float(n),
            n_clusters=dataset.n_clusters,
        )
        return GridSolver().solve(problem, rng=np.random.default_rng(seed))

    def decode_sketch(self, dataset: Dataset, seed: int, *, is_whole: bool = False) -> Solution:
        """Sketch, release and decode as planned; or with all features in every sketch."""
        outline = StudyOutline(
            n_records=len(dataset.records),
            n_sketches=self.n_sketches,
            n_dimensions=dataset.n_dimensions,
            n_clusters=dataset.n_clusters,
            devices_differ=False,
        )
        chosen = advise_study(outline, self.epsilon, is_whole=is_whole)
        return recover(dataset, chosen, seed, n_sketches=self.n_sketches)


def count_cells(records: Floats, dataset: Dataset, cells: tuple[int, ...]) -> Integers:
    """Count records by cell as a device does; the last count is that of missing values, 0 here."""
    d = dataset.n_dimensions
    quantiser = Quantiser.from_bounds([dataset.lower] * d, [dataset.upper] * d)
    accumulator = SketchAccumulator(GridStatistic(quantiser=quantiser, cells=cells))
    accumulator.add(records)
    return accumulator.sums


Judged = tuple[float, Solution]
Recover = Callable[[Dataset, int], Solution]
GridCase = Case[Dataset, Judged]


def make_case(study: GridStudy, *, runs: int = 5, quick_runs: int = 0) -> GridCase:
    """Make the case of a study, with both methods."""

    def judge(recover: Recover, dataset: Dataset, seed: int) -> Judged:
        found = recover(dataset, seed)
        return measure_ratio(dataset, found.centroids), found

    methods: dict[str, Recover] = {"grid": study.decode_grid, "fourier": study.decode_sketch}
    if study.n_sketches > 1:
        methods["whole"] = partial(study.decode_sketch, is_whole=True)
    return GridCase(
        name=f"{study.name} box={study.box:g}",
        load=study.load,
        methods={name: partial(judge, recover) for name, recover in methods.items()},
        summarise=_summarise,
        runs=runs,
        quick_runs=quick_runs,
    )


def list_cases() -> Iterator[GridCase]:
    """List the cases: over sets, n epsilon and L, and in wider boxes."""
    weather = RealData(name="weather")
    mixtures = [
        Mixture(n_dimensions=d, n_clusters=k, n_records=_RECORDS)
        for d, k in ((2, 5), (2, 10), (3, 10), (4, 5), (4, 10))
    ]
    sets: tuple[tuple[list[Mixture | RealData], float], ...] = (
        ([*mixtures, weather], 1.0),
        ([mixtures[1], weather], 3.0),
    )
    for sources, box in sets:
        for source in sources:
            for size in (1, 100):
                for n_epsilon in (1000, 3000, 10_000, 30_000, 100_000, 1_000_000):
                    # Nothing is left to compare there, and exact noise for so many cells takes
                    # minutes.
                    if size == 1 or n_epsilon < 1_000_000:
                        is_quick = source in (weather, mixtures[1]) and box == 1.0
                        study = GridStudy(
                            source=source, n_epsilon=n_epsilon, n_sketches=size, box=box
                        )
                        yield make_case(study, quick_runs=int(is_quick and n_epsilon == 10_000))


def _summarise(found: Sequence[Judged]) -> Iterator[Figure]:
    ratios = [ratio for ratio, _ in found]
    judged = [(ratio, answer.verdict) for ratio, answer in found if answer.verdict]
    inside = [verdict.low <= ratio <= verdict.high for ratio, verdict in judged]
    usable = [verdict.word in ("sound", "rough") for _, verdict in judged]
    yield "median_relative_sse", np.median(ratios), "1", KMEANS
    yield "worst_relative_sse", np.max(ratios), "1", KMEANS
    yield "share_sound_or_rough", sum(usable) / len(found)
    yield "share_inside_band", sum(inside) / len(found)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, all methods on the same records."""
    yield from measure_cases(NAME, bench, list_cases())


if __name__ == "__main__":
    run(NAME, __doc__, measure)
