"""Comparison of groups: all pairs of the values of one label, with a map and a tree of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.comparison import (
    N_DRAWS,
    Change,
    Comparison,
    compare_means,
    describe_p,
    require_disjoint,
)
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.pairs import fit_model
from sfumato.learning.insight.selection import Selection, average
from sfumato.learning.insight.shared_law import SharedDraws
from sfumato.learning.insight.sizes import SATURATED, describe_size, is_hidden
from sfumato.learning.insight.tails import adjust_holm
from sfumato.shared.errors import DecodingCancelledError, DecodingError
from sfumato.shared.plan import SketchPlan

__all__ = [
    "MOST_GROUPS",
    "GroupComparison",
    "GroupPair",
    "Join",
    "compare_groups",
    "compare_pairs",
    "place_groups",
]

MOST_GROUPS: Final = 64
_LEAST_GROUPS: Final = 2
_LEVEL: Final = 0.05
_MOST_CHANGES: Final = 3
_MOST_TOLD: Final = 5


@dataclass(frozen=True, kw_only=True)
class GroupPair:
    """Two groups compared.

    Parameters
    ----------
    first, second
        Numbers of the groups, from 0, the first below the second.
    comparison
        From the first to the second; its p-value is that of this pair alone.
    p
        Adjusted by Holm over all pairs.
    """

    first: int
    second: int
    comparison: Comparison
    p: float

    @property
    def is_certain(self) -> bool:
        """Whether chance explains the difference with probability below 5 %."""
        return self.p < _LEVEL

    @property
    def is_hidden(self) -> bool:
        """Whether noise hides the size."""
        return is_hidden(self.comparison.size, self.comparison.size_error)

    @property
    def words(self) -> str:
        """Whether the groups differ, and by how much, to follow their names."""
        found = self.comparison
        size = describe_size(found.size, found.size_error, is_certain=self.is_certain)
        return f"differ {size}" if self.is_certain else f"cannot be told apart: {size}"

    @property
    def changes(self) -> tuple[Change, ...]:
        """The largest named changes, at most three, the largest in its errors first."""
        named = sorted(self.comparison.named, key=lambda each: -abs(each.estimate) / each.error)
        return tuple(named[:_MOST_CHANGES]) if self.is_certain else ()


@dataclass(frozen=True, kw_only=True)
class Join:
    """Two branches of the tree that become one.

    Parameters
    ----------
    left, right
        Numbers of the branches: groups from 0 to g - 1, then joins in order.
    height
        Mean size between groups of one and of the other, in the plan's scales.
    p
        The smallest adjusted p-value between a group of one and a group of the other.
    is_one
        Whether no two groups of the new branch are known to differ; draw it as one leaf.
    """

    left: int
    right: int
    height: float
    p: float
    is_one: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupComparison:
    """All pairs of the values of one label.

    Parameters
    ----------
    label
        Its name.
    values, n_records, n_sketches
        The groups: shapes ``(g,)``.
    pairs
        All ``g (g - 1) / 2`` pairs, in order.
    places
        A map: points whose distances are about the sizes, shape ``(g, 2)``, in the plan's scales.
    share_shown
        Share of the squared sizes that two dimensions can show.
    tree
        g - 1 joins, by average linkage of the sizes, the lowest first.
    assumptions
        Assumptions of the p-values in words.
    """

    label: str
    values: tuple[str, ...]
    n_records: tuple[int, ...]
    n_sketches: tuple[int, ...]
    pairs: tuple[GroupPair, ...]
    places: Floats
    share_shown: float
    tree: tuple[Join, ...]
    assumptions: tuple[str, ...]

    @property
    def sizes(self) -> Floats:
        """Equivalent common shifts, in the plan's scales: shape ``(g, g)``."""
        return self._fill([pair.comparison.size for pair in self.pairs], 0.0)

    @property
    def errors(self) -> Floats:
        """Standard errors of the sizes: shape ``(g, g)``."""
        return self._fill([pair.comparison.size_error for pair in self.pairs], 0.0)

    @property
    def p_values(self) -> Floats:
        """Adjusted p-values, 1 on the diagonal: shape ``(g, g)``."""
        return self._fill([pair.p for pair in self.pairs], 1.0)

    def _fill(self, values: Sequence[float], own: float) -> Floats:
        matrix = np.full((len(self.values), len(self.values)), own)
        for pair, value in zip(self.pairs, values, strict=True):
            matrix[pair.first, pair.second] = matrix[pair.second, pair.first] = value
        return matrix

    def describe(self) -> tuple[str, ...]:
        """Describe the comparison in words, what is doubtful first."""
        return (
            *self._describe_doubts(),
            *self._describe_differences(),
            *self.assumptions,
        )

    def _describe_doubts(self) -> list[str]:
        doubts = []
        alike = [pair for pair in self.pairs if not pair.is_certain]
        if alike:
            doubts.append(
                f"{len(alike)} of {len(self.pairs)} pairs cannot be told apart: noise and sampling "
                "alone make such differences; they may still differ, by at most about their size "
                "and twice its error"
            )
        if any(pair.comparison.size > SATURATED for pair in self.pairs):
            doubts.append("sizes of more than 1 scale are an order of magnitude, no more")
        hidden = sum(pair.is_certain and pair.is_hidden for pair in self.pairs)
        if hidden:
            doubts.append(
                f"{hidden} of {len(self.pairs)} pairs differ although noise hides by how much; the "
                "map and the tree may show them together"
            )
        if len(self.values) > _LEAST_GROUPS and self.share_shown < 1.0 - _LEVEL:
            doubts.append(
                f"the map shows {self.share_shown:.0%} of the squared sizes; the matrix has all"
            )
        return doubts

    def _describe_differences(self) -> list[str]:
        certain = sorted(
            (pair for pair in self.pairs if pair.is_certain), key=lambda pair: -pair.comparison.size
        )
        told = [self._describe_pair(pair) for pair in certain[:_MOST_TOLD]]
        if len(certain) > _MOST_TOLD:
            told.append(f"{len(certain) - _MOST_TOLD} more pairs differ, with smaller sizes")
        return told or [f"no two values of {self.label} are known to differ"]

    def _describe_pair(self, pair: GroupPair) -> str:
        found = pair.comparison
        words = (
            f"{found.first} and {found.second} {pair.words} "
            f"({describe_p(pair.p, found.n_draws)}, adjusted for all pairs)"
        )
        return "; ".join([words, *(change.describe() for change in pair.changes)])


def compare_groups(
    plan: SketchPlan,
    groups: Sequence[Selection],
    *,
    label: str,
    n_clusters: int,
    seed: int = 0,
    n_draws: int = N_DRAWS,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[GroupComparison, StudyModel]:
    """Compare all pairs of groups under the clusters of all groups together.

    Parameters
    ----------
    plan, groups
        The plan of the sketches, and a selection for each value of the label, named by the value:
        2 to 64, disjoint.
    label
        Name of the label.
    n_clusters
        Clusters of the fit whose changes are estimated.
    seed
        Seed of the fit and the draws; the same sums and seed give the same answer.
    n_draws
        B; p-values below 1 / B are extrapolated.
    cancelled
        Polled between steps.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported; there are too few or too many groups; two have one name or share
        sketches; one is empty; all together are nothing but noise; or k does not suit them.
    """
    _require_groups(label, groups)
    for_fit, for_draws = np.random.default_rng(seed).spawn(2)
    whole: Totals = groups[0].totals
    for group in groups[1:]:
        whole = whole + group.totals
    model = fit_model(plan, whole, n_clusters=n_clusters, rng=for_fit, cancelled=cancelled)
    return compare_pairs(
        model, groups, label=label, rng=for_draws, n_draws=n_draws, cancelled=cancelled
    ), model


def compare_pairs(
    model: StudyModel,
    groups: Sequence[Selection],
    *,
    label: str,
    rng: np.random.Generator,
    n_draws: int = N_DRAWS,
    cancelled: Callable[[], bool] = lambda: False,
) -> GroupComparison:
    """Compare all pairs of groups under a model; see :func:`compare_groups`."""
    _require_groups(label, groups)
    means = [average(model.plan, group) for group in groups]
    draws = SharedDraws(model, rng=rng, n_draws=n_draws)
    means = [replace(mean, features=draws.rotate(mean)) for mean in means]
    places = list(combinations(range(len(means)), 2))
    # Pairs that share draws stand together, so that few draws are kept at a time.
    order = sorted(
        range(len(places)), key=lambda i: [draws.describe_key(means[g].errors) for g in places[i]]
    )
    compared: dict[int, Comparison] = {}
    for i in order:
        if cancelled():
            raise DecodingCancelledError("was cancelled")
        first, second = (means[g] for g in places[i])
        law = draws.find_law(first.errors, second.errors)
        compared[i] = compare_means(model, first, second, law)
    comparisons = [compared[i] for i in range(len(places))]
    adjusted = adjust_holm(np.array([each.p for each in comparisons]))
    pairs = tuple(
        GroupPair(first=i, second=j, comparison=comparison, p=float(p))
        for (i, j), comparison, p in zip(places, comparisons, adjusted, strict=True)
    )
    sizes, p_values = np.zeros((2, len(means), len(means)))
    for pair in pairs:
        both = [pair.first, pair.second], [pair.second, pair.first]
        sizes[both], p_values[both] = pair.comparison.size, pair.p
    points, share_shown = place_groups(sizes)
    return GroupComparison(
        label=label,
        values=tuple(mean.name for mean in means),
        n_records=tuple(mean.n_records for mean in means),
        n_sketches=tuple(mean.n_sketches for mean in means),
        pairs=pairs,
        places=points,
        share_shown=share_shown,
        tree=_join(sizes, p_values),
        # Each only once; pairs may rest on different statistics.
        assumptions=tuple(dict.fromkeys(each for one in comparisons for each in one.assumptions)),
    )


def _require_groups(label: str, groups: Sequence[Selection]) -> None:
    if not _LEAST_GROUPS <= len(groups) <= MOST_GROUPS:
        raise DecodingError(
            f"must have {_LEAST_GROUPS} to {MOST_GROUPS} values with sketches and has "
            f"{len(groups)}",
            field=label,
            fix="compare another label, or select fewer of its values",
        )
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise DecodingError("must not repeat a value", field=label, fix="give each value once")
    for first, second in combinations(groups, 2):
        require_disjoint(first, second)


def place_groups(sizes: Floats) -> tuple[Floats, float]:
    """Place groups in a plane by classical scaling: shape ``(g, 2)``, and the share shown.

    Sizes need not be distances in any space, so some eigenvalues may be negative; these are left
    out. The signs of the axes are chosen for the largest coordinate to be positive.
    """
    n = len(sizes)
    centring = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ sizes**2 @ centring)
    largest = np.argsort(values)[::-1][:2]
    places = vectors[:, largest] * np.sqrt(np.maximum(values[largest], 0.0))
    signs = np.sign(places[np.argmax(np.abs(places), axis=0), np.arange(2)])
    places *= np.where(signs == 0.0, 1.0, signs)
    total = float(np.sum(np.abs(values)))
    shown = float(np.sum(np.maximum(values[largest], 0.0)))
    return places, shown / total if total > 0.0 else 1.0


def _join(sizes: Floats, p_values: Floats) -> tuple[Join, ...]:
    """Join groups by average linkage of their sizes."""
    from scipy.cluster.hierarchy import linkage  # noqa: PLC0415 - a server never needs it

    n = len(sizes)
    branches: list[list[int]] = [[i] for i in range(n)]
    are_one = [True] * n
    joins = []
    condensed = sizes[np.triu_indices(n, 1)]
    for left, right, height, _ in linkage(condensed, method="average").tolist():
        one, other = int(left), int(right)
        p = float(np.min(p_values[np.ix_(branches[one], branches[other])]))
        is_one = p > _LEVEL and are_one[one] and are_one[other]
        joins.append(Join(left=one, right=other, height=height, p=p, is_one=is_one))
        branches.append(branches[one] + branches[other])
        are_one.append(is_one)
    return tuple(joins)
