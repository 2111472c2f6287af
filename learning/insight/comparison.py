"""Comparison of two selections of sketches: how much their records differ, how surely, and in what.

Changes are from the first selection to the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.null_law import draw_errors
from sfumato.learning.insight.selection import MOST_EXACT, Selection, SelectionMean, average
from sfumato.learning.insight.shared_law import PairLaw, PairStatistics
from sfumato.learning.insight.sizes import describe_size
from sfumato.learning.insight.statistics import (
    Statistics,
    compute_sigma,
    describe_doubt,
    trusts_directions,
)
from sfumato.learning.insight.tails import NullDraws, SmallestDraws, adjust_holm
from sfumato.shared.errors import DecodingError

__all__ = [
    "LEVEL",
    "N_DRAWS",
    "SMALLEST_SHIFT",
    "Change",
    "Comparison",
    "NullLaw",
    "choose_named",
    "compare",
    "compare_means",
    "describe_p",
    "draw_null",
    "estimate_p_values",
    "list_changes",
    "measure_size",
    "require_disjoint",
    "require_filled",
]

N_DRAWS: Final = 1999
LEVEL: Final = 0.01
SMALLEST_SHIFT: Final = 0.1
"""Smallest difference that is worth an alarm, in the plan's scales: with enough records everything
differs."""
_NAMED: Final = 0.05
_MOST_TOLD = 5
_LEAST_DRAWS: Final = 100
_PRINTED: Final = 1e-4


AnyStatistics = Statistics | PairStatistics


@dataclass(frozen=True, kw_only=True)
class Change:
    """Estimated change of one parameter of one cluster, from the first selection to the second.

    Parameters
    ----------
    cluster
        Number of the cluster in the fit, from 0, the heaviest first.
    quantity
        ``centre`` in standard deviations of the cluster along ``axis``, or the logarithm of its
        ``variance`` or ``weight``.
    axis
        Name of the axis of a centre; None for the others.
    estimate, error
        The change, shrunk towards 0 where noise hides it; and its standard error without a change.
    p
        Adjusted by Holm over all parameters of all clusters.
    is_measured
        Whether a second look measured the change, a share's; p is then over all shares.
    """

    cluster: int
    quantity: Literal["centre", "variance", "weight"]
    axis: str | None
    estimate: float
    error: float
    p: float
    is_measured: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the change is one that noise explains with probability below 5 %."""
        return self.p < _NAMED

    def describe(self) -> str:
        """Describe the change in words."""
        if self.quantity == "centre":
            return (
                f"cluster {self.cluster + 1} moved in {self.axis} by {self.estimate:+.2f} of its "
                f"standard deviations (error {self.error:.2f})"
            )
        noun = "share" if self.quantity == "weight" else "variance"
        noun = f"measured {noun}" if self.is_measured else noun
        share, error = math.expm1(self.estimate), math.exp(self.estimate) * self.error
        return (
            f"the {noun} of cluster {self.cluster + 1} changed by {share:+.0%} (error {error:.0%})"
        )


def choose_named(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Choose the changes to name, the surest first."""
    named = (change for change in changes if change.is_named)
    return tuple(sorted(named, key=lambda each: (each.p, -abs(each.estimate) / each.error)))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The difference of two selections.

    Parameters
    ----------
    first, second
        Names of the selections.
    size, size_error
        Equivalent common shift: the records differ as much as if every one had moved by so many of
        the plan's scales; and its standard error.
    p
        Probability of a difference like this where nothing has changed: of the smallest of the
        three p-values, by the same draws; or ``p_all`` where the others cannot be trusted, see
        :func:`sfumato.learning.insight.statistics.trusts_directions`.
    p_all, p_moved, p_single
        P-values of the omnibus statistic, of the directed one, and of the surest single change.
    changes
        Every parameter of every cluster.
    n_draws
        B; p-values below 1 / B are extrapolated.
    level, smallest_shift
        Limits of an alarm.
    assumptions
        Assumptions of the p-values in words.
    """

    first: str
    second: str
    size: float
    size_error: float
    p: float
    p_all: float
    p_moved: float
    p_single: float
    changes: tuple[Change, ...]
    n_draws: int
    level: float
    smallest_shift: float
    assumptions: tuple[str, ...]

    @property
    def is_alarm(self) -> bool:
        """Whether the difference is both certain and large enough to matter."""
        return self.p < self.level and self.size > self.smallest_shift

    @property
    def named(self) -> tuple[Change, ...]:
        """The changes to name, the surest first."""
        return choose_named(self.changes)

    def describe(self) -> tuple[str, ...]:
        """Describe the comparison: size, certainty, words, then the assumptions."""
        return (
            f"size: {describe_size(self.size, self.size_error, is_certain=self.p < self.level)}",
            f"certainty: {describe_p(self.p, self.n_draws)}",
            f"changes: {self._describe_changes()}",
            *self.assumptions,
        )

    def describe_size(self) -> str:
        """Describe the size in words, to follow a verb; the difference is taken for certain."""
        return describe_size(self.size, self.size_error, is_certain=True)

    def _describe_changes(self) -> str:
        if self.named:
            told = [change.describe() for change in self.named[:_MOST_TOLD]]
            rest = len(self.named) - len(told)
            return "; ".join(told + ([f"and {rest} more"] if rest else []))
        if self.p < self.level:
            return "none of a single cluster can be named; decode both sides to look for a new one"
        return "none"


def describe_p(p: float, n_draws: int) -> str:
    """Print a p-value; below 1 / B it is an extrapolation, and says so."""
    if p < _PRINTED:
        return f"p < {_PRINTED:.0e}".replace("e-0", "e-") + f" (extrapolated from {n_draws} draws)"
    if p < 1.0 / n_draws:
        return f"p = {p:.1g} (extrapolated from {n_draws} draws)"
    return f"p = {p:.2g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class NullLaw:
    """The statistics of two selections where nothing has changed.

    Parameters
    ----------
    statistics
        For the covariance of their difference.
    all, moved, single
        Draws of T_all, T_moved and T_single.
    scores
        Draws of all changes over their standard errors, as magnitudes.
    is_directed
        Whether p-values rest on the directed statistics too, see
        :func:`sfumato.learning.insight.statistics.trusts_directions`.
    """

    statistics: Statistics
    all: NullDraws
    moved: NullDraws
    single: NullDraws
    scores: NullDraws
    is_directed: bool

    @cached_property
    def smallest(self) -> SmallestDraws:
        """Draws of the smallest of the p-values that count, that of T_all first."""
        laws = (self.all, self.moved, self.single)
        return SmallestDraws(laws=laws if self.is_directed else laws[:1])


def draw_null(
    model: StudyModel,
    first: SelectionMean,
    second: SelectionMean,
    *,
    rng: np.random.Generator,
    n_draws: int = N_DRAWS,
) -> NullLaw:
    """Draw the null law of a pair: it depends on numbers of records and sketches alone.

    Pairs with the same numbers may share it.
    """
    if n_draws < _LEAST_DRAWS:
        raise DecodingError(
            f"must be at least {_LEAST_DRAWS}", field="n_draws", fix=f"leave it at {N_DRAWS}"
        )
    errors = first.errors + second.errors
    statistics = Statistics(model=model, sigma=compute_sigma(model, errors))
    drawn = draw_errors(model, errors, n_draws=n_draws, rng=rng)
    scores = np.abs(statistics.estimate_changes(drawn)) / statistics.errors
    moved = NullDraws(draws=statistics.measure_moved(drawn))
    return NullLaw(
        statistics=statistics,
        all=NullDraws(draws=statistics.measure_all(drawn)),
        moved=moved,
        single=NullDraws(draws=np.max(scores, axis=1)),
        scores=NullDraws(draws=scores.ravel()),
        is_directed=trusts_directions(
            model, sampling=statistics.measure_sampling(errors), deviation=moved.deviation
        ),
    )


def compare(
    model: StudyModel,
    first: Selection,
    second: Selection,
    *,
    rng: np.random.Generator,
    level: float = LEVEL,
    smallest_shift: float = SMALLEST_SHIFT,
    n_draws: int = N_DRAWS,
    most_exact: int = MOST_EXACT,
) -> Comparison:
    """Compare two disjoint selections.

    Parameters
    ----------
    model
        Model of the study: fitted to the sketches of both together, or of all.
    first, second
        The selections.
    rng
        Source of the draws of the null law; the answer is for display only.
    level, smallest_shift
        An alarm needs a p-value below the one and a size above the other.
    n_draws
        B.
    most_exact
        See :func:`sfumato.learning.insight.selection.average`.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported; a selection is empty; or they overlap.
    """
    require_disjoint(first, second)
    before = average(model.plan, first, most_exact=most_exact)
    after = average(model.plan, second, most_exact=most_exact)
    law = draw_null(model, before, after, rng=rng, n_draws=n_draws)
    return compare_means(model, before, after, law, level=level, smallest_shift=smallest_shift)


def require_disjoint(first: Selection, second: Selection) -> None:
    """Refuse selections that share sketches, and thus noise.

    Raises
    ------
    DecodingError
        They have a common member, or one has none.
    """
    require_filled(first)
    require_filled(second)
    if first.members & second.members:
        raise DecodingError(
            f"must not overlap; {first.name} and {second.name} share sketches, and so noise",
            field="selection",
            fix="compare one with the rest of the other",
        )


def require_filled(selection: Selection) -> None:
    """Refuse a selection without a sketch.

    Raises
    ------
    DecodingError
        It is empty, or its members are not listed.
    """
    if not selection.members or not selection.totals.n_sketches:
        raise DecodingError(
            f"must hold a sketch; {selection.name} holds none",
            field="selection",
            fix="widen its slots or labels",
        )


def compare_means(
    model: StudyModel,
    first: SelectionMean,
    second: SelectionMean,
    law: NullLaw | PairLaw,
    *,
    level: float = LEVEL,
    smallest_shift: float = SMALLEST_SHIFT,
) -> Comparison:
    """Compare the means of two disjoint selections under a null law of theirs."""
    difference = (second.features - first.features)[None]
    p_values = estimate_p_values(law, difference)
    size, size_error = measure_size(law.statistics, difference[0], law.all)
    return Comparison(
        first=first.name,
        second=second.name,
        size=size,
        size_error=size_error,
        p=law.smallest.estimate_p(min(p_values[: len(law.smallest.laws)])),
        p_all=p_values[0],
        p_moved=p_values[1],
        p_single=p_values[2],
        changes=list_changes(model, law, difference),
        n_draws=law.all.draws.size,
        level=level,
        smallest_shift=smallest_shift,
        assumptions=_list_assumptions(model, law, first, second),
    )


def estimate_p_values(law: NullLaw | PairLaw, difference: Floats) -> tuple[float, float, float]:
    """Estimate the p-values of the three statistics of a difference of shape ``(1, 2 m)``."""
    statistics = law.statistics
    return (
        law.all.estimate_p(float(statistics.measure_all(difference)[0])),
        law.moved.estimate_p(float(statistics.measure_moved(difference)[0])),
        law.single.estimate_p(float(statistics.measure_single(difference)[0])),
    )


def measure_size(
    statistics: AnyStatistics, difference: Floats, law: NullDraws
) -> tuple[float, float]:
    """Measure the equivalent common shift and its standard error, in the plan's scales.

    ``sqrt(max(0, T_all - E T_all) / Q)``. The variance of T_all is that of the null law, plus
    ``4 D' Sigma D`` for a true difference D, without what errors add to it.
    """
    excess = max(0.0, float(difference @ difference) - law.mean)
    energy = max(statistics.energy_per_shift, np.finfo(float).tiny)
    size = math.sqrt(excess / energy)
    crossed, chance = statistics.measure_variance(difference)
    deviation = math.sqrt(law.deviation**2 + 4.0 * max(0.0, crossed - chance))
    # To first order deviation / (2 size Q); finite for a size of 0 too.
    return size, math.sqrt(size**2 + deviation / energy) - size


def list_changes(
    model: StudyModel, law: NullLaw | PairLaw, difference: Floats
) -> tuple[Change, ...]:
    """List the changes of all parameters, from a difference of shape ``(1, 2 m)``."""
    estimates = law.statistics.estimate_changes(difference)[0]
    errors = law.statistics.errors
    # Every parameter's score has one law up to chance, so that all draws serve each.
    beyond = law.scores.count_from(np.abs(estimates) / errors)
    p_values = adjust_holm(np.asarray((1.0 + beyond) / (law.scores.draws.size + 1.0)))
    axes = [axis.name for axis in model.plan.axes]
    kinds: list[tuple[Literal["centre", "variance", "weight"], str | None]] = [
        *(("centre", name) for name in axes),
        ("variance", None),
        ("weight", None),
    ]
    return tuple(
        Change(
            cluster=i // len(kinds),
            quantity=kinds[i % len(kinds)][0],
            axis=kinds[i % len(kinds)][1],
            estimate=float(estimates[i]),
            error=float(errors[i]),
            p=float(p_values[i]),
        )
        for i in range(estimates.size)
    )


def _list_assumptions(
    model: StudyModel, law: NullLaw | PairLaw, *sides: SelectionMean
) -> tuple[str, ...]:
    assumptions = ["assumes independent records"]
    if not law.is_directed:
        assumptions.append(describe_doubt(model.n_clusters))
    if model.plan.is_split and any(side.n_sketches > model.plan.blocks.n_blocks for side in sides):
        assumptions.append("assumes that the blocks of frequencies went to devices at random")
    return tuple(assumptions)
