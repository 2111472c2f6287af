"""A plan in plain words: protection, its limits, costs, and expected quality."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sfumato.analyst.planning.advice import describe_assumptions
from sfumato.analyst.planning.candidates import (
    band_to_json,
    describe_devices,
    describe_selection,
    show_snr,
)
from sfumato.learning.calibration.strength import count_needed_reports
from sfumato.learning.planning.laws import describe_law
from sfumato.learning.planning.outline import TARGET_SSE, describe_size, round_up
from sfumato.learning.planning.plans import (
    PlanPrediction,
    find_fleet,
    find_most_clusters,
    predict_plan,
)
from sfumato.learning.planning.remedies import Doubt, describe_doubt, doubt_to_json
from sfumato.shared.core.features import PHASES
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import (
    ClustersPart,
    Dimension,
    FourierPart,
    GridPart,
    HistogramPart,
    MomentsPart,
    PhaseRelease,
    SketchPlan,
    SumRelease,
    compute_plan_digest,
    describe_helper,
    make_statement,
)
from sfumato.shared.plan.people import show_level
from sfumato.shared.privacy import get_mechanism
from sfumato.shared.privacy.group import compute_group_loss, format_upper

_YEAR_S = 365 * 86400


def predict_study(
    plan: SketchPlan, *, n_records: int, n_sketches: int, n_windows: int = 1, **more: Any
) -> PlanPrediction:
    """Predict the quality that a plan gives, if it allows such a study.

    Takes and raises as :func:`sfumato.learning.planning.plans.predict_plan`.

    Raises
    ------
    ConfigError
        The mean number of records in a sketch is not one that the plan allows, or there are too few
        sketches to carry every frequency, or more of one device than the plan accepts.
    """
    sizes: dict[str, Any] = {
        "n_records": n_records,
        "n_sketches": n_sketches,
        "n_windows": n_windows,
    }
    _require_sizes(plan, **sizes)
    return predict_plan(plan, **sizes, **more)


def find_limit_doubt(plan: SketchPlan) -> Doubt | None:
    """Find out whether a plan is hopeless with as many sketches and records as it accepts.

    Where the plan does not state for how many clusters it is, for one. None too for a statistic
    other than ``fourier``, whose quality is not a matter of clusters. Raises as
    :func:`predict_study`.
    """
    if plan.kind != "fourier":
        return None
    return predict_study(
        plan,
        n_records=plan.most_sketches * max(1, plan.most_records),
        n_sketches=plan.most_sketches,
        n_clusters=plan.most_clusters or 1,
        devices_differ=False,
    ).doubt


def _require_sizes(plan: SketchPlan, *, n_records: int, n_sketches: int, n_windows: int) -> None:
    if n_windows > plan.most_sketches_per_device:
        raise ConfigError(
            f"must be at most the plan's most_sketches_per_device = "
            f"{plan.most_sketches_per_device}",
            field="windows",
            fix="lower it, or count other devices",
        )
    mean = n_records / n_sketches
    if mean < max(1, plan.least_records) and not plan.releases_count:
        raise ConfigError(
            f"gives {mean:.6g} a sketch, below the plan's least_records = {plan.least_records}",
            field="n_records",
            fix="count the records of all devices and windows together, or lower --devices or "
            "--windows",
        )
    # What exceeds the most is left out where the unit is a device.
    if mean > plan.most_records and not plan.protects_devices:
        raise ConfigError(
            f"gives {mean:.6g} a sketch, above the plan's most_records = {plan.most_records}",
            field="n_records",
            fix="raise --windows to the number of sketches that a device will send",
        )
    if n_sketches < plan.blocks.n_blocks:
        raise ConfigError(
            f"must be at least {plan.blocks.n_blocks} and are {n_sketches}: each carries "
            f"{plan.n_reports} of the {plan.blocks.n_frequencies} parts of the sum",
            field="sketches",
            fix="raise --devices or --windows",
        )


def count_windows(plan: SketchPlan) -> int | None:
    """Count the windows that begin in a year of 365 days; None for windows by count.

    No more than the sketches that the plan accepts of a device.
    """
    if plan.window.kind != "time":
        return None
    n_slots = math.ceil(_YEAR_S / plan.window.length_s)
    return min(n_slots, plan.window.n_slots or n_slots, plan.most_sketches_per_device)


def describe_windows(plan: SketchPlan) -> str:
    """Describe when a device makes a sketch."""
    window = plan.window
    if window.kind == "count":
        return f"a sketch for every {window.length} records of a stream"
    days = f" ({window.length_s / 86400:g} days)" if window.length_s > 86400 else ""
    length = f"{window.length_s} s{days}"
    if plan.releases_count:
        start = datetime.fromtimestamp(window.origin, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f"a sketch for every {length} since {start}, empty or not, so that nobody "
            "learns when there were records; also for the time before a device joins. Each run "
            "of the agent sends the releases of the run before, so that the time of sending "
            "reveals nothing either"
        )
    if plan.reports_phases:
        return f"a report of the first record of every {length} in which there were records"
    if plan.sum_release is not None:
        return f"a masked sum for every {length} in which there were records"
    if plan.protects_devices:
        return f"a sketch of the mean of every {length} in which there were records"
    few = f"; fewer than {plan.least_records} wait for the next" if plan.least_records > 1 else ""
    return f"a sketch for every {length} in which there were records{few}"


def _describe_records(plan: SketchPlan) -> str:
    if plan.releases_count:
        return (
            "any number in one sketch; released with noise of "
            f"{math.sqrt(plan.count_variance):,.3g} records (standard deviation). The payload has "
            f"room for {plan.most_records}; beyond that released numbers saturate, and privacy "
            "stays as it is"
        )
    if plan.reports_phases:
        return "the first of each window; the others are left out"
    if plan.protects_devices:
        return (
            f"any number in one sketch, which counts as one record; those after the first "
            f"{plan.most_records} of a window are left out"
        )
    return f"{plan.least_records} to {plan.most_records} in one sketch"


def explanation_to_json(plan: SketchPlan, prediction: PlanPrediction | None) -> dict[str, Any]:
    """Return the explanation of a plan as JSON values; rationals are exact text."""
    release, windows = plan.release, count_windows(plan)
    statement = make_statement(plan)
    return {
        "digest": compute_plan_digest(plan).hex(),
        "dimensions": [{"name": d.name, "unit": d.unit} for d in plan.dimensions],
        **_statistic_to_json(plan),
        "release": release.kind,
        "helper": _helper_to_json(plan.sum_release),
        "unit": release.unit,
        "mechanism": release.mechanism,
        "neighbouring": release.neighbouring,
        "scale": str(release.scale),
        "protects": statement.describe(),
        "people": statement.people_to_json(),
        "does_not_protect": list(statement.unprotected),
        "public": [asdict(fact) for fact in statement.public],
        "influence_of_a_liar": dict(zip(("least", "most"), statement.influence, strict=True)),
        "warnings": list(statement.cautions),
        "windows": describe_windows(plan),
        "cost": {
            f"per_{release.unit}": {"epsilon": str(release.epsilon), "delta": str(release.delta)},
            "windows_a_year": windows,
            "lifetime_a_year": None if windows is None else _year_to_json(plan, windows),
        },
        "sketch_bytes": plan.payload_bytes,
        "most_clusters": "unknown" if plan.most_clusters is None else plan.most_clusters,
        "clusters_at_most": find_most_clusters(plan) if plan.kind == "fourier" else None,
        "least_records": plan.least_records,
        "most_records": plan.most_records,
        "prediction": None if prediction is None else _prediction_to_json(plan, prediction),
    }


def _helper_to_json(release: SumRelease | None) -> dict[str, str] | None:
    if release is None or release.helper is None:
        return None
    return {"name": release.helper.name, "identity": release.helper.fingerprint.hex()}


def _year_to_json(plan: SketchPlan, windows: int) -> dict[str, Any]:
    loss = compute_group_loss(plan.mechanism, n_records=1, n_windows=windows)
    return {"epsilon": format_upper(loss.epsilon), "delta": format_upper(loss.delta)}


def _prediction_to_json(plan: SketchPlan, prediction: PlanPrediction) -> dict[str, Any]:
    return {
        "records": prediction.outline.n_records,
        "sketches": prediction.outline.n_sketches,
        "clusters": prediction.outline.n_clusters,
        "snr": prediction.expected.snr,
        "relative_sse": band_to_json(prediction.expected.band),
        "clusters_within_target": prediction.cluster_range.within_target,
        "do_not_run": None if prediction.doubt is None else doubt_to_json(prediction.doubt),
        "assumptions": list(_describe_assumptions(plan, prediction)),
    }


def describe_plan(plan: SketchPlan, prediction: PlanPrediction | None) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions: protection, its limits, costs, and expected quality."""
    statement = make_statement(plan)
    if prediction is not None and prediction.doubt is not None:
        yield "doubt", describe_doubt(prediction.doubt)
    yield "digest", compute_plan_digest(plan).hex()
    yield "dimensions", _describe_dimensions(plan)
    yield from describe_statistic(plan)
    if plan.kind == "fourier":
        yield "clusters", _describe_clusters(plan, prediction)
    yield from (("warning", text) for text in statement.cautions)
    yield "protects", statement.describe()
    yield "not covered", "\n".join(f"- {text}" for text in statement.unprotected)
    yield "public", "\n".join(f"- {fact.what}: {fact.detail}" for fact in statement.public)
    yield "costs", _describe_cost(plan)
    yield "windows", describe_windows(plan)
    if plan.sum_release is not None:
        yield "helper", describe_helper(plan.sum_release)
        yield "batches", describe_batches(plan)
    yield "noise", _describe_noise(plan)
    yield "sketch", _describe_size(plan)
    yield "records", _describe_records(plan)
    if plan.kind == "fourier":
        yield "expect", _describe_prediction(plan, prediction)


def _describe_noise(plan: SketchPlan) -> str:
    release = plan.release
    if isinstance(release, PhaseRelease):
        if plan.kind == "histogram":
            return (
                f"{release.mechanism}: bins at most {release.arc} from the record's are "
                f"{float(release.odds):.4g} times as likely as the others; the share "
                f"{plan.mechanism.gain:.3g} of the reports depends on the record at all"
            )
        share = (2 * release.arc + 1) / PHASES
        return (
            f"{release.mechanism}: phases on the arc of {share:.3g} turns around the record's are "
            f"{float(release.odds):.4g} times as likely as the others; the mean of a report is "
            f"{plan.mechanism.gain:.3g} times the record's feature"
        )
    label = get_mechanism(release.mechanism).label
    if plan.sum_release is not None:
        label = f"once by each of two servers, to the total of each batch: {label}"
    return f"{label} ({release.mechanism}), scale {float(release.scale):.6g} units of the sum"


def describe_batches(plan: SketchPlan) -> str:
    """Describe what is opened together, and when."""
    release = plan.sum_release
    if release is None:
        return "each sketch is released by itself"
    fleet = find_fleet(plan, n_windows=1)
    n_batches = 1 if fleet is None else fleet.n_batches
    return (
        f"{n_batches:,} for every window, {release.parts:,} for each label set, with two draws of "
        f"noise each. A batch waits {release.grace_s:,} s after its window's end, and is opened "
        f"with {release.least_reports:,} reports or more; reports are refused "
        f"{release.late_s / 86400:g} days after it. No record is protected by the number of "
        "reports"
    )


def _describe_size(plan: SketchPlan) -> str:
    if plan.reports_phases:
        what = "phase" if plan.kind == "fourier" else "bin"
        return f"{plan.payload_bytes} bytes, {plan.payload_width} a {what}"
    size = f"{plan.payload_bytes} bytes, {plan.payload_width} a coordinate"
    return f"{size}, for any number of records"


def _describe_clusters(plan: SketchPlan, prediction: PlanPrediction | None) -> str:
    most = find_most_clusters(plan)
    planned = (
        "the plan does not state how many will be requested"
        if plan.most_clusters is None
        else f"planned for up to {plan.most_clusters}"
    )
    words = f"{planned}; {plan.n_frequencies} frequencies allow at most {most}"
    if prediction is None:
        return words
    supported = prediction.cluster_range.describe()
    return f"{words}; with these records, for a target of {TARGET_SSE:g}, {supported}"


def _describe_cost(plan: SketchPlan) -> str:
    level = show_level(plan.release.epsilon, plan.release.delta)
    if plan.protects_devices:
        return f"{level} for all records of a device in a window; {_describe_year(plan)}"
    once = f"{level} for a record, which is in one window"
    if plan.window.kind == "count":
        return (
            f"{once}; once more with every {plan.window.length} records for someone who is in "
            "every window"
        )
    early = (
        ""
        if plan.releases_count
        else f" (a window that closes early at {plan.most_records} records costs it once more)"
    )
    return f"{once}; {_describe_year(plan)}{early}"


def _describe_year(plan: SketchPlan) -> str:
    """Describe the loss of a year, with windows by time."""
    if plan.most_sketches_per_device == 1:
        return "a device sends one sketch in the whole study, so that it costs no more"
    windows = count_windows(plan) or 0
    year = compute_group_loss(plan.mechanism, n_records=1, n_windows=windows)
    return (
        f"at most {show_level(year.epsilon, year.delta)} a year, over {windows} windows, for "
        "someone with a record in every one"
    )


def _describe_prediction(plan: SketchPlan, prediction: PlanPrediction | None) -> str:
    if prediction is None:
        return "for a prediction pass --records, --devices and --clusters"
    outline, expected = prediction.outline, prediction.expected
    size = describe_size(outline.unit, outline.n_records, outline.n_sketches)
    return " ".join(
        (
            f"With {outline.n_clusters} clusters and {size}: "
            f"SNR {show_snr(expected.snr)}, {expected.band.describe()}.",
            *_describe_assumptions(plan, prediction),
        )
    )


def _describe_assumptions(plan: SketchPlan, prediction: PlanPrediction) -> Iterator[str]:
    """Yield the assumptions of a prediction, a sentence or two each."""
    yield from describe_assumptions(prediction.expected.signal_energy)
    if not plan.reports_phases:
        yield from describe_devices(prediction.outline, is_split=plan.is_split)


def _describe_dimensions(plan: SketchPlan) -> str:
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
    elif isinstance(part, MomentsPart):
        yield "moments", _describe_moments(part)
    else:
        yield "clusters", _describe_centres(part)
    if plan.blocks.n_blocks > 1:
        yield "selection", f"at least {plan.blocks.n_blocks:,} sketches, to carry every dimension"


def _statistic_to_json(plan: SketchPlan) -> dict[str, Any]:
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
    elif isinstance(part, ClustersPart):
        document |= {"n_clusters": len(part.centres), "summed": list(part.summed)}
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


def _describe_centres(part: ClustersPart) -> str:
    of = f" of the result {part.result.hex()[:16]}" if part.result else ""
    sums = f", and the sums of {', '.join(part.summed)}" if part.summed else ""
    return (
        f"{len(part.centres)} centres{of} in {', '.join(part.assigned)}: around each the number "
        f"and the spread of its records{sums}"
    )


def _describe_moments(part: MomentsPart) -> str:
    return (
        "means and second moments, for principal components; records are clipped to a ball of "
        f"radius {part.norm_steps / 2047:.3g} half widths of the bounds"
    )
