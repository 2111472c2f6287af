"""Search the whole box of the plan for a cluster that is far from all others.

Rare values of a category, rare flags, outliers and failures of one sensor have this form: common
values in most columns and an uncommon one in some. A search of random places misses them, because
in many dimensions the box is almost empty. Lines parallel to an axis, through atoms and through
places where one or all columns have their most common value, pass close by; and clipped values lie
at a bound, so corners and edges are places of their own. A failed sensor moves records of all
clusters to one value of its column. The gain

    <E, r>+^2 / |E|^2

of an atom is computed everywhere on each line, and the best places are improved column by column.
A search box does not narrow this: it says where records are expected, and these are not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.equations import compute_quantile
from sfumato.learning.decoding.mixture.ellipsoid_descent import Shaped
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, compute_rows
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.problem import Vector

__all__ = ["Place", "find_far_place", "make_usual_atom"]

Waves = NDArray[np.complex64]

# Places on a line: this many per wavelength of all but the fastest tenth of the frequencies.
_PER_WAVE: Final = 5.0
_QUANTILE: Final = 0.9
_LEAST_PLACES: Final = 24
# Of a wider box only the middle of the mass and the ends are looked at.
_MOST_PLACES: Final = 1 << 17
# Frequencies along a line are rounded to this many times as many as places, so that no phase is off
# by more than 0.4 rad, which lessens a gain by less than 3 %.
_FINER: Final = 4
_MOST_STARTS: Final = 160
# Points of the Fourier transforms of one search, and products for corners and edges.
_MOST_POINTS: Final = 2e7
_MOST_PRODUCTS: Final = 4e6
_N_KEPT: Final = 12
_N_SWEEPS: Final = 2
# Fourier points at a time, and columns whose bounds make all corners.
_CHUNK_POINTS: Final = 1 << 21
_MOST_CORNER_COLUMNS: Final = 10
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
    n_places : int
        The places among which it is the best.
    energy : float
        The least |E|^2 of what was looked for, of weight one.
    is_of_all : bool
        Whether the lines through the mass were looked at as far as the bounds.
    """

    atom: Ellipsoids
    gain: float
    n_places: int
    energy: float
    is_of_all: bool


def find_far_place(target: Target, fitted: Shaped) -> Place:
    """Find on lines through a mixture the atom that explains most of its residual."""
    atoms, m = fitted.atoms, target.n_frequencies
    origin = make_usual_atom(atoms)
    envelope = compute_rows(target, origin)[0, :m]
    # <E, r> is the real part of the sum over frequencies of this times exp(i w.c).
    facing = np.empty(m, dtype=np.complex64)
    facing.real, facing.imag = fitted.residual[:m] * envelope, -fitted.residual[m:] * envelope
    lines = [_Line(target, j, atoms) for j in range(target.n_dimensions)]
    ends, end_scores = _look_at_ends(target, facing, atoms)
    n_points = sum(line.n_points for line in lines)
    n_starts = min(_MOST_STARTS, max(_N_KEPT, int(_MOST_POINTS / n_points)))
    starts = _list_starts(target, atoms)[:n_starts]
    places, scores = _look_along(lines, facing, starts)
    places, scores = np.concatenate([places, ends]), np.concatenate([scores, end_scores])
    kept = np.argsort(-scores, kind="stable")[:_N_KEPT]
    places, scores = places[kept], scores[kept]
    for _ in range(_N_SWEEPS):
        for line in lines:
            places, scores = line.improve(facing, places)
    best = int(np.argmax(scores))
    energy = float(np.sum(np.square(envelope, dtype=np.float64)))
    offers = [_Offer(places[best], origin.logs[0], float(scores[best]), energy)]
    offers += [_offer_failure(target, fitted, lines[j], j) for j in range(target.n_dimensions)]
    offer = max(offers, key=lambda each: each.gain)
    return Place(
        atom=replace(
            origin,
            centres=offer.place[None],
            logs=offer.logs[None],
            weights=np.array([offer.weight]),
        ),
        gain=offer.gain,
        n_places=(len(starts) + 1) * sum(line.n_places for line in lines) + len(ends),
        energy=max(min(each.energy for each in offers), 1e-30),
        is_of_all=all(line.is_whole for line in lines),
    )


def make_usual_atom(atoms: Ellipsoids) -> Ellipsoids:
    """Return one atom at the origin, along the axes, as long as those of a mixture usually are."""
    d = atoms.centres.shape[1]
    logs = np.array([_find_median(column, atoms.weights) for column in atoms.logs.T]) + _LONGER
    return Ellipsoids(
        centres=np.zeros((1, d)),
        logs=logs[None],
        slants=np.zeros((1, d, d)),
        weights=np.ones(1),
    )


@dataclass(frozen=True, eq=False)
class _Offer:
    """An atom (d,) at a place, with <E, r> and |E|^2."""

    place: Vector
    logs: Vector
    score: float
    energy: float

    @property
    def weight(self) -> float:
        return max(self.score, 0.0) / max(self.energy, 1e-30)

    @property
    def gain(self) -> float:
        return self.weight * max(self.score, 0.0)


class _Line:
    """Places along one axis: x_g = middle + (g - G / 2) h, for g below G."""

    def __init__(self, target: Target, axis: int, atoms: Ellipsoids) -> None:
        self._turns = target.turns
        self._axis = axis
        speeds = np.abs(target.turns[axis])
        fastest = max(float(compute_quantile(speeds, _QUANTILE, target.factors)), 1e-12)
        low, high = float(target.lower[axis]), float(target.upper[axis])
        n_whole = math.ceil(min((high - low) * fastest * _PER_WAVE, 1e9)) + 1
        self.n_places = min(max(n_whole, _LEAST_PLACES), _MOST_PLACES)
        self.is_whole = n_whole <= self.n_places
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        if not self.is_whole:
            half = self.n_places / (2.0 * fastest * _PER_WAVE)
            middle = _find_median(atoms.centres[:, axis], atoms.weights)
            middle = min(max(middle, low + half), high - half)
        self._places = np.linspace(middle - half, middle + half, self.n_places)
        step = self._places[1] - self._places[0]
        self.n_points = 1 << (_FINER * self.n_places - 1).bit_length()
        # exp(2 pi i t x_g) is about exp(2 pi i t x_0) exp(2 pi i q g / N), with t h N near q.
        self._origin = self._places[self.n_places // 2]
        slots = np.rint(target.turns[axis] * step * self.n_points).astype(np.int64) % self.n_points
        self._order = np.argsort(slots, kind="stable")
        self._slots, self._firsts = np.unique(slots[self._order], return_index=True)

    def score(self, facing: Waves, starts: Vector) -> NDArray[np.float32]:
        """Compute <E, r> at every place of the line through each start: float32 (S, G)."""
        moved = starts.copy()
        moved[:, self._axis] = self._origin
        waves = _turn(moved @ self._turns) * facing
        grid = np.zeros((len(starts), self.n_points), dtype=np.complex64)
        grid[:, self._slots] = np.add.reduceat(waves[:, self._order], self._firsts, axis=1)
        found = np.fft.ifft(grid, axis=1).real * self.n_points
        middle = self.n_places // 2
        before, after = found[:, self.n_points - middle :], found[:, : self.n_places - middle]
        return np.concatenate([before, after], axis=1).astype(np.float32)

    def improve(self, facing: Waves, starts: Vector) -> tuple[Vector, Vector]:
        """Move each start to the best place of its line, itself included; return the scores."""
        moved, best = starts.copy(), np.empty(len(starts))
        size = max(1, _CHUNK_POINTS // self.n_points)
        for first in range(0, len(starts), size):
            own = slice(first, first + size)
            scores = self.score(facing, starts[own])
            chosen = np.argmax(scores, axis=1)
            moved[own, self._axis] = self._places[chosen]
            best[own] = scores[np.arange(len(chosen)), chosen]
        before = _score_at(self._turns, facing, starts)
        is_worse = best < before
        moved[is_worse], best[is_worse] = starts[is_worse], before[is_worse]
        return moved, best


def _offer_failure(target: Target, fitted: Shaped, line: _Line, axis: int) -> _Offer:
    """Look for records of all clusters that have one far value in a column.

    A sensor that fails leaves the other columns as they are: its records are not one compact
    cluster but all of them, moved. So E is exp(i w_j x) times the mixture without the column.
    """
    atoms, m = fitted.atoms, target.n_frequencies
    shares = atoms.weights / max(float(np.sum(atoms.weights)), 1e-30)
    usual = make_usual_atom(atoms).logs[0] - _LONGER
    logs, centres = 0.5 * np.log(np.maximum(atoms.variances, 1e-30)), atoms.centres.copy()
    logs[:, axis], centres[:, axis] = usual[axis], 0.0
    moved = replace(atoms, centres=centres, logs=logs, slants=np.zeros_like(atoms.slants))
    shape = shares @ compute_rows(target, moved)
    facing = np.empty(m, dtype=np.complex64)
    # conj(r) times the shape; the rows hold the factors of weighted equations once.
    facing.real = fitted.residual[:m] * shape[:m] + fitted.residual[m:] * shape[m:]
    facing.imag = fitted.residual[:m] * shape[m:] - fitted.residual[m:] * shape[:m]
    places, scores = line.improve(facing, np.zeros((1, target.n_dimensions)))
    mean = shares @ atoms.centres
    spread = shares @ ((atoms.centres - mean) ** 2 + atoms.variances)
    wide = 0.5 * np.log(np.maximum(spread, 1e-30))
    mean[axis], wide[axis] = places[0, axis], usual[axis]
    energy = float(np.sum(np.square(shape, dtype=np.float64)))
    return _Offer(mean, wide, float(scores[0]), energy)


def _score_at(turns: Vector, facing: Waves, places: Vector) -> Vector:
    """Compute <E, r> at places (S, d): float64 (S,)."""
    scores: Vector = (_turn(places @ turns) @ facing).real.astype(np.float64)
    return scores


def _look_at_ends(target: Target, facing: Waves, atoms: Ellipsoids) -> tuple[Vector, Vector]:
    """Return corners and edges of the box, and their scores.

    At an edge one column or two are at a bound, and the others at their median; at a corner all
    are. Of many dimensions only some corners are looked at.
    """
    d = target.n_dimensions
    medians = np.array([_find_median(column, atoms.weights) for column in atoms.centres.T])
    bounds = np.stack([target.lower, target.upper])
    some = islice(product((0, 1), repeat=d), 1 << _MOST_CORNER_COLUMNS)
    sides = np.array([(1,) * d, *some])
    places = [bounds[sides, np.arange(d)]]
    for columns in chain(combinations(range(d), 1), combinations(range(d), 2)):
        own = np.array(list(product((0, 1), repeat=len(columns))))
        edge = np.tile(medians, (len(own), 1))
        edge[:, columns] = bounds[own, columns]
        places.append(edge)
    found = np.concatenate(places)[: max(1, int(_MOST_PRODUCTS / target.n_frequencies))]
    return found, _score_at(target.turns, facing, found)


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
