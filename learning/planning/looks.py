"""The plan of a second look at the clusters of a result, and how accurate it will be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.looks.design import Aim, FirstLook, design_look
from sfumato.learning.looks.gain import (
    expect_excess,
    is_worth,
    measure_overlap,
    predict_excess,
)
from sfumato.learning.looks.noise import LookNoise
from sfumato.learning.looks.prediction import LookPrediction, predict_look
from sfumato.learning.looks.study import to_units
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import (
    ClustersPart,
    Dimension,
    PlanSpec,
    RecordSpace,
    SketchPlan,
    WindowRule,
    compute_plan_digest,
    create_plan,
    plan_to_json,
)
from sfumato.shared.plan.people import show_level
from sfumato.shared.privacy import MECHANISMS
from sfumato.shared.wire.objects.looks import PlannedLookBody
from sfumato.shared.wire.objects.results import ResultBody

Floats = NDArray[np.float64]
LOOK_SHARE = Fraction(3, 10)
"""The share of epsilon that a look at the same records gets; the sketch before it gets the rest."""
MOST_EXPECTED = 1.12
"""A sketch that may be worse does not find the clusters, and a look does not find them for it."""
_USUAL_OVERLAP = 0.03
"""The median of the shapes that the law of looks is fitted on."""
_USUAL_REACH = 15.0
"""Half the width of usual bounds, in spreads of a cluster; noise of a look hardly depends on it."""
_TWICE = 2.0
_NOISY = "the noise of its means is more than is left to gain; measure alone, or with more epsilon"
_LACKING = "such a result may lack clusters, which no step finds; a sketch with more epsilon may"


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownResult:
    """A published result, whose centroids a look shows to the devices.

    Parameters
    ----------
    plan, body
        The plan of its sketches, and what it says.
    digest
        Hexadecimal SHA-256 of the sums that were decoded.
    n_records, n_sketches
        The records and sketches that it is of; None and 1 where it does not say.
    """

    plan: SketchPlan
    body: ResultBody
    digest: str
    n_records: int | None = None
    n_sketches: int = 1

    @property
    def identity(self) -> bytes:
        """SHA-256 of plan, sums, centroids and shares: what the plan of a look names."""
        shown = [self.body.centroids, self.body.weights]
        document = [compute_plan_digest(self.plan), self.digest, *shown]
        return hashlib.sha256(encode_deterministic(document)).digest()

    @property
    def names(self) -> list[str]:
        """Names of the axes."""
        return [each.name for each in self.body.dimensions]


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
    window
        The windows, instead of those that follow from the result's.
    """

    aim: Aim
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    n_records: int | None = None
    n_sketches: int | None = None
    shares_records: bool = False
    columns: tuple[Dimension, ...] = ()
    clusters_per_sketch: int | None = None
    candidates: tuple[ShownResult, ...] = ()
    window: WindowRule | None = None


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
    overlap
        The part of the energy of an error that a step keeps, as the result's clusters overlap.
    """

    first: ShownResult
    outline: LookOutline
    spec: PlanSpec
    plan: SketchPlan
    prediction: LookPrediction
    overlap: float

    @property
    def part(self) -> ClustersPart:
        """The clusters that the plan asks for."""
        assert isinstance(self.plan.statistic, ClustersPart)
        return self.plan.statistic

    @property
    def expected(self) -> tuple[float, float] | None:
        """The excess of the squared distances, in the middle of what is expected, now and then.

        None where the result has no band with an upper end, or centres stay as they are.
        """
        band = self.first.body.band
        if self.prediction.excess is None or band is None or band.high is None:
            return None
        now = expect_excess(band.low - 1.0, band.high - 1.0)
        return now, predict_excess(now, self.prediction.excess, self.overlap)

    @property
    def pays(self) -> bool | None:
        """Whether refined centres are expected to lose a tenth of their excess; None if unknown."""
        if self.expected is None:
            return None
        return is_worth(*self.expected)

    def describe(self) -> Iterator[str]:
        """Yield what the look will give, a sentence each."""
        expected = self.prediction
        yield (
            f"{len(self.part.centres)} clusters, {self.plan.n_features} sums a sketch, "
            f"{self.plan.payload_bytes} bytes."
        )
        lost = f"a cluster of less than {expected.least_share:.2%} cannot"
        if expected.least_share >= 1.0:
            lost = "no cluster can"
        yield (
            f"Shares of clusters to {_show_error(float(expected.shares.max()))} of all records; "
            f"{lost} be told from an empty one."
        )
        if expected.spread is not None:
            yield f"The mean squared distance to {_show_error(expected.spread)} of itself."
        if expected.gain is not None:
            yield f"What one more k-means step would gain to {_show_error(expected.gain)}."
        if expected.excess is not None:
            yield f"Refined centres: their noise adds {_show(expected.excess)} to the error."
        if self.expected is not None:
            now, then = self.expected
            yield (
                f"The squared distances are expected {now:.2%} above the least ones now, and "
                f"{then:.2%} with refined centres."
            )
            if not self.pays:
                is_noisy = expected.excess is not None and expected.excess > now
                yield f"It does not pay to refine: {_NOISY if is_noisy else _LACKING}."
        yield self._describe_cost()

    def _describe_cost(self) -> str:
        # All that the result has cost, a pilot too; not the sketch's plan alone.
        promise, look = self.first.body.privacy, self.plan.release
        spent = Fraction(promise.epsilon), Fraction(promise.delta)
        if (taken := self.first.body.looks) is not None:
            spent = max(spent[0], Fraction(taken.epsilon)), max(spent[1], Fraction(taken.delta))
        total = show_level(spent[0] + look.epsilon, spent[1] + look.delta)
        if self.outline.shares_records:
            return f"Both looks read the same records: one record costs {total} in all."
        largest = show_level(max(spent[0], look.epsilon), max(spent[1], look.delta))
        return (
            f"A record that only one of the looks reads costs {largest}; one that both read, "
            f"{total}. The owner's ledger counts the sum for all."
        )

    def to_body(self) -> PlannedLookBody:
        """Return the plan and what it will give as an object of the wire."""
        expected, space = self.prediction, self.plan.space
        whole = self.part.build_whole(space)
        means = to_units(self.plan, whole.summed, whole.origins.astype(np.float64), expected.means)
        return PlannedLookBody(
            statements=list(self.describe()),
            pays=self.pays,
            shares_error=expected.shares.tolist(),
            summed=[space.axes[i].name for i in whole.summed],
            means_error=means.tolist(),
            spread_error=expected.spread,
            gain_error=expected.gain,
            excess=expected.excess,
            least_share=expected.least_share,
            plan=plan_to_json(self.plan),
        )


def plan_look(first: ShownResult, outline: LookOutline) -> LookPlan:
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
    if first.body.spreads is None:
        raise ConfigError(
            f"has no spreads of its clusters: its decoder is {first.body.decoder}",
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
    k, r = len(first.body.centroids), outline.clusters_per_sketch
    if r is not None and k % r:
        raise ConfigError(
            f"must be a divisor of the number of clusters ({k}) and is {r}",
            field="clusters_per_sketch (--per-sketch)",
            fix=f"choose {', '.join(str(i) for i in range(1, k + 1) if k % i == 0)}",
        )
    n_records, n_sketches = _choose_numbers(first, outline)
    space = RecordSpace(dimensions=(*own, *added))
    centres = _place(first)
    scale = plan.space.scale if plan.kind == "fourier" else plan.space.quantiser.half_width
    spreads = np.array(first.body.spreads)  # on the axes, unlike centroids
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
    weights = np.maximum(first.body.weights, 0.0)
    shares = weights / max(weights.sum(), np.finfo(float).tiny)
    return LookPlan(
        first=first,
        outline=outline,
        spec=spec,
        plan=made,
        prediction=predict_look(
            whole,
            noise,
            shares=shares,
            spreads=spreads * unit,
            n=float(n_records),
        ),
        overlap=measure_overlap(centres / scale, spreads / scale, shares),
    )


def _show(share: float) -> str:
    """Write a share; one that exceeds the whole is noise alone, and its figures say no more."""
    return f"{share:.2%}" if share < 1.0 else "over 100%"


def _show_error(deviation: float) -> str:
    return f"+- {_show(_TWICE * deviation)}"


def _place_candidate(candidate: ShownResult, first: ShownResult) -> Floats:
    """Return another result's centroids on the axes of the first."""
    sizes = len(candidate.body.weights), len(first.body.weights)
    if candidate.names != first.names or sizes[0] != sizes[1]:
        raise ConfigError(
            f"has {sizes[0]} clusters in {', '.join(candidate.names)}",
            field="candidate",
            fix=f"use results of {sizes[1]} clusters in {', '.join(first.names)}",
        )
    return _place(candidate)


def _place(result: ShownResult) -> Floats:
    """Return the centroids of a result on its axes."""
    return result.plan.space.encoder.encode_answers(np.array(result.body.centroids))


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


def _choose_numbers(first: ShownResult, outline: LookOutline) -> tuple[int, int]:
    """Return the expected records and sketches: those of the result where none are given."""
    n_records = outline.n_records or first.n_records
    if n_records is None:
        raise ConfigError(
            "is missing: a result of sketch files does not say how many records they hold",
            field="n_records (--records)",
            fix="give the number that you expect",
        )
    return n_records, outline.n_sketches or first.n_sketches


def _choose_window(plan: SketchPlan, outline: LookOutline) -> WindowRule:
    """Return the first plan's rule; for other records it begins where that has ended."""
    if outline.window is not None:
        return outline.window
    rule = plan.window
    if rule.kind == "count" or outline.shares_records or rule.end is None:
        return rule
    return replace(rule, origin=rule.end, end=None)


@dataclass(frozen=True, kw_only=True)
class LookShare:
    """A sketch and a look at its records, beside a sketch with the epsilon of both.

    Parameters
    ----------
    alone, with_look
        Excess of the squared distances in the middle of what is expected.
    finds_clusters
        Whether the sketch with the rest of epsilon is expected to find them: no look finds more.
    """

    alone: float
    with_look: float
    finds_clusters: bool

    @property
    def pays(self) -> bool:
        """Whether to leave epsilon for a look."""
        return self.finds_clusters and self.with_look < self.alone

    def describe(self) -> str:
        """Describe the better use of epsilon in a sentence or two."""
        look = f"A second look at the same records, for {LOOK_SHARE} of epsilon,"
        if not self.finds_clusters:
            return (
                f"{look} does not pay: a sketch with the rest may miss clusters, which no look "
                "finds."
            )
        return (
            f"{look} {'pays' if self.pays else 'does not pay'}: squared distances "
            f"{self.with_look:.2%} above the least are expected with it, and {self.alone:.2%} with "
            "all of epsilon in the sketch."
        )


def compare_look(outline: StudyOutline, whole: Candidate, rest: Candidate) -> LookShare | None:
    """Compare a sketch alone with a smaller one and a look; None where one is hopeless.

    Parameters
    ----------
    whole, rest
        The best sketch with all of epsilon, and with what a look leaves of it.
    """
    if whole.band.is_hopeless or rest.band.is_hopeless or outline.protects_devices:
        return None
    alone, first = (
        expect_excess(each.band.low - 1.0, each.band.high - 1.0) for each in (whole, rest)
    )
    noise = _predict_noise(outline, whole.epsilon - rest.epsilon, whole.delta)
    return LookShare(
        alone=alone,
        with_look=predict_excess(first, noise, _USUAL_OVERLAP),
        finds_clusters=rest.band.high <= MOST_EXPECTED,
    )


def _predict_noise(outline: StudyOutline, epsilon: Fraction, delta: Fraction) -> float:
    """Predict the noise of a look at clusters of equal shares and unit spreads."""
    k, d = outline.n_clusters, outline.n_dimensions
    space = RecordSpace(
        dimensions=tuple(
            Dimension(name=str(i), unit="1", lower=-_USUAL_REACH, upper=_USUAL_REACH)
            for i in range(d)
        )
    )
    spreads, unit = np.ones((k, d)), STEPS / _USUAL_REACH
    part = design_look(
        space,
        FirstLook(centres=np.zeros((k, d)), spreads=spreads, scale=np.ones(d)),
        assigned=[each.name for each in space.dimensions],
        aim="refine",
        norm="l2" if delta else "l1",
        neighbouring=outline.neighbouring,
    )
    made = create_plan(
        PlanSpec(
            dimensions=space.dimensions,
            statistic="clusters",
            clusters=part,
            epsilon=epsilon,
            delta=delta,
            neighbouring="add-remove-one" if outline.hides_presence else "replace-one",
            window=WindowRule(kind="time", origin=1, length_s=1 << 31),
            most_records=outline.most_records,
        )
    )
    noise = LookNoise(deviation=np.array(np.sqrt(outline.noises * made.mechanism.variance)))
    shares, n = np.full(k, 1.0 / k), float(outline.n_counted)
    found = predict_look(
        part.build_whole(space), noise, shares=shares, spreads=spreads * unit, n=n
    ).excess
    assert found is not None
    return found
