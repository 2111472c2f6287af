"""Greedy cover by private choice: the gains of all grid points, and picks that remove records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.coverage.grid import CoverGrid, Integers
from sfumato.shared.privacy.samplers import RandomSource, draw_below_wide
from sfumato.shared.privacy.selection import ExponentialChoice


class CoverGains:
    """The number of remaining records that each grid point covers.

    Points without a gain are not listed: there may be 10^18 of them, and they are drawn by number.

    Parameters
    ----------
    grid
        Public grid.
    places
        Shape ``(n, d')``: places of the records that no earlier pick has covered.
    """

    def __init__(self, grid: CoverGrid, places: Integers) -> None:
        self.grid = grid
        self._cells, self._cell_of_record, counts = np.unique(
            grid.find_keys(places), return_inverse=True, return_counts=True
        )
        self._weights = counts.astype(np.int64)
        near = self._cells[:, None] + grid.offsets[None, :]
        self._points, inverse = np.unique(near, return_inverse=True)
        self._points_of_cell = inverse.reshape(near.shape)
        self._gains = np.zeros(self._points.size, dtype=np.int64)
        for column in self._points_of_cell.T:
            # A column has no point twice: cells differ, and the offset is the same.
            self._gains[column] += self._weights
        self._levels = np.bincount(self._gains, minlength=1)

    @property
    def remaining(self) -> NDArray[np.bool_]:
        """Which of the records are not covered: shape ``(n,)``."""
        is_left: NDArray[np.bool_] = self._weights[self._cell_of_record] > 0
        return is_left

    def find_gain(self, key: int) -> int:
        """Return the gain of a point."""
        i = int(np.searchsorted(self._points, key))
        found = i < self._points.size and int(self._points[i]) == key
        return int(self._gains[i]) if found else 0

    def draw(self, choice: ExponentialChoice, source: RandomSource) -> int:
        """Draw a point by exponential choice of its gain: its key. Nothing is removed yet."""
        scores = np.flatnonzero(self._levels)
        scores = scores[scores > 0]
        n_listed = int(self._levels[1:].sum())
        levels = [0, *scores.tolist()]
        n_options = [self.grid.n_points - n_listed, *self._levels[scores].tolist()]
        level = levels[choice.draw_level(levels, n_options, source)]
        if level:
            members = np.flatnonzero(self._gains == level)
            return int(self._points[members[draw_below_wide(source, members.size)]])
        while True:
            # Uniform among all points, drawn again while it has a gain: uniform among the others.
            key = draw_below_wide(source, self.grid.n_points)
            if not self.find_gain(key):
                return key

    def remove(self, key: int) -> int:
        """Remove the records that a point covers, for ever; return how many there were."""
        wanted = key + self.grid.offsets
        at = np.minimum(np.searchsorted(self._cells, wanted), max(0, self._cells.size - 1))
        if not self._cells.size:
            return 0
        hit = at[(self._cells[at] == wanted) & (self._weights[at] > 0)]
        touched = np.unique(self._points_of_cell[hit])
        np.subtract.at(self._levels, self._gains[touched], 1)
        np.subtract.at(self._gains, self._points_of_cell[hit], self._weights[hit][:, None])
        np.add.at(self._levels, self._gains[touched], 1)
        n_removed = int(self._weights[hit].sum())
        self._weights[hit] = 0
        return n_removed


def choose_points(
    places: Integers,
    grids: tuple[CoverGrid, ...],
    *,
    n_picks: int,
    choice: ExponentialChoice,
    source: RandomSource,
) -> Integers:
    """Pick points grid by grid; what one covers leaves, for all later picks and grids.

    The number of picks is public: it is the same when nothing is left to cover.

    Returns
    -------
    Integers
        Places of the picked points, in the order of the picks: shape ``(grids n_picks, d')``.
    """
    found = []
    for grid in grids:
        gains = CoverGains(grid, places)
        for _ in range(n_picks):
            key = gains.draw(choice, source)
            gains.remove(key)
            found.append(grid.locate(key))
        places = places[gains.remaining]
    return np.array(found, dtype=np.int64)
