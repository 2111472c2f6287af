"""Everything that is public about a private cover, and what it costs, before any record is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from sfumato.learning.coverage.averages import GaussianAverages
from sfumato.learning.coverage.grid import CoverGrid
from sfumato.learning.coverage.projection import SignProjection
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.cover import (
    CoverEvent,
    GaussianEvent,
    PureEvent,
    StageEvent,
    calibrate_cover,
    calibrate_gaussian,
    compute_joint_delta,
)
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.sensitivity import require_neighbouring

RADII: Final = tuple(Fraction(1, 1 << i) for i in range(6, 0, -1))
"""Radii of the covers over that of the ball, from the smallest."""
SHARES: Final = (Fraction(4, 10), Fraction(1, 10))
ROUNDS: Final = (Fraction(1, 4), Fraction(3, 4))
LEAST_PROJECTED: Final = 2


@dataclass(frozen=True, kw_only=True)
class CoverPlan:
    """Public numbers of a private cover.

    Parameters
    ----------
    n_clusters
        k.
    projection
        From records to places.
    grids
        One for each radius, in the order of the picks.
    n_picks
        Picks from each grid.
    cover_rate, count_rate
        Exponents of a pick and of the noise on votes, in units of 2^-52.
    averages
        Noise of each round of averages.
    relation
        ``add-remove-one`` or ``replace-one``.
    epsilon, delta
        The guarantee of everything together.
    """

    n_clusters: int
    projection: SignProjection
    grids: tuple[CoverGrid, ...]
    n_picks: int
    cover_rate: int
    count_rate: int
    averages: tuple[GaussianAverages, ...]
    relation: str
    epsilon: Fraction
    delta: Fraction

    @property
    def has_cover(self) -> bool:
        """Whether anything is chosen: one cluster needs no cover."""
        return self.n_clusters > 1

    @cached_property
    def events(self) -> tuple[StageEvent, ...]:
        """What the stages cost; together at most (epsilon, delta)."""
        rounds = GaussianEvent(
            mu_squared=sum((each.measure(self.relation) for each in self.averages), Fraction(0))
        )
        if not self.has_cover:
            return (rounds,)
        moved = count_records_moved(self.relation)
        votes = PureEvent(epsilon=Fraction(moved * self.count_rate, UNIT))
        return CoverEvent(rate=self.cover_rate), votes, rounds

    def describe(self) -> dict[str, Any]:
        """Return the public numbers as plain values."""
        return {
            "method": "cover",
            "n_clusters": self.n_clusters,
            "n_dimensions": self.projection.n_dimensions,
            "n_projected": self.projection.n_projected,
            "radius": self.projection.radius,
            "seed": self.projection.seed,
            "cells": [grid.n_cells for grid in self.grids],
            "reach2": [grid.reach2 for grid in self.grids],
            "n_picks": self.n_picks,
            "cover_rate": self.cover_rate,
            "count_rate": self.count_rate,
            "sigma_count": [each.sigma_count for each in self.averages],
            "sigma_sum": [each.sigma_sum for each in self.averages],
            "relation": self.relation,
            "epsilon": [self.epsilon.numerator, self.epsilon.denominator],
            "delta": [self.delta.numerator, self.delta.denominator],
        }


def plan_cover(
    *,
    n_clusters: int,
    n_dimensions: int,
    n_records: int,
    epsilon: Fraction,
    delta: Fraction,
    seed: bytes,
    relation: str = "add-remove-one",
    radius: int | None = None,
    n_projected: int | None = None,
    radii: Sequence[Fraction] = RADII,
    fineness: Fraction = Fraction(1),
    reach2: int = 2,
    n_picks: int | None = None,
    shares: tuple[Fraction, Fraction] = SHARES,
    rounds: Sequence[Fraction] = ROUNDS,
) -> CoverPlan:
    """Plan a private cover from public numbers.

    Parameters
    ----------
    n_records
        Number of records, or where it is secret a public guess: d' follows from it.
    radius
        R, steps from the centre of the box; records further away are shortened. Left out: the
        corner of the box.
    n_projected
        d'; left out, ``ln(n) / 2``, from 2 to d.
    radii, fineness
        Radii over R, and the side of a cell over a radius, times ``sqrt(d')``.
    reach2
        Squared distance, in cells, that a grid point covers.
    n_picks
        Picks from each grid; left out, k.
    shares
        Shares of epsilon, for cover and for votes: each stage alone would cost that much at delta.
        The averages take what the joint cost leaves.
    rounds
        Shares of the rounds of averages in their ``mu^2``, in proportion. The first only places
        centres for the assignment of the next.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range, or nothing is left for a stage.
    """
    require_neighbouring(relation)
    _require(1 <= n_clusters <= n_records, "n_clusters", "from 1 to the number of records")
    _require(bool(rounds) and min(rounds) > 0, "rounds", "shares greater than 0")
    corner = math.isqrt(n_dimensions * STEPS * STEPS)
    radius = corner if radius is None else radius
    _require(1 <= radius <= corner, "radius", f"from 1 to {corner}, the corner of the box")
    if n_projected is None:
        n_projected = min(n_dimensions, max(LEAST_PROJECTED, int(math.log(n_records) / 2)))
    _require(1 <= n_projected <= n_dimensions, "n_projected", f"from 1 to {n_dimensions}")
    n_picks = n_clusters if n_picks is None else n_picks
    _require(n_picks >= 1, "n_picks", "at least 1")
    _require(bool(radii) and all(0 < r <= 2 for r in radii), "radii", "above 0 and at most 2")
    _require(fineness > 0, "fineness", "greater than 0")
    _require(min(shares) > 0 and sum(shares) < 1, "shares", "above 0, with a sum below 1")
    if not 0 < delta < 1:
        raise PrivacyError(
            "must be above 0 and below 1",
            field="delta",
            fix='use less than one over the number of records, such as "1e-9"',
        )
    projection = SignProjection(
        n_dimensions=n_dimensions, n_projected=n_projected, radius=radius, seed=seed
    )
    sides = [max(1, math.ceil(2 * math.sqrt(n_projected) / float(fineness * r))) for r in radii]
    grids = tuple(
        CoverGrid(half=projection.half, n_cells=m, n_dimensions=n_projected, reach2=reach2)
        for m in sides
    )
    cover_rate = count_rate = 1
    stages: tuple[StageEvent, ...] = ()
    if n_clusters > 1:
        moved = count_records_moved(relation)
        cover_rate = calibrate_cover(shares[0] * epsilon, delta)
        count_rate = math.floor(shares[1] * epsilon * UNIT / moved)
        stages = (
            CoverEvent(rate=cover_rate),
            PureEvent(epsilon=Fraction(moved * count_rate, UNIT)),
        )
    # One cluster has all records in its first round.
    shared_by = tuple(rounds) if n_clusters > 1 else (Fraction(1),)
    mu_squared = calibrate_gaussian(stages, epsilon=epsilon, delta=delta, relation=relation)
    plan = CoverPlan(
        n_clusters=n_clusters,
        projection=projection,
        grids=grids,
        n_picks=n_picks,
        cover_rate=cover_rate,
        count_rate=count_rate,
        averages=tuple(
            GaussianAverages.calibrate(
                radius=radius, mu_squared=mu_squared * share / sum(shared_by), relation=relation
            )
            for share in shared_by
        ),
        relation=relation,
        epsilon=epsilon,
        delta=delta,
    )
    if compute_joint_delta(plan.events, epsilon, relation=relation) > delta:
        raise PrivacyError(
            "is exceeded by the planned stages",
            field="delta",
            fix="report this: the calibration contradicts the accounting",
        )
    return plan


def _require(holds: bool, field: str, rule: str) -> None:
    if not holds:
        raise ConfigError(f"must be {rule}", field=field, fix="change it, or leave it out")
