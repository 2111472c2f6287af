"""Private max cover with its published constants, on integers: for comparison.

Nguyen, Chaturvedi and Xu (2021), with the split of epsilon, radii, picks and averages of their
experiments. The guarantee is the one that they claim (Theorem 16). Sampling is exact here, and the
radius is public, where their program divides by the largest norm of the records. A grid point
covers the ball of cells that ``sfumato.learning.coverage.grid`` describes, where theirs covers
corners of a cell only, which finds less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    QuantisedRecords,
    Round,
    Task,
)
from sfumato.learning.clustering.methods.cover import derive_seed, take_fewer
from sfumato.learning.clustering.methods.starts import make_rng
from sfumato.learning.clustering.weighted_points import cluster_weighted
from sfumato.learning.coverage.averages import find_nearest, sum_clusters
from sfumato.learning.coverage.gains import choose_points
from sfumato.learning.coverage.grid import CoverGrid
from sfumato.learning.coverage.plan import LEAST_PROJECTED
from sfumato.learning.coverage.projection import Integers, SignProjection, clip_to_ball
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.cover import compute_cover_delta
from sfumato.shared.privacy.mechanism import PrivacyGuarantee
from sfumato.shared.privacy.mechanisms.gaussian import LARGEST_SIGMA, draw_gaussian
from sfumato.shared.privacy.mechanisms.laplace import draw_laplace
from sfumato.shared.privacy.samplers import UNIT, RandomSource
from sfumato.shared.privacy.selection import ExponentialChoice

_COVER, _VOTES, _AVERAGES = Fraction(1, 10), Fraction(1, 10), Fraction(4, 10)
FRACTION: Final = 256
"""Averages are released in steps over 256."""
_FIRST_RADIUS: Final = 1000
_PICKS_DELTA: Final = 1e-3
"""Share of delta for the picks, which by ``shared/privacy/cover.py`` need far less."""
LARGEST_EPSILON: Final = 3
"""The Gaussian bound of an average holds for a loss below 1."""


@dataclass(frozen=True, kw_only=True)
class PublishedPlan:
    """Public numbers of the published algorithm.

    Parameters
    ----------
    n_clusters
        k.
    projection, grids, n_picks
        As in ``CoverPlan``.
    epsilon, delta
        Claimed by the authors, under add-remove-one.
    cover_rate
        Exponent of a pick in units of 2^-52: half their eps_E.
    """

    n_clusters: int
    projection: SignProjection
    grids: tuple[CoverGrid, ...]
    n_picks: int
    epsilon: Fraction
    delta: Fraction
    cover_rate: int


@dataclass(frozen=True, kw_only=True)
class PublishedCoverMethod:
    """Max cover with the stages and constants of its authors' experiments.

    Parameters
    ----------
    radius
        As of ``CoverMethod``.
    """

    name: ClassVar[str] = "published-cover"

    radius: int = 0

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``."""
        self.make_plan(task)
        return (Round(name="cover", epsilon=task.epsilon, delta=task.delta),)

    def make_plan(self, task: Task) -> PublishedPlan:
        """Return the public numbers of all stages.

        Raises
        ------
        ConfigError, PrivacyError
            The task does not suit the method.
        """
        # The calibration does not depend on the seed.
        plan = _calibrate(self, replace(task, seed=b""))
        return replace(plan, projection=replace(plan.projection, seed=derive_seed(task)))

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        plan, rng = self.make_plan(task), make_rng(task, "cover")
        guarantee = PrivacyGuarantee(
            epsilon=task.epsilon, delta=task.delta, neighbouring=task.relation
        )
        curator.draw(
            guarantee,
            lambda source: run_published(records.steps, plan, source=source, rng=rng).ravel(),
        )

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; the program of the authors releases no shares."""
        k = task.n_clusters
        centroids = answers[0].values.reshape(k, task.n_dimensions) / FRACTION
        return take_fewer(task, Clusters.of(centroids, np.ones(k)), n_clusters, rng)


@lru_cache(maxsize=32)
def _calibrate(method: PublishedCoverMethod, task: Task) -> PublishedPlan:
    if task.relation != "add-remove-one":
        raise PrivacyError(
            "must be add-remove-one for the published cover, which claims no other",
            field="relation",
            fix="use add-remove-one, or the cover that is not published",
        )
    return plan_published(
        n_clusters=task.n_clusters,
        n_dimensions=task.n_dimensions,
        n_records=task.n_records,
        epsilon=task.epsilon,
        delta=task.delta,
        seed=derive_seed(task),
        radius=method.radius or None,
    )


def plan_published(
    *,
    n_clusters: int,
    n_dimensions: int,
    n_records: int,
    epsilon: Fraction,
    delta: Fraction,
    seed: bytes,
    radius: int | None = None,
) -> PublishedPlan:
    """Plan the published algorithm: radii that double from 1000 / n to 1, k / epsilon picks each.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range.
    """
    if not 0 < delta < 1:
        raise PrivacyError(
            "must be above 0 and below 1", field="delta", fix="use n^-1.5, as the authors do"
        )
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise PrivacyError(
            f"must be above 0 and at most {LARGEST_EPSILON} for the published averages",
            field="epsilon",
            fix="use a smaller epsilon, or the cover that is not published",
        )
    n_projected = min(n_dimensions, max(LEAST_PROJECTED, int(math.log(n_records) / 2)))
    projection = SignProjection(
        n_dimensions=n_dimensions,
        n_projected=n_projected,
        radius=math.isqrt(n_dimensions * STEPS * STEPS) if radius is None else radius,
        seed=seed,
    )
    radii = [min(1.0, _FIRST_RADIUS / n_records)]
    while radii[-1] < 1.0:
        radii.append(2 * radii[-1])
    root = math.sqrt(n_projected)
    grids = tuple(
        CoverGrid(
            half=projection.half,
            n_cells=max(1, math.ceil(2 * root / (r * min(1.0, float(epsilon))))),
            n_dimensions=n_projected,
            reach2=2,
        )
        for r in radii
    )
    spent = float(_COVER * epsilon)
    exponent = spent / (math.e * (math.log(delta.denominator) - math.log(delta.numerator)))
    rate = math.floor(exponent * UNIT)
    if rate < 1 or (
        compute_cover_delta(Fraction(rate, UNIT), _COVER * epsilon) > _PICKS_DELTA * float(delta)
    ):
        raise PrivacyError(
            "is outside the range in which the claim of the authors was checked",
            field="delta",
            fix="use n^-1.5, as they do",
        )
    return PublishedPlan(
        n_clusters=n_clusters,
        projection=projection,
        grids=grids,
        n_picks=max(1, math.ceil(n_clusters / float(epsilon))),
        epsilon=epsilon,
        delta=delta,
        cover_rate=rate,
    )


def run_published(
    steps: NDArray[np.integer[Any]],
    plan: PublishedPlan,
    *,
    source: RandomSource,
    rng: np.random.Generator,
) -> Integers:
    """Release centroids as the authors do: shape ``(k, d)``, steps over 256, inside the box.

    Parameters
    ----------
    steps, plan, source, rng
        As in ``run_cover``.
    """
    clipped = clip_to_ball(steps, plan.projection.radius)
    places = plan.projection.project(clipped)
    candidates = choose_points(
        places,
        plan.grids,
        n_picks=plan.n_picks,
        choice=ExponentialChoice(rate=plan.cover_rate),
        source=source,
    )
    counts = np.bincount(find_nearest(places, candidates), minlength=len(candidates))
    rate = math.floor(_VOTES * plan.epsilon * UNIT)
    votes = counts.astype(np.int64) + draw_laplace(source, rate, counts.size)
    weights = np.maximum(votes, 0).astype(np.float64)
    if not weights.any():
        weights[: plan.n_clusters] = 1.0
    centres = cluster_weighted(candidates.astype(np.float64), weights, plan.n_clusters, rng)
    labels = find_nearest(places, np.rint(centres).astype(np.int64))
    averages = _average(clipped, labels, plan, source, rng)
    labels = find_nearest(clipped, np.rint(averages / FRACTION).astype(np.int64))
    return _average(clipped, labels, plan, source, rng)


def _average(
    clipped: Integers,
    labels: Integers,
    plan: PublishedPlan,
    source: RandomSource,
    rng: np.random.Generator,
) -> Integers:
    """NoisyAVG of each cluster (Nissim, Stemmer and Vadhan 2016), clipped to the box."""
    counts, sums = sum_clusters(clipped, labels, plan.n_clusters)
    return np.array(
        [
            draw_noisy_average(int(n), total, plan, source, rng)
            for n, total in zip(counts, sums, strict=True)
        ]
    )


def draw_noisy_average(
    n_members: int,
    total: Integers,
    plan: PublishedPlan,
    source: RandomSource,
    rng: np.random.Generator,
) -> Integers:
    """Draw the noisy average of one cluster: shape ``(d,)``, steps over 256.

        m = n + Lap(5 / eps) - (5 / eps) ln(2 / delta)
        sigma = 5 Delta / (4 eps m) sqrt(2 ln(3.5 / delta))

    and a uniform point of the ball where m is not positive, or so small that sigma could not be
    drawn: less noise would be less than was claimed. The mean is rounded to steps over 256, and
    sigma enlarged for it.
    """
    d, diameter = total.size, 2 * plan.projection.radius
    epsilon, delta = _AVERAGES * plan.epsilon, float(plan.delta / 2) * (1 - _PICKS_DELTA)
    rate = math.floor(epsilon / 5 * UNIT)
    lost = 5 / float(epsilon) * math.log(2 / delta)
    least = n_members + int(draw_laplace(source, rate, 1)[0]) - lost
    sigma = math.inf
    if least > 0:
        moved = diameter * FRACTION / least + math.sqrt(d)
        sigma = math.ceil(1.25 / float(epsilon) * moved * math.sqrt(2 * math.log(3.5 / delta)))
    if sigma > LARGEST_SIGMA:
        direction = rng.normal(size=d)
        length = plan.projection.radius * rng.random() ** (1 / d)
        point = direction / np.linalg.norm(direction) * length
        placed: Integers = np.rint(np.clip(point, -STEPS, STEPS) * FRACTION).astype(np.int64)
        return placed
    mean = total * FRACTION // max(n_members, 1)
    noise = draw_gaussian(source, int(sigma), d)
    released: Integers = np.clip(mean + noise, -STEPS * FRACTION, STEPS * FRACTION)
    return released
