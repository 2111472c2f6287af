"""Every private k-means under the same exact noise.

Run as ``python -m benchmarks.methods [--quick] [--json]``. One relation
(replace-one), one quantiser, one public box, one source of noise, one reference: the SSE of
k-means on the records, to which ``relative_sse`` refers. ``n_eps`` is n epsilon; all methods get
the same epsilon, and each spends all of it. Methods that use a scale get the true one, but in cases
of ``no scale``, where the sketch spends a part of epsilon on a pilot. ``published`` marks the
methods as their papers have them, and ``granted`` one whose condition on the records is not
checked. ``wide`` stands for a public box four times as wide. Cases of the
strongest noise come first, where the sketch loses most; its page sorts them
by what it loses. Each case's rows come when it is measured, so that a run that is stopped keeps
them. Cases of 20,000 records are those, beside others, that :mod:`benchmarks.choosing` takes its
table from; they have the methods alone that it chooses from. Rows without a
curator follow. ``fleet`` cases divide the records over L devices, each with noise of its own, at
the same n epsilon: ``whole`` are sketches of all features on every device, and ``grid`` is the sum
of noisy histograms, up to four columns. ``local`` cases have one record a device. Other methods ask
the same records again in each round, with noise that is drawn once for all: they have no row there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks import grids, phones
from benchmarks.contenders import CHOICES, CONTENDERS, MOST, SLOW, Run
from benchmarks.datasets import SPREAD, Dataset, Mixture, RealData
from benchmarks.designs import resize
from benchmarks.grids import GridStudy
from benchmarks.phones import Phones
from benchmarks.reference import find_reference, list_quality, measure_ratio
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run

NAME = "methods"
_RECORDS = 100_000
_FEW = 20_000
"""Records of the shapes that only the choice is fitted to: results follow from n epsilon."""
_BAD = 2.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Mixtures of Gaussian clusters in a box that holds them: another for each seed.

    Parameters
    ----------
    n_dimensions, n_clusters, n_records
        d, k and n.
    kind
        ``round``; ``zipf``, with weights in proportion to 1 / i; or ``stretched``, with a spread
        from 1/2 to 2 in each dimension of each cluster.
    """

    n_dimensions: int
    n_clusters: int
    n_records: int = _RECORDS
    kind: str = "round"

    @property
    def name(self) -> str:
        """The name of its cases."""
        kind = "" if self.kind == "round" else f" {self.kind}"
        many = "" if self.n_records == _RECORDS else f" n={self.n_records:.0e}"
        return f"d={self.n_dimensions} k={self.n_clusters}{kind}{many}"

    def load(self, seed: int) -> Dataset:
        """Draw the records of one seed."""
        return _draw_shape(self, seed)


@lru_cache(maxsize=2)
def _draw_shape(shape: Shape, seed: int) -> Dataset:
    d, k = shape.n_dimensions, shape.n_clusters
    rng = np.random.default_rng((seed, d, k, len(shape.kind)))
    means = rng.normal(0.0, 1.5 * k ** (1.0 / d), size=(k, d))
    weights = 1.0 / np.arange(1, k + 1) if shape.kind == "zipf" else np.ones(k)
    labels = rng.choice(k, size=shape.n_records, p=weights / weights.sum())
    spreads = np.full((k, d), SPREAD)
    if shape.kind == "stretched":
        spreads = 2.0 ** rng.uniform(-1.0, 1.0, size=(k, d))
    records = means[labels] + spreads[labels] * rng.normal(size=(shape.n_records, d))
    half_width = 25.0 if d < 5 else 10.0
    return Dataset(
        name=f"{shape.name} of {shape.n_records}, seed={seed}",
        records=np.clip(records, -half_width, half_width),
        lower=-half_width,
        upper=half_width,
        n_clusters=k,
        true_means=means,
    )


Judged = tuple[float, Run]
MethodCase = Case[Dataset, Judged]


def make_case(
    source: Shape | RealData,
    n_epsilon: int,
    *,
    box: float = 1.0,
    knows_scale: bool = True,
    contenders: Sequence[str] = MOST,
    runs: int = 20,
    quick_runs: int = 0,
) -> MethodCase:
    """Make the case of one set of records at one n epsilon.

    Parameters
    ----------
    source, n_epsilon
        Where its records come from, and n epsilon.
    box
        Width of the public box over that of the set.
    knows_scale
        Whether methods get the spread inside a cluster.
    contenders
        Names of the methods.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    def judge(name: str, dataset: Dataset, seed: int) -> Judged:
        epsilon = Fraction(n_epsilon, len(dataset.records))
        spread = find_reference(dataset).spread if knows_scale else None
        found = CONTENDERS[name](dataset, epsilon, seed, spread)
        if found.spent != epsilon:
            raise RuntimeError(f"{name} has spent {found.spent}, not {epsilon}")
        return measure_ratio(dataset, found.centroids), found

    wide, unscaled = " wide" * (box > 1.0), " no scale" * (not knows_scale)
    return MethodCase(
        name=f"{source.name}{wide}{unscaled} n_eps={n_epsilon:.0e}",
        load=lambda seed: resize(source.load(seed), box),
        methods={name: partial(judge, name) for name in contenders},
        summarise=_summarise,
        runs=runs,
        quick_runs=quick_runs,
    )


def _summarise(found: Sequence[Judged]) -> Iterator[Figure]:
    ratios = [ratio for ratio, _ in found]
    yield from list_quality(ratios)
    yield "share_above_2", np.mean(np.array(ratios) > _BAD)
    yield "cpu", np.median([run.seconds for _, run in found]), "s"
    yield "released", np.median([run.n_bytes for _, run in found]), "B"
    yield "rounds", np.median([run.n_rounds for _, run in found])


_NARROW: tuple[Shape | RealData, ...] = (
    RealData(name="weather"),
    Shape(n_dimensions=2, n_clusters=10),
    Shape(n_dimensions=10, n_clusters=10),
    Shape(n_dimensions=10, n_clusters=10, kind="zipf"),
    Shape(n_dimensions=10, n_clusters=10, kind="stretched"),
    Shape(n_dimensions=20, n_clusters=20),
    RealData(name="shuttle"),
    RealData(name="digits"),
)
_MORE = tuple(
    Shape(n_dimensions=d, n_clusters=k, kind=kind, n_records=_FEW)
    for d, k, kind in (
        (2, 4, "stretched"),
        (2, 20, "zipf"),
        (3, 6, "stretched"),
        (3, 12, "zipf"),
        (4, 5, "stretched"),
        (4, 20, "round"),
        (6, 5, "zipf"),
        (6, 15, "stretched"),
        (10, 4, "stretched"),
        (10, 25, "zipf"),
        (20, 8, "stretched"),
        (64, 8, "stretched"),
        (64, 16, "round"),
    )
)
_N_EPSILONS = (1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
_FEWER = (1000, 10_000, 100_000)
_QUICK = (3000, 30_000)


def list_cases() -> Iterator[MethodCase]:
    """List the cases, the strongest noise first, where the sketch loses most."""
    for n in _N_EPSILONS:
        for source in _NARROW:
            contenders = (*MOST, *(SLOW if source == _NARROW[0] else ()))
            quick_runs = 3 * int(source in _NARROW[:3] and n in _QUICK)
            yield make_case(source, n, contenders=contenders, quick_runs=quick_runs)
        if n in (3000, 10_000, 100_000):
            for source in _NARROW[:3]:
                yield make_case(source, n, box=4.0)
        if n == 10_000:
            many = Shape(n_dimensions=10, n_clusters=10, n_records=10 * _RECORDS)
            yield make_case(many, n, runs=5)
        for source in _MORE:
            yield make_case(source, n, contenders=CHOICES, runs=5)
        if n in _FEWER:
            for source in (*_NARROW, *_MORE):
                yield make_case(source, n, contenders=CHOICES, knows_scale=False, runs=5)


FleetCase = Case[Dataset, tuple[float, Any]]


def make_fleet_case(study: GridStudy, *, quick_runs: int = 0) -> FleetCase:
    """Make the case of devices with a part of the records each."""
    own = grids.make_case(study, quick_runs=quick_runs)
    has_grid = isinstance(study.source, RealData) or study.source.n_dimensions <= 4
    names = {"fourier": "compressive", "whole": "whole", **({"grid": "grid"} if has_grid else {})}
    methods = {new: own.methods[name] for name, new in names.items() if name in own.methods}
    return replace(own, name=f"fleet {study.name}", methods=methods, summarise=_summarise_fleet)


def _summarise_fleet(found: Sequence[tuple[float, Any]]) -> Iterator[Figure]:
    return list_quality([ratio for ratio, _ in found])


def list_fleet_cases() -> Iterator[Case[Dataset, Any]]:
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
            yield phones.make_case(Phones(n_records=n, epsilon=Fraction(epsilon)))


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each case as soon as it is measured."""
    yield from measure_cases(NAME, bench, [*list_cases(), *list_fleet_cases()])


if __name__ == "__main__":
    run(NAME, __doc__, measure)
