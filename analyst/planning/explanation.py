"""A plan in plain words: protection, its limits, costs, and expected quality."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sfumato.analyst.planning.advice import describe_assumptions
from sfumato.analyst.planning.bands import band_to_json, show_snr
from sfumato.analyst.planning.doubts import Doubt, find_doubt
from sfumato.analyst.planning.fleets import describe_devices, describe_size
from sfumato.analyst.planning.statistics import (
    describe_dimensions,
    describe_statistic,
    statistic_to_json,
)
from sfumato.analyst.planning.trust import Fleet
from sfumato.learning.planning.candidates import predict_mechanism
from sfumato.learning.planning.outline import FEATURES_PER_PARAMETER, StudyOutline
from sfumato.learning.planning.quality import ClusterRange, QualityBand, find_cluster_range
from sfumato.shared.core.features import PHASES
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import (
    PhaseRelease,
    SketchPlan,
    SumRelease,
    compute_plan_digest,
    describe_helper,
    make_statement,
)
from sfumato.shared.plan.statement import show_level
from sfumato.shared.privacy import get_mechanism
from sfumato.shared.privacy.group import compute_group_loss, format_upper

_YEAR_S = 365 * 86400
_TARGET_SSE = 1.1


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The predicted quality of a plan for a number of records.

    Parameters
    ----------
    unit
        ``record``, or ``device`` where a sketch counts as one record.
    n_records, n_sketches, n_clusters
        n, of all sketches together; L; and k.
    snr, band
        SNR of the global sketch, and the relative SSE that follows.
    cluster_range
        Numbers of clusters that the plan supports, for a relative SSE of 1.1.
    assumptions
        The assumptions of the prediction, a sentence or two each.
    doubt
        Why not to run the study at all; None where there is hope.
    """

    unit: str
    n_records: int
    n_sketches: int
    n_clusters: int
    snr: float
    band: QualityBand
    cluster_range: ClusterRange
    assumptions: tuple[str, ...]
    doubt: Doubt | None


def predict_plan(
    plan: SketchPlan,
    *,
    n_records: int,
    n_sketches: int,
    n_clusters: int,
    n_windows: int = 1,
    devices_differ: bool = True,
) -> Prediction:
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
    ConfigError
        The mean number of records in a sketch is not one that the plan allows, or there are too few
        sketches to carry every frequency, or more of one device than the plan accepts.
    PrivacyError
        There are more clusters than the frequencies of any plan allow.
    """
    _require_sizes(plan, n_records=n_records, n_sketches=n_sketches, n_windows=n_windows)
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
    return Prediction(
        unit=outline.unit,
        n_records=n_records,
        n_sketches=n_sketches,
        n_clusters=n_clusters,
        snr=expected.snr,
        band=expected.band,
        cluster_range=find_cluster_range(
            snr=expected.snr,
            n_frequencies=plan.n_frequencies,
            n_dimensions=len(plan.axes),
            target_sse=_TARGET_SSE,
        ),
        assumptions=(
            *describe_assumptions(expected.signal_energy),
            *([] if plan.reports_phases else describe_devices(outline, is_split=plan.is_split)),
        ),
        doubt=find_doubt(
            outline,
            expected.band,
            epsilon=plan.release.epsilon,
            delta=plan.release.delta,
            target_sse=_TARGET_SSE,
        ),
    )


def find_fleet(plan: SketchPlan, *, n_windows: int) -> Fleet | None:
    """Return the batches of a secure sum in so many windows; None of other plans."""
    if plan.sum_release is None:
        return None
    n_label_sets = math.prod(len(label.values) for label in plan.labels)
    return Fleet(n_groups=n_windows * n_label_sets, parts=plan.sum_release.parts)


def find_limit_doubt(plan: SketchPlan) -> Doubt | None:
    """Find out whether a plan is hopeless with as many sketches and records as it accepts.

    Where the plan does not state for how many clusters it is, for one. None too for a statistic
    other than ``fourier``, whose quality is not a matter of clusters. Raises as
    :func:`predict_plan`.
    """
    if plan.kind != "fourier":
        return None
    return predict_plan(
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


def explanation_to_json(plan: SketchPlan, prediction: Prediction | None) -> dict[str, Any]:
    """Return the explanation of a plan as JSON values; rationals are exact text."""
    release, windows = plan.release, count_windows(plan)
    statement = make_statement(plan)
    return {
        "digest": compute_plan_digest(plan).hex(),
        "dimensions": [{"name": d.name, "unit": d.unit} for d in plan.dimensions],
        **statistic_to_json(plan),
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
        "prediction": None if prediction is None else _prediction_to_json(prediction),
    }


def _helper_to_json(release: SumRelease | None) -> dict[str, str] | None:
    if release is None or release.helper is None:
        return None
    return {"name": release.helper.name, "identity": release.helper.fingerprint.hex()}


def _year_to_json(plan: SketchPlan, windows: int) -> dict[str, Any]:
    loss = compute_group_loss(plan.mechanism, n_records=1, n_windows=windows)
    return {"epsilon": format_upper(loss.epsilon), "delta": format_upper(loss.delta)}


def _prediction_to_json(prediction: Prediction) -> dict[str, Any]:
    return {
        "records": prediction.n_records,
        "sketches": prediction.n_sketches,
        "clusters": prediction.n_clusters,
        "snr": prediction.snr,
        "relative_sse": band_to_json(prediction.band),
        "clusters_within_target": prediction.cluster_range.within_target,
        "do_not_run": None if prediction.doubt is None else prediction.doubt.to_json(),
        "assumptions": list(prediction.assumptions),
    }


def describe_plan(plan: SketchPlan, prediction: Prediction | None) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions: protection, its limits, costs, and expected quality."""
    statement = make_statement(plan)
    if prediction is not None and prediction.doubt is not None:
        yield "doubt", prediction.doubt.describe()
    yield "digest", compute_plan_digest(plan).hex()
    yield "dimensions", describe_dimensions(plan)
    yield from describe_statistic(plan)
    if plan.kind == "fourier":
        yield "clusters", _describe_clusters(plan, prediction)
    yield from (("warning", text) for text in statement.cautions)
    yield "protects", statement.guarantee
    if statement.times is not None:
        yield "times", statement.times
    yield "people", statement.describe_people()
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
        yield "expect", _describe_prediction(prediction)


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


def find_most_clusters(plan: SketchPlan) -> int:
    """Return the largest number of clusters that the frequencies can tell apart at all."""
    return plan.n_frequencies // (FEATURES_PER_PARAMETER[0] * len(plan.axes))


def _describe_clusters(plan: SketchPlan, prediction: Prediction | None) -> str:
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
    return f"{words}; with these records, for a target of {_TARGET_SSE:g}, {supported}"


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


def _describe_prediction(prediction: Prediction | None) -> str:
    if prediction is None:
        return "for a prediction pass --records, --devices and --clusters"
    size = describe_size(prediction.unit, prediction.n_records, prediction.n_sketches)
    return " ".join(
        (
            f"With {prediction.n_clusters} clusters and {size}: "
            f"SNR {show_snr(prediction.snr)}, {prediction.band.describe()}.",
            *prediction.assumptions,
        )
    )
