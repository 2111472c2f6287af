"""The statistic of a plan in words: what integers a record adds, and what they are good for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.analyst.planning.fleets import describe_selection
from sfumato.analyst.planning.phases import round_up
from sfumato.learning.calibration.strength import count_needed_reports
from sfumato.learning.planning.laws import describe_law
from sfumato.shared.plan import (
    Dimension,
    FourierPart,
    GridPart,
    HistogramPart,
    MomentsPart,
    SketchPlan,
)


def describe_dimensions(plan: SketchPlan) -> str:
    """Describe the columns: unit, levels, and the scale where it is not linear."""
    return ", ".join(f"{each.name} ({_describe_values(each)})" for each in plan.dimensions)


def describe_statistic(plan: SketchPlan) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions of what a sketch holds."""
    part = plan.statistic
    if isinstance(part, FourierPart):
        yield "frequencies", _describe_frequencies(plan)
        yield "selection", f"at least {describe_selection(plan.blocks.n_blocks)}"
        yield "radius law", f"{describe_law(plan.radius_law)}; w is the scale"
        return
    if isinstance(part, HistogramPart):
        yield "histogram", _describe_histogram(plan, part)
    elif isinstance(part, GridPart):
        yield "grid", _describe_grid(part)
    else:
        yield "moments", _describe_moments(part)
    if plan.blocks.n_blocks > 1:
        yield "selection", f"at least {plan.blocks.n_blocks:,} sketches, to carry every dimension"


def statistic_to_json(plan: SketchPlan) -> dict[str, Any]:
    """Return the statistic as JSON values; frequencies are null where it has none."""
    part = plan.statistic
    fourier = part if isinstance(part, FourierPart) else None
    document: dict[str, Any] = {
        "statistic": part.kind,
        "n_frequencies": fourier and fourier.n_frequencies,
        "frequencies_per_sketch": fourier and fourier.frequencies_per_sketch,
        "measurements_per_record": fourier and fourier.measurements_per_record,
        "shortest_selection": plan.blocks.n_blocks,
    }
    if isinstance(part, HistogramPart):
        document |= {
            "bins_log2": list(part.bins_log2),
            "dimensions_per_sketch": part.dimensions_per_sketch,
        }
    elif isinstance(part, GridPart):
        document["cells"] = list(part.cells)
    elif isinstance(part, MomentsPart):
        document["norm_steps"] = part.norm_steps
    return document


def _describe_values(dimension: Dimension) -> str:
    if dimension.is_categorical:
        return f"{len(dimension.levels)} levels"
    return dimension.unit if dimension.transform is None else f"{dimension.unit}, log scale"


def _describe_frequencies(plan: SketchPlan) -> str:
    if plan.reports_phases:
        return f"{plan.n_frequencies}; a report is about {plan.frequencies_per_sketch} of them"
    if plan.is_split:
        return (
            f"{plan.n_frequencies}; a sketch carries {plan.frequencies_per_sketch}, and noise for "
            "these alone"
        )
    return f"{plan.n_frequencies}; a record uses {plan.measurements_per_record}"


def _describe_histogram(plan: SketchPlan, part: HistogramPart) -> str:
    bins = ", ".join(
        f"{each.name}: {len(each.levels) or 1 << b:,}"
        for each, b in zip(plan.dimensions, part.bins_log2, strict=True)
    )
    what = "counts of each dimension by itself, for marginals and to calibrate another plan"
    if plan.reports_phases:
        what = "a noisy bin of one record, for the marginals of each dimension by itself"
        if not plan.dimensions[0].is_categorical:
            needed = count_needed_reports(plan.mechanism.gain) * plan.n_dimensions
            needed //= part.dimensions_per_sketch
            what += f" and, from about {round_up(needed):,} reports on, to calibrate another plan"
    words = (
        f"{what}; bins of {bins}; values that are missing or beyond the bounds are counted as such"
    )
    if part.dimensions_per_sketch == plan.n_dimensions:
        return words
    return f"{words}; a sketch carries {part.dimensions_per_sketch} of the dimensions"


def _describe_grid(part: GridPart) -> str:
    cells = " x ".join(f"{n:,}" for n in part.cells)
    return f"counts of joint cells, {cells}, for clusters in few dimensions"


def _describe_moments(part: MomentsPart) -> str:
    return (
        "means and second moments, for principal components; records are clipped to a ball of "
        f"radius {part.norm_steps / 2047:.3g} half widths of the bounds"
    )
