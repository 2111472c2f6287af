"""Candidates in a quadtree, their votes, and rounds of noisy sums.

Balcan, Dick, Liang, Mou and Zhang, "Differentially Private Clustering in High-Dimensional Euclidean
Spaces" (2017): a randomly shifted quadtree whose cells with many records give candidates, and then
a private local search among them (:mod:`sfumato.lab.clustering.local_search`). Ours counts the
records nearest to each candidate once and clusters the counts, which tells as much as all swaps of
the search (Jones, Nguyen and Nguyen 2021). Their program divides by exact sizes of clusters; here
rounds of noisy sums do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

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
    choose_rounds,
    make_noise,
    read_sums,
    sum_bodies,
)
from sfumato.learning.clustering.weighted_points import assign_weighted, cluster_weighted
from sfumato.learning.coverage.averages import find_nearest
from sfumato.learning.coverage.projection import SignProjection
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.histogram import NoisyHistogram

MOST_DEPTH: Final = 10
MOST_PLAIN: Final = 10
"""Columns beyond which records are projected: a cell has 2^d children."""
_MOST_CHILDREN: Final = 1 << 14
_THIRD: Final = Fraction(1, 3)
_STRONG: Final = 3000.0
_LEAST_SCALE: Final = 1 / 64
"""Candidates are centres of cells: clusters may be wider than they show."""


@dataclass(frozen=True, kw_only=True)
class CandidateMethod:
    """Cells of a quadtree that hold many records, votes for their centres, and noisy sums.

    Parameters
    ----------
    depth
        Levels of the quadtree; -1 for a number by d.
    n_rounds
        Rounds of sums at the end; -1 for a number by ``n epsilon / k``.
    """

    name: ClassVar[str] = "candidates"
    least_live: ClassVar[float] = 0.5
    """Least count of a live cell over the largest of the noise, ``b ln M``. A false cell is a
    candidate without votes: it costs little, and a cluster that is missed much."""
    law: ClassVar[str] = "cube"
    is_shrunk: ClassVar[bool] = True

    depth: int = -1
    n_rounds: int = -1

    def __post_init__(self) -> None:
        if self.depth != -1 and not 1 <= self.depth <= MOST_DEPTH:
            raise ConfigError(
                f"must be from 1 to {MOST_DEPTH}", field="depth", fix="leave it out for a choice"
            )
        if self.n_rounds != -1 and not 1 <= self.n_rounds <= 10:
            raise ConfigError(
                "must be from 1 to 10", field="n_rounds", fix="leave it out for a choice"
            )

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``: a third of epsilon each for the quadtree, the choice, and the sums."""
        depth = choose_depth(task) if self.depth < 0 else self.depth
        n_rounds = choose_rounds(task) if self.n_rounds < 0 else self.n_rounds
        parts = ["cells"] * depth, self.name_choice(), ["sums"] * n_rounds
        names = [name for part in parts for name in part]
        shares = [_THIRD / len(part) for part in parts for _ in part]
        rounds = divide_pure(task, names, shares)
        # What cannot be drawn or projected is refused before anything is spent.
        project_columns(task)
        _count_votes(task, rounds[0], 1)
        make_noise(self.law, rounds[-1], task, STEPS)
        return rounds

    def name_choice(self) -> list[str]:
        """Return the names of the rounds that choose among the candidates."""
        return ["votes"]

    def choose_centres(
        self, places: Integers, candidates: Integers, task: Task, curator: Curator
    ) -> tuple[Floats, int]:
        """Choose centres by noisy votes: shape ``(k, d')``, and the radius of the sums."""
        histogram = _count_votes(task, curator.next_round, len(candidates))
        labels = find_nearest(places, candidates)
        counts = np.bincount(labels, minlength=len(candidates)).astype(np.int64)
        answer = curator.ask(histogram, counts, candidates=candidates)
        centres, scale = _cluster(task, histogram, answer, task.n_clusters, make_rng(task, "votes"))
        return centres, choose_radius(task.scale or scale, curator.next_round)

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        projection = project_columns(task)
        places = projection.project(records.steps.astype(np.int64))
        candidates = self._discover(places, projection.half, task, curator)
        centres, radius = self.choose_centres(places, candidates, task, curator)
        if not projection.is_identity:
            planned = curator.next_round
            answer = self._ask_projected(records, places, centres, task, curator)
            centres = self._read(task, planned, answer).centroids
            # Votes are of projected records: they tell no scale of those in the columns.
            radius = choose_radius(task.scale, planned)
        for planned in curator.rounds[len(curator.answers) :]:
            answer = ask_sums(records, task, curator, centres, self.law, radius)
            centres = self._read(task, planned, answer).centroids

    def _ask_projected(
        self,
        records: QuantisedRecords,
        places: Integers,
        centres: Floats,
        task: Task,
        curator: Curator,
    ) -> Answer:
        """Ask for the sums of records by the centre nearest to their projections."""
        around = np.rint(centres).astype(np.int64)
        noise = make_noise(self.law, curator.next_round, task, STEPS)
        sums = np.zeros((task.n_clusters + 1, task.n_dimensions + 1), dtype=np.int64)
        labels = find_nearest(places, around).astype(np.intp)
        sums[:-1] = sum_bodies(records.steps, labels, task.n_clusters, noise.sums.count_unit)
        sums[-1, -1] = noise.sums.count_unit * records.n_missing
        centre = np.zeros((task.n_clusters, task.n_dimensions), dtype=np.int64)
        return curator.ask(noise, sums, centroids=centre, radius=np.array([STEPS]), places=around)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; another k than the task's is clustered from votes, or from the sums."""
        rounds = self.plan_rounds(task)
        moved = self._read(task, rounds[-1], answers[-1])
        found = Clusters.of(moved.centroids, moved.masses)
        if n_clusters == task.n_clusters:
            return found
        votes = next((answer for answer in answers if answer.name == "votes"), None)
        points, weights = found.centroids, found.shares
        if votes is not None and project_columns(task).is_identity:
            planned = next(each for each in rounds if each.name == "votes")
            histogram = _count_votes(task, planned, len(votes.values))
            points = votes.asked["candidates"].astype(np.float64)
            weights = _weigh(histogram, votes)
        if not 1 <= n_clusters <= len(points):
            raise ConfigError(
                f"must be from 1 to the {len(points)} candidates that were released",
                field="n_clusters",
                fix="ask for fewer clusters",
            )
        centroids = cluster_weighted(points, weights, n_clusters, rng)
        labels, _ = assign_weighted(points, weights, centroids)
        return Clusters.of(
            centroids, np.bincount(labels, weights, minlength=n_clusters).astype(float)
        )

    def _read(self, task: Task, planned: Round, answer: Answer) -> NoisyClusters:
        return read_sums(task, planned, answer, self.law, is_shrunk=self.is_shrunk)

    def _discover(self, places: Integers, half: int, task: Task, curator: Curator) -> Integers:
        """Ask for the cells of all levels; return the centres of live ones: shape ``(c, d')``."""
        depth = sum(each.name == "cells" for each in curator.rounds)
        shift = make_rng(task, "shift").integers(2 * half + 1, size=places.shape[1])
        tree = _Quadtree(half=half, shift=np.asarray(shift, dtype=np.int64))
        parents = np.zeros((1, places.shape[1]), dtype=np.int64)
        inside = np.zeros(len(places), dtype=np.int64)
        found: list[Integers] = []
        for level in range(1, depth + 1):
            children = tree.list_children(parents)
            number = tree.find_child(places, inside, level)
            histogram = NoisyHistogram.calibrate(
                n_cells=max(1, len(children)),
                epsilon=curator.next_round.epsilon,
                neighbouring=task.relation,
            )
            counts = np.bincount(number[number >= 0], minlength=histogram.n_cells)
            answer = curator.ask(
                histogram, counts.astype(np.int64), parents=parents, shift=tree.shift
            )
            limit = self.least_live * histogram.threshold
            live = _keep_live(answer.values[: len(children)], limit, places.shape[1])
            parents = children[live]
            found.append(tree.find_centres(parents, level))
            order = np.full(len(children) + 1, -1)
            order[live] = np.arange(len(live))
            # Records of cells that do not live find the last place.
            inside = order[number]
        candidates = np.unique(np.concatenate(found), axis=0)
        return candidates if len(candidates) else np.zeros((1, places.shape[1]), dtype=np.int64)


def choose_depth(task: Task) -> int:
    """Choose the levels, each of which divides a cell into 2^d and takes a part of epsilon.

    ``min(6, 3 + floor(8 / d))``, and one more from ``n epsilon / k = 3000`` on.
    """
    is_strong = task.strength >= _STRONG * task.n_clusters
    return min(6, 3 + 8 // project_columns(task).n_projected) + int(is_strong)


def project_columns(task: Task) -> SignProjection:
    """Return the projection of many columns on ``ln(n) / 2`` dimensions."""
    d = task.n_dimensions
    n_projected = (
        d if d <= MOST_PLAIN else min(MOST_PLAIN, max(2, int(math.log(task.n_records) / 2)))
    )
    return SignProjection(
        n_dimensions=d,
        n_projected=n_projected,
        radius=math.isqrt(d * STEPS * STEPS),
        seed=hashlib.sha256(b"candidates" + task.seed).digest(),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Quadtree:
    """Cells of a cube twice as wide as that of the places, moved by a public shift."""

    half: int
    shift: Integers

    @property
    def width(self) -> int:
        return 2 * (2 * self.half + 1)

    def list_children(self, parents: Integers) -> Integers:
        """Return the cells of the next level, 2^d for each parent, in a fixed order."""
        d = parents.shape[1]
        bits = (np.arange(1 << d)[:, None] >> np.arange(d)) & 1
        children: Integers = (2 * parents[:, None, :] + bits[None]).reshape(-1, d)
        return children

    def find_child(self, places: Integers, inside: Integers, level: int) -> Integers:
        """Return the number of each record's cell among all children; -1 outside live parents."""
        d = places.shape[1]
        cells = (places + self.half + self.shift) * (1 << level) // self.width
        number = inside * (1 << d) + (cells & 1) @ (1 << np.arange(d))
        child: Integers = np.where(inside >= 0, number, -1)
        return child

    def find_centres(self, cells: Integers, level: int) -> Integers:
        """Return centres of cells, inside the cube of the places: shape ``(c, d)``."""
        centres = (2 * cells + 1) * self.width // (2 << level) - self.half - self.shift
        inside: Integers = np.clip(centres, -self.half, self.half)
        return inside


def _keep_live(counts: Integers, limit: float, n_dimensions: int) -> Integers:
    """Return the cells that noise does not explain, at most as many as can be divided again."""
    live = np.flatnonzero(counts > limit)
    most = max(1, _MOST_CHILDREN >> n_dimensions)
    if live.size > most:
        live = np.sort(live[np.argsort(-counts[live], kind="stable")[:most]])
    return live


def _count_votes(task: Task, planned: Round, n_candidates: int) -> NoisyHistogram:
    return NoisyHistogram.calibrate(
        n_cells=n_candidates, epsilon=planned.epsilon, neighbouring=task.relation
    )


def _weigh(histogram: NoisyHistogram, answer: Answer) -> Floats:
    """Return votes that noise does not explain; the largest one if there is none."""
    votes = answer.values.astype(np.float64)
    weights = np.where(votes > histogram.threshold, votes, 0.0)
    if not weights.any():
        weights[int(np.argmax(votes))] = 1.0
    return weights


def _cluster(
    task: Task, histogram: NoisyHistogram, answer: Answer, n_clusters: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Return centres, shape ``(k, d')``, and the spread inside clusters over half a width."""
    points, weights = answer.asked["candidates"].astype(np.float64), _weigh(histogram, answer)
    centres = cluster_weighted(points, weights, n_clusters, rng)
    _, cost = assign_weighted(points, weights, centres)
    spread = math.sqrt(cost / float(weights.sum()) / points.shape[1])
    return centres, max(spread / STEPS, _LEAST_SCALE)
