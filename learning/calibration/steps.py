"""The step of a column's values, and heaps of them, as a noised histogram shows them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sfumato.learning.calibration.hull import find_hull
from sfumato.learning.estimate.histogram import Floats, Marginal

__all__ = ["choose_step", "count_multiples", "find_step", "find_texture"]

_FIRST = (1.0, 2.0, 2.5, 5.0)
_STEPS: Final = tuple(digit * 10.0**power for power in range(4, -5, -1) for digit in _FIRST[::-1])
"""Steps that people count and round in, the widest first."""
_LEAST_EMPTY: Final = 0.3
"""Least part of the bins that must be empty if the step is true."""
_LEAST_BINS: Final = 8
_CHANCE: Final = 3.0
_SEEN: Final = 0.03
"""A share of records beside the step that may be noise, however many deviations it is from 0."""
_SURE: Final = 6.0
_ROUND: Final = 1e-9
_HEAP_SHARE: Final = 0.02
"""A heap is a value with at least this share of the records, far more than any beside it."""
_HEAP_NOISE: Final = 4.5
_FAR: Final = 2.5
_MANY, _FEW = 3.0, 0.02
"""Deviations of noise, and a share of the records, that values beside a stated step may be."""


def count_multiples(edges: Floats, step: float) -> tuple[Floats, Floats]:
    """Return the first multiple of a step in each bin, and how many there are: shapes ``(B,)``."""
    # As exactly as doubles tell multiples apart.
    leeway = np.maximum(_ROUND, 1e-15 * np.abs(edges / step))
    numbers = np.ceil(edges / step - leeway)
    # The last bin has its upper edge too.
    numbers[-1] = np.floor(edges[-1] / step + leeway[-1]) + 1.0
    return numbers[:-1] * step, np.maximum(0.0, np.diff(numbers))


def find_step(found: Marginal) -> float | None:
    """Find the widest step of which all values are multiples, as far as noise lets one see.

    Bins without a multiple, between the outermost records, must hold no more than noise explains,
    and so many of them must be there that values of a finer step, or of none, would
    surely show in them. None where there is no such step.
    """
    hull = find_hull(found)
    bins, edges = found.bins[hull.first : hull.stop], found.data_edges[hull.first : hull.stop + 1]
    if hull.is_weak or bins.size < _LEAST_BINS:
        return None
    kept, chosen = np.ones(bins.size, dtype=np.bool_), None
    # From the finest one on: of few bins more is known than of many.
    for step in reversed(_STEPS):
        is_nested = chosen is None or math.isclose(step / chosen, round(step / chosen))
        holds = count_multiples(edges, step)[1] > 0.0
        left = kept & ~holds
        if is_nested and _are_empty(bins[left], bins[kept], found.noise.deviation):
            kept, chosen = kept & holds, step
    return chosen


def choose_step(found: Marginal, stated: float | None) -> float:
    """Choose the step by which to read a histogram; 0 for values without one.

    A wider step that it shows, the one that is stated if it does not contradict that, or 0.
    """
    shown = find_step(found) or 0.0
    if not stated or (shown and math.isclose(shown / stated, round(shown / stated))):
        return shown
    is_empty = count_multiples(found.data_edges, stated)[1] == 0.0
    left = float(np.sum(found.bins[is_empty]))
    noise = found.noise.deviation * math.sqrt(int(np.count_nonzero(is_empty)))
    return stated if left <= _MANY * noise + _FEW * found.n_present else shown


def find_texture(found: Marginal) -> float | None:
    """Find the step that a plan may state: 0 for values without a step.

    None where some values are heaps, or where noise would hide that.
    """
    hull, step = find_hull(found), find_step(found)
    bins = found.bins[hull.first : hull.stop]
    if step is not None:
        edges = found.data_edges[hull.first : hull.stop + 1]
        bins = bins[count_multiples(edges, step)[1] > 0.0]
    noise = _HEAP_NOISE * found.noise.deviation * math.sqrt(2.0)
    least = _HEAP_SHARE * found.n_present
    if hull.is_weak or noise > least or bins.size < _LEAST_BINS // 2:
        return None
    # The commonest of the two values on either side, as far as these are there.
    padded = np.pad(np.maximum(bins, 0.0), 2, constant_values=-np.inf)
    beside = np.max([padded[i : i + bins.size] for i in (0, 1, 3, 4)], axis=0)
    has_heap = np.any((bins > least) & (bins > _FAR * beside + noise))
    return None if has_heap else step or 0.0


def _are_empty(left: Floats, all_bins: Floats, deviation: float) -> bool:
    """Return whether bins hold nothing but noise, and would surely hold more if all were alike."""
    noise = deviation * math.sqrt(left.size)
    expected = float(np.sum(all_bins)) * left.size / max(1, all_bins.size)
    is_enough = _LEAST_EMPTY * all_bins.size <= left.size <= all_bins.size - 2
    few = max(noise, min(_CHANCE * noise, _SEEN * float(np.sum(all_bins))))
    return is_enough and float(np.sum(left)) <= few and expected >= _SURE * noise
