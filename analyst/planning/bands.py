"""Candidates, bands of quality and ratios, for people and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Final

from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.quality import QualityBand

UNIT_WORDS: Final = {"record": "each record", "device": "all records of a device in a window"}
"""Units that a plan may protect, in words."""


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
