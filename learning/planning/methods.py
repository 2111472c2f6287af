"""Which private k-means to use, by public numbers alone.

The records of many devices can be clustered by sketches only: they add up. For records in one place
the choice follows :mod:`sfumato.learning.planning.method_table`, which holds the relative SSE of
each method by d and ``n epsilon / k``, as measured by ``python -m benchmarks.methods``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from sfumato.learning.clustering.methods.contract import Method, Task, guess_scale
from sfumato.learning.clustering.methods.registry import METHODS
from sfumato.learning.planning.method_table import COLUMNS, ROWS
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.errors import SketchError

SKETCH: Final = "compressive"
WITH_DELTA: Final = " with delta"
SPLIT: Final = "split"
NEED_DELTA: Final = ("cover", SPLIT)
ALIKE: Final = 1.05
"""Two methods are preferred up to this factor of the best, as far as the medians of the table are
good. First split cells, which take no shape for granted: most sets of the table are mixtures, as
the sketch's decoder takes them to be. Then the sketch, whose sums add up and tell of any k."""
MOST_PARAMETERS: Final = 2000
"""Largest k d of a sketch: decoding more takes minutes."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table: the median relative SSE of each method on sets that are alike.

    Parameters
    ----------
    knows_scale
        Whether the methods got the spread inside a cluster.
    n_dimensions, strength
        d, and ``n epsilon / k`` under replace-one.
    expected
        By method, ``compressive with delta`` among them.
    """

    knows_scale: bool
    n_dimensions: int
    strength: float
    expected: Mapping[str, float]


TABLE: Final = tuple(
    Row(
        knows_scale=knows_scale,
        n_dimensions=d,
        strength=strength,
        expected=MappingProxyType(
            {name: sse for name, sse in zip(COLUMNS, figures, strict=True) if sse > 0.0}
        ),
    )
    for knows_scale, d, strength, figures in ROWS
)


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Public numbers of records that are to be clustered.

    Parameters
    ----------
    n_records
        n; under ``add-remove-one``, where it is secret, a public number near it.
    n_dimensions, n_clusters
        d and k.
    epsilon, delta, relation
        The guarantee, exact.
    scale
        Spread inside one cluster over half the width of the bounds; None where it is not known.
    n_parts
        Devices or windows whose records cannot be brought together.
    """

    n_records: int
    n_dimensions: int
    n_clusters: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    relation: str = "replace-one"
    scale: float | None = None
    n_parts: int = 1

    @property
    def strength(self) -> float:
        """``n epsilon / k``, with twice epsilon under add-remove-one."""
        return self._task.strength / self.n_clusters

    @property
    def _task(self) -> Task:
        return Task(
            n_records=self.n_records,
            n_dimensions=self.n_dimensions,
            n_clusters=self.n_clusters,
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            scale=self.scale,
        )

    def allows(self, name: str) -> bool:
        """Return whether a method can be used at all."""
        if name == SKETCH:
            return self.n_clusters * self.n_dimensions <= MOST_PARAMETERS
        if name in NEED_DELTA and not self.delta:
            return False
        method: Method = METHODS[name]()
        try:
            method.plan_rounds(self._task)
        except SketchError:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """The method to use, and why.

    Parameters
    ----------
    name
        Such as ``compressive`` or ``grid``.
    expected
        The relative SSE of each method that can be used, as measured on similar sets; empty where
        the records are in many places.
    reason
        In words.
    """

    name: str
    expected: Mapping[str, float]
    reason: str


def choose_method(holding: Holding) -> MethodChoice:
    """Choose a method by public numbers: it is given no record, so none can decide.

    It is the usable method with the lowest relative SSE in the row of the table
    that is nearest, first in d and then in ``n epsilon / k``; split cells, or else the sketch, up
    to ``ALIKE`` of it.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range.
    """
    strength = holding.strength
    if holding.n_parts > 1:
        return MethodChoice(
            name=SKETCH,
            expected={},
            reason=f"the records lie in {holding.n_parts:,} parts, and of all methods only "
            "sketches add up: others ask the records in rounds",
        )
    row = find_row(holding.n_dimensions, strength, knows_scale=holding.scale is not None)
    possible = {}
    for name in (SKETCH, *METHODS):
        sse = row.expected.get(name + WITH_DELTA if holding.delta else name, row.expected.get(name))
        if sse is not None and holding.allows(name):
            possible[name] = sse
    ranked = dict(sorted(possible.items(), key=lambda each: each[1]))
    if not ranked:
        return MethodChoice(name=SKETCH, expected={}, reason="no method suits these numbers")
    name = choose_name(ranked)
    return MethodChoice(
        name=name,
        expected=ranked,
        reason=_explain(row, ranked, name, is_slow=not holding.allows(SKETCH)),
    )


def choose_method_of_study(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction
) -> MethodChoice | None:
    """Choose a method by the numbers of an outline; None where devices are protected as a whole."""
    if outline.protects_devices:
        return None
    return choose_method(
        Holding(
            n_records=outline.n_records,
            n_dimensions=outline.n_dimensions,
            n_clusters=outline.n_clusters,
            epsilon=epsilon,
            delta=delta,
            relation=outline.neighbouring,
            n_parts=outline.n_sketches,
            # A plan states scales.
            scale=guess_scale(outline.n_clusters, outline.n_dimensions),
        )
    )


def choose_name(expected: Mapping[str, float]) -> str:
    """Return the method of the lowest relative SSE, or a preferred one that is as good."""
    best = min(expected, key=expected.__getitem__)
    preferred = (SPLIT, SKETCH)
    alike = (name for name in preferred if expected.get(name, math.inf) <= ALIKE * expected[best])
    return next(alike, best)


def find_row(
    n_dimensions: int, strength: float, *, knows_scale: bool, table: Sequence[Row] = TABLE
) -> Row:
    """Return the nearest row of a table: in d first, then in ``n epsilon / k``, on logarithms."""

    def distance(row: Row) -> tuple[float, float]:
        return (
            abs(math.log(row.n_dimensions / n_dimensions)),
            abs(math.log(row.strength / strength)),
        )

    return min((row for row in table if row.knows_scale == knows_scale), key=distance)


def _explain(row: Row, ranked: Mapping[str, float], name: str, *, is_slow: bool) -> str:
    """Explain the choice of one of some methods, the best of which comes first."""
    figures = ", ".join(f"{name} {sse:.2f}" for name, sse in ranked.items())
    scale = "a known scale" if row.knows_scale else "no scale"
    words = (
        f"on sets of about {row.n_dimensions} columns at n epsilon / k of about "
        f"{row.strength:,.0f} and {scale}, the SSE over that of k-means was: {figures}"
    )
    if name != next(iter(ranked)):
        why = "takes no shape for granted" if name == SPLIT else "adds up, and tells of any k"
        return f"{words}. {name} is as good as the best, and {why}"
    if is_slow:
        return f"{words}. A sketch of so many clusters and columns takes minutes to decode"
    return words
