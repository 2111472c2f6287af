"""Advice in words and tables."""

from __future__ import annotations

import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.table import Table

from analyst.planning.files import show_exact
from learning.estimate.snr import SIGNAL_ENERGY_RANGE
from learning.planning.laws import describe_law
from learning.planning.outline import StudyOutline
from learning.planning.planner import (
    Advice,
    Candidate,
    advise,
    advise_for_unknown_clusters,
    find_smallest_epsilon,
)
from learning.planning.quality import QualityBand
from shared.core import RadiusLaw
from shared.errors import PrivacyError

CAVEATS = (
    "The SNR follows from the mechanism and one assumption: that the signal energy |z|^2 is "
    "{signal:g}. Values from {low:g} (many clusters in few dimensions) to {high:g} were observed, "
    "and the SNR is nearly proportional to it.",
    "The band is a rule of thumb, measured with the mixture decoder on Gaussian clusters and on "
    "hourly weather. It assumes scales close to the true spread and clusters of comparable size; "
    "rare far clusters, and the paper's decoder cl-ompr, give worse results.",
)
PRESENCE = (
    "Under add-remove-one the presence of a record is hidden, so nobody learns how many there are: "
    "every device sends a sketch for every window since the start of the study, empty ones too, "
    "each with the same noise. Windows are by time, sketches are weighted by size only, and the "
    "SNR counts the noise of the number of records."
)


def advise_study(
    outline: StudyOutline,
    *,
    epsilon: Fraction,
    delta: Fraction,
    target_sse: float,
    knows_clusters: bool,
) -> tuple[StudyOutline, Advice]:
    """Recommend a mechanism and a number of frequencies; raises as :func:`advise`.

    Unless ``knows_clusters``, the number of clusters is chosen too, and stands in the outline.
    """
    budget = {"epsilon": epsilon, "delta": delta}
    if not knows_clusters:
        return advise_for_unknown_clusters(outline, **budget, target_sse=target_sse)
    return outline, advise(outline, **budget, target_sse=target_sse)


def find_epsilon(outline: StudyOutline, delta: Fraction, target_sse: float) -> Candidate | None:
    """Find the smallest epsilon that reaches the target; None if no epsilon does."""
    try:
        return find_smallest_epsilon(outline, delta=delta, target_sse=target_sse)
    except PrivacyError:
        return None


def band_to_json(band: QualityBand) -> dict[str, Any]:
    """Return a band as JSON values; an unknown upper end is null."""
    return {
        "low": band.low,
        "high": band.high if math.isfinite(band.high) else None,
        "features_per_parameter": band.features_per_parameter,
        "snr_per_parameter": band.snr_per_parameter,
        "statement": band.describe(),
    }


def advice_to_json(
    outline: StudyOutline, advice: Advice, smallest: Candidate | None
) -> dict[str, Any]:
    """Return advice as JSON values; rationals are exact text."""
    return {
        "records": outline.n_records,
        "sketches": outline.n_sketches,
        "dimensions": outline.n_dimensions,
        "clusters": outline.n_clusters,
        "neighbouring": outline.neighbouring,
        "target_sse": advice.target_sse,
        "meets_target": advice.meets_target,
        "bytes_are_scarce": outline.bytes_are_scarce,
        "clusters_within_target": advice.cluster_range.within_target,
        "clusters_at_most": advice.cluster_range.at_most,
        "recommended": _candidate_to_json(advice.recommended),
        "smallest_epsilon": None if smallest is None else _candidate_to_json(smallest),
        "candidates": [_candidate_to_json(candidate) for candidate in advice.candidates],
        "refused": [
            {
                "mechanism": refusal.mechanism,
                "n_frequencies": refusal.n_frequencies,
                "reason": str(refusal.error),
            }
            for refusal in advice.refusals
        ],
        "assumptions": describe_assumptions(outline.signal_energy),
    }


def _candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "mechanism": candidate.mechanism,
        "n_frequencies": candidate.n_frequencies,
        "measurements_per_record": candidate.measurements_per_record,
        "epsilon": str(candidate.epsilon),
        "delta": str(candidate.delta),
        "snr": candidate.snr,
        "relative_sse": band_to_json(candidate.band),
        "radius_law": asdict(candidate.law_choice.law),
        "sketch_bytes": candidate.sketch_bytes,
    }


def describe_assumptions(signal_energy: float) -> list[str]:
    """Describe the assumptions of a prediction, a sentence or two each."""
    low, high = SIGNAL_ENERGY_RANGE
    return [text.format(signal=signal_energy, low=low, high=high) for text in CAVEATS]


def print_advice(
    console: Console, outline: StudyOutline, advice: Advice, smallest: Candidate | None
) -> None:
    """Print the candidates, the recommendation, its assumptions and the next step."""
    table = Table(
        "", "mechanism", title="Candidates (bytes are those of one sketch)", title_justify="left"
    )
    table.columns[1].no_wrap = True
    for heading in ("m", "m / (k d)", "SNR", "relative SSE", "bytes"):
        table.add_column(heading, justify="right")
    for candidate in advice.candidates:
        table.add_row(
            "->" if candidate == advice.recommended else "",
            _name(candidate),
            str(candidate.n_frequencies),
            f"{candidate.band.features_per_parameter:.3g}",
            show_snr(candidate.snr),
            _show_band(candidate.band),
            f"{candidate.sketch_bytes:,}",
        )
    console.print(table)
    for refusal in advice.refusals:
        console.print(
            f"left out: {refusal.mechanism}, m = {refusal.n_frequencies}: {refusal.error}"
        )
    for paragraph in (
        _describe_choice(advice, bytes_are_scarce=outline.bytes_are_scarce),
        describe_law_choice(advice.recommended),
        _describe_target(advice, smallest),
        *describe_assumptions(outline.signal_energy),
        *([PRESENCE] if outline.hides_presence else []),
        _describe_next(outline, advice.recommended),
    ):
        console.print()
        console.print(paragraph)


def show_snr(snr: float) -> str:
    """Write an SNR with about three digits, without an exponent."""
    return f"{snr:,.0f}" if snr >= 100 else f"{snr:.3g}"


def _show_band(band: QualityBand) -> str:
    high = f"to {band.high:.2f}" if math.isfinite(band.high) else "or more"
    return f"{band.low:.2f} {high}"


def _name(candidate: Candidate) -> str:
    if not candidate.has_masks:
        return candidate.mechanism
    return f"{candidate.mechanism}, r = {candidate.measurements_per_record}"


def _describe_choice(advice: Advice, *, bytes_are_scarce: bool) -> str:
    best = advice.recommended
    level = f"epsilon {show_exact(best.epsilon)}"
    if best.delta:
        level += f" and delta {show_exact(best.delta)}"
    goal = "smallest" if bytes_are_scarce else "best"
    reason = (
        f"the {goal} of the candidates that reach the target, pure epsilon before a delta"
        if advice.meets_target
        else "the lowest band, though no candidate reaches the target"
    )
    return (
        f"Recommended: {best.mechanism} with {best.n_frequencies} frequencies at {level} for each "
        f"record: {best.band.describe()}. It is {reason}. It supports "
        f"{advice.cluster_range.describe()}. It costs {best.sketch_bytes:,} bytes a sketch, "
        "whatever the number of records."
    )


def describe_law_choice(best: Candidate) -> str:
    """Describe in a line the radius law that goes with a candidate, and why."""
    choice = best.law_choice
    return f"Radius law: {describe_law(choice.law)} (w is the scale), because {choice.reason}."


def format_law(law: RadiusLaw) -> str:
    """Write a law as a specification does."""
    tail = f", tail_share = {law.tail_share!r}, tail_high = {law.tail_high!r}"
    return (
        f'radius_law = {{kind = "{law.kind}", sigma_low = {law.sigma_low!r}, '
        f"sigma_high = {law.sigma_high!r}{tail if law.tail_share else ''}}}"
    )


def _describe_target(advice: Advice, smallest: Candidate | None) -> str:
    target = f"relative SSE {advice.target_sse:g}"
    if smallest is None:
        return (
            f"No epsilon brings the whole band to {target}: allow more, gather more records, or "
            "spread them over fewer devices and longer windows."
        )
    return (
        f"The smallest epsilon whose whole band lies within {target} is "
        f"{show_exact(smallest.epsilon)}, with {smallest.mechanism} and "
        f"{smallest.n_frequencies} frequencies."
    )


def _describe_next(outline: StudyOutline, best: Candidate) -> str:
    return (
        "Next: make a plan with `sfumato plan new`, which asks for the rest, or put "
        f"n_frequencies = {best.n_frequencies}, most_clusters = {outline.n_clusters}, "
        f'mechanism = "{best.mechanism}", '
        f'epsilon = "{best.epsilon}", delta = "{best.delta}", '
        f'neighbouring = "{outline.neighbouring}" and {format_law(best.law_choice.law)} into a '
        "specification; then `sfumato plan show` explains it."
    )
