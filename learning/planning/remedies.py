"""Doubt about a study that asks too much, and remedies: the least changes that reach a target."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.learning.planning.outline import StudyOutline, describe_size, round_up
from sfumato.learning.planning.planner import Advice, can_reach, find_smallest_epsilon
from sfumato.learning.planning.quality import QualityBand
from sfumato.shared.errors import PlanError
from sfumato.shared.plan.statement import show_exact

_MOST_DOUBLINGS = 60
"""Factors up to 2^60 are tried: more records than any study has."""


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """Changes of a study, each of which alone reaches a target; None where none does.

    Parameters
    ----------
    target_sse
        The relative SSE that they reach.
    epsilon
        The smallest epsilon of three digits.
    n_records
        The least records in as many sketches. None too where a sketch counts as one record.
    n_sketches
        The least sketches of as many records each: more devices, or more windows decoded together.
    n_clusters
        The most clusters.
    """

    target_sse: float
    epsilon: Fraction | None
    n_records: int | None
    n_sketches: int | None
    n_clusters: int | None


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A study whose answers would be withheld, whatever its records are.

    Parameters
    ----------
    outline, epsilon
        The study.
    band
        Its predicted quality, without an upper end.
    remedies
        The least changes that reach a target.
    """

    outline: StudyOutline
    epsilon: Fraction
    band: QualityBand
    remedies: Remedies


def find_doubt(
    outline: StudyOutline,
    band: QualityBand,
    *,
    epsilon: Fraction,
    delta: Fraction,
    target_sse: float,
) -> Doubt | None:
    """Find out whether a study is hopeless; None where it is not.

    Parameters
    ----------
    outline, band
        The study, and its predicted quality.
    epsilon, delta, target_sse
        The budget of one sketch, and the relative SSE that the remedies reach.
    """
    if not band.is_hopeless:
        return None
    return Doubt(
        outline=outline,
        epsilon=epsilon,
        band=band,
        remedies=find_remedies(outline, epsilon=epsilon, delta=delta, target_sse=target_sse),
    )


def doubt_advice(advice: Advice) -> Doubt | None:
    """Find out whether an advised study is hopeless, with its own number of clusters."""
    return find_doubt(
        advice.outline,
        advice.recommended.band,
        epsilon=advice.recommended.epsilon,
        delta=advice.delta,
        target_sse=advice.target_sse,
    )


def find_remedies(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction = Fraction(0), target_sse: float
) -> Remedies:
    """Find the least change of epsilon, records, sketches or clusters that reaches a target.

    Each is found alone, with everything else as it is, and with the best plan for it. More of any
    of them, or fewer clusters, never worsens the prediction, so bisection finds the least.

    Parameters
    ----------
    outline
        A study that does not reach the target.
    epsilon, delta, target_sse
        As :func:`sfumato.learning.planning.planner.advise` takes them.
    """

    def reaches(study: StudyOutline) -> bool:
        return can_reach(study, epsilon=epsilon, delta=delta, target_sse=target_sse)

    records = None
    if not outline.protects_devices:
        records = _find_least(outline.n_records, lambda n: reaches(replace(outline, n_records=n)))
    sketches = _find_least(outline.n_sketches, lambda count: reaches(_extend(outline, count)))
    clusters = range(outline.n_clusters, 0, -1)
    place = bisect.bisect_left(
        clusters, True, key=lambda k: reaches(replace(outline, n_clusters=k))
    )
    smallest = find_smallest_epsilon(outline, delta=delta, target_sse=target_sse)
    return Remedies(
        target_sse=target_sse,
        epsilon=None if smallest is None else smallest.epsilon,
        n_records=records,
        n_sketches=sketches,
        n_clusters=clusters[place] if place < len(clusters) else None,
    )


def _extend(outline: StudyOutline, n_sketches: int) -> StudyOutline:
    """Return the study with other sketches of the same mean number of records."""
    # Rounded up, so that no sketch is without a record.
    n_records = -(-outline.n_records * n_sketches // outline.n_sketches)
    return replace(outline, n_records=n_records, n_sketches=n_sketches)


def _find_least(start: int, suffices: Callable[[int], bool]) -> int | None:
    """Return the least number from ``start`` on that suffices, to a hundredth of itself."""
    high = start
    for _ in range(_MOST_DOUBLINGS):
        if suffices(high):
            break
        high *= 2
    else:
        return None
    low = max(start, high // 2)
    # Predictions are no finer than this, and each costs a calibration or more.
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def describe_doubt(doubt: Doubt) -> str:
    """Describe the doubt, its figure, and what would do."""
    return f"Do not run this: {_describe_reason(doubt)}. {_describe_remedies(doubt)}"


def _describe_reason(doubt: Doubt) -> str:
    """Describe the prediction that forbids it."""
    outline = doubt.outline
    records = describe_size(outline.unit, outline.n_records, outline.n_sketches)
    return (
        f"at epsilon {show_exact(doubt.epsilon)}, with {records}, the decoder's verdict on "
        f'every answer of {_count(outline.n_clusters, "cluster")} would be "do not use", '
        f"because {doubt.band.describe_limit()}"
    )


def _describe_remedies(doubt: Doubt) -> str:
    """Describe the changes that would do, each alone."""
    ways = list(_list_remedies(doubt.remedies, is_summed=doubt.outline.is_summed))
    target = f"relative SSE {doubt.remedies.target_sse:g}"
    if not ways:
        return f"No epsilon and no number of records reaches {target}: change several of them."
    return f"Any one of these would reach {target}: {'; '.join(ways)}."


def doubt_to_json(doubt: Doubt) -> dict[str, Any]:
    """Return JSON values; an epsilon is exact text."""
    would_do = asdict(doubt.remedies)
    if doubt.remedies.epsilon is not None:
        would_do["epsilon"] = str(doubt.remedies.epsilon)
    return {
        "reason": _describe_reason(doubt),
        "snr_per_parameter": doubt.band.snr_per_parameter,
        "features_per_parameter": doubt.band.features_per_parameter,
        "would_do": would_do,
        "statement": describe_doubt(doubt),
    }


def require_hope(doubt: Doubt | None, *, anyway: bool) -> None:
    """Refuse a hopeless study, unless ``anyway``.

    Raises
    ------
    PlanError
        The study is hopeless.
    """
    if doubt is not None and not anyway:
        raise PlanError(
            describe_doubt(doubt).removesuffix("."), fix="add --anyway to go on all the same"
        )


def _list_remedies(remedies: Remedies, *, is_summed: bool) -> Iterator[str]:
    if remedies.epsilon is not None:
        yield f"epsilon {show_exact(remedies.epsilon)}"
    if remedies.n_records is not None:
        yield f"{round_up(remedies.n_records):,} records in as many sketches"
    if remedies.n_sketches is not None:
        where = "in as many batches, from more devices"
        if not is_summed:
            where = "from more devices or from more windows that are decoded together"
        yield f"{round_up(remedies.n_sketches):,} sketches of as many records each, {where}"
    if remedies.n_clusters is not None:
        yield f"at most {_count(remedies.n_clusters, 'cluster')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
