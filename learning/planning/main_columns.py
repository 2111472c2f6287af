"""Columns of a main plan, chosen from a pilot: bounds, categories, missing values, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.plan import Dimension, LogTransform, SketchPlan
from sfumato.shared.plan.dimensions import MOST_ONE_HOT
from sfumato.shared.wire.objects.statistics import (
    CalibrationBody,
    ColumnBody,
    HistogramBody,
    MarginalBody,
)

MUCH_MISSING = 0.05
"""Share of missing values from which a person should choose what stands for them."""
_WIDEST_STEP = 100.0
_DIGITS = 3
_SURE = 3.0


@dataclass(frozen=True, kw_only=True)
class MainColumn:
    """One dimension of a main plan, or a reason why the plan has it not.

    Parameters
    ----------
    dimension
        As the plan would have it.
    is_kept
        Whether the plan has it.
    comments
        What was found, and why it is chosen so, a line each.
    search
        Where to search for clusters, data units; None for a category.
    centre
        The mean on its scale, data units; None for a category.
    missing_share
        Share of the records without a value, 0 where noise may have made it.
    """

    dimension: Dimension
    is_kept: bool
    comments: tuple[str, ...] = ()
    search: tuple[float, float] | None = None
    centre: float | None = None
    missing_share: float = 0.0

    @property
    def n_axes(self) -> int:
        """The number of axes that it has in the plan."""
        return len(self.dimension.levels) or 1

    @property
    def loses_records(self) -> bool:
        """Whether many records are left out because they have no value here."""
        is_ruled = self.dimension.missing is not None
        return self.is_kept and not is_ruled and self.missing_share > MUCH_MISSING


def choose_columns(
    pilot: SketchPlan, calibration: CalibrationBody, histogram: HistogramBody
) -> tuple[MainColumn, ...]:
    """Choose the columns of a main plan, in the order of the pilot's.

    Numbers have the bounds and scales of the calibration, rounded. Categories of at most 16 levels
    become axes that are 0 or 1. The pilot's rules for missing values are kept.
    """
    columns = {each.name: each for each in calibration.columns}
    marginals = {each.name: each for each in histogram.marginals}
    return tuple(
        _choose_category(each, marginals.get(each.name))
        if each.is_categorical
        else _choose_number(each, columns.get(each.name))
        for each in pilot.dimensions
    )


def count_complete(columns: Sequence[MainColumn], outline: StudyOutline) -> int:
    """Return the expected records with all values, as if values were missing independently."""
    share = math.prod(1.0 - each.missing_share for each in columns if each.loses_records)
    return max(outline.n_sketches, round(share * outline.n_records))


def round_outward(
    lower: float, upper: float, *, resolution: float | None = None
) -> tuple[float, float]:
    """Round bounds to few digits so that nothing inside them is lost.

    On a linear scale to a power of ten of at most a hundredth of the width; on a logarithmic one to
    three digits each.

    Parameters
    ----------
    lower, upper
        Data units, ascending.
    resolution
        r of the logarithmic scale; None for a linear one.

    Guarantees
    ----------
    Neither bound moves inward, and none further outward than a hundredth of the width, or on a
    logarithmic scale of itself.
    """
    width = (upper - lower) / _WIDEST_STEP
    return (
        _round(lower, ROUND_FLOOR, width if resolution is None else None),
        _round(upper, ROUND_CEILING, width if resolution is None else None),
    )


def _round(value: float, rounding: str, largest_step: float | None) -> float:
    if largest_step is None:
        largest_step = abs(value) / _WIDEST_STEP
    if not largest_step > 0.0 or not math.isfinite(largest_step):
        return value
    exact = Decimal(repr(value))
    step = Decimal(1).scaleb(math.floor(math.log10(largest_step)))
    # Adding zero gives -0.0 and 0.0 the same form.
    return float((exact / step).to_integral_value(rounding) * step) + 0.0


def _choose_number(dimension: Dimension, column: ColumnBody | None) -> MainColumn:
    if column is None:
        return MainColumn(
            dimension=dimension, is_kept=False, comments=("left out: no sketch carries it",)
        )
    resolution = column.resolution
    lower, upper = round_outward(column.lower, column.upper, resolution=resolution)
    found = round_outward(column.search_lower, column.search_upper, resolution=resolution)
    search = max(lower, found[0]), min(upper, found[1])
    chosen = replace(
        dimension,
        lower=lower,
        upper=upper,
        scale=float(f"{column.scale:.{_DIGITS}g}"),
        transform=None if resolution is None else LogTransform(resolution=resolution),
    )
    step = column.step if dimension.step is None else dimension.step
    chosen = replace(chosen, step=None if step is None or step > upper - lower else step)
    spread = f"{column.spread:.3g} {'octaves' if resolution is not None else column.unit}"
    comments = [] if column.is_kept else [_describe_absence(column)]
    comments.append(f"centre {column.centre:.4g} {column.unit}, spread {spread}")
    comments += [*column.findings, *_describe_rule(chosen, column.missing_share)]
    if chosen.step is None:
        comments.append(
            "some values may be far commoner than those beside them: answers to questions have "
            "error bars only with a histogram of the same records"
        )
    stands_for = dimension.missing
    if not isinstance(stands_for, str) and stands_for is not None and column.missing_share:
        if lower <= stands_for <= upper:
            search = min(search[0], stands_for), max(search[1], stands_for)
        else:
            comments.append(
                f"{stands_for:g} lies outside the bounds and is clipped: choose a value inside"
            )
    return MainColumn(
        dimension=chosen,
        is_kept=column.is_kept,
        comments=tuple(comments),
        search=search,
        centre=column.centre,
        missing_share=column.missing_share,
    )


def _describe_absence(column: ColumnBody) -> str:
    # Nobody knows a value that the pilot did not see.
    if "outside" in column.codes:
        return f"left out: {column.findings[column.codes.index('outside')]}"
    return f"left out as a constant; its value is {column.centre:.6g}"


def _choose_category(dimension: Dimension, marginal: MarginalBody | None) -> MainColumn:
    n_levels = len(dimension.levels)
    if n_levels > MOST_ONE_HOT:
        return MainColumn(
            dimension=dimension,
            is_kept=False,
            comments=(
                f"left out: each level would be an axis, and {n_levels} are more than "
                f"{MOST_ONE_HOT}; join rare levels to keep it",
            ),
        )
    share, comments = 0.0, ["each level is an axis that is 0 or 1, with scale 1"]
    if marginal is not None:
        is_seen = marginal.missing > _SURE * marginal.error
        share = min(1.0, marginal.missing) if is_seen else 0.0
        most = sorted(marginal.levels, key=lambda each: -each.share)[:3]
        comments.append(
            "most are " + ", ".join(f"{each.level} ({each.share:.0%})" for each in most)
        )
    if share > MUCH_MISSING:
        comments.append(f"{share:.0%} of the values are missing")
    comments += _describe_rule(dimension, share)
    return MainColumn(
        dimension=dimension, is_kept=True, comments=tuple(comments), missing_share=share
    )


def _describe_rule(dimension: Dimension, share: float) -> list[str]:
    """Return the consequence of missing values, where there are many."""
    if share <= MUCH_MISSING:
        return []
    if dimension.missing is not None:
        return [f"a missing value counts as {dimension.missing}"]
    return [
        "records with a missing value are left out: choose what stands for it (`missing`), or "
        "drop the column"
    ]
