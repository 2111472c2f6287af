"""Trials: one decode of one sketch, judged and timed; and summaries of many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset, Source
from benchmarks.design import Design, choose_design
from benchmarks.reference import compute_sse, describe_clusters, find_reference
from benchmarks.rows import Row
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.decoding.mixture.round_descent import descend_from
from sfumato.learning.decoding.problem import Box, DecodingProblem
from sfumato.learning.decoding.solver import Solver
from sfumato.shared.core import RadiusLaw


@dataclass(frozen=True, kw_only=True)
class Case:
    """The settings measured under one name.

    Parameters
    ----------
    name
        Name of its rows.
    source
        Source of the records.
    features
        m / (k d); None for the planner's choice, 5 without noise.
    scale
        The plan's scale, in true standard deviations within a cluster.
    widening
        Widths of the plan's bounds, in those of the dataset's box.
    is_searched_within
        Whether the decoder has the dataset's box as its search box.
    noise, n_sketches, uneven, weighting, mask_groups
        As in :class:`benchmarks.sketches.Study`.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    """

    name: str
    source: Source
    features: int | None = None
    scale: float = 1.0
    widening: float = 1.0
    is_searched_within: bool = False
    noise: Noise | None = None
    n_sketches: int = 1
    uneven: bool = False
    weighting: str = "size"
    mask_groups: int = 1
    runs: int = 20
    quick_runs: int = 0


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
    snr: float
    n_frequencies: int
    reference: str


Recover = Callable[[DecodingProblem, int], NDArray[np.float64]]
"""From a problem and a seed to centroids of shape ``(k, d)``."""


def recover_with(solver: Solver) -> Recover:
    """Return a function that runs a solver with its settings."""

    def recover(problem: DecodingProblem, seed: int) -> NDArray[np.float64]:
        return solver.solve(problem, rng=np.random.default_rng(seed)).centroids

    return recover


def run_trial(
    case: Case, seed: int, *, recover: Recover, sketcher: Sketcher, law: RadiusLaw | None = None
) -> Trial:
    """Sketch the records of one seed, decode, and judge the centroids on the records.

    Without a law, the planner's choice is used.
    """
    design = find_design(case, seed)
    dataset = case.source.load(seed)
    reference = find_reference(dataset)
    posed = sketcher.pose(
        widen(dataset, case.widening),
        Study(
            n_frequencies=design.n_frequencies,
            scale=case.scale * (dataset.spread or reference.spread),
            noise=case.noise,
            n_sketches=case.n_sketches,
            uneven=case.uneven,
            weighting=case.weighting,
            mask_groups=case.mask_groups,
            law=law or design.law,
        ),
        seed,
    )
    if case.is_searched_within:
        posed = replace(posed, problem=search_within(posed.problem, dataset))
    # CPU time of the process, because a solver may have its own threads.
    start = time.process_time()
    centroids = recover(posed.problem, seed)
    seconds = time.process_time() - start
    truth = describe_clusters(dataset.records, np.array(reference.centroids))
    ideal = descend_from(posed.problem, truth)
    return Trial(
        relative_sse=compute_sse(dataset.records, centroids) / reference.sse,
        truth_start=compute_sse(dataset.records, ideal) / reference.sse,
        seconds=seconds,
        snr=posed.snr,
        n_frequencies=posed.problem.n_frequencies,
        reference=reference.method,
    )


def widen(dataset: Dataset, factor: float) -> Dataset:
    """Return the same records in a box that is some times as wide, about the same centre."""
    if factor == 1.0:
        return dataset
    centre, half = (dataset.upper + dataset.lower) / 2, (dataset.upper - dataset.lower) / 2
    return replace(dataset, lower=centre - factor * half, upper=centre + factor * half)


def search_within(problem: DecodingProblem, dataset: Dataset) -> DecodingProblem:
    """Return the problem with the dataset's box as its search box."""
    d = dataset.n_dimensions
    box = Box(lower=np.full(d, dataset.lower), upper=np.full(d, dataset.upper))
    return replace(problem, search_box=box)


def find_design(case: Case, seed: int) -> Design:
    """Return m of a case, the planner's choice if it states none, and the planner's law for it."""
    return choose_design(
        case.source.load(seed),
        case.noise,
        n_sketches=case.n_sketches,
        mask_groups=case.mask_groups,
        features=case.features,
    )


def summarise(benchmark: str, name: str, trials: Sequence[Trial]) -> Iterator[Row]:
    """Yield the rows of quality and seconds, all from the same trials."""
    quality = [trial.relative_sse for trial in trials]
    ideal = [trial.truth_start for trial in trials]
    reference = trials[0].reference
    for figure, value, unit, baseline in (
        ("median_relative_sse", np.median(quality), "1", reference),
        ("p90_relative_sse", np.quantile(quality, 0.9), "1", reference),
        ("truth_start_median", np.median(ideal), "1", reference),
        ("truth_start_p90", np.quantile(ideal, 0.9), "1", reference),
        ("median_seconds", np.median([trial.seconds for trial in trials]), "s", "none"),
        ("n_frequencies", trials[0].n_frequencies, "1", "none"),
    ):
        yield Row(
            benchmark=benchmark,
            case=name,
            figure=figure,
            value=float(value),
            unit=unit,
            runs=len(trials),
            baseline=baseline,
        )
