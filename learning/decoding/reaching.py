"""Axis search: find a cluster that is far from all others in a few columns.

Rare values of a category, rare flags and outliers of one sensor have this form: common values in
most columns and an uncommon one in some. A search of random places misses them, because in many
dimensions the box is almost empty. Lines parallel to an axis, through atoms and through places
where one or all columns have their most common value, pass close by. On each line the gain

    <E, r>+^2 / |E|^2

of an atom is computed everywhere, and the best places are improved column by column.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.ellipsoids import Ellipsoids, compute_rows
from sfumato.learning.decoding.gaussians import Target
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.shaping import Shaped
from sfumato.learning.decoding.weighing import compute_quantile

Waves = NDArray[np.complex64]

__all__ = ["Place", "find_far_place"]

# Places on a line: this many per wavelength of all but the fastest tenth of the frequencies.
_PER_WAVE: Final = 5.0
_QUANTILE: Final = 0.9
_LEAST_PLACES: Final = 24
_MOST_PLACES: Final = 192
_MOST_STARTS: Final = 160
# Complex products of one search.
_MOST_WORK: Final = 3e8
_N_KEPT: Final = 12
_N_SWEEPS: Final = 2
# Logarithm of the atom's length over a typical one: rare clusters are seldom as compact.
_LONGER: Final = 0.35


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A place for one more atom.

    Parameters
    ----------
    atom : Ellipsoids
        One atom along the axes, with the weight that explains most.
    gain : float
        The part of |r|^2 that it explains.
    """

    atom: Ellipsoids
    gain: float


def find_far_place(target: Target, fitted: Shaped) -> Place:
    """Find on lines through a mixture the atom that explains most of its residual."""
    atoms, m = fitted.atoms, target.n_frequencies
    logs = np.array([_find_median(column, atoms.weights) for column in atoms.logs.T]) + _LONGER
    origin = Ellipsoids(
        centres=np.zeros((1, target.n_dimensions)),
        logs=logs[None],
        slants=np.zeros((1, target.n_dimensions, target.n_dimensions)),
        weights=np.ones(1),
    )
    envelope = compute_rows(target, origin)[0, :m]
    # <E, r> is the real part of the sum over frequencies of this times exp(i w.c).
    facing = np.empty(m, dtype=np.complex64)
    facing.real, facing.imag = fitted.residual[:m] * envelope, -fitted.residual[m:] * envelope
    lines = [_Line(target, j, atoms) for j in range(target.n_dimensions)]
    work = m * sum(line.n_places for line in lines)
    n_starts = min(_MOST_STARTS, max(_N_KEPT, int(_MOST_WORK / work)))
    places, scores = _look_along(lines, facing, _list_starts(target, atoms)[:n_starts])
    kept = np.argsort(-scores, kind="stable")[:_N_KEPT]
    places, scores = places[kept], scores[kept]
    for _ in range(_N_SWEEPS):
        for line in lines:
            places, scores = line.improve(facing, places)
    best = int(np.argmax(scores))
    energy = max(float(np.sum(np.square(envelope, dtype=np.float64))), 1e-30)
    score = max(float(scores[best]), 0.0)
    atom = Ellipsoids(
        centres=places[best : best + 1],
        logs=origin.logs,
        slants=origin.slants,
        weights=np.array([score / energy]),
    )
    return Place(atom=atom, gain=score**2 / energy)


class _Line:
    """Places along one axis, and the waves exp(i w_j x) there: complex64 (G, m)."""

    def __init__(self, target: Target, axis: int, atoms: Ellipsoids) -> None:
        self._turns = target.turns
        self._axis = axis
        speeds = np.abs(target.turns[axis])
        fastest = max(float(compute_quantile(speeds, _QUANTILE, target.factors)), 1e-12)
        box = target.search_box
        low, high = float(box.lower[axis]), float(box.upper[axis])
        n_whole = math.ceil(min((high - low) * fastest * _PER_WAVE, 1e6)) + 1
        n_places = min(max(n_whole, _LEAST_PLACES), _MOST_PLACES)
        if n_whole > n_places:
            # In a wide box, search only around the mass, but densely.
            half = n_places / (2.0 * fastest * _PER_WAVE)
            middle = _find_median(atoms.centres[:, axis], atoms.weights)
            middle = min(max(middle, low + half), high - half)
            low, high = middle - half, middle + half
        self.n_places = n_places
        self._places = np.linspace(low, high, n_places)
        self._waves = _turn(self._places[:, None] * target.turns[axis])

    def score(self, facing: Waves, starts: Vector) -> Vector:
        """Compute <E, r> at every place of the line through each start: float64 (G, S)."""
        others = starts.copy()
        others[:, self._axis] = 0.0
        bases = _turn(others @ self._turns) * facing
        scores: Vector = (self._waves @ bases.T).real.astype(np.float64)
        return scores

    def improve(self, facing: Waves, starts: Vector) -> tuple[Vector, Vector]:
        """Move each start to the best place of its line; return places and scores."""
        scores = self.score(facing, starts)
        best = np.argmax(scores, axis=0)
        moved = starts.copy()
        moved[:, self._axis] = self._places[best]
        return moved, scores[best, np.arange(len(starts))]


def _look_along(lines: Sequence[_Line], facing: Waves, starts: Vector) -> tuple[Vector, Vector]:
    """Return each start's best place on the lines through it, and its score."""
    looked = [line.improve(facing, starts) for line in lines]
    scores = np.array([own for _, own in looked])
    best = np.argmax(scores, axis=0)
    chosen = np.arange(len(starts))
    places: Vector = np.array([own for own, _ in looked])[best, chosen]
    return places, scores[best, chosen]


def _list_starts(target: Target, atoms: Ellipsoids) -> Vector:
    """List places to draw lines through: float64 (S, d).

    These are the medians of all columns; the atoms, heaviest first; and each atom with one column
    set to its median.
    """
    d = target.n_dimensions
    medians = np.array([_find_median(column, atoms.weights) for column in atoms.centres.T])
    starts = [medians]
    for i in np.argsort(-atoms.weights, kind="stable"):
        starts.append(atoms.centres[i])
        for j in range(d if d > 2 else 0):
            start = atoms.centres[i].copy()
            start[j] = medians[j]
            starts.append(start)
    clipped: Vector = np.clip(np.array(starts), target.lower, target.upper)
    return clipped


def _find_median(values: Vector, weights: Vector) -> float:
    """Return the weighted median."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    middle = int(np.searchsorted(cumulated, 0.5 * cumulated[-1]))
    return float(values[order[middle]])


def _turn(turns: Vector) -> Waves:
    """Compute exp(2 pi i t) in single precision, after removing whole turns."""
    angles = (2.0 * np.pi * (turns - np.rint(turns))).astype(np.float32)
    waves = np.empty(angles.shape, dtype=np.complex64)
    waves.real, waves.imag = np.cos(angles), np.sin(angles)
    return waves
