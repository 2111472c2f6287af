"""Max cover as a central method: picks, votes and averages, at one joint cost."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from sfumato.learning.clustering.cover import run_cover
from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Floats,
    Integers,
    QuantisedRecords,
    Round,
    Task,
)
from sfumato.learning.clustering.methods.starts import make_rng
from sfumato.learning.clustering.weighted_points import cluster_weighted
from sfumato.learning.coverage.plan import CoverPlan, plan_cover
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.mechanism import PrivacyGuarantee
from sfumato.shared.privacy.samplers import RandomSource

_ROUND = "cover"


@dataclass(frozen=True, kw_only=True)
class CoverMethod:
    """Grid points that cover many records, their votes, and rounds of Gaussian averages.

    All stages are one round: what they cost together is less than the sum of their parts.

    Parameters
    ----------
    radius
        Records further from the centre of the box than so many steps are shortened; 0 for the
        corner of the box.
    n_projected
        Dimensions of the cover; 0 for a number by n and d.
    cover_share, votes_share
        Shares of epsilon; the averages take what the joint cost leaves.
    """

    name: ClassVar[str] = "cover"

    radius: int = 0
    n_projected: int = 0
    cover_share: Fraction = Fraction(4, 10)
    votes_share: Fraction = Fraction(1, 10)

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``."""
        self.make_plan(task)
        return (Round(name=_ROUND, epsilon=task.epsilon, delta=task.delta),)

    def make_plan(self, task: Task) -> CoverPlan:
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
        plan, rng = self.make_plan(task), make_rng(task, self.name)

        def draw(source: RandomSource) -> Integers:
            answer = run_cover(records.steps, plan, source=source, rng=rng)
            parts = answer.candidates, answer.votes, answer.rounds
            return np.concatenate([part.ravel() for part in parts])

        guarantee = PrivacyGuarantee(
            epsilon=task.epsilon, delta=task.delta, neighbouring=task.relation
        )
        curator.draw(guarantee, draw)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; fewer clusters than the task's are made of the averages."""
        centroids, masses = self._read(task, answers[0].values)
        return take_fewer(task, Clusters.of(centroids, masses), n_clusters, rng)

    def _read(self, task: Task, values: Integers) -> tuple[Floats, Floats]:
        """Return centroids and masses from all that was released."""
        plan = self.make_plan(task)
        k, d = task.n_clusters, task.n_dimensions
        rounds = values[-len(plan.averages) * k * (1 + d) :].reshape(-1, k, 1 + d)
        centroids: Floats | None = None
        masses: Floats = np.ones(k)
        for averages, released in zip(plan.averages, rounds, strict=True):
            centroids, masses = averages.read(released, centroids)
            centroids = np.clip(centroids, -STEPS, STEPS)
        assert centroids is not None
        return centroids, masses


def take_fewer(task: Task, found: Clusters, n_clusters: int, rng: np.random.Generator) -> Clusters:
    """Cluster the averages of k clusters into fewer.

    Raises
    ------
    ConfigError
        More clusters than the task's were asked for.
    """
    if not 1 <= n_clusters <= task.n_clusters:
        raise ConfigError(
            f"must be from 1 to the {task.n_clusters} clusters that were averaged",
            field="n_clusters",
            fix="ask for fewer clusters",
        )
    if n_clusters == task.n_clusters:
        return found
    merged = cluster_weighted(found.centroids, found.shares, n_clusters, rng)
    squares = np.sum((found.centroids[:, None] - merged[None]) ** 2, axis=2)
    shares = np.bincount(np.argmin(squares, axis=1), found.shares, minlength=n_clusters)
    return Clusters.of(merged, shares.astype(np.float64))


@lru_cache(maxsize=32)
def _calibrate(method: CoverMethod, task: Task) -> CoverPlan:
    return plan_cover(
        n_clusters=task.n_clusters,
        n_dimensions=task.n_dimensions,
        n_records=task.n_records,
        epsilon=task.epsilon,
        delta=task.delta,
        relation=task.relation,
        seed=derive_seed(task),
        radius=method.radius or None,
        n_projected=method.n_projected or None,
        shares=(method.cover_share, method.votes_share),
    )


def derive_seed(task: Task) -> bytes:
    """Derive the public seed of the projection."""
    return hashlib.sha256(b"cover" + task.seed).digest()
