"""Private max cover on its authors' recipe: many clusters in many dimensions, at one curator.

Run as ``python -m benchmarks.cover [--quick] [--json]``; ``--help`` lists the options. 64 centres
of N(0, 25^2 I) in 100 dimensions, unit noise, 50,000 records in equal shares, every coordinate
clipped to [0, 100]: the recipe of Nguyen, Chaturvedi and Xu (2021). All private methods are
(epsilon, n^-1.5) under add-remove-one with exact noise. ``cover`` has the authors' cube [0, 100] as
public bounds; ``cover tight`` a ball of radius 200 around 10, which somebody would state who knows
that most values are small; ``published`` the authors' constants on integers.
``mean_squared_distance`` is the cost per record. ``lloyd`` starts at the true centres.
``accounting`` compares the exponents of a pick that a cover of many picks may have.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments import Bench, Options, run_experiment
from benchmarks.local import GeneratorSource
from benchmarks.rows import Row
from learning.clustering.covering import run_cover
from learning.clustering.reference.published_cover import FRACTION, plan_published, run_published
from learning.clustering.weighted_points import run_weighted
from learning.coverage.plan import plan_cover
from learning.decoding.kmeans import assign
from shared.core.quantise import STEPS, Quantiser
from shared.privacy.cover import (
    CoverEvent,
    GaussianEvent,
    calibrate_cover,
    calibrate_gaussian,
    compute_joint_epsilon,
)
from shared.privacy.samplers import UNIT

NAME = "cover"
_RECORDS = 50_000
_DIMENSIONS = 100
_CENTRES = 64
_PICKS = 384
_BASELINE = "k-means on the records"

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CoverCase:
    """A number of clusters and an epsilon.

    Parameters
    ----------
    n_clusters, epsilon
        Asked for; the records have 64 clusters.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    n_clusters: int
    epsilon: Fraction
    runs: int = 5
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows, without the method."""
        return f"d=100 k={self.n_clusters} eps={float(self.epsilon):g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """The authors' synthetic records.

    Parameters
    ----------
    seed
        Of centres and records.
    """

    seed: int

    @cached_property
    def centres(self) -> Floats:
        """Shape ``(64, 100)``, before clipping."""
        return np.random.default_rng(self.seed).normal(scale=25.0, size=(_CENTRES, _DIMENSIONS))

    @cached_property
    def records(self) -> Floats:
        """Shape ``(50_000, 100)``."""
        rng = np.random.default_rng([self.seed, 1])
        noise = rng.normal(size=(_RECORDS, _DIMENSIONS))
        return np.clip(self.centres[np.arange(_RECORDS) % _CENTRES] + noise, 0.0, 100.0)


Method = Callable[[Recipe, CoverCase], Floats]
DELTA = Fraction(round(_RECORDS**-1.5 * 10**18), 10**18)


def _quantise(recipe: Recipe, lower: float, upper: float) -> tuple[NDArray[np.int16], Quantiser]:
    quantiser = Quantiser.from_bounds([lower] * _DIMENSIONS, [upper] * _DIMENSIONS)
    return quantiser.quantise(recipe.records)[0], quantiser


def _locate(steps: Floats, quantiser: Quantiser) -> Floats:
    return np.clip(quantiser.centre + steps * quantiser.half_width / STEPS, 0.0, 100.0)


def _run_ours(recipe: Recipe, case: CoverCase, lower: float, upper: float, radius: float) -> Floats:
    steps, quantiser = _quantise(recipe, lower, upper)
    plan = plan_cover(
        n_clusters=case.n_clusters,
        n_dimensions=_DIMENSIONS,
        n_records=_RECORDS,
        epsilon=case.epsilon,
        delta=DELTA,
        seed=recipe.seed.to_bytes(32, "big"),
        radius=math.floor(radius / quantiser.half_width[0] * STEPS),
    )
    source, rng = GeneratorSource(recipe.seed), np.random.default_rng(recipe.seed)
    return _locate(run_cover(steps, plan, source=source, rng=rng).centroids, quantiser)


def run_cube(recipe: Recipe, case: CoverCase) -> Floats:
    """Cover in the authors' cube, whose corners are 500 from its centre."""
    return _run_ours(recipe, case, 0.0, 100.0, 500.0)


def run_tight(recipe: Recipe, case: CoverCase) -> Floats:
    """Cover in a ball of radius 200 around 10."""
    return _run_ours(recipe, case, -90.0, 110.0, 200.0)


def run_authors(recipe: Recipe, case: CoverCase) -> Floats:
    """Run the published algorithm with its constants, in the authors' cube."""
    steps, quantiser = _quantise(recipe, 0.0, 100.0)
    plan = plan_published(
        n_clusters=case.n_clusters,
        n_dimensions=_DIMENSIONS,
        n_records=_RECORDS,
        epsilon=case.epsilon,
        delta=DELTA,
        seed=recipe.seed.to_bytes(32, "big"),
    )
    source, rng = GeneratorSource(recipe.seed), np.random.default_rng(recipe.seed)
    return _locate(run_published(steps, plan, source=source, rng=rng) / FRACTION, quantiser)


def run_lloyd(recipe: Recipe, case: CoverCase) -> Floats:
    """k-means without privacy: from the true centres, or from three k-means++ starts."""
    if case.n_clusters == _CENTRES:
        labels, _ = assign(recipe.records, np.clip(recipe.centres, 0.0, 100.0))
        members = [recipe.records[labels == i].mean(axis=0) for i in range(_CENTRES)]
        return np.array(members)
    rng = np.random.default_rng(recipe.seed)
    runs = run_weighted(recipe.records, np.ones(_RECORDS), case.n_clusters, rng, n_restarts=3)
    return min(runs, key=lambda run: run.cost).centroids


def run_one(recipe: Recipe, case: CoverCase) -> Floats:
    """One centre for all: the mean of the records."""
    del case
    mean: Floats = recipe.records.mean(axis=0, keepdims=True)
    return mean


METHODS: Mapping[str, Method] = {
    "lloyd": run_lloyd,
    "one centre": run_one,
    "published": run_authors,
    "cover": run_cube,
    "cover tight": run_tight,
}


def list_cases() -> tuple[CoverCase, ...]:
    """List the cases: Figure 1 of the paper over k, and two other epsilons at k = 64."""
    over_k = tuple(
        CoverCase(n_clusters=k, epsilon=Fraction(1), quick_runs=int(k == _CENTRES))
        for k in (2, 4, 8, 16, 32, 48, 64)
    )
    others = tuple(CoverCase(n_clusters=_CENTRES, epsilon=e) for e in (Fraction(1, 2), Fraction(2)))
    return over_k + others


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, all methods on the same records."""
    if bench.options.includes("accounting", in_quick=True):
        yield from measure_accounting()
    for case, names in _select(bench.options).items():
        costs: dict[str, list[float]] = defaultdict(list)
        seconds: dict[str, list[float]] = defaultdict(list)
        for seed in bench.options.list_seeds(case.runs, case.quick_runs):
            bench.report(case.name, 0)
            recipe = Recipe(seed=seed)
            for name in names:
                start = time.process_time()
                centroids = METHODS[name](recipe, case)
                seconds[name].append(time.process_time() - start)
                costs[name].append(assign(recipe.records, centroids)[1])
                bench.report(case.name, 1)
        for name in names:
            figures = (
                ("mean_squared_distance", np.mean(costs[name]), "1"),
                ("spread_over_seeds", np.std(costs[name]), "1"),
                ("cpu_seconds", np.median(seconds[name]), "s"),
            )
            for figure, value, unit in figures:
                yield _make_row(f"{case.name} {name}", figure, float(value), unit, len(costs[name]))


def measure_accounting() -> Iterator[Row]:
    """Yield the exponents of a pick by three accountings, and what joint accounting saves."""
    delta = Fraction(1, 10**6)
    for epsilon in (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(1)):
        case = f"accounting eps={float(epsilon):g} delta=1e-06"
        published = float(epsilon) / (math.e * math.log(1e6))
        # A pick of exponent a is a^2 / 8 concentrated (bounded range a).
        rho = (math.sqrt(math.log(1e6) + float(epsilon)) - math.sqrt(math.log(1e6))) ** 2
        yield _make_row(case, "exponent", calibrate_cover(epsilon, delta) / UNIT, "1", 1)
        yield _make_row(f"{case} published", "exponent", published, "1", 1)
        yield _make_row(
            f"{case} concentrated, {_PICKS} picks",
            "exponent",
            math.sqrt(8 * rho / _PICKS),
            "1",
            1,
        )
    cover = CoverEvent(rate=calibrate_cover(Fraction(1, 2), delta / 2))
    rounds = GaussianEvent(
        mu_squared=calibrate_gaussian((), epsilon=Fraction(1, 2), delta=delta / 2)
    )
    joint = compute_joint_epsilon((cover, rounds), delta)
    yield _make_row("accounting of halves eps=1 delta=1e-06", "joint_epsilon", joint, "1", 1)


def _make_row(case: str, figure: str, value: float, unit: str, runs: int) -> Row:
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=value,
        unit=unit,
        runs=runs,
        baseline=_BASELINE if figure == "mean_squared_distance" else "none",
    )


def _select(options: Options) -> dict[CoverCase, list[str]]:
    chosen = {}
    for case in list_cases():
        in_quick = case.quick_runs > 0
        names = [m for m in METHODS if options.includes(f"{case.name} {m}", in_quick=in_quick)]
        if names:
            chosen[case] = names
    return chosen


def _list_names() -> list[str]:
    return ["accounting", *(f"{case.name} {name}" for case in list_cases() for name in METHODS)]


def _count(options: Options) -> int:
    return sum(
        len(names) * len(options.list_seeds(case.runs, case.quick_runs))
        for case, names in _select(options).items()
    )


if __name__ == "__main__":
    sys.exit(run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count))
