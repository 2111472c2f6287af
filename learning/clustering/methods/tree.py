"""A coreset of noisy leaves: a tree of public hyperplanes through released means.

The central counterpart of the tree of Ghazi, Kumar and Manurangsi (2020) as their program has it,
and of Chang, Ghazi, Kumar and Manurangsi (2021). Level by level, the sums and counts of all live
nodes are released under cube noise. A node that holds clearly more than noise is divided by the
hyperplane through its released mean with a public random normal; others are leaves. The leaves are
weighted points, which can be clustered for any k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Floats,
    Integers,
    QuantisedRecords,
    Round,
    Task,
    divide_pure,
)
from sfumato.learning.clustering.methods.starts import make_rng
from sfumato.learning.clustering.methods.sums import (
    NoisyClusters,
    ask_sums,
    choose_radius,
    make_noise,
    read_sums,
    sum_bodies,
)
from sfumato.learning.clustering.weighted_points import assign_weighted, run_weighted
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError

MOST_DEPTH: Final = 9
_RECORDS_PER_NOISE: Final = 300.0
"""Records of a leaf over the deviation of a count under all of epsilon, as the depth is chosen."""
_SPLIT: Final = 6.0
"""Deviations of its count that a node must hold to be divided."""
_DEEPER: Final = Fraction(1, 2)
"""Level l has a share of epsilon in proportion to 1 + l / 2."""
_NORMAL: Final = 1 << 10
"""Unit of the integer normals: ``|normal . (u - mean)|`` stays far below 2^63."""


@dataclass(frozen=True, kw_only=True)
class TreeMethod:
    """A tree of noisy sums, weighted k-means on its leaves, and then rounds of noisy sums.

    Parameters
    ----------
    n_rounds
        Rounds of clipped sums after the tree; 0 for the tree alone.
    tree_share
        Share of epsilon for the tree, where rounds follow.
    depth
        Levels below the root; -1 for a number by ``n epsilon``, d and k.
    """

    name: ClassVar[str] = "tree"

    n_rounds: int = 2
    tree_share: Fraction = Fraction(1, 2)
    depth: int = -1

    def __post_init__(self) -> None:
        if not 0 <= self.n_rounds <= 10:
            raise ConfigError("must be from 0 to 10", field="n_rounds", fix="use 2")
        if not 0 < self.tree_share < 1:
            raise ConfigError("must be between 0 and 1", field="tree_share", fix="use 1/2")
        if not -1 <= self.depth <= MOST_DEPTH:
            raise ConfigError(
                f"must be from 0 to {MOST_DEPTH}", field="depth", fix="leave it out for a choice"
            )

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``."""
        depth = choose_depth(task) if self.depth < 0 else self.depth
        weights = [1 + _DEEPER * level for level in range(depth + 1)]
        names, total = ["nodes"] * len(weights), sum(weights, Fraction(0))
        shares = [weight / total for weight in weights]
        if self.n_rounds:
            rest = (1 - self.tree_share) / self.n_rounds
            names = [*names, *["sums"] * self.n_rounds]
            shares = [*(self.tree_share * share for share in shares), *[rest] * self.n_rounds]
        rounds = divide_pure(task, names, shares)
        for planned in (rounds[0], rounds[-1]):
            make_noise("cube", planned, task, STEPS)
        return rounds

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        rng = make_rng(task, self.name)
        rounds = self.plan_rounds(task)
        n_levels = len(rounds) - self.n_rounds
        nodes = np.zeros(len(records.steps), dtype=np.intp)
        divided = _Divided.of_root(task.n_dimensions)
        for level in range(n_levels):
            # Also where nothing is left to divide: what was planned is asked.
            answer = _ask_nodes(records, nodes, task, curator, divided)
            if level + 1 < n_levels:
                divided = _divide(task, rounds[level], answer, rng)
                nodes = divided.descend(records.steps, nodes)
        if not self.n_rounds:
            return
        leaves = _collect_leaves(task, rounds, curator.answers)
        found = _cluster(leaves, task.n_clusters, make_rng(task, "leaves"))
        # Leaves are means of many records, so their spread is no scale of single ones.
        radius = choose_radius(task.scale, rounds[-1])
        centroids = found.centroids
        for planned in rounds[n_levels:]:
            answer = ask_sums(records, task, curator, centroids, "cube", radius)
            centroids = read_sums(task, planned, answer, "cube", is_shrunk=True).centroids

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; another k than the task's is clustered from the leaves alone."""
        rounds = self.plan_rounds(task)
        if n_clusters == task.n_clusters and self.n_rounds:
            moved = read_sums(task, rounds[-1], answers[-1], "cube", is_shrunk=True)
            return Clusters.of(moved.centroids, moved.masses)
        leaves = _collect_leaves(task, rounds, answers)
        if not 1 <= n_clusters <= max(task.n_clusters, len(leaves.masses)):
            raise ConfigError(
                f"must be from 1 to the number of leaves, {len(leaves.masses)}",
                field="n_clusters",
                fix="ask for fewer clusters",
            )
        found = _cluster(leaves, n_clusters, rng)
        return Clusters.of(found.centroids, found.masses)


def choose_depth(task: Task) -> int:
    """Choose the levels below the root: one too many is ruinous, one too few is not.

    round(log2(n eps / (300 sqrt((d + 2) (d + 3) / 3)))),    from ceil(log2 k) to 9
    """
    d = task.n_dimensions
    noise = math.sqrt((d + 2) * (d + 3) / 3.0)
    wanted = round(math.log2(max(task.strength / (_RECORDS_PER_NOISE * noise), 1e-9)))
    least = math.ceil(math.log2(task.n_clusters)) if task.n_clusters > 1 else 0
    return min(max(wanted, least), MOST_DEPTH)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Divided:
    """Nodes of a level that were divided, and how: public.

    Parameters
    ----------
    parents
        Shape ``(p,)``: numbers of the divided nodes, among those of their level.
    normals, through
        Shape ``(p, d)``: hyperplanes, integers.
    """

    parents: Integers
    normals: Integers
    through: Integers

    @classmethod
    def of_root(cls, n_dimensions: int) -> _Divided:
        none = np.zeros((0, n_dimensions), dtype=np.int64)
        return cls(parents=np.zeros(0, dtype=np.int64), normals=none, through=none)

    def descend(self, steps: NDArray[np.int16], nodes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the child of each record, -1 where its node is a leaf: exact."""
        order = np.full(max(int(nodes.max(initial=-1)), int(self.parents.max(initial=-1))) + 2, -1)
        order[self.parents] = np.arange(len(self.parents))
        # Records of a leaf, -1, find the last place, which no node has.
        place = order[nodes]
        child = np.full(len(nodes), -1, dtype=np.intp)
        for i in range(len(self.parents)):
            inside = np.flatnonzero(place == i)
            # Integers throughout: a record's side depends on no other record.
            offsets = steps[inside].astype(np.int64) - self.through[i]
            child[inside] = 2 * i + (offsets @ self.normals[i] >= 0)
        return child


def _ask_nodes(
    records: QuantisedRecords,
    nodes: NDArray[np.intp],
    task: Task,
    curator: Curator,
    divided: _Divided,
) -> Answer:
    """Ask for the sums and counts of the nodes of one level."""
    is_root = not curator.answers
    n_nodes = 1 if is_root else 2 * len(divided.parents)
    noise = make_noise("cube", curator.next_round, task, STEPS)
    inside = nodes >= 0
    sums = sum_bodies(records.steps[inside], nodes[inside], n_nodes, noise.sums.count_unit)
    return curator.ask(
        noise, sums, parents=divided.parents, normals=divided.normals, through=divided.through
    )


def _read_nodes(task: Task, planned: Round, answer: Answer) -> tuple[Floats, Floats, float]:
    """Return means, counts, and the deviation of a count, of the nodes of one level."""
    noise = make_noise("cube", planned, task, STEPS)
    counts = answer.values[:, -1] / noise.sums.count_unit
    means = answer.values[:, :-1] / np.maximum(counts, 1.0)[:, None]
    return np.clip(means, -STEPS, STEPS), counts, noise.count_deviation


def _divide(task: Task, planned: Round, answer: Answer, rng: np.random.Generator) -> _Divided:
    """Divide the nodes that hold clearly more than noise."""
    means, counts, deviation = _read_nodes(task, planned, answer)
    parents = np.flatnonzero(counts > _SPLIT * deviation)
    # Drawn for all nodes, so that a normal depends on no count.
    normals = np.rint(rng.normal(size=means.shape) * _NORMAL).astype(np.int64)
    return _Divided(
        parents=parents.astype(np.int64),
        normals=normals[parents],
        through=np.rint(means[parents]).astype(np.int64),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Leaves:
    """Means ``(p, d)`` in steps, and masses ``(p,)`` above 0."""

    means: Floats
    masses: Floats


def _collect_leaves(task: Task, rounds: Sequence[Round], answers: Sequence[Answer]) -> _Leaves:
    """Collect the nodes that were not divided, with a positive count."""
    levels = [answer for answer in answers if answer.name == "nodes"]
    means, masses = [], []
    for i, (planned, answer) in enumerate(zip(rounds, levels, strict=False)):
        mean, count, _ = _read_nodes(task, planned, answer)
        is_leaf = np.ones(len(count), dtype=bool)
        if i + 1 < len(levels):
            is_leaf[levels[i + 1].asked["parents"]] = False
        kept = is_leaf & (count > 0.0)
        means.append(mean[kept])
        masses.append(count[kept])
    joined, heavy = np.concatenate(means), np.concatenate(masses)
    if not heavy.size:
        return _Leaves(means=np.zeros((1, task.n_dimensions)), masses=np.ones(1))
    return _Leaves(means=joined, masses=heavy)


def _cluster(leaves: _Leaves, n_clusters: int, rng: np.random.Generator) -> NoisyClusters:
    runs = run_weighted(leaves.means, leaves.masses, n_clusters, rng)
    best = min(runs, key=lambda run: run.cost)
    labels, _ = assign_weighted(leaves.means, leaves.masses, best.centroids)
    masses = np.bincount(labels, leaves.masses, minlength=n_clusters)
    return NoisyClusters(centroids=best.centroids, masses=masses.astype(np.float64))
