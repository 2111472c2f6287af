"""Every private k-means under the same exact noise.

Run as ``python -m benchmarks.methods [--quick] [--json] [--plot FILE]``. One relation
(replace-one), one quantiser, one public box, one source of noise, one reference: the SSE of
k-means on the records, to which ``relative_sse`` refers. ``n_eps`` is n epsilon; all methods get
the same epsilon, and each spends all of it. Methods that use a scale get the true one, but in cases
of ``no scale``, where the sketch spends a part of epsilon on a pilot. ``published`` marks the
methods as their papers have them, and ``granted`` one whose condition on the records is not
checked. ``wide`` stands for a public box four times as wide. Cases of the
strongest noise come first, where the sketch loses most; :mod:`benchmarks.methods_page` sorts them
by what it loses. Each case's rows come when it is measured, so that a run that is stopped keeps
them. Cases of 20,000 records are those, beside others, that :mod:`benchmarks.choosing` takes its
table from; they have the methods alone that it chooses from. Rows without a curator follow: see
:mod:`benchmarks.method_fleets`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.contenders import CHOICES, CONTENDERS, MOST, SLOW, Run
from benchmarks.datasets import SPREAD, Dataset, RealData
from benchmarks.experiments import Bench, Options, run_experiment
from benchmarks.method_fleets import list_fleet_cases, measure_fleets, select_fleets
from benchmarks.packages import PackageUnavailableError
from benchmarks.reference import compute_sse, find_reference
from benchmarks.rows import Row
from sfumato.shared.errors import SketchError

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


@dataclass(frozen=True, kw_only=True)
class Real:
    """Records of the real world."""

    name: str

    def load(self, seed: int) -> Dataset:
        """Return the records; the seed has no effect."""
        return RealData(name=self.name).load(seed)


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


@dataclass(frozen=True, kw_only=True)
class MethodCase:
    """One set of records at one n epsilon.

    Parameters
    ----------
    source
        Where its records come from.
    n_epsilon
        n epsilon.
    box
        Width of the public box over that of the set.
    knows_scale
        Whether methods get the spread inside a cluster.
    contenders
        Names of the methods.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    source: Shape | Real
    n_epsilon: int
    box: float = 1.0
    knows_scale: bool = True
    contenders: tuple[str, ...] = MOST
    runs: int = 20
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows, without the method."""
        wide = " wide" if self.box > 1.0 else ""
        unscaled = "" if self.knows_scale else " no scale"
        return f"{self.source.name}{wide}{unscaled} n_eps={self.n_epsilon:.0e}"

    def load(self, seed: int) -> Dataset:
        """Return the records of one seed, in the box of the case."""
        dataset = self.source.load(seed)
        if self.box == 1.0:
            return dataset
        middle, half = (dataset.lower + dataset.upper) / 2, (dataset.upper - dataset.lower) / 2
        return replace(
            dataset,
            name=f"{dataset.name} box={self.box:g}",
            lower=middle - self.box * half,
            upper=middle + self.box * half,
        )


_NARROW: tuple[Shape | Real, ...] = (
    Real(name="weather"),
    Shape(n_dimensions=2, n_clusters=10),
    Shape(n_dimensions=10, n_clusters=10),
    Shape(n_dimensions=10, n_clusters=10, kind="zipf"),
    Shape(n_dimensions=10, n_clusters=10, kind="stretched"),
    Shape(n_dimensions=20, n_clusters=20),
    Real(name="shuttle"),
    Real(name="digits"),
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
    )
)
_N_EPSILONS = (1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
_FEWER = (1000, 10_000, 100_000)
_QUICK = (3000, 30_000)


def list_cases() -> tuple[MethodCase, ...]:
    """List the cases, the strongest noise first, where the sketch loses most."""
    quick = _NARROW[:3]
    cases = [
        MethodCase(
            source=source,
            n_epsilon=n,
            contenders=(*MOST, *(SLOW if source == _NARROW[0] else ())),
            quick_runs=3 * int(source in quick and n in _QUICK),
        )
        for source in _NARROW
        for n in _N_EPSILONS
    ]
    wide = [
        MethodCase(source=source, n_epsilon=n, box=4.0)
        for source in quick
        for n in (3000, 10_000, 100_000)
    ]
    more = MethodCase(
        source=Shape(n_dimensions=10, n_clusters=10, n_records=10 * _RECORDS), n_epsilon=10_000
    )
    few = [
        MethodCase(source=source, n_epsilon=n, contenders=CHOICES, runs=5)
        for source in _MORE
        for n in _N_EPSILONS
    ]
    unscaled = [
        MethodCase(source=source, n_epsilon=n, contenders=CHOICES, knows_scale=False, runs=5)
        for source in (*_NARROW, *_MORE)
        for n in _FEWER
    ]
    all_cases = (*cases, *wide, replace(more, runs=5), *few, *unscaled)
    return tuple(sorted(all_cases, key=lambda case: case.n_epsilon))


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each case as soon as it is measured."""
    for case, names in _select(bench.options).items():
        try:
            case.load(bench.options.first_seed)
        except PackageUnavailableError as error:
            print(f"benchmarks.{NAME}: without {case.name}: {error}", file=sys.stderr)
            continue
        for name, (ratios, runs) in _measure_case(bench, case, names).items():
            yield from _summarise(f"{case.name} {name}", ratios, runs)
    yield from measure_fleets(bench)


Results = Mapping[str, tuple[Sequence[float], Sequence[Run]]]


def _measure_case(bench: Bench, case: MethodCase, names: Sequence[str]) -> Results:
    ratios: dict[str, list[float]] = defaultdict(list)
    runs: dict[str, list[Run]] = defaultdict(list)
    for seed in bench.options.list_seeds(case.runs, case.quick_runs):
        bench.report(case.name, 0)
        dataset = case.load(seed)
        reference = find_reference(dataset)
        epsilon = Fraction(case.n_epsilon, len(dataset.records))
        for name in names:
            try:
                spread = reference.spread if case.knows_scale else None
                run = CONTENDERS[name](dataset, epsilon, seed, spread)
            except SketchError:
                # Such as more clusters than cells: the method has no answer.
                continue
            finally:
                bench.report(case.name, 1)
            if run.spent != epsilon:
                raise RuntimeError(f"{name} has spent {run.spent}, not {epsilon}")
            ratios[name].append(compute_sse(dataset.records, run.centroids) / reference.sse)
            runs[name].append(run)
    return {name: (ratios[name], runs[name]) for name in names if runs[name]}


def _summarise(name: str, ratios: Sequence[float], runs: Sequence[Run]) -> Iterator[Row]:
    for figure, value, unit in (
        ("median_relative_sse", np.median(ratios), "1"),
        ("p90_relative_sse", np.quantile(ratios, 0.9), "1"),
        ("share_above_2", np.mean(np.array(ratios) > _BAD), "1"),
        ("cpu", np.median([run.seconds for run in runs]), "s"),
        ("released", np.median([run.n_bytes for run in runs]), "B"),
        ("rounds", np.median([run.n_rounds for run in runs]), "1"),
    ):
        yield Row(
            benchmark=NAME,
            case=name,
            figure=figure,
            value=float(value),
            unit=unit,
            runs=len(runs),
            baseline="k-means on the records" if "sse" in figure else "none",
        )


def _select(options: Options) -> dict[MethodCase, list[str]]:
    chosen = {}
    for case in list_cases():
        in_quick = case.quick_runs > 0
        names = [
            name
            for name in case.contenders
            if name in CONTENDERS and options.includes(f"{case.name} {name}", in_quick=in_quick)
        ]
        if names:
            chosen[case] = names
    return chosen


def _list_names() -> list[str]:
    fleets = [f"{case.name} {name}" for case in list_fleet_cases() for name in case.methods]
    curators = [f"{case.name} {name}" for case in list_cases() for name in case.contenders]
    return curators + fleets


def _count(options: Options) -> int:
    return sum(
        len(names) * len(options.list_seeds(case.runs, case.quick_runs))
        for chosen in (_select(options), select_fleets(options))
        for case, names in chosen.items()
    )


def _draw(rows: Sequence[Row], path: Path) -> None:
    # Imported here, because matplotlib takes a second to load.
    from benchmarks.method_pictures import draw_methods  # noqa: PLC0415

    draw_methods(rows, path)


if __name__ == "__main__":
    sys.exit(
        run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count, _draw)
    )
