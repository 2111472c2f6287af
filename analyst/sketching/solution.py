"""Centroids from exact sums over sketches: the server's solver, without a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from sfumato.learning.clustering.grid_problem import pose_grid
from sfumato.learning.clustering.registry import choose_solver, create_any_solver
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.estimate.counts import count_records, put_count
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.problem import pose_problem
from sfumato.learning.estimate.search_box import check_search_box
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import Utility, estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.arrays import Integers
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def sum_parts(parts: Sequence[tuple[Integers, int]]) -> Totals:
    """Sum sketches of one plan, which is not split.

    Parameters
    ----------
    parts
        The sums of each, and its number of records: 0 where that is secret.
    """
    by_size = [[n * value for value in sums.tolist()] for sums, n in parts]
    return Totals(
        sums=np.sum([sums for sums, _ in parts], axis=0, dtype=np.int64),
        size_sums=split_limbs([sum(column) for column in zip(*by_size, strict=True)]),
        moments=SizeMoments.of_sizes([n for _, n in parts]),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Solved:
    """A solution, the utility of the sums, and the search box as it was checked."""

    solution: Solution
    utility: Utility
    search_box: Mapping[str, Sequence[float]]


def solve_totals(
    plan: SketchPlan,
    totals: Totals,
    *,
    n_clusters: int,
    rng: np.random.Generator,
    settings: Mapping[str, Any] = _NOTHING,
    search_box: Mapping[str, Sequence[float]] | None = None,
    is_exact: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Solved:
    """Recover centroids from sums, by the same solver as the server.

    Parameters
    ----------
    plan, totals
        The plan of the sketches, and their sums.
    n_clusters, rng, settings
        k, the source of the random starts, and the solver's settings.
    search_box
        Where to search for clusters: lower and upper bound by dimension.
    is_exact
        Whether no noise was added to the sums.
    progress
        Called with the completed share, 0 to 1.

    Raises
    ------
    DecodingError
        No usable centroids were found, or k does not suit the sketch.
    ConfigError
        The search box does not suit the plan.
    """
    stated = check_search_box(plan, search_box or {})
    count = count_records(plan, totals)
    utility = estimate_utility(plan, totals, count, SIZE_WEIGHTS, is_exact=is_exact)
    totals = put_count(totals, count)
    solver = create_any_solver(plan.kind, choose_solver(plan.kind), dict(settings))
    problem: Any
    if plan.kind == "grid":
        problem = pose_grid(plan, totals, n_clusters=n_clusters)
    else:
        if not utility.n_covered:
            raise DecodingError(
                "holds too few records to tell them from the noise",
                field="sketch",
                fix="gather more records, or raise epsilon",
            )
        problem = pose_problem(
            plan,
            totals,
            SIZE_WEIGHTS,
            signal_energy=utility.signal_energy,
            n_clusters=n_clusters,
            search_box=stated,
            is_exact=is_exact,
        )
    solution = solver.solve(
        problem,
        rng=rng,
        progress=progress or (lambda share: None),
        cancelled=lambda: False,
    )
    if not solution.succeeded:
        raise DecodingError(
            "no usable centroids were found: " + "; ".join(solution.warnings),
            field="n_clusters",
            fix="try fewer clusters",
        )
    return Solved(solution=solution, utility=utility, search_box=stated)
