"""Candidates in words and as JSON: quality, small sketches, and phase reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.outline import ROUGH_SSE, StudyOutline, round_up
from sfumato.learning.planning.planner import Advice
from sfumato.learning.planning.quality import QualityBand

UNIT_WORDS: Final = {"record": "each record", "device": "all records of a device in a window"}
"""Units that a plan may protect, in words."""
COUNTS_AS_ONE = (
    "Each sketch counts as one record, whatever the number of records in its window, because all "
    "of them together are protected as one."
)
ALIKE = (
    "All devices are taken to hold the same kinds of records. If they do not, the result is worse "
    "than predicted, because few devices carry each frequency."
)
DIFFER = (
    "Devices may hold different kinds of records. A frequency that few devices carry is then less "
    "exact, which limits how few frequencies a sketch may carry. If all devices hold the same "
    "kinds, pass --devices-alike."
)


def band_to_json(band: QualityBand) -> dict[str, Any]:
    """Return a band as JSON values; an unknown upper end is null."""
    return {
        "low": band.low,
        "high": band.high if math.isfinite(band.high) else None,
        "features_per_parameter": band.features_per_parameter,
        "snr_per_parameter": band.snr_per_parameter,
        "statement": band.describe(),
    }


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as JSON values; rationals are exact text."""
    return {
        "release": candidate.release,
        "unit": candidate.unit,
        "mechanism": candidate.mechanism,
        "n_frequencies": candidate.n_frequencies,
        "frequencies_per_sketch": candidate.frequencies_per_sketch,
        "shortest_selection": candidate.shortest_selection,
        "measurements_per_record": candidate.measurements_per_record,
        "epsilon": str(candidate.epsilon),
        "delta": str(candidate.delta),
        "snr": candidate.snr,
        "relative_sse": band_to_json(candidate.band),
        "radius_law": asdict(candidate.law_choice.law),
        "sketch_bytes": candidate.sketch_bytes,
    }


def show_snr(snr: float) -> str:
    """Write an SNR with about three digits, without an exponent."""
    return f"{snr:,.0f}" if snr >= 100 else f"{snr:.3g}"


def show_band(band: QualityBand) -> str:
    """Write both ends of a band."""
    high = f"to {band.high:.2f}" if math.isfinite(band.high) else "or more"
    return f"{band.low:.2f} {high}"


def describe_split(best: Candidate, n_sketches: int) -> str | None:
    """Describe why a sum carries only some frequencies; None where it carries all."""
    if not best.is_split or best.reports_phases:
        return None
    return (
        f"Each sketch carries {best.frequencies_per_sketch:,} of the {best.n_frequencies:,} "
        f"frequencies, because {n_sketches:,} sketches would otherwise add {n_sketches:,} times "
        "the noise of one."
    )


def describe_selection(shortest: int, *, n_devices: int | None = None, n_windows: int = 1) -> str:
    """Describe the shortest selection that can be decoded.

    Parameters
    ----------
    shortest
        The fewest sketches that carry every frequency.
    n_devices, n_windows
        Devices and windows of the study, where they are known.
    """
    if shortest == 1:
        return "1 sketch: each carries every frequency"
    words = f"{shortest:,} sketches, because fewer cannot carry every frequency"
    ways = [] if n_devices is None else list(_list_ways(shortest, n_devices, n_windows))
    return f"{words}; for instance {', or '.join(ways)}" if ways else words


def _list_ways(shortest: int, n_devices: int, n_windows: int) -> Iterator[str]:
    if n_devices >= shortest:
        yield f"one window of {shortest:,} devices that enrolled one after another"
    elif n_devices > 1:
        yield f"at least {-(-shortest // n_devices):,} windows of all {n_devices:,} devices"
    if n_devices == 1 or n_windows >= shortest:
        yield f"{shortest:,} successive windows of one device"


def describe_devices(outline: StudyOutline, *, is_split: bool) -> Iterator[str]:
    """Describe what is assumed about the devices that send sums, where it matters."""
    if outline.protects_devices:
        yield COUNTS_AS_ONE
    elif outline.is_summed:
        return
    elif outline.devices_differ and outline.n_sketches > 1:
        yield DIFFER
    elif is_split and not outline.devices_differ:
        yield ALIKE


def describe_phases(advice: Advice) -> str | None:
    """Describe why devices report phases; None where they do not."""
    best, other = advice.recommended, advice.best_sum
    if not best.reports_phases:
        return None
    if other is None:
        reason = "no noise of a sum can be calibrated"
    elif other.band.high < best.band.high:
        reason = (
            f"the best sum, for a relative SSE of {show_band(other.band)}, takes "
            f"{other.sketch_bytes:,} bytes"
        )
    else:
        reason = (
            f"the best sum that it noises itself gives a relative SSE of {show_band(other.band)}"
        )
    return (
        f"Each device reports a noisy phase of {best.frequencies_per_sketch:,} of the "
        f"{best.n_frequencies:,} frequencies, because {reason}."
    )


def describe_promise(outline: StudyOutline, *, n_windows: int) -> Iterator[str]:
    """Describe what phase reports protect, and which records they leave out.

    Parameters
    ----------
    outline
        The study.
    n_windows
        The sketches of one device.
    """
    yield (
        "A report depends on the first record of a window alone, so that all records of a device "
        "in a window are protected together. Windows must be by time."
    )
    if n_windows == 1:
        yield (
            "A device reports once in the whole study, unless most_sketches_per_device allows "
            "more. Each further report costs it epsilon once more."
        )
    else:
        yield (
            f"A device reports only once unless most_sketches_per_device allows more. Here it has "
            f"to be {n_windows:,}, which costs a device up to {n_windows:,} times epsilon."
        )
    if outline.n_records > outline.n_sketches:
        yield f"So {outline.n_sketches:,} of the {outline.n_records:,} records count."


def describe_need(reports_needed: int | None, *, n_windows: int) -> str:
    """Describe how many reports reach a relative SSE of ``ROUGH_SSE``."""
    target = f"a relative SSE of {ROUGH_SSE:g}"
    if reports_needed is None:
        return f"No number of devices suffices for {target}."
    number = f"{round_up(reports_needed):,}"
    if n_windows == 1:
        return f"About {number} devices are needed for {target}."
    return f"About {number} reports are needed for {target}, {n_windows:,} from each device."


def phases_to_json(
    outline: StudyOutline, reports_needed: int | None, *, n_windows: int
) -> dict[str, Any]:
    """Return what phase reports promise and need as JSON values."""
    return {
        "promise": " ".join(describe_promise(outline, n_windows=n_windows)),
        "reports_needed": reports_needed,
        "for_relative_sse": ROUGH_SSE,
        "statement": describe_need(reports_needed, n_windows=n_windows),
    }
