"""Laws of the frequencies' radii to compare: a plan's own, or parts of several in one matrix.

A plan has one law. To judge others before one of them becomes a plan's, ``adapted:1:4`` names the
kind and the range of sigma, and ``0.75*adapted:1:2+0.25*adapted:2:6`` gives each part its share of
the frequencies.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from shared.core import FrequencyMatrix, RadiusLaw, draw_frequencies
from shared.errors import ConfigError
from shared.plan import SketchPlan

_FIX = "write kind:sigma_low:sigma_high, such as adapted:1:4, or shares of several joined by +"
_Kind = Literal["adapted", "folded-gaussian", "gaussian"]
_KINDS: dict[str, _Kind] = {kind: kind for kind in get_args(_Kind)}


@dataclass(frozen=True, kw_only=True)
class Law:
    """Shares of the frequencies, and the radius law of each.

    Parameters
    ----------
    text
        As it was written; empty for the default of plans.
    parts
        Shares that sum to 1, and laws.
    """

    text: str = ""
    parts: tuple[tuple[float, RadiusLaw], ...] = ((1.0, RadiusLaw()),)

    def draw(self, plan: SketchPlan) -> FrequencyMatrix:
        """Draw the frequencies of a plan that was made with the law of the first part."""
        if len(self.parts) == 1:
            return plan.frequencies
        ends = np.cumsum([share for share, _ in self.parts])
        columns = np.rint(plan.n_frequencies * ends / ends[-1]).astype(int)
        counts = np.diff(columns, prepend=0)
        drawn = [
            draw_frequencies(
                hashlib.sha256(plan.seed + bytes([i])).digest(),
                n_frequencies=int(count),
                law=law,
                quantiser=plan.quantiser,
                scale=plan.scale,
            )
            for i, (count, (_, law)) in enumerate(zip(counts, self.parts, strict=True))
            if count
        ]
        return _join(drawn)


PLAN_LAW = Law()
"""Whatever plans use when nothing is said."""


def parse_law(text: str) -> Law:
    """Read a law.

    Raises
    ------
    ConfigError, PlanError
        The text cannot be read, or a part breaks the rules of a radius law.
    """
    parts = tuple(_parse_part(part, alone="+" not in text) for part in text.split("+"))
    if not math.isclose(sum(share for share, _ in parts), 1.0, rel_tol=1e-6):
        raise ConfigError(f"has shares that do not sum to 1 in {text!r}", field="--law", fix=_FIX)
    return Law(text=text, parts=parts)


def _parse_part(text: str, *, alone: bool) -> tuple[float, RadiusLaw]:
    share, star, law = text.rpartition("*")
    try:
        named, low, high = law.strip().split(":")
        kind = _KINDS[named]
        part, sigmas = float(share) if star else 1.0, (float(low), float(high))
    except (ValueError, KeyError):
        raise ConfigError(f"cannot be read from {text!r}", field="--law", fix=_FIX) from None
    if not (star or alone) or not 0.0 < part <= 1.0:
        raise ConfigError(f"need a share in {text!r}", field="--law", fix=_FIX)
    return part, RadiusLaw(kind=kind, sigma_low=sigmas[0], sigma_high=sigmas[1])


def _join(drawn: list[FrequencyMatrix]) -> FrequencyMatrix:
    """Put matrices side by side, in the unit of the coarsest."""
    bits = min(matrix.bits for matrix in drawn)
    turns = [np.rint(matrix.turns * 2.0 ** (bits - matrix.bits)) for matrix in drawn]
    return FrequencyMatrix(turns=np.concatenate(turns, axis=1).astype(np.int16), bits=bits)
