"""The grid as an alternative to Fourier features, in advice."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.analyst.planning.files import show_exact
from sfumato.learning.planning.grids import (
    HALF_WIDTH_IN_SPREADS,
    GridCandidate,
    is_grid_better,
    predict_grid,
)
from sfumato.learning.planning.outline import StudyOutline


@dataclass(frozen=True, kw_only=True)
class GridAdvice:
    """A grid that is expected to be better than Fourier features.

    Parameters
    ----------
    candidate
        The grid, with its noise and expected quality.
    epsilon
        The epsilon of one sketch.
    """

    candidate: GridCandidate
    epsilon: Fraction

    def describe(self) -> str:
        """Describe the grid and how to plan it."""
        cells, band = ", ".join(map(str, self.candidate.cells)), self.candidate.band.describe()
        return (
            "A grid is expected to be better here, because one noised sum of few dimensions needs "
            f'no frequencies: statistic = "grid" with cells = [{cells}] at epsilon '
            f"{show_exact(self.epsilon)}, {self.candidate.sketch_bytes:,} bytes. "
            f"{band[0].upper()}{band[1:]}, if the bounds are about "
            f"{HALF_WIDTH_IN_SPREADS:g} standard deviations of a column on both sides: a grid, "
            "unlike Fourier features, suffers from bounds that are too wide."
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "cells": list(self.candidate.cells),
            "sketch_bytes": self.candidate.sketch_bytes,
            "statement": self.describe(),
        }


def find_better_grid(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction
) -> GridAdvice | None:
    """Return a grid where it is expected to be better than Fourier features, under pure epsilon."""
    if delta or not is_grid_better(outline, epsilon=epsilon):
        return None
    return GridAdvice(candidate=predict_grid(outline, epsilon=epsilon), epsilon=epsilon)
