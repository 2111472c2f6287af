"""Private max cover on its authors' data: many clusters in many dimensions, at one curator.

Run as ``python -m benchmarks.cover [--quick] [--json]``; ``--help`` lists the options. 64 centres
of N(0, 25^2 I) in 100 dimensions, unit noise, 50,000 records in equal shares, every coordinate
clipped to [0, 100]: the recipe of Nguyen, Chaturvedi and Xu (2021). All private methods are
(epsilon, n^-1.5) under add-remove-one with exact noise. ``cover`` has the cube of all values as
public bounds; ``cover tight`` a ball of radius 200 around 10, which somebody would state who knows
that most values are small; ``published`` the authors' constants on integers.
``mean_squared_distance`` is the cost per record. ``lloyd`` starts at the true centres, or has three
k-means++ starts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from benchmarks.reference import KMEANS
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from benchmarks.sketches import GeneratorSource
from sfumato.lab.clustering.published_cover import (
    FRACTION,
    plan_published,
    run_published,
)
from sfumato.learning.clustering.cover import run_cover
from sfumato.learning.coverage.plan import plan_cover
from sfumato.learning.decoding.kmeans import assign
from sfumato.shared.arrays import Floats
from sfumato.shared.core.quantise import STEPS, Quantiser

NAME = "cover"
_RECORDS = 50_000
_DIMENSIONS = 100
_CENTRES = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """The authors' synthetic records.

    Parameters
    ----------
    seed
        Seed of centres and records.
    """

    seed: int
    top: float = 100.0

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


Method = Callable[[Recipe, int, Fraction], Floats]
"""From data, k and epsilon to centroids."""


def find_delta(data: Recipe) -> Fraction:
    """Return ``n^-1.5``."""
    return Fraction(round(len(data.records) ** -1.5 * 10**18), 10**18)


def _cover(
    data: Recipe, k: int, epsilon: Fraction, ball: tuple[float, float] | None, *, is_published: bool
) -> Floats:
    """Cover in the cube of all values, or in a ball around a centre, as wide as the cube."""
    n, d = data.records.shape
    half = data.top / 2.0
    radius, low, high = math.sqrt(d) * half, 0.0, data.top
    if ball is not None:
        (centre, radius), half = ball, data.top
        low, high = centre - half, centre + half
    quantiser = Quantiser.from_bounds([low] * d, [high] * d)
    steps, _ = quantiser.quantise(data.records)
    source, rng = GeneratorSource(data.seed), np.random.default_rng(data.seed)
    known = {"n_clusters": k, "n_dimensions": d, "n_records": n, "epsilon": epsilon}
    known |= {"delta": find_delta(data), "seed": data.seed.to_bytes(32, "big")}
    if is_published:
        found = run_published(steps, plan_published(**known), source=source, rng=rng) / FRACTION
    else:
        limit = math.floor(radius / quantiser.half_width[0] * STEPS)
        plan = plan_cover(**known, radius=limit)
        found = run_cover(steps, plan, source=source, rng=rng).centroids
    return np.clip(quantiser.centre + found * quantiser.half_width / STEPS, 0.0, data.top)


def run_lloyd(data: Recipe, k: int, epsilon: Fraction) -> Floats:
    """k-means without privacy: from the true centres, or from three k-means++ starts."""
    if k == len(data.centres):
        labels, _ = assign(data.records, np.clip(data.centres, 0.0, data.top))
        return np.array([data.records[labels == i].mean(axis=0) for i in range(k)])
    # Imported here, because it takes a second to load.
    from sklearn.cluster import KMeans  # noqa: PLC0415

    model = KMeans(k, n_init=3, random_state=data.seed)
    centres: Floats = model.fit(data.records.astype(np.float32)).cluster_centers_
    return centres.astype(np.float64)


METHODS: Mapping[str, Method] = {
    "lloyd": run_lloyd,
    "one centre": lambda data, k, epsilon: data.records.mean(axis=0, keepdims=True),
    "published": partial(_cover, ball=None, is_published=True),
    "cover": partial(_cover, ball=None, is_published=False),
    "cover tight": partial(_cover, ball=(10.0, 200.0), is_published=False),
}
CoverCase = Case[Recipe, tuple[float, float]]


def make_case(k: int, epsilon: Fraction, *, quick_runs: int = 0) -> CoverCase:
    """Make the case of a number of clusters and an epsilon."""

    def judge(method: Method, data: Recipe, seed: int) -> tuple[float, float]:
        start = time.process_time()
        centroids = method(data, k, epsilon)
        seconds = time.process_time() - start
        return assign(data.records, centroids)[1], seconds

    return CoverCase(
        name=f"d=100 k={k} eps={float(epsilon):g}",
        load=lambda seed: Recipe(seed=seed),
        methods={name: partial(judge, method) for name, method in METHODS.items()},
        summarise=_summarise,
        runs=5,
        quick_runs=quick_runs,
    )


def _summarise(found: Sequence[tuple[float, float]]) -> Iterator[Figure]:
    costs, seconds = zip(*found, strict=True)
    yield "mean_squared_distance", np.mean(costs), "1", KMEANS
    yield "spread_over_seeds", np.std(costs)
    yield "cpu_seconds", np.median(seconds), "s"


def list_cases() -> Iterator[CoverCase]:
    """List the cases: Figure 1 of the paper over k, and two other epsilons at k = 64."""
    for k in (2, 4, 8, 16, 32, 48, _CENTRES):
        yield make_case(k, Fraction(1), quick_runs=int(k == _CENTRES))
    for epsilon in (Fraction(1, 2), Fraction(2)):
        yield make_case(_CENTRES, epsilon)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, all methods on the same records."""
    yield from measure_cases(NAME, bench, list_cases())


if __name__ == "__main__":
    run(NAME, __doc__, measure)
