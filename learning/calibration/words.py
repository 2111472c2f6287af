"""Findings of a calibration in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sfumato.learning.calibration.calibration import Calibration
from sfumato.learning.calibration.columns import Finding
from sfumato.learning.calibration.drift import BlockDrift, ColumnDrift
from sfumato.learning.calibration.strength import (
    LEAST_REPORTED,
    LEAST_STRENGTH,
    Refusal,
    round_up_level,
)

_SENTENCES = {
    "weak": "no values stand out from the noise, so the place is a guess",
    "outside": "{share:.0%} of the values lie outside the pilot's bounds, where it "
    "cannot tell them apart: run a pilot with bounds that hold them, NAME:UNIT:LOWER..UPPER",
    "beyond": "{share:.0%} of the values lie outside the pilot's bounds",
    "constant": "all values lie between {lower:.4g} and {upper:.4g}, which this pilot cannot tell "
    "apart: left out as a constant (if they vary, a pilot with these bounds would show it)",
    "narrow": "nearly all values lie in one or two bins, so the spread is a guess: a second pilot "
    "with bounds {lower:.4g} and {upper:.4g} would show it",
    "flag": "two values, near {lower:.4g} and {upper:.4g}, hold nearly all records, {share:.0%} of "
    "them the larger: k-means on a flag is rarely meant",
    "missing": "{share:.0%} of the values are missing",
    "log": "values spread over octaves from {lower:.4g} to {upper:.4g}: on the logarithmic scale a "
    "centroid is a typical value, not a mean",
    "tail": "few far values, within {lower:.4g} and {upper:.4g}, hold {share:.0%} of the variance",
    "hidden": "far values may hide in the pilot's noise: long tails fit what it shows as well as "
    "none, and would hold about {share:.0%} of the variance",
    "apart": "{share:.0%} of the values, many of them between {lower:.4g} and {upper:.4g}, lie so "
    "far from the others that these look like one value",
    "unplaced": "{share:.0%} of the values lie where the pilot's noise hides them, so bounds and "
    "scale are a guess: more records or epsilon for the pilot would show them",
}


def describe_finding(finding: Finding) -> str:
    """Return one finding as a clause."""
    share, lower, upper = finding.share, finding.lower, finding.upper
    return _SENTENCES[finding.code].format(share=share, lower=lower, upper=upper)


def describe_columns(calibration: Calibration, units: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each column with its unit, its scale and its findings in words, by name."""
    return [
        {
            **vars(column),
            "unit": units[column.name],
            "scale": calibration.find_scale(column),
            "codes": [finding.code for finding in column.findings],
            "findings": [describe_finding(finding) for finding in column.findings],
        }
        for column in calibration.columns
    ]


def describe_refusal(refusal: Refusal, *, n_records: float, epsilon: float) -> str:
    """Return why a pilot is too weak, and what would do.

    Parameters
    ----------
    n_records, epsilon
        Size and epsilon of the pilot; records that report a bin are the reports of one dimension
        or another.
    """
    needed = f"{round_up_level(n_records * refusal.factor):,.0f}"
    level = round_up_level(epsilon * refusal.epsilon_factor)
    if refusal.are_reports:
        way = f" or epsilon {level:g}" if math.isfinite(level) else ""
        return (
            f"too few devices for a pilot: the strength of their reports is {refusal.strength:.3g},"
            f" below {LEAST_REPORTED:g}; {needed} reports{way} would do"
        )
    return (
        f"too few records for a pilot: n epsilon / (d sqrt L) is {refusal.strength:.3g}, below "
        f"{LEAST_STRENGTH:g}; {needed} records or epsilon {level:g} would do"
    )


def describe_limits(calibration: Calibration) -> list[str]:
    """Return what a calibration cannot promise, a sentence each."""
    sentences = [
        f"a cluster far from the others with less than {calibration.unseen_share:.2g} of the "
        "records cannot show at this noise: neither bounds nor scale know of it, and it may make "
        "the answer far worse than k-means"
    ]
    if calibration.needs_wider_law:
        sentences.append("some spread is a guess, so a wider law of frequencies is used")
    return sentences


def describe_block(block: BlockDrift) -> str:
    """Return which records a block has."""
    if block.level is not None:
        return f"with the level {block.level}"
    if block.lower is not None and block.upper is not None:
        return f"between {block.lower:.4g} and {block.upper:.4g}"
    if block.lower is not None:
        return f"above {block.lower:.4g}, beyond the bounds"
    if block.upper is not None:
        return f"below {block.upper:.4g}, beyond the bounds"
    return "without a value"


def describe_drift(drift: ColumnDrift) -> str:
    """Return whether a dimension has moved between two pilots."""
    if not drift.has_moved:
        return "no drift stands out from the noise"
    block = drift.largest
    return (
        f"has moved: {block.change:+.1%} of the records {describe_block(block)}, "
        f"{abs(block.deviations):.0f} standard deviations; "
        f"{drift.far_share:.0%} of the blocks differ by more than four"
    )
