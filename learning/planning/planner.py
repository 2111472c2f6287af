"""Planner: mechanism and number of frequencies of a study, before any data exist.

Every figure is predicted: the noise by ``calibrate_mechanism``, the quality by the band of
``learning.planning.quality``. Inputs and outputs are exact rationals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from learning.estimate.snr import predict_mechanism_snr
from learning.planning.laws import LawChoice, choose_radius_law
from learning.planning.outline import POSSIBLE_CLUSTERS, StudyOutline
from learning.planning.quality import (
    ClusterRange,
    QualityBand,
    find_cluster_range,
    predict_relative_sse,
)
from shared.core import AMPLITUDE
from shared.errors import PrivacyError
from shared.privacy import (
    MECHANISMS,
    Mechanism,
    PrivacyTarget,
    calibrate_mechanism,
    compute_count_variance,
    get_mechanism,
)
from shared.privacy.mechanism import require_epsilon

_PAYLOAD_WIDTHS = range(2, 9)
# The search covers epsilons of three digits from 1e-6 to 100; a wider range has no use.
_LEAST_EXPONENT, _LARGEST_EXPONENT = -6, 2
# Predicted qualities this close count as equal: the rule of thumb is not finer.
_ALIKE = 0.005


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One choice of noise and number of frequencies, with its predicted quality.

    Parameters
    ----------
    mechanism, n_frequencies, measurements_per_record
        Name, m and r.
    epsilon, delta
        The guarantee of one sketch; delta is 0 except for the discrete Gaussian.
    snr
        Of the global sketch (seed eq. 7), at the outline's signal energy.
    band
        Predicted relative SSE.
    sketch_bytes
        Size of the payload of one sketch.
    """

    mechanism: str
    n_frequencies: int
    measurements_per_record: int
    epsilon: Fraction
    delta: Fraction
    snr: float
    band: QualityBand
    sketch_bytes: int

    @property
    def has_masks(self) -> bool:
        """True if a record uses only some of the features."""
        return self.measurements_per_record < self.n_frequencies

    @property
    def law_choice(self) -> LawChoice:
        """The radius law that suits the noise."""
        return choose_radius_law(self.band.snr_per_parameter)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A candidate whose noise cannot be calibrated, and the error."""

    mechanism: str
    n_frequencies: int
    error: PrivacyError


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Candidates side by side, and the recommended one.

    Parameters
    ----------
    candidates
        The candidates that can be calibrated, by mechanism and ascending m.
    refusals
        The candidates that cannot be calibrated.
    recommended
        One of the candidates, without masks.
    target_sse
        The requested relative SSE.
    cluster_range
        The numbers of clusters that the recommended candidate supports.
    """

    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]
    recommended: Candidate
    target_sse: float
    cluster_range: ClusterRange

    @property
    def meets_target(self) -> bool:
        """True if the recommended candidate's whole band lies within the target."""
        return self.recommended.band.reaches(self.target_sse)


def predict_candidate(
    outline: StudyOutline,
    *,
    mechanism: str,
    n_frequencies: int,
    epsilon: Fraction,
    delta: Fraction = Fraction(0),
    measurements_per_record: int | None = None,
) -> Candidate:
    """Predict the quality of one choice.

    Parameters
    ----------
    outline
        The study.
    mechanism, n_frequencies
        One of ``MECHANISMS``, and m.
    epsilon, delta
        The required guarantee of one sketch; mechanisms without a delta ignore it.
    measurements_per_record
        r; m if not given.

    Raises
    ------
    PrivacyError
        The mechanism cannot be calibrated to this guarantee.
    """
    r = n_frequencies if measurements_per_record is None else measurements_per_record
    used = delta if get_mechanism(mechanism).needs_delta else Fraction(0)
    target = PrivacyTarget(
        mechanism=mechanism,
        n_frequencies=n_frequencies,
        measurements_per_record=r,
        epsilon=epsilon,
        delta=used,
        neighbouring=outline.neighbouring,
    )
    noise = calibrate_mechanism(target)
    snr = predict_mechanism_snr(
        noise,
        n_sketches=outline.n_sketches,
        n_records=outline.n_records,
        alpha=r / n_frequencies,
        signal_energy=outline.signal_energy,
        count_variance=compute_count_variance(target, noise),
    )
    return Candidate(
        mechanism=mechanism,
        n_frequencies=n_frequencies,
        measurements_per_record=r,
        epsilon=epsilon,
        delta=used,
        snr=snr,
        band=predict_relative_sse(
            snr=snr,
            n_frequencies=n_frequencies,
            n_clusters=outline.n_clusters,
            n_dimensions=outline.n_dimensions,
        ),
        sketch_bytes=(2 * n_frequencies + int(target.releases_count)) * _find_width(outline, noise),
    )


def _find_width(outline: StudyOutline, mechanism: Mechanism) -> int:
    """Find the bytes of one coordinate by the plan's rule."""
    bound = outline.most_records * AMPLITUDE + mechanism.noise_bound
    for width in _PAYLOAD_WIDTHS:
        if bound < 1 << (8 * width - 1):
            return width
    raise PrivacyError(
        "gives sums that would not fit 64 bits",
        field="n_records",
        fix="spread the records over more sketches",
    )


def advise(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction = Fraction(0), target_sse: float
) -> Advice:
    """Recommend a mechanism and a number of frequencies for a budget.

    Among the candidates whose whole band lies within the target, pure epsilon precedes one with a
    delta, then the best predicted quality wins; among candidates equal to 0.005, the least m. Where
    bytes are scarce, the least m that reaches the target wins. If none reaches it, the lowest band
    wins. The comparison uses the largest wanted number of clusters: the same sketches also give
    fewer clusters, but not more.

    Parameters
    ----------
    outline
        The study.
    epsilon, delta
        The budget of one sketch, exact. With ``delta = 0`` only pure mechanisms are considered.
    target_sse
        The requested relative SSE, above 1.

    Raises
    ------
    PrivacyError
        The budget or the target breaks its rule, or no candidate can be calibrated.
    """
    _require_budget(epsilon, delta)
    _require_target(target_sse)
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    for mechanism, m, r in _enumerate_choices(outline, delta):
        try:
            candidates.append(
                predict_candidate(
                    outline,
                    mechanism=mechanism,
                    n_frequencies=m,
                    measurements_per_record=r,
                    epsilon=epsilon,
                    delta=delta,
                )
            )
        except PrivacyError as error:
            refusals.append(Refusal(mechanism=mechanism, n_frequencies=m, error=error))
    unmasked = [candidate for candidate in candidates if not candidate.has_masks]
    if not unmasked:
        raise refusals[0].error
    best = choose_candidate(unmasked, target_sse, bytes_are_scarce=outline.bytes_are_scarce)
    return Advice(
        candidates=tuple(candidates),
        refusals=tuple(refusals),
        recommended=best,
        target_sse=target_sse,
        cluster_range=find_cluster_range(
            snr=best.snr,
            n_frequencies=best.n_frequencies,
            n_dimensions=outline.n_dimensions,
            target_sse=target_sse,
        ),
    )


def choose_candidate(
    candidates: list[Candidate], target_sse: float, *, bytes_are_scarce: bool = False
) -> Candidate:
    """Choose among one or more candidates as :func:`advise` does."""
    reaching = [candidate for candidate in candidates if candidate.band.reaches(target_sse)]
    if not reaching:
        return min(
            candidates, key=lambda c: (c.band.high, c.band.low, c.delta > 0, c.n_frequencies)
        )
    least_delta = min(candidate.delta for candidate in reaching)
    alike = [candidate for candidate in reaching if candidate.delta == least_delta]
    if not bytes_are_scarce:
        best = min(candidate.band.high for candidate in alike)
        alike = [candidate for candidate in alike if candidate.band.high <= best + _ALIKE]
    return min(alike, key=lambda c: (c.n_frequencies, c.band.high))


def advise_for_unknown_clusters(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction = Fraction(0), target_sse: float
) -> tuple[StudyOutline, Advice]:
    """Recommend a mechanism and a number of frequencies for an unknown number of clusters.

    Tries ``POSSIBLE_CLUSTERS`` in turn and takes the first number that the budget allows within the
    target, or the least of them if it allows none.

    Returns
    -------
    tuple
        The outline with the planned number of clusters, and the advice.

    Raises
    ------
    PrivacyError
        As :func:`advise`.
    """
    for n_clusters in POSSIBLE_CLUSTERS:
        study = replace(outline, n_clusters=n_clusters)
        advice = advise(study, epsilon=epsilon, delta=delta, target_sse=target_sse)
        if advice.meets_target:
            break
    return study, advice


def _enumerate_choices(outline: StudyOutline, delta: Fraction) -> Iterator[tuple[str, int, int]]:
    """Yield mechanism, m and r of every candidate."""
    possible = [kind for kind in MECHANISMS.values() if delta or not kind.needs_delta]
    for kind in possible:
        for m in outline.frequencies:
            yield kind.name, m, m
    if outline.mask_groups > 1:
        for kind in possible:
            for m in outline.frequencies:
                if kind.allows_masks and m % outline.mask_groups == 0:
                    yield kind.name, m, m // outline.mask_groups


def find_smallest_epsilon(
    outline: StudyOutline, *, delta: Fraction = Fraction(0), target_sse: float
) -> Candidate:
    """Find the smallest epsilon of three digits at which some candidate reaches a target.

    Bisection over the rationals ``i 10^e`` with three-digit i, all exact: the result suffices, and
    the next smaller of them does not.

    Returns
    -------
    Candidate
        The recommended candidate at that epsilon.

    Raises
    ------
    PrivacyError
        delta or the target breaks its rule, or no epsilon up to 100 suffices.
    """
    _require_budget(Fraction(1), delta)
    _require_target(target_sse)

    def suffices(step: int) -> bool:
        return _reaches(outline, _epsilon_of(step), delta, target_sse)

    low, high = -1, 900 * (_LARGEST_EXPONENT - _LEAST_EXPONENT)
    if not suffices(high):
        raise PrivacyError(
            "cannot be reached by any candidate at any epsilon",
            field="target_sse",
            fix="allow a larger relative SSE, or gather more records on fewer devices",
        )
    while high - low > 1:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle
    advice = advise(outline, epsilon=_epsilon_of(high), delta=delta, target_sse=target_sse)
    return advice.recommended


def _epsilon_of(step: int) -> Fraction:
    """Return the ``step``-th three-digit number from 10^-6 upwards, exact."""
    exponent, digits = divmod(step, 900)
    return (100 + digits) * Fraction(10) ** (exponent + _LEAST_EXPONENT - 2)


def _reaches(outline: StudyOutline, epsilon: Fraction, delta: Fraction, target: float) -> bool:
    for mechanism, m, r in _enumerate_choices(outline, delta):
        if r < m:  # masks are never recommended
            continue
        try:
            candidate = predict_candidate(
                outline, mechanism=mechanism, n_frequencies=m, epsilon=epsilon, delta=delta
            )
        except PrivacyError:
            continue
        if candidate.band.reaches(target):
            return True
    return False


def _require_budget(epsilon: Fraction, delta: Fraction) -> None:
    require_epsilon(epsilon)
    if not isinstance(delta, Fraction):
        raise PrivacyError(
            "must be an exact rational", field="delta", fix="use a Fraction, or leave it out"
        )
    if not 0 <= delta < 1:
        raise PrivacyError(
            "must be an exact rational from 0 to below 1",
            field="delta",
            fix='use "0", or less than one over the number of records, such as "1e-9"',
        )


def _require_target(target_sse: float) -> None:
    # Written so that NaN is refused too.
    if not 1.0 < target_sse < math.inf:
        raise PrivacyError(
            "must be a number above 1, which is k-means on the raw records",
            field="target_sse",
            fix="use a value such as 1.1",
        )
