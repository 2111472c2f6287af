"""Doubts about histograms: what a person should read before any number."""

from __future__ import annotations

import math
from collections.abc import Iterator

from learning.calibration.strength import LEAST_STRENGTH
from shared.wire.bodies.statistics import HistogramBody, MarginalBody

_LARGEST_ERROR = math.sqrt(8.0) / LEAST_STRENGTH
"""Noise of a bin, as a share of the records, from which a pilot is too weak to calibrate from."""
_MISSING_SHARE, _BEYOND_SHARE = 0.05, 0.02
_SURE = 3.0


def find_histogram_doubts(answer: HistogramBody) -> list[str]:
    """Return the doubts about marginals, a clause each; none where they can be read as they are."""
    found = [f"{each.name}: {doubt}" for each in answer.marginals for doubt in _doubt(each)]
    if not answer.marginals:
        found.append("no sketch carries a dimension clearly, so nothing is shown")
    return found


def _doubt(marginal: MarginalBody) -> Iterator[str]:
    if marginal.error > _LARGEST_ERROR:
        yield (
            f"noise of {marginal.error:.1%} of the records in each bin, more than "
            f"{_LARGEST_ERROR:.1%}, hides all but the largest differences"
        )
    sure = _SURE * marginal.error
    if marginal.missing > _MISSING_SHARE + sure:
        yield f"{marginal.missing:.0%} of the records have no value"
    beyond = marginal.below + marginal.above
    if beyond > _BEYOND_SHARE + math.sqrt(2.0) * sure:
        yield f"{beyond:.0%} of the records lie beyond the bounds, where nothing tells how far"
    if marginal.levels and all(each.share < sure for each in marginal.levels):
        yield "no level stands out from the noise"
