"""The statistic of a second look: sums of the records in each cluster of given centres."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.shared.arrays import Bools, Integers
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.records import Records
from sfumato.shared.core.statistics.interface import PlainStatistic, count_records_moved
from sfumato.shared.errors import PlanError

Norm = Literal["l1", "l2"]

MOST_UNIT = 1 << 15
"""The largest of the units."""
MOST_SUMMED = 4096
MOST_CANDIDATES = 64
MOST_WEIGHT = 1 << 31
"""The weights of all axes add up to less: then every distance is below 2^63."""
_MOST_DISTANCES = 1 << 18
"""Distances computed at a time."""


@dataclass(frozen=True, kw_only=True)
class Units:
    """The weights of what a record adds: more of one costs the others accuracy.

    Parameters
    ----------
    residual
        A: the largest length of a clipped residual; 0 without summed axes.
    count
        A_n: a record.
    square
        A_s: a squared distance at the cap. 0 leaves squares out.
    beyond
        A_b: a record at the cap, or with a residual that was clipped, over all clusters. 0 leaves
        the count out.
    presence
        A_p: a value of a summed axis that can be missing. 0 where none can.
    total
        A_t: a squared distance at the cap, of a record to the nearest of a set of centres, over all
        clusters. 0 leaves the totals out.
    """

    residual: int
    count: int
    square: int = 0
    beyond: int = 0
    presence: int = 0
    total: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class ClustersStatistic(PlainStatistic):
    """Counts, squared distances and clipped residuals of the records nearest to each centre.

    With quantised coordinates u of the assigned axes a record belongs to the cluster with the least
    ``D_j = sum_i w_i (u_i - c_ji)^2``, of equal ones the first. On each summed axis, with v, origin
    o and radius q, ``s = sign(v - o) min(A, (|v - o| A) div q)``. Then, with
    ``N = sum |s|`` (L1) or the least integer with ``N^2 >= sum s^2`` (L2), if N > A each s becomes
    ``sign(s) ((|s| A) div N)``. To the block of its cluster the record adds, where units are not 0,

    - ``A_n``, the count,
    - ``(A_s min(D, Q)) div Q``,
    - the residuals s,
    - ``A_p`` for each summed axis that can be missing and is not.

    After all blocks that a sketch carries it adds to the totals, whichever cluster it belongs to:
    ``A_b`` if D >= Q, or if a residual was cut or shortened; and for these centres, and then for
    each candidate, ``(A_t min(D, Q)) div Q`` with the least distance to them. A record that lacks
    an assigned coordinate adds zero throughout; one that lacks a summed one, zero to its sum.

    Parameters
    ----------
    quantiser, encoder
        As of ``PlainStatistic``.
    assigned, summed
        Numbers of the coordinates that assign, and of those that are summed; ascending.
    optional
        Which of the summed ones can be missing.
    centres, weights, cap
        Shape ``(k, d)``, steps; shape ``(d,)``; Q.
    origins, radii
        Shape ``(k, e)``, steps.
    units, norm
        What a record adds at most; ``l1`` or ``l2``, the norm in which residuals are clipped.
    candidates
        Further sets of centres: shape ``(c, k, d)``.
    carried
        The clusters whose blocks a sketch carries, ascending; None for all.

    Guarantees
    ----------
    Clipped residuals have norm A at most, for all divisions truncate towards zero.

    Raises
    ------
    PlanError
        A parameter outside its range.
    """

    assigned: tuple[int, ...]
    summed: tuple[int, ...]
    optional: tuple[int, ...]
    centres: Integers
    weights: Integers
    cap: int
    origins: Integers
    radii: Integers
    units: Units
    norm: Norm
    candidates: Integers
    carried: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        k, d, e = self.n_clusters, len(self.assigned), len(self.summed)
        units = self.units
        shapes = {
            "centres": (self.centres, (k, d)),
            "weights": (self.weights, (d,)),
            "origins": (self.origins, (k, e)),
            "radii": (self.radii, (k, e)),
            "candidates": (self.candidates, (len(self.candidates), k, d)),
        }
        for field, (array, shape) in shapes.items():
            if array.shape != shape:
                raise PlanError(f"must have shape {shape}", field=f"statistic.{field}")
        for field in ("centres", "origins", "candidates"):
            _require_range(field, shapes[field][0], -STEPS, STEPS)
        _require_range("radii", self.radii, 1, 2 * STEPS)
        _require_range("weights", self.weights, 1, MOST_WEIGHT)
        for field, unit in vars(units).items():
            least = int(field == "count" or (field == "residual" and e > 0))
            _require(least <= unit <= MOST_UNIT, f"units.{field}", f"{least} to {MOST_UNIT}")
        _require(d >= 1 and k >= 1, "centres", "at least one, of at least one assigned column")
        _require(e <= MOST_SUMMED, "summed", f"at most {MOST_SUMMED} columns")
        _require(
            len(self.candidates) <= MOST_CANDIDATES, "candidates", f"{MOST_CANDIDATES} at most"
        )
        _require(int(self.weights.sum()) < MOST_WEIGHT, "weights", "below 2^31 in sum")
        most = max(units.square, units.total, 1)
        _require(1 <= self.cap < (1 << 63) // most, "cap", f"1 to 2^63 / {most}")

    @property
    def n_clusters(self) -> int:
        """The number of clusters k."""
        return len(self.centres)

    @property
    def members(self) -> tuple[int, ...]:
        """The clusters whose blocks a sketch carries."""
        return tuple(range(self.n_clusters)) if self.carried is None else self.carried

    @cached_property
    def parts(self) -> dict[str, slice]:
        """The place of each part inside the block of a cluster; parts that are left out are empty.

        ``count``, ``square``, ``residuals``, ``presences``.
        """
        units = self.units
        sizes = {
            "count": 1,
            "square": int(units.square > 0),
            "residuals": len(self.summed),
            "presences": len(self.optional) if units.presence else 0,
        }
        places, start = {}, 0
        for name, size in sizes.items():
            places[name] = slice(start, start + size)
            start += size
        return places

    @property
    def block_size(self) -> int:
        """Integers of a block."""
        stop: int = self.parts["presences"].stop
        return stop

    @property
    def n_totals(self) -> int:
        """Totals after the blocks: the records beyond, and the distances to each set of centres."""
        return int(self.units.beyond > 0) + self._n_sets

    @property
    def _n_sets(self) -> int:
        return 1 + len(self.candidates) if self.units.total else 0

    @property
    def n_coordinates(self) -> int:
        """Integers of all blocks that are carried, and of the totals."""
        return len(self.members) * self.block_size + self.n_totals

    @cached_property
    def identity(self) -> bytes:
        """SHA-256 of all that decides what a record adds."""
        rule = (
            "clusters",
            self.quantiser.centre.tolist(),
            self.quantiser.half_width.tolist(),
            self.encoder.dimensions if self.encoder else None,
            (self.assigned, self.summed, self.optional, self.carried, self.units, self.norm),
            (self.centres.tolist(), self.weights.tolist(), self.cap),
            (self.origins.tolist(), self.radii.tolist(), self.candidates.tolist()),
        )
        return hashlib.sha256(repr(rule).encode()).digest()

    @property
    def lowest(self) -> int:
        """The least integer that a record adds to a coordinate, -A."""
        return -self.units.residual

    @property
    def highest(self) -> int:
        """The largest integer that a record adds to a coordinate."""
        units = self.units
        return max(
            units.residual, units.count, units.square, units.beyond, units.presence, units.total
        )

    def measure_l1(self, neighbouring: str) -> int:
        """Bound the L1 distance of the sums of neighbours; see section 23 of ``proofs.md``."""
        units = self.units
        residual = units.residual if self.norm == "l1" else units.residual * len(self.summed)
        block = units.count + units.square + residual + units.presence * len(self.optional)
        totals = units.beyond + self._n_sets * units.total
        return count_records_moved(neighbouring) * block + totals

    def measure_l2_squared(self, neighbouring: str) -> int:
        """Bound the squared L2 distance of the sums; see section 23 of ``proofs.md``.

        Between two blocks everything changes twice; inside one the count does not change at all,
        and what is never negative changes once.
        """
        units = self.units
        one_sided = units.square**2 + units.presence**2 * len(self.optional)
        apart = units.count**2 + one_sided + units.residual**2
        totals = units.beyond**2 + self._n_sets * units.total**2
        if count_records_moved(neighbouring) == 1:
            return apart + totals
        return max(2 * apart, 4 * units.residual**2 + one_sided) + totals

    def find_nearest(self, steps: Integers, centres: Integers) -> tuple[Integers, Integers]:
        """Return the nearest of k centres and the squared distance: shape ``(n,)`` both.

        Parameters
        ----------
        steps
            Shape ``(n, d)``, the assigned coordinates.
        """
        distances = np.zeros((len(steps), self.n_clusters), dtype=np.int64)
        for i, weight in enumerate(self.weights.tolist()):
            away = steps[:, i, None] - centres[None, :, i]
            distances += weight * away * away
        nearest = distances.argmin(axis=1)
        return nearest, np.take_along_axis(distances, nearest[:, None], axis=1)[:, 0]

    def clip(self, residuals: Integers, radii: Integers) -> tuple[Integers, Bools]:
        """Return clipped residuals, and which records were cut or shortened.

        Parameters
        ----------
        residuals, radii
            Shape ``(n, e)``, steps.
        """
        most = self.units.residual
        scaled = np.abs(residuals) * most // radii
        size = np.minimum(scaled, most)
        is_clipped = (scaled > most).any(axis=1)
        if self.norm == "l1":
            norm = size.sum(axis=1)
        else:
            # Exact: a double holds the sum, and its root is at least 1e-7 from the next integer
            # where it is none itself.
            norm = np.ceil(np.sqrt((size * size).sum(axis=1).astype(np.float64))).astype(np.int64)
        far = norm > most
        size[far] = size[far] * most // norm[far, None]
        return np.sign(residuals) * size, is_clipped | far

    def sum_records(self, records: Records, sums: Integers) -> int:
        """Add each record to its cluster; see ``PlainStatistic``."""
        rows, n_unusable = max(1, _MOST_DISTANCES // self.n_clusters), 0
        for steps, present in self.quantiser.quantise_parts(records):
            usable = present[:, self.assigned].all(axis=1)
            kept, seen = steps[usable].astype(np.int64), present[usable]
            n_unusable += len(steps) - len(kept)
            for start in range(0, len(kept), rows):
                part = slice(start, start + rows)
                self._sum_usable(kept[part], seen[part], sums)
        return n_unusable

    def _sum_usable(self, steps: Integers, present: Bools, sums: Integers) -> None:
        units, parts, k = self.units, self.parts, self.n_clusters
        assigned = steps[:, self.assigned]
        nearest, distance = self.find_nearest(assigned, self.centres)
        capped = np.minimum(distance, self.cap)
        rows = np.zeros((len(steps), self.block_size), dtype=np.int64)
        rows[:, parts["count"]] = units.count
        if units.square:
            rows[:, parts["square"]] = (units.square * capped // self.cap)[:, None]
        is_beyond = distance >= self.cap
        if self.summed:
            seen = present[:, self.summed]
            away = np.where(seen, steps[:, self.summed] - self.origins[nearest], 0)
            rows[:, parts["residuals"]], is_clipped = self.clip(away, self.radii[nearest])
            is_beyond |= is_clipped
        if units.presence:
            rows[:, parts["presences"]] = units.presence * present[:, self.optional]
        blocks = np.zeros((k, self.block_size), dtype=np.int64)
        np.add.at(blocks, nearest, rows)
        stop = len(self.members) * self.block_size
        sums[:stop] += blocks[list(self.members)].ravel()
        totals = sums[stop:]
        if units.beyond:
            totals[0] += units.beyond * np.count_nonzero(is_beyond)
        if units.total:
            found = [capped]
            for centres in self.candidates:
                found.append(np.minimum(self.find_nearest(assigned, centres)[1], self.cap))
            totals[-len(found) :] += [(units.total * each // self.cap).sum() for each in found]


def _require(holds: bool, field: str, must: str) -> None:
    if not holds:
        raise PlanError(f"must be {must}", field=f"statistic.{field}")


def _require_range(field: str, values: Integers, least: int, most: int) -> None:
    if values.size and not least <= values.min() <= values.max() <= most:
        raise PlanError(f"must be from {least} to {most}", field=f"statistic.{field}")
