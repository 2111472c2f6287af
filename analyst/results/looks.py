"""The plan of a second look at the clusters of a result, and how accurate it will be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.results.result import DecodeResult
from sfumato.learning.looks.design import Aim, FirstLook, design_look
from sfumato.learning.looks.noise import LookNoise
from sfumato.learning.looks.prediction import LookPrediction, predict_look
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import (
    ClustersPart,
    Dimension,
    PlanSpec,
    RecordSpace,
    SketchPlan,
    WindowRule,
    create_plan,
    plan_to_json,
)
from sfumato.shared.plan.statement import show_level
from sfumato.shared.privacy import MECHANISMS
from sfumato.shared.wire.objects.looks import MeasuredClustersBody, NumberBody

Floats = NDArray[np.float64]
_TWICE = 2.0


@dataclass(frozen=True, kw_only=True)
class LookOutline:
    """The facts of a look that its result does not decide.

    Parameters
    ----------
    aim
        ``measure``, ``refine`` or ``profile``.
    epsilon, delta
        Budget of one record in the look.
    n_records, n_sketches
        Expected records of all sketches together, and the sketches; None for those of the result.
    shares_records
        Whether the look reads the records that the result is of.
    columns
        Further columns for a profile, which the first look did not read.
    clusters_per_sketch
        r, a divisor of k; None for all.
    candidates
        Other results of as many clusters in the same columns, to be compared.
    """

    aim: Aim
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    n_records: int | None = None
    n_sketches: int | None = None
    shares_records: bool = False
    columns: tuple[Dimension, ...] = ()
    clusters_per_sketch: int | None = None
    candidates: tuple[DecodeResult, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class LookPlan:
    """The plan of a look, and what it will give.

    Parameters
    ----------
    first, outline
        The result that devices are shown, and the given facts.
    spec, plan
        The specification, and the plan that it describes.
    prediction
        The errors of its answers.
    """

    first: DecodeResult
    outline: LookOutline
    spec: PlanSpec
    plan: SketchPlan
    prediction: LookPrediction

    @property
    def part(self) -> ClustersPart:
        """The clusters that the plan asks for."""
        assert isinstance(self.plan.statistic, ClustersPart)
        return self.plan.statistic

    @property
    def pays(self) -> bool | None:
        """Whether refined centres are expected to be better than the first; None if unknown."""
        band = self.first.body.band
        if self.prediction.excess is None or band is None or band.high is None:
            return None
        return self.prediction.excess < band.high - 1.0

    def describe(self) -> Iterator[str]:
        """Yield what the look will give, a sentence each."""
        expected = self.prediction
        yield (
            f"{len(self.part.centres)} clusters, {self.plan.n_features} sums a sketch, "
            f"{self.plan.payload_bytes} bytes."
        )
        yield (
            f"Shares of clusters to +- {_TWICE * float(expected.shares.max()):.2%} of all records; "
            f"a cluster of less than {expected.least_share:.2%} cannot be told from an empty one."
        )
        if expected.spread is not None:
            yield f"The mean squared distance to +- {_TWICE * expected.spread:.1%} of itself."
        if expected.gain is not None:
            yield f"What one more k-means step would gain to +- {_TWICE * expected.gain:.2%}."
        if expected.excess is not None:
            yield f"Refined centres: their noise adds {expected.excess:.2%} to the error."
        if self.pays is False:
            band = self.first.body.band
            high = None if band is None else band.high
            assert high is not None
            yield (
                f"It does not pay to refine: the first result is expected within {high - 1.0:.2%} "
                "of the best, and this noise is more. Measure alone, or with a larger epsilon."
            )
        yield self._describe_cost()

    def _describe_cost(self) -> str:
        # All that the result has cost, a pilot too; not the sketch's plan alone.
        promise, look = self.first.body.privacy, self.plan.release
        spent = Fraction(promise.epsilon), Fraction(promise.delta)
        if (taken := self.first.looks) is not None:
            spent = max(spent[0], Fraction(taken.epsilon)), max(spent[1], Fraction(taken.delta))
        total = show_level(spent[0] + look.epsilon, spent[1] + look.delta)
        if self.outline.shares_records:
            return f"Both looks read the same records: one record costs {total} in all."
        largest = show_level(max(spent[0], look.epsilon), max(spent[1], look.delta))
        return (
            f"A record that only one of the looks reads costs {largest}; one that both read, "
            f"{total}. The owner's ledger counts the sum for all."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan and what it will give as JSON values."""
        expected = self.prediction
        return {
            "plan": plan_to_json(self.plan),
            "shares_error": expected.shares.tolist(),
            "spread_error": expected.spread,
            "gain_error": expected.gain,
            "excess": expected.excess,
            "least_share": expected.least_share,
            "pays": self.pays,
            "statements": list(self.describe()),
        }


def plan_look(first: DecodeResult, outline: LookOutline) -> LookPlan:
    """Plan a look at the clusters of a result.

    Raises
    ------
    ConfigError
        The result is not private or has no spreads, or does not say how many records it is of; a
        column of a profile is one of its own; or ``clusters_per_sketch`` divides k with a
        remainder.
    PlanError, PrivacyError
        A field breaks its rule.
    """
    if first.body.privacy.epsilon == "inf":
        raise ConfigError(
            "is not private: a look would show centroids that no noise protects to every device",
            field="result",
            fix="use the result of private sketches",
        )
    if first.spreads is None:
        raise ConfigError(
            f"has no spreads of its clusters: its decoder is {first.decoder}",
            field="result",
            fix="decode with `mixture`",
        )
    plan = first.plan
    own = tuple(replace(each, scale=None) for each in plan.dimensions)
    added = outline.columns
    if added and outline.aim != "profile":
        raise ConfigError(
            "are of a profile", field="columns", fix='leave them out, or aim="profile"'
        )
    for name in (each.name for each in added if each.name in {every.name for every in own}):
        raise ConfigError(
            f"names {name!r}, which the result has",
            field="columns (--profile)",
            fix="leave it out: the means of the result's columns are summed in any case",
        )
    k, r = len(first.centroids), outline.clusters_per_sketch
    if r is not None and k % r:
        raise ConfigError(
            f"must be a divisor of the number of clusters ({k}) and is {r}",
            field="clusters_per_sketch (--per-sketch)",
            fix=f"choose {', '.join(str(i) for i in range(1, k + 1) if k % i == 0)}",
        )
    n_records, n_sketches = _choose_numbers(first, outline)
    space = RecordSpace(dimensions=(*own, *added))
    encoder = plan.space.encoder
    centres = encoder.encode_answers(first.centroids)
    scale = plan.space.scale if plan.kind == "fourier" else plan.space.quantiser.half_width
    spreads = first.spreads  # on the axes, unlike centroids
    mechanism = MECHANISMS["discrete-gaussian" if outline.delta else "discrete-laplace"]
    part = design_look(
        space,
        FirstLook(
            centres=centres,
            spreads=spreads,
            scale=scale,
            candidates=[_place_candidate(each, first) for each in outline.candidates],
            result=first.identity,
        ),
        assigned=[each.name for each in own],
        aim=outline.aim,
        norm="l2" if mechanism.norm == "l2-squared" else "l1",
        neighbouring=plan.release.neighbouring,
        clusters_per_sketch=outline.clusters_per_sketch,
    )
    spec = _specify(plan, space.dimensions, part, outline)
    made = create_plan(spec)
    whole = part.build_whole(space)
    noise = LookNoise(
        deviation=np.array(np.sqrt(n_sketches * made.released_variance)),
        n_draws=n_sketches * made.n_noises,
        is_gaussian=bool(outline.delta),
    )
    unit = STEPS / space.quantiser.half_width[: spreads.shape[1]]
    weights = np.maximum(first.weights, 0.0)
    return LookPlan(
        first=first,
        outline=outline,
        spec=spec,
        plan=made,
        prediction=predict_look(
            whole,
            noise,
            shares=weights / max(weights.sum(), np.finfo(float).tiny),
            spreads=spreads * unit,
            n=float(n_records),
        ),
    )


def _place_candidate(candidate: DecodeResult, first: DecodeResult) -> Floats:
    """Return another result's centroids on the axes of the first."""
    if candidate.names != first.names or candidate.n_clusters != first.n_clusters:
        raise ConfigError(
            f"has {candidate.n_clusters} clusters in {', '.join(candidate.names)}",
            field="candidate",
            fix=f"use results of {first.n_clusters} clusters in {', '.join(first.names)}",
        )
    return first.plan.space.encoder.encode_answers(candidate.centroids)


def _specify(
    plan: SketchPlan,
    dimensions: Sequence[Dimension],
    part: ClustersPart,
    outline: LookOutline,
) -> PlanSpec:
    """Return the choices of a look: those of the first plan but for its statistic."""
    batch = plan.sum_release
    names = ("least_reports", "most_reports", "parts", "grace_s", "late_s")
    of_sum = {} if batch is None else {name: getattr(batch, name) for name in names}
    return PlanSpec(
        dimensions=tuple(dimensions),
        statistic="clusters",
        clusters=part,
        epsilon=outline.epsilon,
        delta=outline.delta,
        release="local.v1" if batch is None else "sum.v1",
        unit=plan.release.unit,
        neighbouring=plan.release.neighbouring,
        window=_choose_window(plan, outline),
        least_records=plan.least_records,
        most_records=plan.most_records,
        max_records_per_person=plan.max_records_per_person,
        most_sketches=plan.most_sketches,
        most_sketches_per_device=plan.most_sketches_per_device,
        most_streams_per_device=plan.most_streams_per_device,
        labels=plan.labels,
        late_rule=plan.late_rule,
        **of_sum,
    )


def _choose_numbers(first: DecodeResult, outline: LookOutline) -> tuple[int, int]:
    """Return the expected records and sketches: those of the result where none are given."""
    known = first.snapshot
    if outline.n_records is None and known is None:
        raise ConfigError(
            "is missing: a result of sketch files does not say how many records they hold",
            field="n_records (--records)",
            fix="give the number that you expect",
        )
    n_records, n_sketches = (0, 1) if known is None else (known.n_records, known.n_sketches)
    return outline.n_records or n_records, outline.n_sketches or n_sketches


def _choose_window(plan: SketchPlan, outline: LookOutline) -> WindowRule:
    """Return the first plan's rule; for other records it begins where that has ended."""
    rule = plan.window
    if rule.kind == "count" or outline.shares_records or rule.end is None:
        return rule
    return replace(rule, origin=rule.end, end=None)


def describe_look(look: MeasuredClustersBody) -> Iterator[str]:
    """Yield what a look measured of all clusters together; errors are two standard deviations."""
    yield look.statement
    if look.sse is not None:
        yield f"{show_measured(look.sse, '.3f')} of the squared distances are left, capped"
    if look.beyond is not None:
        yield f"{show_measured(look.beyond, '.1%')} of the records are beyond the cap or the clip"


def show_measured(number: NumberBody, form: str) -> str:
    """Write a measured number with two of its standard deviations."""
    return f"{number.value:{form}} ± {_TWICE * number.error:{form}}"
