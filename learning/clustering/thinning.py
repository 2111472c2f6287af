"""Noisy counts of cells without the noise: cells and blocks that noise cannot explain.

It reads released numbers only, so it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.cells import CellGrid, CellNoise
from sfumato.learning.clustering.weighted_points import project_on_simplex

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Expected number of empty cells that noise alone lifts above the limit; and of blocks of 2 cells a
# side. It falls by the deviation of a block's noise, for a false block weighs as much more.
FALSE_CELLS: Final = 0.01
_FALSE_BLOCKS: Final = 0.02
# A cell beside a kept one is also kept, where noise exceeds its count so seldom.
_NEIGHBOUR: Final = 0.1
# Blocks have up to 2^_LEVELS cells a side.
_LEVELS: Final = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptMass:
    """The records that stand out of the noise.

    Parameters
    ----------
    points
        Shape ``(p, d)``, places of kept cells and blocks, in the units of the grid.
    weights
        Shape ``(p,)``, their numbers of records, above 0.
    density
        Shape ``(M,)``, the same numbers by cell; a block's is spread over its cells.
    share
        Sum of the weights over the number of records, at most 1; 0 where nothing stands out and
        ``weights`` are all counts, projected on the simplex.
    """

    points: Floats
    weights: Floats
    density: Floats
    share: float


def keep_mass(grid: CellGrid, counts: Floats, noise: CellNoise, n_records: float) -> KeptMass:
    """Keep the cells whose count noise alone would hardly reach, then blocks of the others.

    A cell is kept from the count t on that noise exceeds in 0.01 cells of the whole grid; with it,
    cells that are connected to it through cells of counts that noise exceeds with probability 0.1.
    The counts of the other cells are added up in blocks of 2, then 4 cells a side: a block is kept
    by the same rule, at the mean of its cells' places by their counts. So clusters whose cells hold
    few records each are found too, at less resolution. Kept counts keep their value, and others
    become 0; where they add up to more than n, they are projected on ``{w >= 0, sum w = n}``.

    Parameters
    ----------
    grid
        The M cells.
    counts
        Shape ``(M,)``, noisy.
    noise
        Noise of each count.
    n_records
        n, above 0: records in the cells.
    """
    free = np.ones(grid.n_cells, dtype=bool)
    density = np.zeros(grid.n_cells)
    cells = _find_cells(grid, counts, noise)
    free[cells] = False
    density[cells] = counts[cells]
    points, weights = [grid.centres[cells]], [counts[cells]]
    for level in range(1, _LEVELS + 1):
        if free.any():
            places, sums = _keep_blocks(grid, counts, noise, level, free, density)
            points.append(places)
            weights.append(sums)
    return _limit_total(grid, counts, n_records, points, weights, density)


def keep_cells(grid: CellGrid, counts: Floats, threshold: float, n_records: float) -> KeptMass:
    """Keep the cells from a threshold on, alone: for many dimensions, where blocks are the box.

    Where they hold less than half of the records, all counts are projected on
    ``{w >= 0, sum w = n}`` instead.

    Parameters
    ----------
    grid, counts, n_records
        As for :func:`keep_mass`.
    threshold
        Least count of a kept cell.
    """
    density = np.where(counts >= threshold, counts, 0.0)
    total = float(density.sum())
    if not 0.5 * n_records <= total <= n_records:
        density = project_on_simplex(density if total > n_records else counts, n_records)
    present = density > 0.0
    return KeptMass(
        points=grid.centres[present],
        weights=density[present],
        density=density,
        share=min(1.0, total / n_records),
    )


def _find_cells(grid: CellGrid, counts: Floats, noise: CellNoise) -> Flags:
    """Return the cells that stand out, with those connected to them."""
    from scipy.ndimage import label  # noqa: PLC0415 - a server never needs it

    strong = counts >= _least_count(noise.find_limit(FALSE_CELLS / grid.n_cells))
    weak = strong | (counts >= _least_count(noise.find_limit(_NEIGHBOUR)))
    # Cells are connected through their sides.
    parts = label(weak.reshape(grid.sizes))[0].ravel()
    is_kept = np.zeros(parts.max() + 1, dtype=bool)
    is_kept[parts[strong]] = True
    is_kept[0] = False
    kept: Flags = is_kept[parts]
    return kept


def _least_count(limit: float) -> float:
    """Return the limit, but above 0: an exact count of 0 does not stand out."""
    return max(limit, float(np.finfo(np.float64).tiny))


def _keep_blocks(
    grid: CellGrid,
    counts: Floats,
    noise: CellNoise,
    level: int,
    free: Flags,
    density: Floats,
) -> tuple[Floats, Floats]:
    """Keep blocks of the free cells: mark their cells, and return their places and sums."""
    blocks, shape = grid.find_blocks(level)
    n_blocks, cells = int(np.prod(shape)), np.flatnonzero(free)
    members = blocks[cells]
    numbers = np.bincount(members, minlength=n_blocks)
    sums: Floats = np.bincount(members, counts[cells], minlength=n_blocks).astype(np.float64)
    most = int(numbers.max())
    n_dimensions = len(grid.sizes)
    probability = _FALSE_BLOCKS * 2.0 ** (-0.5 * level * n_dimensions) / n_blocks
    limits = noise.find_limit(probability, most) * np.sqrt(numbers / most)
    is_kept = (numbers > 0) & (sums >= np.maximum(limits, _least_count(0.0)))
    kept = np.flatnonzero(is_kept)
    inside = cells[is_kept[members]]
    density[inside] = (sums / np.maximum(numbers, 1))[blocks[inside]]
    free[inside] = False
    return _place_blocks(grid, counts, level, inside, kept, sums[kept]), sums[kept]


def _place_blocks(
    grid: CellGrid,
    counts: Floats,
    level: int,
    inside: NDArray[np.int64],
    kept: NDArray[np.int64],
    sums: Floats,
) -> Floats:
    """Return the mean place of the records of kept blocks, inside them: shape ``(p, d)``."""
    blocks, shape = grid.find_blocks(level)
    corners = np.array(np.unravel_index(kept, shape)) << level
    places = np.empty(corners.shape)
    for i, size in enumerate(grid.sizes):
        moments = np.bincount(
            blocks[inside], counts[inside] * grid.places[i, inside], minlength=int(np.prod(shape))
        )
        last = np.minimum(corners[i] + (1 << level), size) - 1
        places[i] = np.clip(moments[kept] / sums, corners[i], last)
    return grid.locate(places.T)


def _limit_total(
    grid: CellGrid,
    counts: Floats,
    n_records: float,
    points: list[Floats],
    weights: list[Floats],
    density: Floats,
) -> KeptMass:
    joined, heavy = np.concatenate(points), np.concatenate(weights)
    total = float(heavy.sum())
    if not total > 0.0:
        projected = project_on_simplex(counts, n_records)
        is_heavy = projected > 0.0
        return KeptMass(
            points=grid.centres[is_heavy],
            weights=projected[is_heavy],
            density=projected,
            share=0.0,
        )
    if total > n_records:
        heavy = project_on_simplex(heavy, n_records)
        density = density * (n_records / total)
    present = heavy > 0.0
    return KeptMass(
        points=joined[present],
        weights=heavy[present],
        density=density,
        share=min(1.0, total / n_records),
    )
