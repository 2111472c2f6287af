"""A tree of pairwise marginals: the strongest pairs of columns, and their noisy tables.

As Chow and Liu (1968) approximate a law by a tree, with private choices and counts (McKenna,
Miklau and Sheldon, "Winning the NIST Contest", 2021, without their optimisation and their Gaussian
noise). A third of epsilon releases the histogram of each column, a third chooses the pairs that are
furthest from independent, one after the other, and a third releases the tables of these pairs.
Records are drawn from the root of the tree on, each column given its parent's bin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.generative.bins import Bins
from sfumato.learning.clustering.methods.contract import Answer, Curator, Round
from sfumato.learning.clustering.weighted_points import project_on_simplex
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.errors import ConfigError, DecodingError
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.samplers import RandomSource
from sfumato.shared.privacy.selection import PermuteAndFlip

_MOST_COUNTS: Final = 1 << 13
"""Bins of all columns together: tables of all pairs are their square."""
_BATCH: Final = 1 << 14
_RAKES: Final = 20
_EVEN: Final = 1e-6
"""Share of independence that is mixed into a table, so that it can be fitted to its margins."""
_TOLD: Final = 3.0

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class PairTree:
    """A law whose columns depend on their parents in a tree.

    Parameters
    ----------
    bins
        Bins of the columns.
    order
        Columns with their parents, parents first; None for the root.
    shares
        For the root its shares, shape ``(B,)``; for another column the shares of its bins given
        each bin of its parent, shape ``(B', B)``.
    """

    bins: Bins
    order: tuple[tuple[int, int | None], ...]
    shares: tuple[Floats, ...]

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n records: shape ``(n, d)``, data units."""
        found = np.zeros((n, self.bins.n_dimensions), dtype=np.int64)
        for (column, parent), shares in zip(self.order, self.shares, strict=True):
            ends = np.cumsum(shares, axis=-1)
            given = ends[None] if parent is None else ends[found[:, parent]]
            # The last end may be a little below 1.
            above = rng.random((n, 1)) * given[:, -1:] >= given[:, :-1]
            found[:, column] = above.sum(axis=1)
        return self.bins.place(found, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class PairTreeDesign:
    """All that is decided before a record is read.

    Parameters
    ----------
    bins
        Bins of the columns.
    relation
        ``replace-one`` or ``add-remove-one``; the number of records is not needed.
    epsilon
        Epsilon of everything together, exact; the noise is pure.

    Raises
    ------
    ConfigError, PrivacyError
        There are too many bins, or epsilon is too small.
    """

    bins: Bins
    relation: str
    epsilon: Fraction

    def __post_init__(self) -> None:
        if sum(self.bins.n_bins) > _MOST_COUNTS:
            raise ConfigError(
                f"must be {_MOST_COUNTS} in all columns together at most",
                field="n_bins",
                fix="use fewer bins",
            )
        # What cannot be calibrated is refused here.
        _ = self.column_noise, self.n_pairs and (self.choice, self.pair_noise)

    @property
    def n_pairs(self) -> int:
        """The number of pairs in the tree."""
        return self.bins.n_dimensions - 1

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs of columns, the smaller number first."""
        return tuple(combinations(range(self.bins.n_dimensions), 2))

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The planned questions; their epsilons add up to the whole, exactly."""
        if not self.n_pairs:
            return (Round(name="columns", epsilon=self.epsilon),)
        third = self.epsilon / 3
        choices = (Round(name="pair", epsilon=third / self.n_pairs),) * self.n_pairs
        return (
            Round(name="columns", epsilon=third),
            *choices,
            Round(name="pairs", epsilon=third),
        )

    @cached_property
    def column_noise(self) -> DiscreteLaplace:
        """Noise of the histograms: a record is in one bin of each column."""
        moved = count_records_moved(self.relation) * self.bins.n_dimensions
        return self._calibrate(moved, self.rounds[0])

    @cached_property
    def choice(self) -> PermuteAndFlip:
        """The choice of a pair: a record is in one cell of its table."""
        return PermuteAndFlip.calibrate(
            sensitivity=count_records_moved(self.relation),
            epsilon=self.rounds[1].epsilon,
            neighbouring=self.relation,
        )

    @cached_property
    def pair_noise(self) -> DiscreteLaplace:
        """Noise of the tables of the tree: a record is in one cell of each."""
        return self._calibrate(count_records_moved(self.relation) * self.n_pairs, self.rounds[-1])

    def _calibrate(self, moved: int, planned: Round) -> DiscreteLaplace:
        return DiscreteLaplace.calibrate(
            sensitivity_l1=moved, epsilon=planned.epsilon, neighbouring=self.relation
        )

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(self.bins.n_bins)]

    def count(self, bins: Integers) -> Integers:
        """Count the records of each pair of bins, of the same column too: a square, exact.

        Parameters
        ----------
        bins
            Shape ``(n, d)``.

        Returns
        -------
        ndarray
            Shape ``(M, M)``, M the bins of all columns; its diagonal has all histograms.
        """
        m, starts = self._starts[-1], np.array(self._starts[:-1])
        counts = np.zeros((m, m), dtype=np.int64)
        for first in range(0, len(bins), _BATCH):
            part = bins[first : first + _BATCH] + starts
            # At most 2^14 ones a sum: exact in single precision.
            ones = np.zeros((len(part), m), dtype=np.float32)
            np.put_along_axis(ones, part, 1.0, axis=1)
            counts += np.rint(ones.T @ ones).astype(np.int64)
        return counts

    def cut_table(self, counts: Integers, pair: Pair) -> Integers:
        """Return the table of a pair of columns: shape ``(B, B')``."""
        rows, columns = (slice(self._starts[i], self._starts[i + 1]) for i in pair)
        return counts[rows, columns]

    def cut_columns(self, values: Integers) -> list[Integers]:
        """Return the histograms behind each other as those of the columns."""
        return np.split(values, self._starts[1:-1])

    def score(self, counts: Integers, columns: Sequence[Floats]) -> Integers:
        """Return how far each pair is from independent, in whole records: shape of ``pairs``.

        Parameters
        ----------
        counts
            Exact, of all pairs of bins.
        columns
            Counts of the bins of the columns, released.
        """
        joined = np.concatenate(list(columns))
        n_records = joined.sum() / len(columns)
        # Rounded before they are compared, so that a score is an integer.
        expected = np.rint(np.outer(joined, joined) / n_records).astype(np.int64)
        apart = np.abs(counts - expected)
        starts = self._starts[:-1]
        by_pair = np.add.reduceat(np.add.reduceat(apart, starts, axis=0), starts, axis=1)
        first, second = np.array(self.pairs).T
        scores: Integers = by_pair[first, second]
        return scores

    def release(self, records: NDArray[np.floating], curator: Curator) -> PairTree:
        """Ask all planned questions about some records.

        Parameters
        ----------
        records
            Shape ``(n, d)``, data units; a record that lacks a value is in no bin.

        Raises
        ------
        DecodingError
            The noise hides all records.
        """
        counts = self.count(self.bins.find(records))
        curator.ask(self.column_noise, np.diagonal(counts).copy())
        if self.n_pairs:
            columns = self._read_columns(curator.answers[0])
            scores = self.score(counts, columns)
            picked = list[int]()
            for _ in range(self.n_pairs):
                left = self._list_joining(picked)
                answer = curator.draw(self.choice.guarantee, self._choose_among(left, scores))
                picked.append(int(answer.values[0]))
            tables = [self.cut_table(counts, self.pairs[i]).ravel() for i in picked]
            curator.ask(self.pair_noise, np.concatenate(tables))
        return self.read(curator.answers)

    def read(self, answers: Sequence[Answer]) -> PairTree:
        """Return the tree of some answers: post-processing."""
        columns = self._read_columns(answers[0])
        shares = [column / column.sum() for column in columns]
        if not self.n_pairs:
            return PairTree(bins=self.bins, order=((0, None),), shares=tuple(shares))
        tables: dict[Pair, Floats] = {}
        picked = [self.pairs[int(answer.values[0])] for answer in answers[1:-1]]
        sizes = [math.prod(self.bins.n_bins[i] for i in pair) for pair in picked]
        for pair, values in zip(
            picked, np.split(answers[-1].values, np.cumsum(sizes)[:-1]), strict=True
        ):
            rows, others = shares[pair[0]], shares[pair[1]]
            table = values.reshape(len(rows), len(others)).astype(np.float64)
            tables[pair] = _rake(table, rows, others)
        order = tuple(_walk(picked))
        conditional = (
            shares[column] if parent is None else _condition(tables, column, parent, shares[column])
            for column, parent in order
        )
        return PairTree(bins=self.bins, order=order, shares=tuple(conditional))

    def _choose_among(self, left: Integers, scores: Integers) -> Callable[[RandomSource], Integers]:
        asked = scores[left].tolist()
        return lambda source: left[[self.choice.choose(asked, source)]]

    def _list_joining(self, picked: Sequence[int]) -> Integers:
        """Return the numbers of the pairs that join two parts of the tree so far."""
        label = np.arange(self.bins.n_dimensions)
        for i in picked:
            one, other = self.pairs[i]
            label[label == label[other]] = label[one]
        first, second = np.array(self.pairs).T
        return np.flatnonzero(label[first] != label[second]).astype(np.int64)

    def _read_columns(self, answer: Answer) -> list[Floats]:
        """Return histograms without negative counts, of one total."""
        found = self.cut_columns(answer.values)
        n_records = float(answer.values.sum()) / len(found)
        deviation = math.sqrt(self.column_noise.variance * answer.values.size) / len(found)
        if n_records < _TOLD * deviation:
            raise DecodingError(
                f"is so large that {n_records:.3g} records cannot be told from none: their number "
                f"is off by {deviation:.3g}",
                field="noise",
                fix="use a larger epsilon, fewer bins, or more records",
            )
        return [project_on_simplex(counts.astype(np.float64), n_records) for counts in found]


def _rake(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Fit a noisy table to its margins, by iterated proportions: shares, summing to 1."""
    even = np.outer(rows, columns)
    total = max(float(table.sum()), 1.0)
    fitted = project_on_simplex(table.ravel(), total).reshape(table.shape) / total + _EVEN * even
    for _ in range(_RAKES):
        fitted *= (rows / np.maximum(fitted.sum(axis=1), 1e-300))[:, None]
        fitted *= columns / np.maximum(fitted.sum(axis=0), 1e-300)
    return fitted


def _condition(tables: dict[Pair, Floats], column: int, parent: int, shares: Floats) -> Floats:
    """Return the shares of a column given each bin of its parent, those of all if it is empty."""
    table = tables[parent, column] if parent < column else tables[column, parent].T
    sums = table.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, table / np.maximum(sums, 1e-300), shares)


def _walk(pairs: Sequence[Pair]) -> Iterator[tuple[int, int | None]]:
    """Yield the columns of a tree with their parents, from column 0 on."""
    seen: dict[int, int | None] = {0: None}
    queue = [0]
    while queue:
        column = queue.pop(0)
        yield column, seen[column]
        for pair in pairs:
            if column in pair:
                other = pair[1] if pair[0] == column else pair[0]
                if other not in seen:
                    seen[other] = column
                    queue.append(other)
