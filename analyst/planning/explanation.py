"""A plan in plain words: what it protects and what not, what it costs, what to expect of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.table import Table

from analyst.planning.advice import band_to_json, describe_assumptions, show_snr
from analyst.planning.files import show_exact
from shared.errors import ConfigError
from shared.plan import SketchPlan, compute_plan_digest
from shared.privacy.laws import describe_law
from shared.privacy.utility import (
    DEFAULT_SIGNAL_ENERGY,
    QualityBand,
    predict_mechanism_snr,
    predict_relative_sse,
)

_YEAR_S = 365 * 86400


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a plan is predicted to give for so many records.

    Parameters
    ----------
    n_records, n_sketches, n_clusters
        n, all sketches together; L; and k.
    snr, band
        Of the global sketch, and the relative SSE that follows.
    """

    n_records: int
    n_sketches: int
    n_clusters: int
    snr: float
    band: QualityBand


def predict_plan(
    plan: SketchPlan, *, n_records: int, n_sketches: int, n_clusters: int
) -> Prediction:
    """Predict the quality that a plan gives.

    Raises
    ------
    ConfigError
        The mean number of records in a sketch is not one that the plan allows.
    """
    mean = n_records / n_sketches
    is_short = mean < plan.least_records and not plan.releases_count
    if is_short or (n_records < n_sketches and not plan.releases_count):
        raise ConfigError(
            f"gives {mean:.6g} a sketch, below the plan's least_records = {plan.least_records}",
            field="--records",
            fix="count the records of all devices and windows together, or lower --devices or "
            "--windows",
        )
    if mean > plan.most_records:
        raise ConfigError(
            f"gives {mean:.6g} a sketch, above the plan's most_records = {plan.most_records}",
            field="--records",
            fix="raise --windows to the number of sketches that a device will send",
        )
    snr = predict_mechanism_snr(
        plan.mechanism,
        n_sketches=n_sketches,
        n_records=n_records,
        amplitude=plan.amplitude,
        alpha=plan.alpha,
        count_variance=plan.count_variance,
    )
    band = predict_relative_sse(
        snr=snr,
        n_frequencies=plan.n_frequencies,
        n_clusters=n_clusters,
        n_dimensions=plan.n_dimensions,
    )
    return Prediction(
        n_records=n_records, n_sketches=n_sketches, n_clusters=n_clusters, snr=snr, band=band
    )


def count_windows(plan: SketchPlan) -> int | None:
    """Count the windows that begin in a year of 365 days; None for windows by count."""
    if plan.window.kind != "time":
        return None
    return math.ceil(_YEAR_S / plan.window.length_s)


def describe_unprotected(plan: SketchPlan) -> list[str]:
    """Say what the guarantee does not cover."""
    presence = "that and when a device takes part"
    if not plan.releases_count:
        presence += ", and how many records it has"
    return [
        presence,
        _describe_people(plan.max_records_per_person, plan.release.epsilon),
        "people with records in several windows or on several devices: their losses add up",
        "a stolen device, which holds the exact sum of its open window",
        "the result against a device that lies: one sketch can move the sum as far as its largest "
        "number of records can",
    ]


def _describe_people(q: int | None, epsilon: Fraction) -> str:
    if q is None:
        return (
            "a person's records as a whole: the plan does not know how many one person can have in "
            "a window"
        )
    if q == 1:
        return "a second record of one person in a window: the plan says that there is none"
    return (
        f"a person's records as a whole at the same epsilon: the plan allows {q} in a window, "
        f"protected at epsilon {show_exact(q * epsilon)} together"
    )


def describe_windows(plan: SketchPlan) -> str:
    """Say when a device makes a sketch."""
    window = plan.window
    if window.kind == "count":
        return f"a sketch for every {window.length} records of a stream"
    if plan.releases_count:
        start = datetime.fromtimestamp(window.origin, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f"a sketch for every {window.length_s} s since {start}, empty or not, so that nobody "
            "learns when there were records; also for the time before a device joins. What a run "
            "of the agent releases is sent by its next run, so that the time of sending tells "
            "nothing either"
        )
    return (
        f"a sketch for every {window.length_s} s in which there were records; fewer than "
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
    """Return all that there is to say about a plan as JSON values; rationals are exact text."""
    release, windows = plan.release, count_windows(plan)
    return {
        "digest": compute_plan_digest(plan).hex(),
        "dimensions": [{"name": d.name, "unit": d.unit} for d in plan.dimensions],
        "n_frequencies": plan.n_frequencies,
        "measurements_per_record": plan.measurements_per_record,
        "mechanism": release.mechanism,
        "neighbouring": release.neighbouring,
        "scale": str(release.scale),
        "protects": plan.mechanism.guarantee.describe(),
        "does_not_protect": describe_unprotected(plan),
        "windows": describe_windows(plan),
        "cost": {
            "per_record": {"epsilon": str(release.epsilon), "delta": str(release.delta)},
            "windows_a_year": windows,
            "lifetime_a_year": None
            if windows is None
            else {
                "epsilon": str(windows * release.epsilon),
                "delta": str(windows * release.delta),
            },
        },
        "sketch_bytes": plan.payload_bytes,
        "least_records": plan.least_records,
        "most_records": plan.most_records,
        "prediction": None if prediction is None else _prediction_to_json(prediction),
    }


def _prediction_to_json(prediction: Prediction) -> dict[str, Any]:
    return {
        "records": prediction.n_records,
        "sketches": prediction.n_sketches,
        "clusters": prediction.n_clusters,
        "snr": prediction.snr,
        "relative_sse": band_to_json(prediction.band),
        "assumptions": describe_assumptions(DEFAULT_SIGNAL_ENERGY),
    }


def print_explanation(console: Console, plan: SketchPlan, prediction: Prediction | None) -> None:
    """Print what a plan protects, what not, what it costs, and what to expect."""
    release = plan.release
    rows = [
        ("digest", compute_plan_digest(plan).hex()),
        ("dimensions", ", ".join(f"{d.name} ({d.unit})" for d in plan.dimensions)),
        ("frequencies", f"{plan.n_frequencies}, {plan.measurements_per_record} a record"),
        ("radius law", f"{describe_law(plan.radius_law)}, w being the scale"),
        ("protects", plan.mechanism.guarantee.describe()),
        ("does not", "\n".join(f"- {text}" for text in describe_unprotected(plan))),
        ("costs", _describe_cost(plan)),
        ("windows", describe_windows(plan)),
        ("noise", f"{release.mechanism}, scale {float(release.scale):.6g} units of the sum"),
        (
            "sketch",
            f"{plan.payload_bytes} bytes, {plan.payload_width} a coordinate, whatever the number "
            "of records",
        ),
        ("records", _describe_records(plan)),
        ("expect", _describe_prediction(prediction)),
    ]
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        # Names and units come from the plan: they are text, not markup.
        table.add_row(*row)
    console.print(table, markup=False)


def _describe_cost(plan: SketchPlan) -> str:
    epsilon, delta, windows = plan.release.epsilon, plan.release.delta, count_windows(plan)
    once = f"{_show_level(epsilon, delta)} for a record, which is in one window"
    if windows is None:
        return (
            f"{once}; {_show_level(epsilon, delta)} more with every {plan.window.length} records "
            "for someone who is in every window"
        )
    early = (
        ""
        if plan.releases_count
        else f" (a window that closes early at {plan.most_records} records costs it once more)"
    )
    return (
        f"{once}; at most {_show_level(windows * epsilon, windows * delta)} a year, the sum over "
        f"{windows} windows, for someone who is in every one{early}"
    )


def _show_level(epsilon: Fraction, delta: Fraction) -> str:
    level = f"epsilon {show_exact(epsilon)}"
    return f"{level} and delta {show_exact(delta)}" if delta else level


def _describe_prediction(prediction: Prediction | None) -> str:
    if prediction is None:
        return "say how much there will be with --records, --devices and --clusters"
    return " ".join(
        (
            f"With {prediction.n_records:,} records in {prediction.n_sketches:,} sketches and "
            f"{prediction.n_clusters} clusters: SNR {show_snr(prediction.snr)}, "
            f"{prediction.band.describe()}.",
            *describe_assumptions(DEFAULT_SIGNAL_ENERGY),
        )
    )
