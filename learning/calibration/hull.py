"""Hull of a noised histogram: the bins between the outermost records that noise cannot explain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.learning.estimate.histogram import Floats, Marginal

FALSE_ALARM: Final = 1e-3
"""Probability that noise alone extends the hull of a dimension."""
_OUTSIDE_SHARE = 0.02
_MANY_SHARE = 0.05
_LEAST_GAIN = 2.0
_WEAK_SHARE = 32
"""A hull that nothing shows is the heaviest block of this part of the bins."""


@dataclass(frozen=True, kw_only=True)
class Hull:
    """Bins ``first`` to ``stop - 1``.

    Parameters
    ----------
    first, stop
        Numbers of inner bins.
    is_weak
        Whether no block exceeds the noise, so that the place is a guess.
    least_share
        Least share of the records with a value that is sure to show in one bin.
    """

    first: int
    stop: int
    is_weak: bool
    least_share: float

    @property
    def width(self) -> int:
        """The number of bins."""
        return self.stop - self.first


def find_hull(marginal: Marginal) -> Hull:
    """Find the hull of one dimension.

    A block of w = 1, 2, 4, ... bins is occupied if its sum exceeds what noise reaches with
    probability 0.0005 over all blocks together. The narrowest occupied blocks span the hull. Wider
    ones extend it if they lie wholly outside. Each end is cut back to where the sum of its block
    stands out most, for a block of many bins can be many octaves wide. Then, while more than 2 % of
    the records lie outside, beyond what noise explains, the block beside the hull that stands out
    most joins it; below 5 % only if it stands out by two standard deviations.

    Guarantees
    ----------
    Where all records lie in one bin, the hull is that bin with probability at least 0.999, or weak.
    """
    bins, sums = marginal.bins, np.concatenate([[0.0], np.cumsum(marginal.bins)])
    widths = [1 << i for i in range(max(1, int(math.log2(bins.size))))]
    exponent = math.log(2.0 * bins.size * len(widths) / FALSE_ALARM)
    limits = marginal.noise.bound(np.array(widths, dtype=np.float64), exponent)
    least_share = float(limits[0]) / marginal.n_present
    first, stop = bins.size, 0
    for width, limit in zip(widths, limits, strict=True):
        hits = np.flatnonzero(sums[width:] - sums[:-width] > limit)
        if not hits.size:
            continue
        is_first = first >= stop
        left = hits if is_first else hits[hits + width <= first]
        right = hits if is_first else hits[hits >= stop]
        if left.size:
            first = _reach_down(sums, int(left[0]), int(left[0]) + width)[0]
        if right.size:
            stop = _reach_up(sums, int(right[-1]), int(right[-1]) + width)[0]
        if first >= stop:  # the ends of one block, cut back beyond each other by noise
            first, stop = stop - 1, first + 1
    is_weak = first >= stop
    if is_weak:
        width = min(bins.size, max(4, bins.size // _WEAK_SHARE))
        first = int(np.argmax(sums[width:] - sums[:-width]))
        stop = first + width
    else:
        first, stop = _extend(marginal, sums, first, stop)
    return Hull(first=first, stop=stop, is_weak=is_weak, least_share=least_share)


def _extend(marginal: Marginal, sums: Floats, first: int, stop: int) -> tuple[int, int]:
    """Extend the hull while records are known to lie outside it, for their number is known."""
    n_bins, noise = marginal.bins.size, marginal.noise
    exponent = math.log(2.0 / FALSE_ALARM)
    # Records outside the box are no reason to look for them inside.
    beyond = max(0.0, marginal.below) + max(0.0, marginal.above)
    while stop - first < n_bins:
        outside = marginal.n_present - beyond - (sums[stop] - sums[first])
        chance = float(noise.bound(np.array(float(stop - first)), exponent))
        if outside < _OUTSIDE_SHARE * marginal.n_present + chance:
            break
        below, under = _reach_down(sums, 0, first)
        above, over = _reach_up(sums, stop, n_bins)
        # So many records are surely somewhere, and where they stand out most is the best guess.
        is_many = outside > _MANY_SHARE * marginal.n_present + chance
        if max(under, over) <= (0.0 if is_many else _LEAST_GAIN * noise.deviation):
            break
        if under > over:
            first = below
        else:
            stop = above
    return first, stop


def _reach_down(sums: Floats, start: int, stop: int) -> tuple[int, float]:
    """Return the start within a block from which to its stop the sum stands out most."""
    if start >= stop:
        return stop, 0.0
    gains = (sums[stop] - sums[start:stop]) / np.sqrt(np.arange(stop - start, 0, -1))
    best = int(np.argmax(gains))
    return start + best, float(gains[best])


def _reach_up(sums: Floats, start: int, stop: int) -> tuple[int, float]:
    """Return the stop within a block to which from its start the sum stands out most."""
    if start >= stop:
        return start, 0.0
    gains = (sums[start + 1 : stop + 1] - sums[start]) / np.sqrt(np.arange(1, stop - start + 1))
    best = int(np.argmax(gains))
    return start + best + 1, float(gains[best])
