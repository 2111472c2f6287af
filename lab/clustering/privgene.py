"""PrivGene: a genetic algorithm whose selections are private choices; for comparison.

Zhang, Xiao, Yang, Zhang and Winslett, "PrivGene: Differentially Private Model Fitting Using Genetic
Algorithms" (2013). Candidates are sets of k centroids. In every round some survive by private
choice of their cost on the records; pairs of survivors exchange whole centroids, and one coordinate
of each child is moved. Choices are by permute-and-flip, which is never worse than the exponential
mechanism; the paper's "enhanced" mechanism needs a bound that is not known here. Not competitive:
it is the slowest method, and at epsilon 1 twice as far from k-means as grids are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from sfumato.lab.clustering.local_search import (
    bound_cost,
    compute_cost,
    require_exact_costs,
)
from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Integers,
    QuantisedRecords,
    Round,
    Task,
    divide_pure,
)
from sfumato.learning.clustering.methods.starts import make_rng
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.selection import PermuteAndFlip

_LEAST_ROUNDS: Final = 4
_MOST_ROUNDS: Final = 12
_RECORDS_PER_ROUND: Final = 1.25e-3
_SHRINK: Final = 0.8


@dataclass(frozen=True, kw_only=True)
class PrivGeneMethod:
    """Selections among sets of centroids, which then exchange centroids and move.

    Parameters
    ----------
    n_candidates, n_survivors
        m and m', sets in a round and sets that survive it.
    """

    name: ClassVar[str] = "privgene"

    n_candidates: int = 200
    n_survivors: int = 10

    def __post_init__(self) -> None:
        if not 2 <= self.n_survivors < self.n_candidates <= 10_000:
            raise ConfigError(
                "must be from 2 to below n_candidates, at most 10000",
                field="n_survivors",
                fix="use 10 of 200",
            )

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def count_rounds(self, task: Task) -> int:
        """Return r, by ``n epsilon`` and m': from 4 to 12."""
        wanted = round(_RECORDS_PER_ROUND * task.strength / self.n_survivors)
        return min(max(wanted, _LEAST_ROUNDS), _MOST_ROUNDS)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``: all choices of a round cost as much as the last choice."""
        require_exact_costs(
            task.n_records, task.n_dimensions, STEPS, fix="use another method for so many"
        )
        n_rounds, m = self.count_rounds(task), self.n_survivors
        n_choices = (n_rounds - 1) * m
        names = ["survivor"] * n_choices + ["best"]
        shares = [Fraction(1, n_rounds * m)] * n_choices + [Fraction(1, n_rounds)]
        rounds = divide_pure(task, names, shares)
        _make_choice(task, rounds[0])
        return rounds

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        rng, steps = make_rng(task, self.name), records.steps.astype(np.int64)
        shape = (self.n_candidates, task.n_clusters, task.n_dimensions)
        sets = rng.integers(-STEPS, STEPS + 1, size=shape)
        for t in range(self.count_rounds(task) - 1):
            scores = [-compute_cost(steps, centroids) for centroids in sets]
            survivors = []
            left = list(range(len(sets)))
            for _ in range(self.n_survivors):
                picked = _ask(curator, task, [scores[i] for i in left], sets[left])
                survivors.append(left.pop(picked))
            sets = _breed(sets[survivors], self.n_candidates, STEPS * _SHRINK ** (t + 1), rng)
        scores = [-compute_cost(steps, centroids) for centroids in sets]
        _ask(curator, task, scores, sets)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; no other k than the task's, and no shares."""
        del rng
        if n_clusters != task.n_clusters:
            raise ConfigError(
                f"must be {task.n_clusters}, as it was fitted", field="n_clusters", fix="fit again"
            )
        last = answers[-1]
        centroids = last.asked["sets"][int(last.values[0])].astype(np.float64)
        return Clusters.of(centroids, np.ones(n_clusters))


def _ask(curator: Curator, task: Task, scores: list[int], sets: Integers) -> int:
    """Ask for one of some sets: its number."""
    choice = _make_choice(task, curator.next_round)
    is_last = len(curator.answers) + 1 == len(curator.rounds)
    asked = {"sets": sets.copy()} if is_last else {}
    answer = curator.draw(
        choice.guarantee, lambda source: np.array([choice.choose(scores, source)]), **asked
    )
    return int(answer.values[0])


def _make_choice(task: Task, planned: Round) -> PermuteAndFlip:
    return PermuteAndFlip.calibrate(
        sensitivity=bound_cost(task.n_dimensions, STEPS),
        epsilon=planned.epsilon,
        neighbouring=task.relation,
    )


def _breed(
    survivors: Integers, n_children: int, reach: float, rng: np.random.Generator
) -> Integers:
    """Exchange whole centroids between pairs of sets, and move one coordinate of each child."""
    m, k, d = survivors.shape
    children = np.empty((n_children, k, d), dtype=np.int64)
    for i in range(n_children):
        first, second = rng.choice(m, size=2, replace=False)
        cut = int(rng.integers(k + 1))
        children[i, :cut], children[i, cut:] = survivors[first, :cut], survivors[second, cut:]
        place = int(rng.integers(k)), int(rng.integers(d))
        children[i][place] += int(np.rint(rng.uniform(-reach, reach)))
    return np.clip(children, -STEPS, STEPS)
