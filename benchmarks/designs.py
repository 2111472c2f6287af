"""The number of frequencies and the radius law that the planner chooses, and a decode by them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.reference import find_reference
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.estimate.snr import predict_snr
from sfumato.learning.planning.candidates import Candidate, choose_candidate, predict_candidate
from sfumato.learning.planning.laws import choose_radius_law
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import Advice, advise
from sfumato.shared.core import RadiusLaw

TARGET_SSE = 1.1
_EXACT_FEATURES = 10


@dataclass(frozen=True, kw_only=True)
class Design:
    """Choices before any data exist: m, and the radius law."""

    n_frequencies: int
    law: RadiusLaw


def choose_design(
    dataset: Dataset,
    noise: Noise | None,
    *,
    n_sketches: int = 1,
    mask_groups: int = 1,
    features: int | None = None,
) -> Design:
    """Choose as the planner does for one noise, with k the largest number of clusters wanted.

    Parameters
    ----------
    dataset
        Only its sizes are used.
    noise
        None for the exact sketch, whose only noise is the sampling of records.
    n_sketches, mask_groups
        L and m / r.
    features
        m / (k d) if the planner does not choose it; 10 for the exact sketch.
    """
    n, d, k = len(dataset.records), dataset.n_dimensions, dataset.n_clusters
    if noise is None:
        factor = features or _EXACT_FEATURES
        choice, _ = choose_radius_law(
            lambda signal: (
                factor * predict_snr(signal_energy=signal, noise_energy=0.0, alpha=1.0, n_records=n)
            ),
            features=factor,
            n_clusters=k,
            n_dimensions=d,
        )
        return Design(n_frequencies=factor * k * d, law=choice.law)
    outline = StudyOutline(n_records=n, n_sketches=n_sketches, n_dimensions=d, n_clusters=k)
    choices = outline.frequencies if features is None else (features * k * d,)
    candidates = [
        predict_candidate(
            outline,
            mechanism=noise.mechanism,
            n_frequencies=m,
            measurements_per_record=m // mask_groups,
            epsilon=noise.epsilon,
            delta=noise.delta,
        )
        for m in choices
        if m % mask_groups == 0
    ]
    best = choose_candidate(candidates, TARGET_SSE)
    return Design(n_frequencies=best.n_frequencies, law=best.law_choice.law)


def find_whole(advice: Advice) -> Candidate:
    """Return the best candidate whose sketches carry all frequencies."""
    mechanism = advice.recommended.mechanism
    whole = [c for c in advice.candidates if c.mechanism == mechanism and not c.is_split]
    return choose_candidate(whole, TARGET_SSE)


def advise_study(
    outline: StudyOutline,
    epsilon: Fraction,
    delta: Fraction = Fraction(0),
    *,
    is_whole: bool = False,
) -> Candidate:
    """Choose as the planner recommends, or the best whose sketches carry all frequencies."""
    advice = advise(outline, epsilon=epsilon, delta=delta, target_sse=TARGET_SSE)
    return find_whole(advice) if is_whole else advice.recommended


def recover(
    dataset: Dataset,
    chosen: Candidate,
    seed: int,
    *,
    n_sketches: int = 1,
    scale: float | None = None,
    sketcher: Sketcher | None = None,
) -> Solution:
    """Sketch records as chosen, at the true scale unless another is given, and decode."""
    study = make_study(chosen, n_sketches=n_sketches, scale=scale or find_scale(dataset))
    return decode(dataset, study, seed, sketcher)


def make_study(chosen: Candidate, *, n_sketches: int, scale: float) -> Study:
    """Return the settings of sketches as chosen."""
    return Study(
        n_frequencies=chosen.n_frequencies,
        scale=scale,
        noise=Noise(mechanism=chosen.mechanism, epsilon=chosen.epsilon, delta=chosen.delta),
        n_sketches=n_sketches,
        blocks=chosen.shortest_selection,
        law=chosen.law_choice.law,
    )


def decode(dataset: Dataset, study: Study, seed: int, sketcher: Sketcher | None = None) -> Solution:
    """Sketch records, and decode with the default solver."""
    problem = (sketcher or Sketcher()).pose(dataset, study, seed).problem
    return create_solver().solve(problem, rng=np.random.default_rng(seed))


def find_scale(dataset: Dataset) -> float:
    """Return the standard deviation within a cluster, known or estimated by k-means."""
    return dataset.spread or find_reference(dataset).spread


def resize(dataset: Dataset, factor: float) -> Dataset:
    """Return the same records in a box that is some times as wide, about the same centre."""
    if factor == 1.0:
        return dataset
    centre, half = (dataset.upper + dataset.lower) / 2, (dataset.upper - dataset.lower) / 2
    return replace(
        dataset,
        name=f"{dataset.name} box={factor:g}",
        lower=centre - factor * half,
        upper=centre + factor * half,
    )
