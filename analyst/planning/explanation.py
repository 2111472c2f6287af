"""A plan in plain words: protection, its limits, costs, and expected quality."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from analyst.planning.advice import describe_assumptions
from analyst.planning.bands import band_to_json, show_snr
from analyst.planning.fleets import describe_devices, describe_selection
from learning.estimate.snr import DEFAULT_SIGNAL_ENERGY, DEVICE_VARIANCE, predict_mechanism_snr
from learning.planning.laws import describe_law
from learning.planning.outline import FEATURES_PER_PARAMETER
from learning.planning.quality import (
    ClusterRange,
    QualityBand,
    find_cluster_range,
    predict_relative_sse,
)
from shared.errors import ConfigError
from shared.plan import SketchPlan, compute_plan_digest, make_statement
from shared.plan.statement import show_level
from shared.privacy import get_mechanism
from shared.privacy.group import compute_group_loss, format_upper

_YEAR_S = 365 * 86400
_TARGET_SSE = 1.1


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The predicted quality of a plan for a number of records.

    Parameters
    ----------
    n_records, n_sketches, n_clusters
        n, of all sketches together; L; and k.
    snr, band
        SNR of the global sketch, and the relative SSE that follows.
    cluster_range
        Numbers of clusters that the plan supports, for a relative SSE of 1.1.
    assumptions
        What the prediction assumes, a sentence or two each.
    """

    n_records: int
    n_sketches: int
    n_clusters: int
    snr: float
    band: QualityBand
    cluster_range: ClusterRange
    assumptions: tuple[str, ...]


def predict_plan(
    plan: SketchPlan,
    *,
    n_records: int,
    n_sketches: int,
    n_clusters: int,
    devices_differ: bool = True,
) -> Prediction:
    """Predict the quality that a plan gives.

    Parameters
    ----------
    plan
        The plan.
    n_records, n_sketches, n_clusters
        n, of all sketches together; L; and k.
    devices_differ
        Whether devices may hold different kinds of records.

    Raises
    ------
    ConfigError
        The mean number of records in a sketch is not one that the plan allows, or there are too few
        sketches to carry every frequency.
    """
    _require_sizes(plan, n_records=n_records, n_sketches=n_sketches)
    snr = predict_mechanism_snr(
        plan.mechanism,
        n_sketches=n_sketches,
        n_records=n_records,
        amplitude=plan.amplitude,
        alpha=plan.alpha,
        count_variance=plan.count_variance,
        n_blocks=plan.blocks.n_blocks,
        device_variance=DEVICE_VARIANCE if devices_differ else 0.0,
    )
    band = predict_relative_sse(
        snr=snr,
        n_frequencies=plan.n_frequencies,
        n_clusters=n_clusters,
        n_dimensions=plan.n_dimensions,
    )
    return Prediction(
        n_records=n_records,
        n_sketches=n_sketches,
        n_clusters=n_clusters,
        snr=snr,
        band=band,
        cluster_range=find_cluster_range(
            snr=snr,
            n_frequencies=plan.n_frequencies,
            n_dimensions=plan.n_dimensions,
            target_sse=_TARGET_SSE,
        ),
        assumptions=(
            *describe_assumptions(DEFAULT_SIGNAL_ENERGY),
            *describe_devices(
                devices_differ=devices_differ and plan.is_split,
                n_sketches=n_sketches,
                is_split=plan.is_split,
            ),
        ),
    )


def _require_sizes(plan: SketchPlan, *, n_records: int, n_sketches: int) -> None:
    mean = n_records / n_sketches
    if mean < max(1, plan.least_records) and not plan.releases_count:
        raise ConfigError(
            f"gives {mean:.6g} a sketch, below the plan's least_records = {plan.least_records}",
            field="n_records",
            fix="count the records of all devices and windows together, or lower --devices or "
            "--windows",
        )
    if mean > plan.most_records:
        raise ConfigError(
            f"gives {mean:.6g} a sketch, above the plan's most_records = {plan.most_records}",
            field="n_records",
            fix="raise --windows to the number of sketches that a device will send",
        )
    if n_sketches < plan.blocks.n_blocks:
        raise ConfigError(
            f"must be at least {plan.blocks.n_blocks} and are {n_sketches}: each carries "
            f"{plan.frequencies_per_sketch} of the {plan.n_frequencies} frequencies",
            field="sketches",
            fix="raise --devices or --windows",
        )


def count_windows(plan: SketchPlan) -> int | None:
    """Count the windows that begin in a year of 365 days; None for windows by count."""
    if plan.window.kind != "time":
        return None
    return math.ceil(_YEAR_S / plan.window.length_s)


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
    return (
        f"a sketch for every {length} in which there were records; fewer than "
        f"{plan.least_records} wait for the next"
    )


def _describe_records(plan: SketchPlan) -> str:
    if plan.releases_count:
        return (
            "any number in one sketch; released with noise of "
            f"{math.sqrt(plan.count_variance):,.3g} records (standard deviation). The payload has "
            f"room for {plan.most_records}; beyond that released numbers saturate, and privacy "
            "stays as it is"
        )
    return f"{plan.least_records} to {plan.most_records} in one sketch"


def explanation_to_json(plan: SketchPlan, prediction: Prediction | None) -> dict[str, Any]:
    """Return the explanation of a plan as JSON values; rationals are exact text."""
    release, windows = plan.release, count_windows(plan)
    statement = make_statement(plan)
    return {
        "digest": compute_plan_digest(plan).hex(),
        "dimensions": [{"name": d.name, "unit": d.unit} for d in plan.dimensions],
        "n_frequencies": plan.n_frequencies,
        "frequencies_per_sketch": plan.frequencies_per_sketch,
        "shortest_selection": plan.blocks.n_blocks,
        "measurements_per_record": plan.measurements_per_record,
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
            "per_record": {"epsilon": str(release.epsilon), "delta": str(release.delta)},
            "windows_a_year": windows,
            "lifetime_a_year": None if windows is None else _year_to_json(plan, windows),
        },
        "sketch_bytes": plan.payload_bytes,
        "most_clusters": "unknown" if plan.most_clusters is None else plan.most_clusters,
        "clusters_at_most": find_most_clusters(plan),
        "least_records": plan.least_records,
        "most_records": plan.most_records,
        "prediction": None if prediction is None else _prediction_to_json(prediction),
    }


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
        "assumptions": list(prediction.assumptions),
    }


def describe_plan(plan: SketchPlan, prediction: Prediction | None) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions: protection, its limits, costs, and expected quality."""
    release, statement = plan.release, make_statement(plan)
    yield "digest", compute_plan_digest(plan).hex()
    yield "dimensions", ", ".join(f"{d.name} ({d.unit})" for d in plan.dimensions)
    yield "frequencies", _describe_frequencies(plan)
    yield "selection", f"at least {describe_selection(plan.blocks.n_blocks)}"
    yield "radius law", f"{describe_law(plan.radius_law)}; w is the scale"
    yield "clusters", _describe_clusters(plan, prediction)
    yield from (("warning", text) for text in statement.cautions)
    yield "protects", statement.guarantee
    yield "people", statement.describe_people()
    yield "not covered", "\n".join(f"- {text}" for text in statement.unprotected)
    yield "public", "\n".join(f"- {fact.what}: {fact.detail}" for fact in statement.public)
    yield "costs", _describe_cost(plan)
    yield "windows", describe_windows(plan)
    label, scale = get_mechanism(release.mechanism).label, float(release.scale)
    yield "noise", f"{label} ({release.mechanism}), scale {scale:.6g} units of the sum"
    yield (
        "sketch",
        f"{plan.payload_bytes} bytes, {plan.payload_width} a coordinate, for any number of records",
    )
    yield "records", _describe_records(plan)
    yield "expect", _describe_prediction(prediction)


def _describe_frequencies(plan: SketchPlan) -> str:
    if plan.is_split:
        return (
            f"{plan.n_frequencies}; a sketch carries {plan.frequencies_per_sketch}, and noise for "
            "these alone"
        )
    return f"{plan.n_frequencies}; a record uses {plan.measurements_per_record}"


def find_most_clusters(plan: SketchPlan) -> int:
    """Return the largest number of clusters that the frequencies can tell apart at all."""
    return plan.n_frequencies // (FEATURES_PER_PARAMETER[0] * plan.n_dimensions)


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
    epsilon, delta, windows = plan.release.epsilon, plan.release.delta, count_windows(plan)
    once = f"{show_level(epsilon, delta)} for a record, which is in one window"
    if windows is None:
        return (
            f"{once}; once more with every {plan.window.length} records for someone who is in "
            "every window"
        )
    year = compute_group_loss(plan.mechanism, n_records=1, n_windows=windows)
    early = (
        ""
        if plan.releases_count
        else f" (a window that closes early at {plan.most_records} records costs it once more)"
    )
    return (
        f"{once}; at most {show_level(year.epsilon, year.delta)} a year, over {windows} windows, "
        f"for someone with a record in every one{early}"
    )


def _describe_prediction(prediction: Prediction | None) -> str:
    if prediction is None:
        return "for a prediction pass --records, --devices and --clusters"
    return " ".join(
        (
            f"With {prediction.n_records:,} records in {prediction.n_sketches:,} sketches and "
            f"{prediction.n_clusters} clusters: SNR {show_snr(prediction.snr)}, "
            f"{prediction.band.describe()}.",
            *prediction.assumptions,
        )
    )
