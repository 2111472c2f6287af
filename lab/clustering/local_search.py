"""Local search among candidates by private choice, as published: for comparison.

Balcan et al. (2017), Algorithm 3, after Gupta et al. (2010): swap one centre for a candidate by
private choice of the cost, some times, and choose one of the sets on the way in the same manner.
Each choice costs as much as all votes of ``CandidateMethod`` together, for less information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.learning.clustering.methods.candidates import CandidateMethod, project_columns
from sfumato.learning.clustering.methods.contract import Curator, Floats, Integers, Round, Task
from sfumato.learning.clustering.methods.starts import make_rng
from sfumato.learning.coverage.averages import find_nearest
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.selection import PermuteAndFlip

_FAR = np.int64(1 << 62)
MOST_COST = 1 << 60
"""Costs stay below it, with room for more records than were announced."""


@dataclass(frozen=True, kw_only=True)
class LocalSearchMethod(CandidateMethod):
    """The quadtree of Balcan et al., their local search, and a round of sums with Laplace noise.

    Parameters
    ----------
    n_swaps
        Swaps of the search, from 1 to 1000.
    """

    name: ClassVar[str] = "local-search"
    least_live: ClassVar[float] = 2.0
    law: ClassVar[str] = "laplace"
    is_shrunk: ClassVar[bool] = False

    n_swaps: int = 10
    n_rounds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n_swaps <= 1000:
            raise ConfigError("must be from 1 to 1000", field="n_swaps", fix="leave it out")

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``; the choices have a third of epsilon, in equal parts."""
        rounds = super().plan_rounds(task)
        projection = project_columns(task)
        d, half = projection.n_projected, projection.half
        swap = next(planned for planned in rounds if planned.name == "swap")
        make_choice(d, half, swap, task.relation)
        require_exact_costs(task.n_records, d, half, fix="use CandidateKMeans, which counts votes")
        return rounds

    def name_choice(self) -> list[str]:
        """See ``CandidateMethod``."""
        return ["swap"] * self.n_swaps + ["best"]

    def choose_centres(
        self, places: Integers, candidates: Integers, task: Task, curator: Curator
    ) -> tuple[Floats, int]:
        """Swap candidates by private choice, then choose one of the sets on the way."""
        half = project_columns(task).half
        rng = make_rng(task, "search")
        sets = [rng.choice(len(candidates), size=task.n_clusters)]
        for _ in range(self.n_swaps):
            sets.append(ask_swap(places, half, candidates, sets[-1], curator, task.relation))
        best = ask_best_set(places, half, candidates, sets, curator, task.relation)
        return candidates[sets[best]].astype(np.float64), STEPS


def ask_swap(
    places: Integers,
    half: int,
    candidates: Integers,
    chosen: Integers,
    curator: Curator,
    relation: str,
) -> Integers:
    """Ask for one swap among all pairs of a centre and a candidate: the new set."""
    costs = compute_swap_costs(places, candidates, chosen)
    picked = _ask(costs.ravel(), places.shape[1], half, curator, relation, candidates)
    out, new = divmod(picked, len(candidates))
    swapped = chosen.copy()
    swapped[out] = new
    return swapped


def ask_best_set(
    places: Integers,
    half: int,
    candidates: Integers,
    sets: Sequence[Integers],
    curator: Curator,
    relation: str,
) -> int:
    """Ask for one of some sets of candidates by its cost: its number."""
    costs = np.array([compute_cost(places, candidates[chosen]) for chosen in sets])
    return _ask(costs, places.shape[1], half, curator, relation, candidates)


def compute_cost(places: Integers, centres: Integers) -> int:
    """Compute the sum of squared distances to the nearest centre, an exact integer."""
    moves = places - centres[find_nearest(places, centres)]
    return int(np.einsum("ij,ij->", moves, moves))


def compute_swap_costs(places: Integers, candidates: Integers, chosen: Integers) -> Integers:
    """Compute the cost of each set with one centre swapped: shape ``(k, c)``, exact integers.

    After a swap, the centre nearest to a record is the candidate, or the one that was nearest
    before, or the second nearest where that one was swapped.
    """
    k = len(chosen)
    squares = np.stack([_measure(places, candidates[i]) for i in chosen])
    order = np.argsort(squares, axis=0, kind="stable")
    first = np.take_along_axis(squares, order[:1], axis=0)[0]
    second = np.full(len(places), _FAR)
    if k > 1:
        second = np.take_along_axis(squares, order[1:2], axis=0)[0]
    members = [np.flatnonzero(order[0] == i) for i in range(k)]
    costs = np.empty((k, len(candidates)), dtype=np.int64)
    for j, candidate in enumerate(candidates):
        new = _measure(places, candidate)
        kept = np.minimum(new, first)
        rise = np.minimum(new, second) - kept
        costs[:, j] = kept.sum() + np.array([rise[each].sum() for each in members])
    return costs


def make_choice(n_dimensions: int, half: int, planned: Round, relation: str) -> PermuteAndFlip:
    """Make the choice by cost that a planned round pays for.

    Raises
    ------
    PrivacyError
        Epsilon is too small.
    """
    return PermuteAndFlip.calibrate(
        sensitivity=bound_cost(n_dimensions, half),
        epsilon=planned.epsilon,
        neighbouring=relation,
    )


def bound_cost(n_dimensions: int, half: int) -> int:
    """Bound the cost of one record, and with it the change of a cost: ``d (2 Z)^2``."""
    return n_dimensions * (2 * half) ** 2


def require_exact_costs(n_records: int, n_dimensions: int, half: int, *, fix: str) -> None:
    """Refuse records so many, of so many columns, that their costs could pass 64-bit integers.

    A cost that wraps would move by far more than :func:`bound_cost`.

    Raises
    ------
    ConfigError
        ``n d (2 Z)^2``, which is public, is above 2^60.
    """
    if n_records * bound_cost(n_dimensions, half) > MOST_COST:
        raise ConfigError(
            "must be fewer for so many columns: their squared distances could pass 2^60",
            field="n_records",
            fix=fix,
        )


def _measure(places: Integers, centre: Integers) -> Integers:
    moves = places - centre
    squares: Integers = np.einsum("ij,ij->i", moves, moves)
    return squares


def _ask(
    costs: Integers,
    n_dimensions: int,
    half: int,
    curator: Curator,
    relation: str,
    candidates: Integers,
) -> int:
    choice = make_choice(n_dimensions, half, curator.next_round, relation)
    scores = [-cost for cost in costs.tolist()]
    answer = curator.draw(
        choice.guarantee,
        lambda source: np.array([choice.choose(scores, source)]),
        candidates=candidates,
    )
    return int(answer.values[0])
