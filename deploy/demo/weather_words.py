"""Plain words for a weather pattern, by everyday thresholds."""

from __future__ import annotations

from collections.abc import Sequence


def read_weather(centroid: Sequence[float]) -> str:
    """Describe a centroid of (temperature °F, dew point °F, wind mph, visibility mi)."""
    temperature, dew_point, wind, visibility = centroid
    warmth = _grade(temperature, (25, "freezing"), (42, "cold"), (58, "cool"), (72, "mild"), "warm")
    spread = temperature - dew_point
    moisture = _grade(spread, (6, "damp"), (14, ""), (22, "dry"), "very dry")
    air = _grade(wind, (7, "calm"), (13, ""), (18, "windy"), "very windy")
    sight = _grade(visibility, (3, "fog or rain"), (7, "haze or rain"), "")
    return ", ".join(part for part in (warmth, moisture, air, sight) if part)


def _grade(value: float, *steps: tuple[float, str] | str) -> str:
    for step in steps:
        if isinstance(step, str):
            return step
        if value < step[0]:
            return step[1]
    raise ValueError("the last step must be a word alone")
