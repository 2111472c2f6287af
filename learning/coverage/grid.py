"""Cells of a cube of places, and which cells a grid point covers; public integers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.errors import ConfigError

Integers = NDArray[np.int64]

_MOST_POINTS = 1 << 62
_MOST_OFFSETS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class CoverGrid:
    """A grid of cells over the places -Z to Z, with a margin of points that only cover.

    A grid point is a cell; it covers the cells at squared distance of at most ``reach2``, in cells.

    Parameters
    ----------
    half
        Z.
    n_cells
        M, cells along each dimension.
    n_dimensions
        d'.
    reach2
        Squared distance that is covered.

    Raises
    ------
    ConfigError
        There are 2^62 points or more, or a point covers more than 2^14 cells.
    """

    half: int
    n_cells: int
    n_dimensions: int
    reach2: int

    def __post_init__(self) -> None:
        if self.n_points >= _MOST_POINTS:
            raise ConfigError(
                f"must give fewer than 2^62 grid points, not {float(self.n_points):.2g}",
                field="radii",
                fix="use fewer projected dimensions, or larger radii",
            )
        if (2 * self.margin + 1) ** self.n_dimensions > 64 * _MOST_OFFSETS or (
            len(self.offsets) > _MOST_OFFSETS
        ):
            raise ConfigError(
                "must cover at most 2^14 cells",
                field="reach",
                fix="use fewer projected dimensions, or a smaller reach",
            )

    @property
    def margin(self) -> int:
        """Cells beyond the cube on each side, from which a point reaches into it."""
        return math.isqrt(self.reach2)

    @property
    def base(self) -> int:
        """Points along each dimension."""
        return self.n_cells + 2 * self.margin

    @property
    def n_points(self) -> int:
        """Number of grid points, of any size."""
        return int(self.base**self.n_dimensions)

    @cached_property
    def strides(self) -> Integers:
        """Factors of a cell's coordinates in its key: shape ``(d',)``."""
        return np.array([self.base**j for j in range(self.n_dimensions)], dtype=np.int64)

    @cached_property
    def offsets(self) -> Integers:
        """Keys of the covered cells less that of the point: shape ``(V,)``, sorted, symmetric."""
        steps = range(-self.margin, self.margin + 1)
        near = [
            v
            for v in itertools.product(steps, repeat=self.n_dimensions)
            if sum(x * x for x in v) <= self.reach2
        ]
        return np.sort(np.array(near, dtype=np.int64) @ self.strides)

    def find_keys(self, places: Integers) -> Integers:
        """Return the key of the cell of each place: shape ``(n,)`` for ``(n, d')``."""
        cells = (places + self.half) * self.n_cells // (2 * self.half + 1) + self.margin
        return cells @ self.strides

    def locate(self, key: int) -> Integers:
        """Return the place of the centre of a point's cell: shape ``(d',)``, inside the cube."""
        cells = [key // self.base**j % self.base for j in range(self.n_dimensions)]
        width = 2 * self.half + 1
        centres = [
            (2 * (cell - self.margin) + 1) * width // (2 * self.n_cells) - self.half
            for cell in cells
        ]
        return np.clip(np.array(centres, dtype=np.int64), -self.half, self.half)
