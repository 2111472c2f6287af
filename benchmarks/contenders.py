"""The private k-means that are compared, each as one function from records to centroids."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.designs import advise_study, recover
from benchmarks.sketches import GeneratorSource
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.lab.clustering.kvariates import KVariatesMethod
from sfumato.lab.clustering.local_search import LocalSearchMethod
from sfumato.lab.clustering.privgene import PrivGeneMethod
from sfumato.lab.clustering.sample_aggregate import SampleAggregateMethod
from sfumato.learning.clustering.methods.candidates import CandidateMethod
from sfumato.learning.clustering.methods.contract import Curator, Method, QuantisedRecords, Task
from sfumato.learning.clustering.methods.cover import CoverMethod
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.learning.clustering.methods.kernel import KernelMethod
from sfumato.learning.clustering.methods.lloyd import LloydMethod
from sfumato.learning.clustering.methods.release import ClusterRelease
from sfumato.learning.clustering.methods.split import SplitMethod
from sfumato.learning.clustering.methods.tree import TreeMethod
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.arrays import Floats
from sfumato.shared.core import Quantiser

SKETCH: Final = "compressive"
RELATION: Final = "replace-one"
DELTA: Final = Fraction(1, 10**6)
_GRANTED: Final = Fraction(1, 100)
"""Least mean squared distance over the largest, which the benchmark does not check."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What one fit gave, and what it took."""

    centroids: Floats
    spent: Fraction
    n_rounds: int
    n_bytes: int
    seconds: float


Contender = Callable[[Dataset, Fraction, int, float | None], Run]
"""Records, epsilon, a seed, and the spread inside a cluster if it is known, to a run."""


def sketch(delta: Fraction = Fraction(0)) -> Contender:
    """Return a contender that sketches, releases and decodes as the planner plans it."""

    def run(dataset: Dataset, epsilon: Fraction, seed: int, spread: float | None) -> Run:
        if spread is None:
            return _sketch_unscaled(dataset, epsilon, delta, seed)
        outline = StudyOutline(
            n_records=len(dataset.records),
            n_sketches=1,
            n_dimensions=dataset.n_dimensions,
            n_clusters=dataset.n_clusters,
            devices_differ=False,
        )
        start = time.process_time()
        chosen = advise_study(outline, epsilon, delta)
        planned = time.process_time() - start
        centroids, seconds = _solve(dataset, chosen, seed, spread)
        return Run(
            centroids=centroids,
            spent=epsilon,
            n_rounds=1,
            n_bytes=2 * chosen.n_frequencies * 8,
            seconds=planned + seconds,
        )

    return run


@lru_cache(maxsize=2)
def _solve(dataset: Dataset, chosen: Candidate, seed: int, spread: float) -> tuple[Floats, float]:
    """Sketch and decode, and return the CPU seconds too.

    Once where a delta changes nothing: the planner prefers pure noise that reaches the target.
    """
    start = time.process_time()
    found = recover(dataset, chosen, seed, scale=spread)
    return found.centroids, time.process_time() - start


def _sketch_unscaled(dataset: Dataset, epsilon: Fraction, delta: Fraction, seed: int) -> Run:
    """Let a pilot find the scale; the noise is the system's."""
    start = time.process_time()
    model = CompressiveKMeans(
        dataset.n_clusters,
        epsilon=epsilon,
        delta=delta,
        bounds=(dataset.lower, dataset.upper),
        scale="pooled",
        public_seed=seed,
        random_state=seed,
    ).fit(dataset.records)
    return Run(
        centroids=model.cluster_centers_,
        # The noise is rounded up: what is guaranteed may be a little less.
        spent=max(epsilon, model.guarantee_.epsilon),
        n_rounds=len(model.events_),
        n_bytes=len(model.release_.encode()),
        seconds=time.process_time() - start,
    )


def contend(method: Method, delta: Fraction = Fraction(0)) -> Contender:
    """Return a contender that lets a central method ask."""

    def run(dataset: Dataset, epsilon: Fraction, seed: int, spread: float | None) -> Run:
        lower, upper = (np.full(dataset.n_dimensions, b) for b in (dataset.lower, dataset.upper))
        task = Task(
            n_records=len(dataset.records),
            n_dimensions=dataset.n_dimensions,
            n_clusters=dataset.n_clusters,
            epsilon=epsilon,
            delta=delta,
            relation=RELATION,
            scale=None if spread is None else 2.0 * spread / (dataset.upper - dataset.lower),
            seed=seed.to_bytes(8, "big"),
        )
        start = time.process_time()
        records = QuantisedRecords.of(dataset.records, Quantiser.from_bounds(lower, upper))
        rounds = method.plan_rounds(task)
        curator = Curator(rounds=rounds, relation=RELATION, source=GeneratorSource(seed))
        method.release(records, task, curator)
        release = ClusterRelease(
            method=method,
            task=task,
            lower=lower,
            upper=upper,
            names=tuple(f"x{i}" for i in range(dataset.n_dimensions)),
            answers=tuple(curator.answers),
        )
        found = release.recover(rng=np.random.default_rng(seed))
        seconds = time.process_time() - start
        return Run(
            centroids=release.locate(found.centroids),
            spent=epsilon if delta else sum((each.epsilon for each in rounds), Fraction(0)),
            n_rounds=len(rounds),
            n_bytes=release.n_bytes,
            seconds=seconds,
        )

    return run


CONTENDERS: Mapping[str, Contender] = {
    SKETCH: sketch(),
    "compressive-delta=1e-6": sketch(DELTA),
    "grid": contend(GridMethod()),
    "grid-alone": contend(GridMethod(n_rounds=0)),
    "grid-published": contend(GridMethod.published()),
    "grid-hybrid-published": contend(GridMethod.published(n_rounds=1)),
    "split-delta=1e-6": contend(SplitMethod(), DELTA),
    "tree": contend(TreeMethod()),
    "tree-alone": contend(TreeMethod(n_rounds=0)),
    "candidates": contend(CandidateMethod()),
    "candidates-published": contend(LocalSearchMethod()),
    "cover-delta=1e-6": contend(CoverMethod(), DELTA),
    "sample-aggregate": contend(SampleAggregateMethod()),
    "sample-aggregate-published": contend(SampleAggregateMethod.published()),
    "privgene": contend(PrivGeneMethod()),
    "k-variates-granted": contend(KVariatesMethod(spread=_GRANTED)),
    "lloyd": contend(LloydMethod(n_rounds=5)),
    "lloyd-gaussian-delta=1e-6": contend(LloydMethod(n_rounds=5, noise="gaussian"), DELTA),
    "kernel-delta=1e-6": contend(KernelMethod(), DELTA),
    "lloyd-published": contend(LloydMethod.published()),
    "lloyd-uniform-published": contend(LloydMethod.published(start="uniform")),
}

SLOW: Final = ("sample-aggregate-published", "privgene", "k-variates-granted")
"""Run on the smallest set alone: PrivGene takes 20 s of 100,000 records, and all three lose."""
MOST: Final = tuple(name for name in CONTENDERS if name not in SLOW)
CHOICES: Final = (
    SKETCH,
    "compressive-delta=1e-6",
    "grid",
    "tree",
    "candidates",
    "lloyd",
    "cover-delta=1e-6",
    "split-delta=1e-6",
)
"""What a rule chooses from: the methods of this package, with and without a delta."""
