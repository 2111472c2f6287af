"""Radius laws on the command line, for comparison with the planner's choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from sfumato.shared.core import RadiusLaw
from sfumato.shared.errors import ConfigError

_FIX = (
    "write kind:sigma_low:sigma_high, such as adapted:1:4, and for a tail its share and end, such "
    "as adapted:1:2:0.25:16"
)
_KINDS: Final[dict[str, Literal["adapted", "folded-gaussian", "gaussian"]]] = {
    "adapted": "adapted",
    "folded-gaussian": "folded-gaussian",
    "gaussian": "gaussian",
}


def parse_law(text: str) -> RadiusLaw:
    """Read a law.

    Raises
    ------
    ConfigError, PlanError
        The text cannot be read, or breaks the rules of a radius law.
    """
    named, *numbers = text.split(":")
    try:
        kind, values = _KINDS[named], [float(number) for number in numbers]
    except (ValueError, KeyError):
        values = []
    if len(values) not in (2, 4):
        raise ConfigError(f"cannot be read from {text!r}", field="--law", fix=_FIX)
    body = RadiusLaw(kind=kind, sigma_low=values[0], sigma_high=values[1], tail_share=0.0)
    return replace(body, tail_share=values[2], tail_high=values[3]) if values[2:] else body


def format_law(law: RadiusLaw) -> str:
    """Write a law as it is read."""
    tail = f":{law.tail_share:g}:{law.tail_high:g}" if law.tail_share else ""
    return f"{law.kind}:{law.sigma_low:g}:{law.sigma_high:g}{tail}"
