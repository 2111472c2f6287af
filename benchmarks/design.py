"""The number of frequencies and the radius law that the planner chooses for a case."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.datasets import Dataset
from benchmarks.sketches import Noise
from sfumato.learning.estimate.snr import predict_snr
from sfumato.learning.planning.candidates import Candidate, choose_candidate, predict_candidate
from sfumato.learning.planning.laws import choose_radius_law
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.core import RadiusLaw

_EXACT_FEATURES = 10
_TARGET_SSE = 1.1


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
    candidates = [_predict(outline, noise, m, mask_groups) for m in choices if m % mask_groups == 0]
    best = choose_candidate(candidates, _TARGET_SSE)
    return Design(n_frequencies=best.n_frequencies, law=best.law_choice.law)


def _predict(outline: StudyOutline, noise: Noise, m: int, mask_groups: int) -> Candidate:
    return predict_candidate(
        outline,
        mechanism=noise.mechanism,
        n_frequencies=m,
        measurements_per_record=m // mask_groups,
        epsilon=noise.epsilon,
        delta=noise.delta,
    )
