"""Plans: their fields from a candidate, their expected quality, and their variations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from sfumato.learning.planning.alternatives import Fleet
from sfumato.learning.planning.candidates import Candidate, Prediction, predict_mechanism
from sfumato.learning.planning.outline import FEATURES_PER_PARAMETER, TARGET_SSE, StudyOutline
from sfumato.learning.planning.quality import ClusterRange, find_cluster_range
from sfumato.learning.planning.remedies import Doubt, find_doubt
from sfumato.shared.core import RadiusLaw
from sfumato.shared.core.logarithm import expand
from sfumato.shared.plan import Dimension, SketchPlan
from sfumato.shared.plan.derivation import derive
from sfumato.shared.plan.rules import require_valid
from sfumato.shared.plan.spec import MOST_SKETCHES

AXES: Final = ("bounds", "scale", "m", "epsilon")
"""The parts of a plan that a variation changes, one at a time."""


@dataclass(frozen=True, kw_only=True)
class PlanPrediction:
    """The predicted quality of a plan for a number of records.

    Parameters
    ----------
    outline, expected
        The study, and the SNR and relative SSE to expect of it.
    cluster_range
        Numbers of clusters that the plan supports within ``TARGET_SSE``.
    doubt
        Why not to run the study at all; None where there is hope.
    """

    outline: StudyOutline
    expected: Prediction
    cluster_range: ClusterRange
    doubt: Doubt | None


def predict_plan(
    plan: SketchPlan,
    *,
    n_records: int,
    n_sketches: int,
    n_clusters: int,
    n_windows: int = 1,
    devices_differ: bool = True,
) -> PlanPrediction:
    """Predict the quality that a plan gives.

    Parameters
    ----------
    plan
        The plan.
    n_records, n_sketches, n_clusters
        n, of all sketches together; L; and k.
    n_windows
        The sketches of one device.
    devices_differ
        Whether devices may hold different kinds of records.

    Raises
    ------
    PrivacyError
        There are more clusters than the frequencies of any plan allow, or too few sketches to carry
        every frequency.
    """
    fleet = find_fleet(plan, n_windows=n_windows)
    outline = StudyOutline(
        n_records=n_records,
        n_sketches=n_sketches,
        n_dimensions=len(plan.axes),
        n_clusters=n_clusters,
        neighbouring=plan.release.neighbouring,
        # It matters only where few devices carry a frequency.
        devices_differ=devices_differ and plan.is_split,
        unit=plan.release.unit,
        by_time=plan.window.kind == "time",
        n_noises=None if fleet is None else fleet.n_noises,
    )
    expected = predict_mechanism(
        outline,
        plan.mechanism,
        n_frequencies=plan.n_frequencies,
        n_blocks=plan.blocks.n_blocks,
        alpha=plan.alpha,
        count_variance=plan.count_variance,
        law=plan.radius_law,
    )
    return PlanPrediction(
        outline=outline,
        expected=expected,
        cluster_range=find_cluster_range(
            snr=expected.snr,
            n_frequencies=plan.n_frequencies,
            n_dimensions=len(plan.axes),
            target_sse=TARGET_SSE,
        ),
        doubt=find_doubt(
            outline,
            expected.band,
            epsilon=plan.release.epsilon,
            delta=plan.release.delta,
            target_sse=TARGET_SSE,
        ),
    )


def find_fleet(plan: SketchPlan, *, n_windows: int) -> Fleet | None:
    """Return the batches of a secure sum in so many windows; None of other plans."""
    if plan.sum_release is None:
        return None
    n_label_sets = math.prod(len(label.values) for label in plan.labels)
    return Fleet(n_groups=n_windows * n_label_sets, parts=plan.sum_release.parts)


def find_most_clusters(plan: SketchPlan) -> int:
    """Return the largest number of clusters that the frequencies can tell apart at all."""
    return plan.n_frequencies // (FEATURES_PER_PARAMETER[0] * len(plan.axes))


def vary_plan(plan: SketchPlan, axis: str, factor: Fraction) -> SketchPlan:
    """Return a plan with one thing multiplied by a factor, and everything else as it was.

    Bounds move away from their middle, on the scale of the dimension. m keeps the features of a
    sketch where these are fewer than m, and the share of a record where it adds to fewer.

    Raises
    ------
    PlanError, PrivacyError
        There is no such plan.
    """
    if axis == "epsilon":
        release = replace(plan.release, epsilon=plan.release.epsilon * factor)
        varied = replace(plan, release=release)
    elif axis == "m":
        blocks, groups = plan.blocks.n_blocks, round(1 / plan.alpha)
        step = plan.frequencies_per_sketch if blocks > 1 else groups
        m = step * max(1, round(plan.n_frequencies * factor / step))
        varied = replace(
            plan,
            statistic=replace(
                plan.fourier,
                n_frequencies=m,
                measurements_per_record=m // groups,
                frequencies_per_sketch=plan.frequencies_per_sketch if blocks > 1 else m,
            ),
        )
    else:
        change = _widen if axis == "bounds" else _rescale
        dimensions = tuple(change(dimension, float(factor)) for dimension in plan.dimensions)
        varied = replace(plan, dimensions=dimensions)
    require_valid(varied)
    return derive(varied)


def _widen(dimension: Dimension, factor: float) -> Dimension:
    """Move bounds away from their middle, on the scale of the dimension; a category has none."""
    if dimension.is_categorical:
        return dimension
    ends = dimension.scaled_bounds
    middle = ends[0] + (ends[1] - ends[0]) / 2
    ends = middle + factor * (ends - middle)
    if dimension.transform is not None:
        ends = expand(ends, dimension.transform.resolution)
    lower, upper = ends.tolist()
    return replace(dimension, lower=lower, upper=upper)


def _rescale(dimension: Dimension, factor: float) -> Dimension:
    return (
        dimension if dimension.scale is None else replace(dimension, scale=factor * dimension.scale)
    )


def list_decided(outline: StudyOutline, best: Candidate, *, n_windows: int = 1) -> dict[str, Any]:
    """Return the fields that a candidate decides, as a specification has them.

    Fields that its kind of release forbids, or whose default it needs, are left out.

    Parameters
    ----------
    outline, best
        The study, and the candidate.
    n_windows
        The sketches of one device.
    """
    fields: dict[str, Any] = {}
    if best.reports_phases or best.is_summed:
        fields["release"] = best.release
    if best.unit == "device":
        fields["unit"] = best.unit
    fields["n_frequencies"] = best.n_frequencies
    if best.is_split or best.reports_phases:
        fields["frequencies_per_sketch"] = best.frequencies_per_sketch
    fields["most_clusters"] = outline.n_clusters
    if not best.reports_phases:
        fields["mechanism"] = best.mechanism
    fields["epsilon"] = str(best.epsilon)
    if not best.reports_phases:
        fields["delta"] = str(best.delta)
    if best.unit == "record":
        fields["neighbouring"] = outline.neighbouring
    if outline.n_sketches > MOST_SKETCHES:
        # Twice as many as one selection: a plan that accepts fewer than it needs locks devices out.
        fields["most_sketches"] = 2 * outline.n_sketches
    if best.reports_phases:
        fields["most_sketches_per_device"] = n_windows
    fields["radius_law"] = list_law(best.law_choice.law)
    return fields


def list_sizes(outline: StudyOutline, best: Candidate) -> dict[str, Any]:
    """Return the sizes of windows in a specification, which follow from the outline."""
    sizes: dict[str, Any] = {}
    if best.reports_phases:
        return sizes
    if best.unit == "record":
        if not (outline.hides_presence or best.is_summed):
            sizes["least_records"] = max(1, outline.n_records // outline.n_sketches // 10)
        sizes["max_records_per_person"] = "unknown"
    return sizes | {"most_records": outline.most_records}


def list_law(law: RadiusLaw) -> dict[str, Any]:
    """Return a law as the table of a specification."""
    tail = {"tail_share": law.tail_share, "tail_high": law.tail_high} if law.tail_share else {}
    return {"kind": law.kind, "sigma_low": law.sigma_low, "sigma_high": law.sigma_high, **tail}
