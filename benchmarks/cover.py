"""Private max cover on its authors' data: many clusters in many dimensions, at one curator.

Run as ``python -m benchmarks.cover [--quick] [--json]``; ``--help`` lists the options. 64 centres
of N(0, 25^2 I) in 100 dimensions, unit noise, 50,000 records in equal shares, every coordinate
clipped to [0, 100]: the recipe of Nguyen, Chaturvedi and Xu (2021). ``mnist`` are the 60,000 images
of 784 pixels that they have too. All private methods are (epsilon, n^-1.5) under add-remove-one
with exact noise. ``cover`` has the cube of all values as public bounds; ``cover tight``, of the
recipe, a ball of radius 200 around 10, which somebody would state who knows that most values are
small; ``published`` the authors' constants on integers.
``mean_squared_distance`` is the cost per record. ``lloyd`` starts at the true centres, or
has three k-means++ starts.
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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments import Bench, Options, run_experiment
from benchmarks.local import GeneratorSource
from benchmarks.mnist import load_images
from benchmarks.packages import PackageUnavailableError
from benchmarks.rows import Row
from sfumato.lab.clustering.published_cover import (
    FRACTION,
    plan_published,
    run_published,
)
from sfumato.learning.clustering.covering import run_cover
from sfumato.learning.coverage.plan import plan_cover
from sfumato.learning.decoding.kmeans import assign
from sfumato.shared.core.quantise import STEPS, Quantiser
from sfumato.shared.privacy.cover import (
    CoverEvent,
    GaussianEvent,
    calibrate_cover,
    calibrate_gaussian,
    compute_joint_epsilon,
)
from sfumato.shared.privacy.samplers import UNIT

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
        Asked for; the recipe has 64 clusters.
    data
        ``recipe`` or ``mnist``.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    n_clusters: int
    epsilon: Fraction
    data: str = "recipe"
    runs: int = 5
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows, without the method."""
        words = "d=100" if self.data == "recipe" else self.data
        return f"{words} k={self.n_clusters} eps={float(self.epsilon):g}"

    def load(self, seed: int) -> Data:
        """Return the records of one seed."""
        return Recipe(seed=seed) if self.data == "recipe" else Images(seed=seed)


class Data(Protocol):
    """Records with public bounds."""

    @property
    def seed(self) -> int:
        """Of everything that is drawn."""

    @property
    def records(self) -> Floats:
        """Shape ``(n, d)``."""

    @property
    def top(self) -> float:
        """Values are from 0 to this."""

    @property
    def ball(self) -> tuple[float, float] | None:
        """Centre in each dimension and radius of a smaller public ball; None if there is none."""

    @property
    def centres(self) -> Floats | None:
        """The true centres, before clipping; None where there are none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """The authors' synthetic records.

    Parameters
    ----------
    seed
        Of centres and records.
    """

    seed: int
    top: float = 100.0
    ball: tuple[float, float] | None = (10.0, 200.0)

    @cached_property
    def centres(self) -> Floats:
        """Shape ``(64, 100)``, before clipping."""
        return np.random.default_rng(self.seed).normal(scale=25.0, size=(_CENTRES, _DIMENSIONS))

    @cached_property
    def records(self) -> Floats:
        """Shape ``(50_000, 100)``."""
        rng = np.random.default_rng([self.seed, 1])
        noise = rng.normal(size=(_RECORDS, _DIMENSIONS))
        return np.clip(self.centres[np.arange(_RECORDS) % _CENTRES] + noise, 0.0, self.top)


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """The images of MNIST; the seed is that of the methods."""

    seed: int
    top: float = 255.0
    ball: tuple[float, float] | None = None
    centres: Floats | None = None

    @cached_property
    def records(self) -> Floats:
        """Shape ``(60_000, 784)``."""
        return load_images().astype(np.float64)


Method = Callable[[Data, CoverCase], Floats]


def find_delta(data: Data) -> Fraction:
    """Return ``n^-1.5``."""
    return Fraction(round(len(data.records) ** -1.5 * 10**18), 10**18)


def _run_ours(data: Data, case: CoverCase, centre: float, half: float, radius: float) -> Floats:
    n, d = data.records.shape
    quantiser = Quantiser.from_bounds([centre - half] * d, [centre + half] * d)
    plan = plan_cover(
        n_clusters=case.n_clusters,
        n_dimensions=d,
        n_records=n,
        epsilon=case.epsilon,
        delta=find_delta(data),
        seed=data.seed.to_bytes(32, "big"),
        radius=math.floor(radius / quantiser.half_width[0] * STEPS),
    )
    source, rng = GeneratorSource(data.seed), np.random.default_rng(data.seed)
    steps, _ = quantiser.quantise(data.records)
    return _locate(run_cover(steps, plan, source=source, rng=rng).centroids, quantiser, data)


def _locate(steps: Floats, quantiser: Quantiser, data: Data) -> Floats:
    return np.clip(quantiser.centre + steps * quantiser.half_width / STEPS, 0.0, data.top)


def run_cube(data: Data, case: CoverCase) -> Floats:
    """Cover in the cube of all values."""
    half = data.top / 2.0
    return _run_ours(data, case, half, half, math.sqrt(data.records.shape[1]) * half)


def run_tight(data: Data, case: CoverCase) -> Floats:
    """Cover in a smaller ball, as wide as the cube."""
    assert data.ball is not None
    centre, radius = data.ball
    return _run_ours(data, case, centre, data.top, radius)


def run_authors(data: Data, case: CoverCase) -> Floats:
    """Run the published algorithm with its constants, in the cube."""
    n, d = data.records.shape
    quantiser = Quantiser.from_bounds([0.0] * d, [data.top] * d)
    plan = plan_published(
        n_clusters=case.n_clusters,
        n_dimensions=d,
        n_records=n,
        epsilon=case.epsilon,
        delta=find_delta(data),
        seed=data.seed.to_bytes(32, "big"),
    )
    source, rng = GeneratorSource(data.seed), np.random.default_rng(data.seed)
    steps, _ = quantiser.quantise(data.records)
    found = run_published(steps, plan, source=source, rng=rng)
    return _locate(found / FRACTION, quantiser, data)


def run_lloyd(data: Data, case: CoverCase) -> Floats:
    """k-means without privacy: from the true centres, or from three k-means++ starts."""
    if data.centres is not None and case.n_clusters == len(data.centres):
        labels, _ = assign(data.records, np.clip(data.centres, 0.0, data.top))
        members = [data.records[labels == i].mean(axis=0) for i in range(case.n_clusters)]
        return np.array(members)
    # Imported here, because it takes a second to load.
    from sklearn.cluster import KMeans  # noqa: PLC0415

    # In single precision, for the images take 400 MB in double.
    model = KMeans(case.n_clusters, n_init=3, random_state=data.seed)
    centres: Floats = model.fit(data.records.astype(np.float32)).cluster_centers_
    return centres.astype(np.float64)


def run_one(data: Data, case: CoverCase) -> Floats:
    """One centre for all: the mean of the records."""
    del case
    mean: Floats = data.records.mean(axis=0, keepdims=True)
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
    images = tuple(
        CoverCase(n_clusters=k, epsilon=Fraction(1), data="mnist", runs=3) for k in (2, 8, 16, 64)
    )
    over_k = tuple(
        CoverCase(n_clusters=k, epsilon=Fraction(1), quick_runs=int(k == _CENTRES))
        for k in (2, 4, 8, 16, 32, 48, 64)
    )
    others = tuple(CoverCase(n_clusters=_CENTRES, epsilon=e) for e in (Fraction(1, 2), Fraction(2)))
    return over_k + others + images


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, all methods on the same records."""
    if bench.options.includes("accounting", in_quick=True):
        yield from measure_accounting()
    for case, names in _leave_out_missing(_select(bench.options)).items():
        costs: dict[str, list[float]] = defaultdict(list)
        seconds: dict[str, list[float]] = defaultdict(list)
        for seed in bench.options.list_seeds(case.runs, case.quick_runs):
            bench.report(case.name, 0)
            data = case.load(seed)
            for name in names:
                start = time.process_time()
                centroids = METHODS[name](data, case)
                seconds[name].append(time.process_time() - start)
                costs[name].append(assign(data.records, centroids)[1])
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
        if case.data != "recipe":
            names = [name for name in names if name != "cover tight"]
        if names:
            chosen[case] = names
    return chosen


def _leave_out_missing(chosen: dict[CoverCase, list[str]]) -> dict[CoverCase, list[str]]:
    """Drop cases whose data cannot be fetched, and report it on standard error."""
    if all(case.data == "recipe" for case in chosen):
        return chosen
    try:
        load_images()
    except PackageUnavailableError as error:
        print(f"benchmarks.{NAME}: without mnist: {error}", file=sys.stderr)
        return {case: names for case, names in chosen.items() if case.data == "recipe"}
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
