"""MWEM: a table of all cells, moved towards noisy answers of the queries that it answers worst.

Hardt, Ligett and McSherry, "A Simple and Practical Algorithm for Differentially Private Data
Release" (2012), for counts of boxes. In each round the box whose count is furthest from the table's
is chosen privately, its count is released with noise, and the cells are weighted by
``exp(q(x) (m - q(A)) / 2 n)``; earlier answers are replayed. The table is the average over rounds.
Choices are by permute-and-flip, which never loses to the exponential mechanism, and a box is chosen
once. It needs the table of all columns, and knows its queries: a reference, not a rival in many
columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.generative.bins import Bins, count_boxes
from sfumato.learning.clustering.methods.contract import Answer, Curator, Round
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.errors import ConfigError, DecodingError
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.selection import PermuteAndFlip
from sfumato.shared.privacy.sensitivity import require_neighbouring

MOST_ROUNDS: Final = 1000
_SHARE_OF_COUNT: Final = Fraction(1, 20)
_REPLAYS: Final = 20
_TOLD: Final = 3.0
"""A number of records below so many standard deviations of noise is not told from none."""

BoxCount = tuple[int, int]
"""The number of a box, and its noisy count."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellTable:
    """A density that is even in every cell of a table.

    Parameters
    ----------
    bins
        Bins of the columns.
    shares
        Shape ``n_bins``, at least 0, summing to 1.
    """

    bins: Bins
    shares: Floats

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n records: shape ``(n, d)``, data units."""
        cells = rng.choice(self.shares.size, size=n, p=self.shares.ravel())
        return self.bins.place(np.array(np.unravel_index(cells, self.shares.shape)).T, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class MwemDesign:
    """All that is decided before a record is read.

    Parameters
    ----------
    bins
        Bins of the columns; their cells fit one table.
    boxes
        Shape ``(q, d, 2)``: the public queries, as first bin and one past the last of each column.
    n_rounds
        T, at most q.
    relation
        ``replace-one`` or ``add-remove-one``.
    epsilon
        Epsilon of everything together, exact; the noise is pure.
    n_records
        n under ``replace-one``, where it is public; None under ``add-remove-one``, where a
        twentieth of epsilon releases it.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range, or epsilon too small for so many rounds.
    """

    bins: Bins
    boxes: Integers
    n_rounds: int
    relation: str
    epsilon: Fraction
    n_records: int | None = None

    def __post_init__(self) -> None:
        require_neighbouring(self.relation)
        self.bins.require_table()
        most = min(len(self.boxes), MOST_ROUNDS)
        if not 1 <= self.n_rounds <= most:
            raise ConfigError(
                f"must be from 1 to {most}", field="n_rounds", fix="use 10 to 30, or more boxes"
            )
        shape = (len(self.boxes), self.bins.n_dimensions, 2)
        low, high = self.boxes.reshape(-1, 2).T if self.boxes.shape == shape else (np.ones(1), 0)
        if not (np.all(low >= 0) and np.all(low < high) and self._fit(self.boxes)):
            raise ConfigError(
                f"must be integers of shape (q, {self.bins.n_dimensions}, 2) within the bins",
                field="boxes",
                fix="give the first bin and one past the last for every column",
            )
        if (self.n_records is not None) != (self.relation == "replace-one"):
            raise ConfigError(
                "must be stated under replace-one, and not under add-remove-one",
                field="n_records",
                fix="state the public number of records, or leave it out",
            )
        # What cannot be calibrated is refused here.
        _ = self.choice, self.noise, self.count_noise

    def _fit(self, boxes: Integers) -> bool:
        return bool(np.all(boxes[:, :, 1] <= np.array(self.bins.n_bins)))

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The planned questions; their epsilons add up to the whole, exactly."""
        left, rounds = self.epsilon, []
        if self.n_records is None:
            rounds.append(Round(name="count", epsilon=self.epsilon * _SHARE_OF_COUNT))
            left -= rounds[0].epsilon
        for _ in range(self.n_rounds):
            for name in ("box", "records"):
                rounds.append(Round(name=name, epsilon=left / (2 * self.n_rounds)))
        return tuple(rounds)

    @cached_property
    def choice(self) -> PermuteAndFlip:
        """The choice of a box: one record moves a count, and so its error, by at most 1."""
        return PermuteAndFlip.calibrate(
            sensitivity=1, epsilon=self.rounds[-2].epsilon, neighbouring=self.relation
        )

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Noise of the count of one box, which a record moves by at most 1 in both relations."""
        return DiscreteLaplace.calibrate(
            sensitivity_l1=1, epsilon=self.rounds[-1].epsilon, neighbouring=self.relation
        )

    @cached_property
    def count_noise(self) -> DiscreteLaplace | None:
        """Noise of the number of records; None where it is public."""
        if self.n_records is not None:
            return None
        return DiscreteLaplace.calibrate(
            sensitivity_l1=1, epsilon=self.rounds[0].epsilon, neighbouring=self.relation
        )

    def count(self, records: NDArray[np.floating]) -> Integers:
        """Return the exact counts of all boxes, and of all whole records: shape ``(q + 1,)``."""
        table = self.bins.count_cells(self.bins.find(records))
        return np.append(count_boxes(table, self.boxes), table.sum())

    def score(self, counts: Integers, shares: Floats, n_records: float) -> Integers:
        """Return how far a table is off, in whole records: shape ``(q,)``.

        Parameters
        ----------
        counts
            Counts of the boxes, exact.
        shares, n_records
            The table and n, released.
        """
        # Rounded before it is compared, so that a score is an integer.
        estimates = np.rint(n_records * count_boxes(shares, self.boxes)).astype(np.int64)
        scores: Integers = np.abs(counts - estimates)
        return scores

    def release(self, records: NDArray[np.floating], curator: Curator) -> CellTable:
        """Ask all planned questions about some records.

        Parameters
        ----------
        records
            Shape ``(n, d)``, data units; a record that lacks a value is in no box.

        Raises
        ------
        DecodingError
            The noise hides all records.
        """
        *listed, total = self.count(records).tolist()
        counts = np.array(listed, dtype=np.int64)
        n_records = float(self.n_records or 0)
        if self.count_noise is not None:
            answer = curator.ask(self.count_noise, np.array([total]))
            n_records = float(answer.values[0])
        left = list(range(len(self.boxes)))

        def ask(shares: Floats) -> BoxCount:
            scores = self.score(counts, shares, n_records)[left].tolist()
            chosen = curator.draw(
                self.choice.guarantee,
                lambda source: np.array([left[self.choice.choose(scores, source)]]),
            )
            box = int(chosen.values[0])
            left.remove(box)
            return box, int(curator.ask(self.noise, counts[[box]]).values[0])

        return self._learn(n_records, ask)

    def read(self, answers: Sequence[Answer]) -> CellTable:
        """Return the table of some answers: post-processing."""
        values = [int(answer.values[0]) for answer in answers]
        n_records = float(self.n_records if self.n_records is not None else values.pop(0))
        pairs: Iterator[BoxCount] = iter(list(zip(values[::2], values[1::2], strict=True)))
        return self._learn(n_records, lambda _: next(pairs))

    def _learn(self, n_records: float, ask: Callable[[Floats], BoxCount]) -> CellTable:
        deviation = math.sqrt(self.noise.variance)
        if n_records < _TOLD * deviation:
            raise DecodingError(
                f"is so large that each count is off by {deviation:.3g} of {n_records:.3g} records",
                field="noise",
                fix="use a larger epsilon, fewer rounds, or more records",
            )
        shares = np.full(self.bins.n_bins, 1.0 / math.prod(self.bins.n_bins))
        total, known = np.zeros_like(shares), list[BoxCount]()
        for _ in range(self.n_rounds):
            known.append(ask(shares))
            mass = 1.0
            for box, count in known * _REPLAYS:
                wanted = min(max(count / n_records, 0.0), 1.0)
                mass = self._weigh(shares, mass, box, wanted)
            shares /= shares.sum()
            total += shares
        return CellTable(bins=self.bins, shares=total / total.sum())

    def _weigh(self, shares: Floats, mass: float, box: int, wanted: float) -> float:
        """Weigh the cells of a box, in place; return the sum of all, which was ``mass`` before."""
        inside = shares[tuple(slice(low, high) for low, high in self.boxes[box])]
        held = float(inside.sum())
        factor = math.exp((wanted - held / mass) / 2.0)
        inside *= factor
        # The whole table is divided once a round, not once a box.
        return mass + held * (factor - 1.0)
