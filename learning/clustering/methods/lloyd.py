"""Lloyd's algorithm with noisy sums: DPLloyd as published, and with cube noise and shrinkage.

Blum, Dwork, McSherry and Nissim (2005, "SuLQ"), McSherry (2009, PINQ) and Su, Cao, Li, Bertino and
Jin (2016): each round assigns records to released centroids, and releases the sums and counts of
the clusters. Published are Laplace noise, starts that are uniform or a sphere packing, and
centroids ``S / N``. Ours has cube noise, centroids that move less where noise is strong, and
residuals that are clipped where a scale is known: from the third round on, or from the first
around given centroids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
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
    divide_jointly,
    divide_pure,
)
from sfumato.learning.clustering.methods.starts import (
    Centroids,
    place_start,
    read_start,
    require_start,
)
from sfumato.learning.clustering.methods.sums import (
    NoisyClusters,
    ask_sums,
    choose_radius,
    make_noise,
    read_sums,
    require_law,
)
from sfumato.learning.clustering.weighted_points import cluster_weighted
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError

MOST_ROUNDS: Final = 20
_FIRST_CLIPPED: Final = 2
"""Rounds before residuals are clipped, from a start that knows nothing of the clusters."""


@dataclass(frozen=True, kw_only=True)
class LloydMethod:
    """Rounds of Lloyd's algorithm from a start that depends on no record.

    Parameters
    ----------
    n_rounds
        T; 0 for a number by ``n epsilon``: 3 up to 10^4, 5 up to 10^5, 8 above.
    start
        ``packing``, ``uniform``, or ``given``.
    centroids
        For ``given``: k centroids of d numbers each, in half widths from the centre of the box,
        public or released before.
    noise
        ``cube``, ``laplace`` or ``gaussian``; the last needs a delta.
    is_published
        Whether centroids are ``S / N``, without shrinkage and clipped residuals.
    """

    name: ClassVar[str] = "lloyd"

    n_rounds: int = 0
    start: str = "packing"
    centroids: Centroids = ()
    noise: str = "cube"
    is_published: bool = False

    def __post_init__(self) -> None:
        require_law(self.noise)
        if not 0 <= self.n_rounds <= MOST_ROUNDS:
            raise ConfigError(
                f"must be from 0 to {MOST_ROUNDS}",
                field="n_rounds",
                fix="use 0 for a number by n epsilon",
            )
        object.__setattr__(self, "centroids", read_start(self.start, self.centroids))

    @classmethod
    def published(cls, *, start: str = "packing", n_rounds: int = 5) -> Self:
        """Return DPLloyd with the Laplace noise of Su et al.; five rounds as in the seed paper."""
        return cls(n_rounds=n_rounds, start=start, noise="laplace", is_published=True)

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``."""
        require_start(task, self.centroids)
        n_rounds = self.n_rounds or choose_rounds(task)
        divide = divide_jointly if self.noise == "gaussian" else divide_pure
        rounds = divide(task, ["sums"] * n_rounds, [Fraction(1)] * n_rounds)
        make_noise(self.noise, rounds[0], task, STEPS)
        return rounds

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        centroids = self._start(task)
        first = 0 if self.start == "given" else _FIRST_CLIPPED
        for i, planned in enumerate(self.plan_rounds(task)):
            is_clipped = not self.is_published and i >= first
            radius = choose_radius(task.scale, planned) if is_clipped else STEPS
            answer = ask_sums(records, task, curator, centroids, self.noise, radius)
            centroids = self._read(task, planned, answer).centroids

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; fewer clusters than the task's join those that were found."""
        if not 1 <= n_clusters <= task.n_clusters:
            raise ConfigError(
                f"must be from 1 to {task.n_clusters}: rounds of sums tell of no more clusters",
                field="n_clusters",
                fix="fit again for more, which spends again, or use the method grid or tree",
            )
        moved = self._read(task, self.plan_rounds(task)[len(answers) - 1], answers[-1])
        if n_clusters == task.n_clusters:
            return Clusters.of(moved.centroids, moved.masses)
        masses = np.maximum(moved.masses, 0.0)
        if not masses.sum() > 0.0:
            masses = np.ones(len(masses))
        centroids = cluster_weighted(moved.centroids, masses, n_clusters, rng)
        squares = np.sum((moved.centroids[:, None] - centroids) ** 2, axis=2)
        joined = np.bincount(np.argmin(squares, axis=1), masses, minlength=n_clusters)
        return Clusters.of(centroids, joined.astype(np.float64))

    def _start(self, task: Task) -> Floats:
        return place_start(task, self.start, self.centroids, purpose=self.name)

    def _read(self, task: Task, planned: Round, answer: Answer) -> NoisyClusters:
        return read_sums(task, planned, answer, self.noise, is_shrunk=not self.is_published)


def choose_rounds(task: Task) -> int:
    """Choose the number of rounds by ``n epsilon``, a public number."""
    steps = math.log10(max(task.strength, 1.0))
    if steps <= 4.0:
        return 3
    return 5 if steps <= 5.0 else 8
