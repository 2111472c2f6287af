"""Answers of a second look: what was measured around published centres, doubts first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.totals import Totals
from sfumato.learning.looks.measurement import LARGEST_BEYOND, Measurement, Number
from sfumato.learning.looks.study import measure_study, require_look, to_units
from sfumato.shared.core import ClustersStatistic
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.answers import DimensionBody, VerdictBody, Word, describe_promise
from sfumato.shared.wire.objects.looks import (
    MeasuredClusterBody,
    MeasuredClustersBody,
    NumberBody,
)

Floats = NDArray[np.float64]
WORDS: tuple[Word, ...] = get_args(Word)
"""From the best to the worst."""
_TWICE = 2.0
_MOST_PHANTOMS = 0.2
"""A larger share of the clusters without records, and the result is not to be used."""
_LARGEST_GAINS = (0.02, 0.05, 0.15)
"""A gain that is clearly above these makes an answer rough, doubtful, and not to be used.

One step gains far less than an answer has lost: of a hundred drawn answers those with a gain of up
to 2 % had at most 1.06 times the least error in nine of ten cases, those of 2 to 5 % 1.1 to 1.3 in
the middle and up to 10, and those above 5 % up to 30; see ``python -m benchmarks.verdicts``.
"""


def describe_clusters(
    plan: SketchPlan, totals: Totals, *, snapshot_id: str, is_exact: bool = False
) -> MeasuredClustersBody:
    """Return what the sketches of a second look measure.

    Parameters
    ----------
    plan, totals
        The plan, and the exact sums over the sketches.
    snapshot_id
        64 hexadecimal digits that name these sums.
    is_exact
        Whether the sums have no noise.

    Raises
    ------
    WrongStatisticError
        The plan is not that of a look.
    DecodingError
        No sketch carries some of the clusters.
    """
    found = measure_study(plan, totals, is_exact=is_exact)
    return describe_measurement(plan, found, totals.n_sketches, snapshot_id=snapshot_id)


def describe_measurement(
    plan: SketchPlan, found: Measurement, n_sketches: int, *, snapshot_id: str
) -> MeasuredClustersBody:
    """Return a measurement as a body.

    Parameters
    ----------
    plan, n_sketches, snapshot_id
        The plan of the look, and the sketches that were measured.
    """
    whole, sse = found.statistic, _compare_with_one(found)
    doubts = list(_find_doubts(found))
    return MeasuredClustersBody(
        snapshot_id=snapshot_id,
        n_sketches=n_sketches,
        n_records=NumberBody(
            value=found.n_records, error=float(np.sqrt((found.counts_error**2).sum()))
        ),
        result=require_look(plan).result.hex(),
        verdict=_judge(found, doubts),
        doubts=doubts,
        assigned=_name(plan, whole.assigned),
        summed=_name(plan, whole.summed),
        clusters=list(_describe_each(plan, whole, found)),
        gain=_to_body(found.gain),
        statement=describe_gain(found.gain),
        explained=None if sse is None else 1.0 - sse.value,
        sse=sse,
        beyond=_to_body(found.beyond),
        candidates=_compare(found),
        privacy=describe_promise(plan),
    )


def describe_gain(gain: Number | NumberBody | None) -> str:
    """Describe in words what one more step would gain."""
    if gain is None:
        return "what one more k-means step would gain was not asked for"
    return (
        "one more k-means step on these records would lower the error by "
        f"{max(0.0, gain.value):.2%} +- {_TWICE * gain.error:.2%}; other optima are not excluded"
    )


def find_worse(first: str, second: str) -> str:
    """Return the worse of two verdicts."""
    words: list[str] = [*WORDS]
    return max(first, second, key=words.index)


def _judge(found: Measurement, doubts: list[str]) -> VerdictBody:
    """Judge centres by what was measured; what a look cannot see, evidence must."""
    worst = 0
    if found.gain is not None:
        low, high = (found.gain.value + sign * _TWICE * found.gain.error for sign in (-1, 1))
        worst = sum(low > bound for bound in _LARGEST_GAINS)
        worst = max(worst, int(high > _LARGEST_GAINS[1]))
    if found.beyond is not None:
        worst = max(worst, int(found.beyond.value > LARGEST_BEYOND))
    if found.is_phantom.any() or found.is_wide.any():
        worst = max(worst, 2)
    if found.is_phantom.mean() > _MOST_PHANTOMS:
        worst = 3
    sentence = doubts[0] if doubts else "every centre has records, and lies in their middle"
    return VerdictBody(word=WORDS[worst], sentence=sentence)


def _find_doubts(found: Measurement) -> Iterator[str]:
    """Yield what a person should know first, the gravest first."""
    if found.is_phantom.all():
        yield "the numbers of records of all clusters are hidden by noise"
        return
    for words, which in (
        ("no record may be near {}: noise alone gives such a number", found.is_phantom),
        (
            "the records of {} are spread far wider than those of the others: it may hold several "
            "clusters",
            found.is_wide,
        ),
    ):
        if which.any():
            numbers = ", ".join(str(i + 1) for i in np.flatnonzero(which))
            yield words.format(f"cluster{'s' if which.sum() > 1 else ''} {numbers}")
    if found.gain is not None and found.gain.value - _TWICE * found.gain.error > _LARGEST_GAINS[0]:
        yield (
            f"the centres do not lie in the middle of their records: {describe_gain(found.gain)}"
        )
    if found.beyond is not None:
        if found.beyond.value > LARGEST_BEYOND:
            yield (
                f"{found.beyond.value:.1%} +- {_TWICE * found.beyond.error:.1%} of the records lie "
                "beyond the cap or were clipped: "
                "spreads, means and gain speak for the rest alone"
            )
        elif _TWICE * found.beyond.error > LARGEST_BEYOND:
            yield (
                "noise hides how many records lie beyond the cap or were clipped, "
                f"+- {_TWICE * found.beyond.error:.0%}"
            )


def _describe_each(
    plan: SketchPlan, whole: ClustersStatistic, found: Measurement
) -> Iterator[MeasuredClusterBody]:
    centres = to_units(plan, whole.assigned, whole.centres.astype(np.float64))
    refined = to_units(plan, whole.assigned, found.moved)
    usable = np.where(found.is_phantom[:, None], whole.origins, found.means)
    means = to_units(plan, whole.summed, usable)
    errors = to_units(plan, whole.summed, usable, found.means_error)
    usual = None if found.squares is None else float((found.shares * found.squares).sum())
    for j, is_phantom in enumerate(found.is_phantom.tolist()):
        spread = None
        if found.squares is not None and found.squares_error is not None and usual:
            spread = NumberBody(
                value=float(found.squares[j]) / usual, error=float(found.squares_error[j]) / usual
            )
        yield MeasuredClusterBody(
            centre=centres[j].tolist(),
            n_records=NumberBody(value=float(found.counts[j]), error=float(found.counts_error[j])),
            share=NumberBody(value=float(found.shares[j]), error=float(found.shares_error[j])),
            mean=None if is_phantom else means[j].tolist(),
            mean_error=None if is_phantom else errors[j].tolist(),
            spread=spread,
            refined=refined[j].tolist(),
            is_phantom=is_phantom,
            is_wide=bool(found.is_wide[j]),
        )


def _name(plan: SketchPlan, axes: tuple[int, ...]) -> list[DimensionBody]:
    return [DimensionBody(name=plan.axes[i].name, unit=plan.axes[i].unit) for i in axes]


def _compare_with_one(found: Measurement) -> NumberBody | None:
    """Return the squared distances to the centres over those to the mean of all records."""
    if found.squares is None or found.squares_error is None:
        return None
    centres = found.statistic.centres
    within = float((found.shares * found.squares).sum())
    away = centres - found.shares @ centres
    between = float(found.shares @ (away**2 @ found.statistic.weights.astype(np.float64)))
    whole = between + within
    if whole <= 0.0:
        return None
    noise = float(np.sqrt(((found.shares * found.squares_error) ** 2).sum()))
    return NumberBody(value=within / whole, error=noise * abs(between) / whole**2)


def _compare(found: Measurement) -> list[NumberBody]:
    if found.distortions is None or found.distortions_error is None:
        return []
    first = float(found.distortions[0])
    if first <= 0.0:
        return []
    return [
        NumberBody(value=float(value) / first, error=float(error) / first)
        for value, error in zip(found.distortions, found.distortions_error, strict=True)
    ]


def _to_body(number: Number | None) -> NumberBody | None:
    return None if number is None else NumberBody(value=number.value, error=number.error)
