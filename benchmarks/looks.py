"""One sketch at all of epsilon against a sketch and a second look at the same epsilon together.

One curator, pure epsilon. Clusters of 10 or 5 in 10 or 4 columns, of unit spread: round, of unequal
spreads along their axes, and of Student's t with three degrees of freedom; and ``weather``, real
records. Bounds are public, the scale is the average spread; the look's share of epsilon and its
radii follow by the estimator's own rule (``look_share="auto"``). ``relative_sse`` is over k-means
on the records, of mixtures from the true means; medians of seeds. ``looks`` is the share of runs in
which the rule left epsilon for a look, ``gain`` how far what the look measured lies from the truth,
in its standard errors, as a root mean square. ``by m`` is one shot with two, three and five
equations a parameter. Fleets follow, of :mod:`benchmarks.look_fleets`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans

from benchmarks import look_fleets
from benchmarks.datasets import RealData
from benchmarks.reference import find_reference
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.learning.decoding.kmeans import assign, measure_inertia
from sfumato.shared.arrays import Floats

Relation = Literal["replace-one", "add-remove-one"]
NAME = "looks"
_SHAPES = ("round", "unequal", "student")
_CASES = ((10, 10, 10_000), (10, 10, 20_000), (10, 10, 100_000), (4, 5, 10_000))
"""Columns, clusters, records."""
_FEW = (10, 10, 8_000)
"""Where two equations a parameter lose clusters that more tell apart."""
_HALF_WIDTH = 15.0
_REACH = 8.0
_FREEDOM = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Records, and the mean squared distance that k-means has on them."""

    rows: Floats
    n_clusters: int
    best: float
    bounds: tuple[float, float] = (-_HALF_WIDTH, _HALF_WIDTH)
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """The cost of an answer, whether it had a look, and the look's error in standard errors."""

    relative_sse: float
    has_look: bool
    deviation: float


def load(shape: str, d: int, k: int, n: int, seed: int) -> Records:
    """Draw the records of one seed."""
    rng = np.random.default_rng((seed, d, k, n, _SHAPES.index(shape)))
    means = rng.uniform(-_REACH, _REACH, size=(k, d))
    spreads = rng.uniform(0.4, 1.6, size=(k, d)) if shape == "unequal" else np.ones((k, d))
    noise = rng.normal(size=(n, d))
    if shape == "student":
        noise = rng.standard_t(_FREEDOM, size=(n, d)) / np.sqrt(_FREEDOM)
    labels = rng.integers(k, size=n)
    rows = means[labels] + spreads[labels] * noise
    best = KMeans(k, init=means, n_init=1).fit(rows).inertia_ / n
    return Records(rows=rows, n_clusters=k, best=best)


def load_weather(seed: int) -> Records:
    """Return the weather at three airports, the same for every seed."""
    dataset = RealData(name="weather").load(seed)
    reference = find_reference(dataset)
    return Records(
        rows=dataset.records,
        n_clusters=dataset.n_clusters,
        best=reference.sse / len(dataset.records),
        bounds=(dataset.lower, dataset.upper),
        scale=reference.spread,
    )


def fit(
    share: float | Literal["auto"],
    relation: Relation,
    data: Records,
    seed: int,
    *,
    features: int | None = None,
) -> Found:
    """Fit at epsilon 1, with a number of equations a parameter or the planner's."""
    parameters = data.n_clusters * data.rows.shape[1]
    estimator = CompressiveKMeans(
        data.n_clusters,
        epsilon="1",
        bounds=data.bounds,
        scale=data.scale,
        relation=relation,
        max_records=len(data.rows),
        public_seed=seed,
        random_state=seed,
        look_share=share,
        n_frequencies="auto" if features is None else features * parameters,
    ).fit(data.rows)
    centres = estimator.cluster_centers_
    look = vars(estimator).get("look_")
    deviation = 0.0
    if look is not None and look.body.gain is not None:
        first = np.array([each.centre for each in look.body.clusters])
        gain = look.body.gain
        deviation = (gain.value - _find_gain(data, first)) / gain.error
    return Found(
        relative_sse=measure_inertia(data.rows, centres) / data.best,
        has_look=look is not None,
        deviation=deviation,
    )


def _find_gain(data: Records, centres: Floats) -> float:
    """Return by what share one step of k-means would lower the squared distances."""
    labels, before = assign(data.rows, centres)
    means = np.array(
        [
            data.rows[labels == j].mean(axis=0) if (labels == j).any() else centres[j]
            for j in range(len(centres))
        ]
    )
    after = float(np.mean(np.sum((data.rows - means[labels]) ** 2, axis=1)))
    return 1.0 - after / before


def _summarise(results: Sequence[Found]) -> Iterable[Figure]:
    costs = [each.relative_sse for each in results]
    yield "relative_sse", np.median(costs)
    yield "relative_sse_p90", np.quantile(costs, 0.9)
    with_look = [each.deviation for each in results if each.has_look]
    yield "looks", len(with_look) / len(results)
    if with_look:
        yield "gain", np.sqrt(np.mean(np.square(with_look))), "standard errors"


def list_cases() -> Iterator[Case[Records, Found]]:
    """Yield shapes, sizes and relations, each with one shot and with a look."""
    relations: tuple[Relation, ...] = ("replace-one", "add-remove-one")
    for relation in relations:
        for d, k, n in _CASES:
            for shape in _SHAPES:
                yield _make_case(
                    f"{relation} ({d}, {k}) {shape} n={n}",
                    partial(load, shape, d, k, n),
                    relation,
                    quick_runs=2 if (d, shape, n) == (4, "round", 10_000) else 0,
                )
        yield _make_case(f"{relation} weather", load_weather, relation)
    d, k, n = _FEW
    yield Case(
        name=f"add-remove-one ({d}, {k}) round n={n} by m",
        load=partial(load, "round", d, k, n),
        methods={
            f"m = {features} k d": partial(fit, 0.0, "add-remove-one", features=features)
            for features in (2, 3, 5)
        },
        summarise=_summarise,
    )


def _make_case(
    name: str, load: Callable[[int], Records], relation: Relation, *, quick_runs: int = 0
) -> Case[Records, Found]:
    return Case(
        name=name,
        load=load,
        methods={
            "one shot": partial(fit, 0.0, relation),
            "with a look": partial(fit, "auto", relation),
        },
        summarise=_summarise,
        quick_runs=quick_runs,
    )


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of all cases."""
    cases: Iterator[Case[Any, Any]] = chain(list_cases(), look_fleets.list_cases())
    yield from measure_cases(
        NAME, bench, cases, baseline="KMeans of scikit-learn, of mixtures from the true means"
    )


if __name__ == "__main__":
    run(NAME, __doc__, measure)
