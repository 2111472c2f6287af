"""The columns of a private fit from a pilot: a histogram of each, for a part of epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sfumato.analyst.estimators.columns import measure_width, settle_scales
from sfumato.analyst.estimators.planning import Choices, list_common
from sfumato.analyst.sketching.solution import sum_parts
from sfumato.learning.calibration.calibration import Calibration, calibrate
from sfumato.learning.calibration.columns import Column, Finding
from sfumato.learning.calibration.strength import choose_bins_log2, judge_strength
from sfumato.learning.calibration.words import describe_finding, describe_limits
from sfumato.learning.estimate.studies import read_study_marginals
from sfumato.learning.planning.pilots import divide_epsilon, measure_counts
from sfumato.shared.arrays import Integers
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import (
    Dimension,
    LogTransform,
    PlanSpec,
    SketchPlan,
    create_plan,
    decode_plan,
    encode_plan,
)

_FINEST = 1.0 / 8000.0
"""Least scale over the width of the bounds."""
_WIDE = 200.0
"""Bounds so many spreads wide stay as they are stated: a sketch loses nothing by them."""
_UNEVEN = 4.0
"""Scales whose shares of their bounds differ by more are worth a caution."""
_QUIET = frozenset({"log", "missing"})
"""Findings that are no reason to doubt a fit."""
_BLIND = frozenset({"outside", "unplaced"})
_GUESSED = frozenset({"outside", "tail", "unplaced", "weak"})


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotFindings:
    """The findings of a pilot of the same records, beside the columns of the plan that follows.

    Parameters
    ----------
    plan
        Plan of the pilot: it says what that cost.
    search_box
        Where to search for clusters: lower and upper bound by name.
    doubts
        What the pilot could not see, a sentence each.
    guessed
        The columns whose bounds and scale are a guess, so that no verdict on the fit holds.
    """

    plan: SketchPlan
    search_box: Mapping[str, Sequence[float]] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return plain values, of which :meth:`of` makes the findings again."""
        return {
            "plan": encode_plan(self.plan),
            "search_box": {name: list(pair) for name, pair in self.search_box.items()},
            "doubts": list(self.doubts),
            "guessed": list(self.guessed),
        }

    @classmethod
    def of(cls, design: Mapping[str, Any]) -> PilotFindings | None:
        """Return the findings behind the design of a release; None if there was no pilot."""
        known = design.get("pilot")
        if known is None:
            return None
        return cls(
            plan=decode_plan(known["plan"]),
            search_box={str(name): list(map(float, b)) for name, b in known["search_box"].items()},
            doubts=tuple(map(str, known["doubts"])),
            guessed=tuple(map(str, known["guessed"])),
        )


def list_numbers(choices: Choices) -> list[int]:
    """Return the positions of the columns that a pilot counts: numbers."""
    return [i for i, each in enumerate(choices.dimensions) if not each.is_categorical]


def plan_pilot(choices: Choices) -> SketchPlan:
    """Plan the pilot of a fit: a tenth of epsilon, and up to a quarter where noise is strong.

    Raises
    ------
    ConfigError
        Its noise would hide the records; nothing was spent.
    """
    whole = choices.epsilon or Fraction(0)
    spent = whole * divide_epsilon(_measure(choices, whole))
    strength = _measure(choices, spent)
    refusal = judge_strength(strength)
    if refusal is not None:
        factor = f"{math.ceil(refusal.factor):,}" if refusal.factor > 9 else f"{refusal.factor:.2g}"
        raise ConfigError(
            f"cannot be found by a pilot: its noise would hide the records; {factor} "
            "times as many would do, or as much more epsilon; nothing was spent",
            field="scale",
            fix="state the spread inside one cluster, and bounds, from public knowledge, or use "
            "AutoKMeans, which has methods for few records",
        )
    return create_plan(replace(_specify(choices, spent), bins_log2=choose_bins_log2(strength)))


def leave_rest(choices: Choices, pilot: SketchPlan) -> Choices:
    """Return the choices of the sketch that follows a pilot, before it is known what that finds.

    Its cost depends on no bounds, and on no scale.
    """
    epsilon = (choices.epsilon or Fraction(0)) - pilot.release.epsilon
    dimensions = tuple(
        each if each.is_categorical else replace(each, scale=measure_width(each) / 8.0)
        for each in choices.dimensions
    )
    return replace(choices, dimensions=dimensions, epsilon=epsilon)


def read_pilot(
    plan: SketchPlan,
    sums: Integers,
    n_records: int | None,
    *,
    choices: Choices,
    units: Sequence[float] | None,
) -> tuple[Choices, PilotFindings]:
    """Return the choices that a pilot suggests, and what else it found.

    Both are functions of its release and of public choices.

    Parameters
    ----------
    sums, n_records
        The release of the pilot.
    choices
        Choices of the sketch, see :func:`leave_rest`.
    units
        For each column, the length that one scale for all is a share of; None where each may have
        its own scale.
    """
    marginals = read_study_marginals(plan, sum_parts([(sums, n_records or 0)]))
    found = calibrate(marginals, n_clusters=choices.n_clusters)
    columns = {column.name: column for column in found.columns}
    dimensions: list[Dimension] = []
    search_box: dict[str, list[float]] = {}
    for stated in choices.dimensions:
        if stated.is_categorical:
            dimensions.append(stated)
            continue
        column = columns[stated.name]
        dimension = _make_dimension(stated, column, found)
        search = _choose_search(dimension, column)
        if search is not None:
            search_box[dimension.name] = search
        dimensions.append(dimension)
    is_constant = [each.name in columns and not columns[each.name].is_kept for each in dimensions]
    settled = settle_scales(dimensions, units=units, is_constant=is_constant)
    return (
        replace(choices, dimensions=settled, needs_wider_law=found.needs_wider_law),
        PilotFindings(
            plan=plan,
            search_box=search_box,
            doubts=(
                *_describe_doubts(found, {each.name: each.bounds for each in plan.dimensions}),
                *_describe_uneven(choices.dimensions, settled, is_constant),
            ),
            guessed=tuple(
                each.name for each in found.columns if not _GUESSED.isdisjoint(each.codes)
            ),
        ),
    )


def _specify(choices: Choices, epsilon: Fraction) -> PlanSpec:
    return PlanSpec(
        dimensions=tuple(replace(choices.dimensions[i], scale=None) for i in list_numbers(choices)),
        statistic="histogram",
        epsilon=epsilon,
        **list_common(choices),
    )


def _measure(choices: Choices, epsilon: Fraction) -> float:
    """Return the strength of a pilot: x of one column."""
    return measure_counts(_specify(choices, epsilon), n_records=choices.n_records)


def _make_dimension(stated: Dimension, column: Column, found: Calibration) -> Dimension:
    """Make a column of the sketch: as calibrated, inside what is stated."""
    low, high = stated.bounds
    lower, upper = max(low, column.lower), min(high, column.upper)
    is_stated = column.resolution is None and high - low <= _WIDE * column.spread
    if is_stated or not lower < upper or not _BLIND.isdisjoint(column.codes):
        lower, upper = low, high
    dimension = replace(
        stated,
        lower=lower,
        upper=upper,
        transform=None if column.resolution is None else LogTransform(resolution=column.resolution),
    )
    width = measure_width(dimension)
    # What does not vary, or was not seen, has hardly any say.
    scale = found.find_scale(column) if column.is_kept else width / 8.0
    return replace(dimension, scale=min(max(scale, width * _FINEST), width))


def _choose_search(dimension: Dimension, column: Column) -> list[float] | None:
    lower, upper = dimension.bounds
    search = max(lower, column.search_lower), min(upper, column.search_upper)
    if "unplaced" in column.codes:
        return None
    return [*search] if column.is_kept and search[0] < search[1] else None


def _describe_doubts(
    found: Calibration, bounds: Mapping[str, tuple[float, float]]
) -> Sequence[str]:
    doubts = [
        f"{column.name}: {_describe(finding, bounds[column.name])}"
        for column in found.columns
        for finding in column.findings
        if finding.code not in _QUIET
    ]
    return [*doubts, *describe_limits(found)] if found.needs_wider_law else doubts


def _describe_uneven(
    stated: Sequence[Dimension], settled: Sequence[Dimension], is_constant: Sequence[bool]
) -> Sequence[str]:
    """Describe by how much scales weigh columns otherwise than bounds that were stated do."""
    shares = {
        each.name: (found.scale or 0.0) / measure_width(each)
        for each, found, constant in zip(stated, settled, is_constant, strict=True)
        # A logarithmic scale may stand for bounds that were not stated.
        if not (constant or each.is_categorical or each.transform or found.transform)
    }
    if len(shares) < 2 or min(shares.values()) * _UNEVEN > max(shares.values()):
        return []
    widest, finest = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    return [
        "distances, and the verdict on them, are in units of the scales that a pilot found: next "
        f"to its bounds {finest} counts {shares[widest] / shares[finest]:.2g} times as much as "
        f'{widest}. If columns matter as their bounds do, use scale="bounds"'
    ]


def _describe(finding: Finding, bounds: tuple[float, float]) -> str:
    if finding.code in ("outside", "beyond"):
        return (
            f"{finding.share:.0%} of the values lie beyond {bounds[0]:.4g} and {bounds[1]:.4g}, "
            "and are clipped: state bounds that hold them"
        )
    if finding.code == "constant":
        return f"all values lie between {finding.lower:.4g} and {finding.upper:.4g}"
    return describe_finding(finding)
