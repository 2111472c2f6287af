"""Phase reports in words: why, what they promise, and how many devices they need."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sfumato.analyst.planning.bands import show_band
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import Advice

REPORTS_TARGET = 1.2
"""The relative SSE for which the needed number of reports is stated."""


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
    """Describe how many reports reach a relative SSE of ``REPORTS_TARGET``."""
    target = f"a relative SSE of {REPORTS_TARGET:g}"
    if reports_needed is None:
        return f"No number of devices suffices for {target}."
    number = f"{round_up(reports_needed):,}"
    if n_windows == 1:
        return f"About {number} devices are needed for {target}."
    return f"About {number} reports are needed for {target}, {n_windows:,} from each device."


def round_up(number: int) -> int:
    """Round a positive whole number up to two digits."""
    step: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return -(-number // step) * step


def phases_to_json(
    outline: StudyOutline, reports_needed: int | None, *, n_windows: int
) -> dict[str, Any]:
    """Return what phase reports promise and need as JSON values."""
    return {
        "promise": " ".join(describe_promise(outline, n_windows=n_windows)),
        "reports_needed": reports_needed,
        "for_relative_sse": REPORTS_TARGET,
        "statement": describe_need(reports_needed, n_windows=n_windows),
    }
