"""Planner: mechanism and number of frequencies of a study, before any data exist.

Every figure is predicted: the noise by ``calibrate_mechanism``, the quality by the band of
``sfumato.learning.planning.quality``. Inputs and outputs are exact rationals.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.learning.planning.candidates import (
    SPLIT_MECHANISM,
    Candidate,
    choose_candidate,
    predict_candidate,
    predict_splits,
)
from sfumato.learning.planning.outline import POSSIBLE_CLUSTERS, ROUGH_SSE, StudyOutline
from sfumato.learning.planning.phases import find_least_reports, list_phase_reports
from sfumato.learning.planning.quality import ClusterRange, find_cluster_range
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy import MECHANISMS
from sfumato.shared.privacy.mechanism import require_epsilon

# The search covers epsilons of three digits from 1e-6 to 100; a wider range has no use.
_LEAST_EXPONENT, _LARGEST_EXPONENT = -6, 2


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
    outline
        The study, with the number of clusters that is planned for.
    candidates
        The candidates that can be calibrated, by mechanism and ascending m. After r = m comes the
        best r < m, where it is better. Phase reports come last, where they are the best of their m.
    refusals
        The candidates that cannot be calibrated.
    recommended
        One of the candidates, without masks.
    delta, target_sse
        The budget's delta, and the requested relative SSE.
    cluster_range
        The numbers of clusters that the recommended candidate supports.
    """

    outline: StudyOutline
    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]
    recommended: Candidate
    delta: Fraction
    target_sse: float
    cluster_range: ClusterRange

    @property
    def meets_target(self) -> bool:
        """True if the recommended candidate's whole band lies within the target."""
        return self.recommended.band.reaches(self.target_sse)

    @property
    def best_sum(self) -> Candidate | None:
        """The best candidate of pure epsilon that sends sums; None if none can be calibrated."""
        sums = [
            candidate
            for candidate in self.candidates
            if not (candidate.reports_phases or candidate.has_masks or candidate.delta)
        ]
        return choose_candidate(sums, self.target_sse) if sums else None

    def advise_alike(self, outline: StudyOutline) -> Advice:
        """Advise on another study with the same budget and target; raises as :func:`advise`."""
        epsilon = self.recommended.epsilon
        return advise(outline, epsilon=epsilon, delta=self.delta, target_sse=self.target_sse)

    @property
    def reports_needed(self) -> int | None:
        """The least number of phase reports for ``ROUGH_SSE``, where they are recommended."""
        best = self.recommended
        if not best.reports_phases:
            return None
        return find_least_reports(self.outline, epsilon=best.epsilon, target_sse=ROUGH_SSE)

    @property
    def surpassed(self) -> Candidate | None:
        """The best candidate with a delta, where small sketches of pure epsilon are better.

        Phase reports are small sketches too.
        """
        best = self.recommended
        with_delta = [candidate for candidate in self.candidates if candidate.delta]
        if not (best.is_split or best.reports_phases) or best.delta or not with_delta:
            return None
        other = choose_candidate(with_delta, self.target_sse)
        is_better = (best.band.high, best.band.low) < (other.band.high, other.band.low)
        return other if is_better else None


def advise(
    outline: StudyOutline,
    *,
    epsilon: Fraction,
    delta: Fraction = Fraction(0),
    target_sse: float,
    knows_clusters: bool = True,
) -> Advice:
    """Recommend a mechanism, a number m of frequencies, and the number r in each sketch.

    Among the candidates whose whole band lies within the target, the best predicted quality wins;
    among candidates equal to 0.005, pure epsilon precedes one with a delta, then the least m, then
    the largest r, because a selection needs m / r sketches. So quality does not fall as epsilon
    grows. Where bytes are scarce, the smallest sketch that reaches the target wins, of pure epsilon
    if there is one. If none reaches it, the lowest band wins. The same rule
    first chooses r for each m under K-norm noise; r < m is a candidate where it wins against r = m.
    Phase reports are a candidate of each m where they win against all others of this m.

    The comparison uses the largest wanted number of clusters: the same sketches also give fewer
    clusters, but not more.

    Parameters
    ----------
    outline
        The study.
    epsilon, delta
        The budget of one sketch, exact. With ``delta = 0`` only pure mechanisms are considered.
    target_sse
        The requested relative SSE, above 1.
    knows_clusters
        Whether the outline's number of clusters is wanted. If not, the advice is for the first of
        ``POSSIBLE_CLUSTERS`` that the budget allows within the target, or for the least of them.

    Raises
    ------
    ConfigError
        There is no such mechanism, or it needs a delta.
    PrivacyError
        The budget or the target breaks its rule, or no candidate can be calibrated.
    """
    _require_budget(epsilon, delta)
    _require_target(target_sse)
    if knows_clusters:
        return _advise(outline, epsilon, delta, target_sse)
    for n_clusters in POSSIBLE_CLUSTERS:
        advice = _advise(replace(outline, n_clusters=n_clusters), epsilon, delta, target_sse)
        if advice.meets_target:
            break
    return advice


def _advise(outline: StudyOutline, epsilon: Fraction, delta: Fraction, target_sse: float) -> Advice:
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    for mechanism, m, used in _enumerate_choices(outline, delta):
        found, error = _predict_choice(outline, mechanism, m, used, epsilon, delta)
        candidates += [candidate for candidate in found if not candidate.is_split]
        if found:
            best = choose_candidate(found, target_sse, bytes_are_scarce=outline.bytes_are_scarce)
            candidates += [best] if best.is_split else []
        if error is not None:
            refusals.append(Refusal(mechanism=mechanism, n_frequencies=m, error=error))
    candidates += _find_better_phases(outline, candidates, epsilon, target_sse)
    return _recommend(outline, candidates, refusals, delta, target_sse)


def _predict_choice(
    outline: StudyOutline, mechanism: str, m: int, used: int, epsilon: Fraction, delta: Fraction
) -> tuple[list[Candidate], PrivacyError | None]:
    """Predict r = m, and each r < m that may be better; or return why there is no r = m."""
    found: list[Candidate] = []
    refusal = None
    try:
        whole = predict_candidate(
            outline,
            mechanism=mechanism,
            n_frequencies=m,
            measurements_per_record=used,
            epsilon=epsilon,
            delta=delta,
        )
        found.append(whole)
    except PrivacyError as error:
        refusal = error
    if mechanism == SPLIT_MECHANISM:
        least = found[0].snr if found else 0.0
        found += predict_splits(outline, n_frequencies=m, epsilon=epsilon, least_snr=least)
    return found, refusal


def _find_better_phases(
    outline: StudyOutline, others: list[Candidate], epsilon: Fraction, target_sse: float
) -> list[Candidate]:
    """Find the phase reports of each m that are better than all other candidates of this m."""
    better = []
    for m in outline.frequencies:
        rivals = [c for c in others if c.n_frequencies == m and not c.has_masks]
        rivals += choose_reports(outline, m, epsilon)
        if rivals:
            best = choose_candidate(rivals, target_sse, bytes_are_scarce=outline.bytes_are_scarce)
            better += [best] if best.reports_phases else []
    return better


def choose_reports(outline: StudyOutline, m: int, epsilon: Fraction) -> list[Candidate]:
    """Choose the phase reports of one m by SNR; or leave every r, where bytes are scarce."""
    reports = list_phase_reports(outline, n_frequencies=m, epsilon=epsilon)
    if outline.bytes_are_scarce or not reports:
        return list(reports)
    return [max(reports, key=lambda candidate: candidate.snr)]


def _recommend(
    outline: StudyOutline,
    candidates: list[Candidate],
    refusals: list[Refusal],
    delta: Fraction,
    target_sse: float,
) -> Advice:
    unmasked = [candidate for candidate in candidates if not candidate.has_masks]
    if not unmasked:
        raise refusals[0].error
    best = choose_candidate(unmasked, target_sse, bytes_are_scarce=outline.bytes_are_scarce)
    return Advice(
        outline=outline,
        candidates=tuple(candidates),
        refusals=tuple(refusals),
        recommended=best,
        delta=delta,
        target_sse=target_sse,
        cluster_range=find_cluster_range(
            snr=best.snr,
            n_frequencies=best.n_frequencies,
            n_dimensions=outline.n_dimensions,
            target_sse=target_sse,
        ),
    )


def _enumerate_choices(outline: StudyOutline, delta: Fraction) -> Iterator[tuple[str, int, int]]:
    """Yield mechanism, m and the features of a record of every candidate with r = m."""
    possible = [
        kind
        for kind in MECHANISMS.values()
        if outline.mechanism in (None, kind.name) and (delta or not kind.needs_delta)
    ]
    if not possible:
        raise ConfigError(
            f"must be auto or one of {', '.join(MECHANISMS)}, and Gaussian noise needs a delta",
            field="mechanism",
            fix="leave it out",
        )
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
) -> Candidate | None:
    """Find the smallest epsilon of three digits at which some candidate reaches a target.

    Bisection over the rationals ``i 10^e`` with three-digit i, all exact: the result suffices, and
    the next smaller of them does not.

    Returns
    -------
    Candidate or None
        The recommended candidate at that epsilon; None if no epsilon up to 100 suffices.

    Raises
    ------
    PrivacyError
        delta or the target breaks its rule.
    """
    _require_budget(Fraction(1), delta)
    _require_target(target_sse)

    def suffices(step: int) -> bool:
        return can_reach(outline, epsilon=_epsilon_of(step), delta=delta, target_sse=target_sse)

    steps = range(900 * (_LARGEST_EXPONENT - _LEAST_EXPONENT) + 1)
    least = bisect.bisect_left(steps, True, key=suffices)
    if least == len(steps):
        return None
    advice = advise(outline, epsilon=_epsilon_of(least), delta=delta, target_sse=target_sse)
    return advice.recommended


def _epsilon_of(step: int) -> Fraction:
    """Return the ``step``-th three-digit number from 10^-6 upwards, exact."""
    exponent, digits = divmod(step, 900)
    return (100 + digits) * Fraction(10) ** (exponent + _LEAST_EXPONENT - 2)


def can_reach(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction = Fraction(0), target_sse: float
) -> bool:
    """Return whether some candidate reaches a target; parameters as :func:`advise` takes them."""
    for mechanism, m, used in _enumerate_choices(outline, delta):
        if used < m:  # masks are never recommended
            continue
        found, _ = _predict_choice(outline, mechanism, m, used, epsilon, delta)
        if any(candidate.band.reaches(target_sse) for candidate in found):
            return True
    return any(
        candidate.band.reaches(target_sse)
        for m in outline.frequencies
        for candidate in list_phase_reports(outline, n_frequencies=m, epsilon=epsilon)
    )


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
