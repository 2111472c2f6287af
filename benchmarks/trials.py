"""Trials: one decode of one sketch, judged and timed; and the figures of many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.datasets import Dataset, Source
from benchmarks.designs import choose_design, find_scale, resize
from benchmarks.reference import compute_sse, describe_clusters, find_reference
from benchmarks.runner import Case, Figure
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.decoding.mixture.round_descent import descend_from
from sfumato.learning.decoding.problem import Box, DecodingProblem
from sfumato.learning.decoding.registry import create_solver
from sfumato.shared.arrays import Floats
from sfumato.shared.core import RadiusLaw


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Records, frequencies and noise of a sketch.

    Parameters
    ----------
    source
        Source of the records.
    features
        m / (k d); None for the planner's choice, 10 without noise.
    scale
        The plan's scale, in true standard deviations within a cluster.
    widening
        Widths of the plan's bounds, in those of the dataset's box.
    is_searched_within
        Whether the decoder has the dataset's box as its search box.
    noise, n_sketches, mask_groups
        As in :class:`benchmarks.sketches.Study`.
    """

    source: Source
    features: int | None = None
    scale: float = 1.0
    widening: float = 1.0
    is_searched_within: bool = False
    noise: Noise | None = None
    n_sketches: int = 1
    mask_groups: int = 1


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One decode.

    Parameters
    ----------
    relative_sse
        SSE over that of the reference.
    truth_start
        The same for round clusters fitted by descent from the reference's own clusters: the limit
        that the sketch sets, with a perfect search for a start.
    seconds
        CPU time of the solver alone, all its threads together.
    k_means_seconds
        That of one start of scikit-learn's k-means on 100,000 of the records, or all of fewer.
    snr
        SNR of the sketch, as the server estimates it.
    n_frequencies
        m.
    reference
        The reference in words.
    """

    relative_sse: float
    truth_start: float
    seconds: float
    k_means_seconds: float
    snr: float
    n_frequencies: int
    reference: str


Recover = Callable[[DecodingProblem, int], Floats]
"""From a problem and a seed to centroids of shape ``(k, d)``."""
TrialCase = Case[Dataset, Trial]
_TIMED = 100_000
"""Most records of the k-means that a decode's time is compared with."""
SKETCHER = Sketcher()
"""Exact sums that the cases of one run share."""


def recover_with(name: str | None = None) -> Recover:
    """Return a function that runs a solver with its default settings."""
    solver = create_solver(name) if name else create_solver()
    return lambda problem, seed: solver.solve(problem, rng=np.random.default_rng(seed)).centroids


def run_trial(
    setting: Setting,
    dataset: Dataset,
    seed: int,
    *,
    recover: Recover | None = None,
    law: RadiusLaw | None = None,
) -> Trial:
    """Sketch the records of one seed, decode, and judge the centroids on the records.

    Without a law, the planner's choice is used.
    """
    design = choose_design(
        dataset,
        setting.noise,
        n_sketches=setting.n_sketches,
        mask_groups=setting.mask_groups,
        features=setting.features,
    )
    reference = find_reference(dataset)
    study = Study(
        n_frequencies=design.n_frequencies,
        scale=setting.scale * find_scale(dataset),
        noise=setting.noise,
        n_sketches=setting.n_sketches,
        mask_groups=setting.mask_groups,
        law=law or design.law,
    )
    posed = SKETCHER.pose(resize(dataset, setting.widening), study, seed)
    problem = posed.problem
    if setting.is_searched_within:
        d = dataset.n_dimensions
        box = Box(lower=np.full(d, dataset.lower), upper=np.full(d, dataset.upper))
        problem = replace(problem, search_box=box)
    # CPU time of the process, because a solver may have its own threads.
    start = time.process_time()
    centroids = (recover or recover_with())(problem, seed)
    seconds = time.process_time() - start
    truth = describe_clusters(dataset.records, np.array(reference.centroids))
    ideal = descend_from(problem, truth)
    return Trial(
        relative_sse=compute_sse(dataset.records, centroids) / reference.sse,
        truth_start=compute_sse(dataset.records, ideal) / reference.sse,
        seconds=seconds,
        k_means_seconds=time_k_means(dataset, seed),
        snr=posed.snr,
        n_frequencies=problem.n_frequencies,
        reference=reference.method,
    )


def time_k_means(dataset: Dataset, seed: int) -> float:
    """Measure the CPU time of one start of scikit-learn's k-means on at most 100,000 records."""
    k_means = KMeans(dataset.n_clusters, n_init=1, random_state=seed)
    records = dataset.records[:_TIMED] / find_scale(dataset)
    start = time.process_time()
    k_means.fit(records)
    return time.process_time() - start


def make_case(name: str, setting: Setting, *, runs: int = 20, quick_runs: int = 0) -> TrialCase:
    """Make the case of a setting, with the planner's law."""
    return TrialCase(
        name=name,
        load=setting.source.load,
        methods={"": partial(run_trial, setting)},
        summarise=summarise,
        runs=runs,
        quick_runs=quick_runs,
    )


def summarise(trials: Sequence[Trial]) -> Iterator[Figure]:
    """Yield the figures of quality and seconds, all from the same trials."""
    reference = trials[0].reference
    for prefix, found in (
        ("{}_relative_sse", [trial.relative_sse for trial in trials]),
        ("truth_start_{}", [trial.truth_start for trial in trials]),
    ):
        yield prefix.format("median"), np.median(found), "1", reference
        yield prefix.format("p90"), np.quantile(found, 0.9), "1", reference
    yield "median_seconds", np.median([trial.seconds for trial in trials]), "s"
    ratios = [trial.seconds / trial.k_means_seconds for trial in trials]
    yield (
        "median_seconds_over_k_means",
        np.median(ratios),
        "1",
        "KMeans(n_init=1), at most 1e5 records",
    )
    yield "n_frequencies", trials[0].n_frequencies
