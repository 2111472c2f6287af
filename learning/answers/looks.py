"""Results that take second looks over: what is measured replaces what a sketch predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.answers.clusters import WORDS, describe_measurement
from sfumato.learning.answers.words import name_clusters
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.looks.measurement import Measurement
from sfumato.learning.looks.refinement import Estimate, combine
from sfumato.learning.looks.study import measure_study, require_look
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError, DecodingError, WrongStatisticError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.plan.people import show_level
from sfumato.shared.wire.objects.answers import VerdictBody
from sfumato.shared.wire.objects.looks import LooksBody
from sfumato.shared.wire.objects.results import BarsBody, ResultBody

Floats = NDArray[np.float64]
_BARS = BarsBody(
    word="stated",
    sentence="nine in ten bars hold the mean of the records around the centre that the last look "
    "was at, and their share: they are of noise alone",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class TakenLook:
    """The sums of a second look.

    Parameters
    ----------
    plan, totals
        Its plan, and the exact sums over its sketches.
    snapshot_id
        64 hexadecimal digits that name these sums.
    """

    plan: SketchPlan
    totals: Totals
    snapshot_id: str


def require_looks(
    plan: SketchPlan, looks: Sequence[TakenLook], n_clusters: int, *, field: str = "looks.{}"
) -> None:
    """Refuse what no result of a plan can take over.

    Parameters
    ----------
    field
        The field that an error names, from the number of the look.

    Raises
    ------
    WrongStatisticError, DecodingError
        One is no look, or no sketch carries some of its clusters.
    ConfigError
        Its centres are of no published result, of other columns, or another number.
    """
    own = tuple(replace(each, scale=None) for each in plan.dimensions)
    for i, look in enumerate(looks):
        named = field.format(i)
        try:
            part = require_look(look.plan)
        except WrongStatisticError as error:
            raise WrongStatisticError(error.rule, field=named, fix=error.fix) from error
        if not part.result:
            raise ConfigError(
                "must be a look at a published result, and its plan names none",
                field=named,
                fix="plan it with `sfumato plan look RESULT`",
            )
        shown = tuple(each for each in look.plan.dimensions if each.name in part.assigned)
        if shown != own:
            raise ConfigError(
                "must have the columns of this study, with their units, bounds and levels, and has "
                + ", ".join(f"{each.name} ({each.unit})" for each in shown),
                field=named,
                fix="name a look at a result of this study",
            )
        if len(part.centres) != n_clusters:
            raise ConfigError(
                f"must be at {n_clusters} centres, and is at {len(part.centres)}",
                field=named,
                fix=f"request {len(part.centres)} clusters, or name another look",
            )
        measure_study(look.plan, look.totals)


def take_looks(
    plan: SketchPlan, body: ResultBody, solution: Solution, looks: Sequence[TakenLook]
) -> ResultBody:
    """Return a result with what looks have measured.

    Shares are those that were measured, centroids the sketch's and the looks' combined by
    precision. The verdict is the worse of the sketch's and the last look's: a look does not see
    other optima, and a sketch does not see its own centroids' records.

    Parameters
    ----------
    body, solution
        The result of the sketch alone, and what it describes.

    Raises
    ------
    DecodingError
        A look was at other clusters than the sketch shows.
    """
    if not looks:
        return body
    quantiser = plan.space.quantiser
    unit = quantiser.half_width / STEPS
    points = (solution.centroids - quantiser.centre) / unit
    own = None if solution.bars is None else solution.bars.centroid_errors
    known = Estimate(points=points, variances=None if own is None else (own / unit) ** 2)
    is_refined = False
    shares: Estimate | None = None
    measured = []
    for i, look in enumerate(looks):
        order = _match(known.points, look, f"looks.{i}")
        found = measure_study(look.plan, look.totals, order=order)
        if found.stepped is not None:
            is_refined = True
            known = combine(known, found.stepped, found.statistic.weights.astype(np.float64))
        new = Estimate(points=found.shares[None], variances=found.shares_error[None] ** 2)
        shares = new if shares is None else combine(shares, new, np.ones(len(points)))
        measured.append(
            describe_measurement(
                look.plan, found, look.totals.n_sketches, snapshot_id=look.snapshot_id
            )
        )
    assert shares is not None
    assert shares.variances is not None
    weights = np.maximum(shares.points[0], 0.0)
    weights = weights / weights.sum() if weights.any() else np.array(body.weights)
    refined, errors, bars = body.centroids, body.centroid_errors, body.bars
    if is_refined and known.variances is not None:
        encoder, moved, bars = plan.space.encoder, quantiser.centre + known.points * unit, _BARS
        refined = encoder.decode(moved).tolist()
        errors = encoder.decode_widths(moved, np.sqrt(known.variances) * unit).tolist()
    return replace(
        body,
        verdict=_judge(body.verdict, measured[-1].verdict),
        centroids=refined,
        centroid_errors=errors,
        weights=weights.tolist(),
        words=name_clusters(np.array(refined), weights, [each.name for each in plan.axes]),
        weight_errors=np.sqrt(shares.variances[0]).tolist(),
        bars=bars,
        looks=LooksBody(
            predicted=body.verdict,
            centroids=body.centroids,
            weights=body.weights,
            looks=measured,
            **_add_up([plan, *(look.plan for look in looks)]),
        ),
    )


def measure_look(plan: SketchPlan, means: Floats, look: TakenLook) -> Measurement:
    """Measure clusters with given means on the axes, shape ``(k, d)``; raises `DecodingError`."""
    quantiser = plan.space.quantiser
    points = (means - quantiser.centre) / quantiser.half_width * STEPS
    return measure_study(look.plan, look.totals, order=_match(points, look, "look"))


def _match(points: Floats, look: TakenLook, field: str) -> NDArray[np.intp]:
    """Return the cluster of a look that belongs to each centroid: the nearest, both ways."""
    part = require_look(look.plan)
    root = np.sqrt(np.array(part.weights, dtype=np.float64))
    centres = np.array(part.centres, dtype=np.float64)
    if np.abs(points - centres).max() <= 1.0:
        # These centroids themselves, rounded; two of them may be the same.
        return np.arange(len(centres))
    apart = ((points * root)[:, None] - centres * root) ** 2
    nearest: NDArray[np.intp] = apart.sum(axis=2).argmin(axis=1)
    if len(set(nearest.tolist())) < len(nearest):
        raise DecodingError(
            "was at other clusters than this decode finds: two of its centroids are nearest to one "
            "centre of the look",
            field=field,
            fix="decode with the selection, seed and search box of the result that was looked at",
        )
    return nearest


def _judge(predicted: VerdictBody | None, measured: VerdictBody) -> VerdictBody:
    """Return the worse verdict, the graver doubt first."""
    if predicted is None:
        return measured
    named = [("measured", measured), ("predicted", predicted)]
    named.sort(key=lambda each: WORDS.index(each[1].word), reverse=True)
    sentence = "; ".join(f"{name}: {each.sentence}" for name, each in named)
    return VerdictBody(word=named[0][1].word, sentence=sentence)


def _add_up(plans: Sequence[SketchPlan]) -> dict[str, str]:
    """Return what a record costs: the largest where no two plans read the same records."""
    number = f"{len(plans) - 1} look{'s' if len(plans) > 2 else ''}"
    if all(a.shares_no_record(b) for a, b in combinations(plans, 2)):
        epsilon = max(plan.release.epsilon for plan in plans)
        delta = max(plan.release.delta for plan in plans)
        words = (
            f"no record is in two of the sketch and {number}, because each reads other times: a "
            f"record costs {show_level(epsilon, delta)}, where devices read its time in the same "
            "way for all"
        )
        return {"epsilon": str(epsilon), "delta": str(delta), "cost": words}
    epsilon = sum((plan.release.epsilon for plan in plans), Fraction(0))
    delta = sum((plan.release.delta for plan in plans), Fraction(0))
    words = f"a record that the sketch and {number} read costs {show_level(epsilon, delta)} in all"
    return {"epsilon": str(epsilon), "delta": str(delta), "cost": words}
