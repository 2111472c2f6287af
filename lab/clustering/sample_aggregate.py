"""Sample and aggregate: k-means in blocks of the records, averaged with noise; for comparison.

Nissim, Raskhodnikova and Smith (2007); GUPT by Mohan, Thakurta, Shi, Song and Culler (2012).
Records are divided into ``l = n^0.4`` blocks; k-means runs in each; the centroids are averaged
under cube noise. A record is in one block, so the sum over blocks moves by at most the width of the
box. Under replace-one only: where a record may be absent, it would move all that follow to other
blocks. Averages of differently ordered centroids are the real error, and noise the rest: it needs
``n epsilon`` above a million.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Floats,
    QuantisedRecords,
    Round,
    Task,
)
from sfumato.learning.clustering.methods.starts import make_rng, pack_spheres
from sfumato.learning.clustering.weighted_points import cluster_weighted
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.mechanisms.cube import DiscreteCube

_POWER: Final = 0.4


@dataclass(frozen=True, kw_only=True)
class SampleAggregateMethod:
    """Averages over blocks of the centroids of each.

    Parameters
    ----------
    is_published
        Order centroids by their first coordinate, as GUPT's program does; otherwise match them to
        public points.
    """

    name: ClassVar[str] = "sample-aggregate"

    is_published: bool = False

    @classmethod
    def published(cls) -> Self:
        """Return GUPT's order of centroids."""
        return cls(is_published=True)

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``."""
        if task.relation != "replace-one":
            raise PrivacyError(
                "must be replace-one here: the blocks depend on the number of records",
                field="relation",
                fix="use replace-one, or another method",
            )
        planned = Round(name="centroids", epsilon=task.epsilon)
        _make_noise(task, planned)
        return (planned,)

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        k, d = task.n_clusters, task.n_dimensions
        n_blocks = count_blocks(task.n_records)
        order = make_rng(task, "blocks").permutation(task.n_records)
        blocks = order[records.positions] % n_blocks
        anchors = pack_spheres(k, d, make_rng(task, "anchors"))
        total = np.zeros((1, k * d), dtype=np.int64)
        for block in range(n_blocks):
            steps = records.steps[blocks == block].astype(np.float64)
            # The same start for every block, so that no block changes what another draws.
            found = _cluster(steps, k, d, make_rng(task, "starts"))
            ordered = _order(found, None if self.is_published else anchors)
            total[0] += np.rint(np.clip(ordered, -STEPS, STEPS)).astype(np.int64).ravel()
        curator.ask(_make_noise(task, curator.next_round), total)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; no other k than the task's, and no shares."""
        del rng
        if n_clusters != task.n_clusters:
            raise ConfigError(
                f"must be {task.n_clusters}, as it was fitted", field="n_clusters", fix="fit again"
            )
        centroids = answers[0].values.reshape(n_clusters, -1) / count_blocks(task.n_records)
        return Clusters.of(centroids, np.ones(n_clusters))


def _make_noise(task: Task, planned: Round) -> DiscreteCube:
    """Make the noise of one body of k d integers."""
    return DiscreteCube.calibrate(
        n_coordinates=task.n_clusters * task.n_dimensions,
        norm_sensitivity=2 * STEPS,
        epsilon=planned.epsilon,
        neighbouring=task.relation,
    )


def count_blocks(n_records: int) -> int:
    """Return ``l = n^0.4``, rounded, at least 1."""
    return max(1, round(math.pow(n_records, _POWER)))


def _cluster(steps: Floats, k: int, d: int, rng: np.random.Generator) -> Floats:
    """Cluster a block; the centre of the box, k times, where it is empty."""
    if not len(steps):
        return np.zeros((k, d))
    return cluster_weighted(steps, np.ones(len(steps)), k, rng, n_restarts=3)


def _order(centroids: Floats, anchors: Floats | None) -> Floats:
    """Order centroids by the first coordinate, or each nearest anchor first come."""
    if anchors is None:
        return centroids[np.argsort(centroids[:, 0], kind="stable")]
    squares = np.sum((centroids[:, None] - anchors[None]) ** 2, axis=2)
    ordered = np.empty_like(centroids)
    # Greedy: the closest pair first.
    for _ in range(len(centroids)):
        i, j = np.unravel_index(int(np.argmin(squares)), squares.shape)
        ordered[j] = centroids[i]
        squares[i, :], squares[:, j] = np.inf, np.inf
    return ordered
