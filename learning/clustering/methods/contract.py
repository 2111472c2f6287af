"""The contract of the central methods: rounds known before any record, then noisy answers.

A *task* is public. A method plans its *rounds* from the task alone; their cost is that of the whole
method. It then asks a *curator*, who holds the source of the noise, one question a round. The
answers, with what was asked, are all that leaves: centroids are computed from them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core.quantise import STEPS, Quantiser
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.accounting import convert_concentrated
from sfumato.shared.privacy.mechanism import PrivacyGuarantee
from sfumato.shared.privacy.mechanisms.gaussian import (
    LEAST_JOINT_SIGMA,
    MOST_JOINT,
    DiscreteGaussian,
    find_joint_rho,
)
from sfumato.shared.privacy.samplers import RandomSource
from sfumato.shared.privacy.sensitivity import require_neighbouring

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_WITHIN = 0.7
_WIDTH = 4.0
MOST_RECORDS = 1 << 36
"""Sums of so many records are exact in double precision, as the assignments are."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is public before any record is read.

    Parameters
    ----------
    n_records
        n under ``replace-one``. Under ``add-remove-one``, where it is secret, a public number that
        sizes of grids, depths and rounds follow from.
    n_dimensions
        d.
    n_clusters
        k.
    epsilon, delta
        Epsilon and delta of the whole method, exact.
    relation
        ``replace-one`` or ``add-remove-one``.
    scale
        Standard deviation inside a cluster, per dimension, over half the width of the box; None
        where it is not known.
    seed
        Public bytes that choices follow from which depend on no record, such as hyperplanes.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range.
    """

    n_records: int
    n_dimensions: int
    n_clusters: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    relation: str = "replace-one"
    scale: float | None = None
    seed: bytes = b""

    def __post_init__(self) -> None:
        require_neighbouring(self.relation)
        if not self.epsilon > 0:
            raise PrivacyError("must be greater than zero", field="epsilon", fix="use 1 or less")
        if not 0 <= self.delta < 1:
            raise PrivacyError("must be from 0 to below 1", field="delta", fix='use "0"')
        for name, most in (("n_records", MOST_RECORDS), ("n_dimensions", 1 << 16)):
            if not 1 <= getattr(self, name) <= most:
                raise ConfigError(
                    f"must be from 1 to {most}", field=name, fix="state a public number"
                )
        if not 1 <= self.n_clusters <= self.n_records:
            raise ConfigError(
                f"must be from 1 to the number of records, {self.n_records}",
                field="n_clusters",
                fix="ask for fewer clusters",
            )
        if self.scale is not None and not 0.0 < self.scale < np.inf:
            raise ConfigError(
                "must be a finite positive number",
                field="scale",
                fix="give the spread inside one cluster over half the width of the bounds",
            )

    @property
    def is_counted(self) -> bool:
        """Whether n is public."""
        return self.relation == "replace-one"

    @property
    def strength(self) -> float:
        """``n epsilon``, with twice epsilon under add-remove-one: one record moves, not two."""
        return self.n_records * float(self.epsilon) * (1.0 if self.is_counted else 2.0)

    def describe(self) -> dict[str, Any]:
        """Return the task as plain values."""
        return {
            "n_records": self.n_records,
            "n_dimensions": self.n_dimensions,
            "n_clusters": self.n_clusters,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation,
            "scale": self.scale,
            "seed": self.seed,
        }


@dataclass(frozen=True, kw_only=True)
class Round:
    """A noisy answer that is planned, and the most that it may cost.

    Parameters
    ----------
    name
        What is asked, such as ``counts`` or ``sums``.
    epsilon, delta, rho
        As of a privacy event; rho is None for pure noise.
    is_joint
        Whether all rounds of the method are bounded together, as section 4 of ``proofs.md`` bounds
        discrete Gaussian noise alone.
    """

    name: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    is_joint: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """A noisy answer, and the public integers that were asked about.

    Parameters
    ----------
    name
        Name of the round.
    asked
        Public integers by name, such as centroids in steps: functions of earlier answers.
    values
        int64, with noise.
    """

    name: str
    asked: Mapping[str, Integers]
    values: Integers

    def __post_init__(self) -> None:
        for array in (self.values, *self.asked.values()):
            array.setflags(write=False)


class Noise(Protocol):
    """A mechanism, as the curator checks and draws it."""

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        ...

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return the sums with fresh noise."""
        ...


@dataclass(kw_only=True)
class Curator:
    """Answers the planned questions, once each, at no more than their planned cost.

    Parameters
    ----------
    rounds
        As planned before the records.
    relation
        Relation of the records.
    source
        Source of the noise.
    progress
        Called with the completed share of the rounds, 0 to 1.
    """

    rounds: Sequence[Round]
    relation: str
    source: RandomSource
    progress: Callable[[float], None] = field(default=lambda share: None)
    answers: list[Answer] = field(default_factory=list)
    _n_joint: int = field(default=0, init=False)

    @property
    def next_round(self) -> Round:
        """The next round that was planned.

        Raises
        ------
        PrivacyError
            All were asked.
        """
        if len(self.answers) >= len(self.rounds):
            raise PrivacyError(
                f"has {len(self.rounds)} rounds, and all were asked",
                field="rounds",
                fix="report this: a method was about to ask what it had not planned",
            )
        return self.rounds[len(self.answers)]

    def draw(
        self,
        guarantee: PrivacyGuarantee,
        release: Callable[[RandomSource], Integers],
        **asked: Integers,
    ) -> Answer:
        """Draw an answer that is no sum, such as a choice, and keep it; the next round pays for it.

        Parameters
        ----------
        guarantee
            Proved for what ``release`` returns.
        release
            Draws the answer from a source of random bytes.

        Raises
        ------
        PrivacyError
            The guarantee is less than what was planned; nothing was drawn.
        """
        planned = self._require_planned(guarantee)
        _require(not planned.is_joint, planned)
        return self._keep(planned, asked, release(self.source))

    def ask(self, noise: Noise, sums: Integers, **asked: Integers) -> Answer:
        """Add noise to exact sums, and keep the answer; the next round pays for it.

        Raises
        ------
        PrivacyError
            The noise guarantees less than was planned; nothing was drawn.
        """
        planned = self._require_planned(noise.guarantee)
        if planned.is_joint:
            self._n_joint += sums.size
            mechanism = getattr(noise, "mechanism", noise)
            # What the joint bound rests on, beside the sum of all rho.
            _require(
                isinstance(mechanism, DiscreteGaussian)
                and mechanism.sigma >= LEAST_JOINT_SIGMA
                and self._n_joint <= MOST_JOINT,
                planned,
            )
        return self._keep(planned, asked, noise.add_noise(sums, self.source))

    def _keep(self, planned: Round, asked: Mapping[str, Integers], values: Integers) -> Answer:
        answer = Answer(name=planned.name, asked=asked, values=values)
        self.answers.append(answer)
        self.progress(len(self.answers) / len(self.rounds))
        return answer

    def _require_planned(self, given: PrivacyGuarantee) -> Round:
        planned = self.next_round
        if planned.rho is None:
            is_covered = given.epsilon <= planned.epsilon and given.delta <= planned.delta
        else:
            is_covered = given.rho is not None and given.rho <= planned.rho
        _require(is_covered and given.neighbouring == self.relation, planned)
        return planned


def _require(holds: bool, planned: Round) -> None:
    if not holds:
        raise PrivacyError(
            f"of the round {planned.name!r} must be within what was planned",
            field="noise",
            fix="report this: a method was about to spend more than it had planned",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedRecords:
    """Records as steps from the centre of the public box; exact, and never released.

    Parameters
    ----------
    steps
        Shape ``(n, d)``, int16, of the complete records, in any order.
    n_missing
        Number of records with a missing value: they add to nothing but a count of their own.
    places
        Shape ``(n,)``: numbers of the complete records among all; None if they are in order.
    """

    steps: NDArray[np.int16]
    n_missing: int = 0
    places: Integers | None = None

    @property
    def positions(self) -> Integers:
        """Numbers of the complete records among all: shape ``(n,)``. Only where n is public."""
        return np.arange(len(self.steps)) if self.places is None else self.places

    @classmethod
    def of(cls, records: NDArray[np.floating], quantiser: Quantiser) -> QuantisedRecords:
        """Quantise records of shape ``(n, d)``, data units; values outside the box saturate."""
        steps, sketchable = quantiser.quantise(records)
        n_missing = len(steps) - int(np.count_nonzero(sketchable))
        if not n_missing:
            return cls(steps=steps)
        return cls(steps=steps[sketchable], n_missing=n_missing, places=np.flatnonzero(sketchable))


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Centroids and shares, computed from answers alone.

    Parameters
    ----------
    centroids
        Shape ``(k, d)``, steps from the centre of the box, inside it, by falling share.
    shares
        Shape ``(k,)``, at least 0, summing to 1.
    """

    centroids: Floats
    shares: Floats

    @classmethod
    def of(cls, centroids: Floats, masses: Floats) -> Clusters:
        """Clip centroids to the box, order them, and normalise their masses."""
        masses = np.maximum(masses, 0.0)
        total = float(masses.sum())
        shares = masses / total if total > 0.0 else np.full(len(masses), 1.0 / len(masses))
        order = np.argsort(-shares, kind="stable")
        return cls(centroids=np.clip(centroids, -STEPS, STEPS)[order], shares=shares[order])


class Method(Protocol):
    """A central method: frozen settings, and no state.

    Guarantees
    ----------
    The answers of :meth:`release` are private at the sum of the planned rounds, for the relation of
    the task. :meth:`recover` reads answers only, and costs nothing.
    """

    name: ClassVar[str]

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values: with them the method can be made again."""
        ...

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """Return what the method will ask, and what that costs; reads no record.

        Raises
        ------
        ConfigError, PrivacyError
            The task does not suit the method.
        """
        ...

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """Ask the curator about the records, at most all planned rounds.

        A choice in between follows from answers and from the task's seed.
        """
        ...

    def recover(
        self,
        task: Task,
        answers: Sequence[Answer],
        *,
        n_clusters: int,
        rng: np.random.Generator,
    ) -> Clusters:
        """Compute clusters from the answers, for k of the task or another.

        Raises
        ------
        ConfigError
            The answers do not tell of so many clusters.
        """
        ...


def guess_scale(n_clusters: int, n_dimensions: int) -> float:
    """Guess the spread inside a cluster over half a width: ``0.7 k^(-1/d) / 4``.

    That is 0.7 of the share of a column's spread that k equal cells have, for bounds at four
    spreads on both sides.
    """
    return float(_WITHIN * n_clusters ** (-1.0 / n_dimensions) / _WIDTH)


def divide_pure(task: Task, names: Sequence[str], shares: Sequence[Fraction]) -> tuple[Round, ...]:
    """Divide epsilon over rounds of pure noise in proportion to shares; their sum is exact."""
    total = sum(shares, Fraction(0))
    return tuple(
        Round(name=name, epsilon=task.epsilon * share / total)
        for name, share in zip(names, shares, strict=True)
    )


def find_rho(task: Task) -> Fraction:
    """Find the rho that all rounds of Gaussian noise may lose together.

    Raises
    ------
    PrivacyError
        There is no delta.
    """
    if not task.delta:
        raise PrivacyError(
            "must be above 0 for Gaussian noise",
            field="delta",
            fix='use less than one over the number of records, such as "1e-9"; '
            'without delta, use LloydKMeans(noise="cube")',
        )
    return find_joint_rho(task.epsilon, task.delta)


def divide_jointly(
    task: Task, names: Sequence[str], shares: Sequence[Fraction]
) -> tuple[Round, ...]:
    """Divide (epsilon, delta) over rounds of Gaussian noise alone, in proportion to shares.

    The rounds are bounded together, which allows more than the sum of their own losses does:
    :func:`join_rounds` tells what all of them cost.

    Raises
    ------
    PrivacyError
        There is no delta.
    """
    whole, total = find_rho(task), sum(shares, Fraction(0))
    return tuple(
        replace(
            _plan_concentrated(name, whole * share / total, task.delta * share / total),
            is_joint=True,
        )
        for name, share in zip(names, shares, strict=True)
    )


def join_rounds(task: Task, rounds: Sequence[Round]) -> tuple[Round, ...]:
    """Return the rounds as they are paid: those that are bounded together as one.

    Raises
    ------
    PrivacyError
        Only some of them are bounded together.
    """
    joint = [planned for planned in rounds if planned.is_joint]
    if not joint:
        return tuple(rounds)
    if len(joint) < len(rounds):
        raise PrivacyError(
            "must all be bounded together, or none of them",
            field="rounds",
            fix="report this: a method plans what no proof covers",
        )
    rho = sum((planned.rho or Fraction(0) for planned in joint), Fraction(0))
    return (Round(name=rounds[0].name, epsilon=task.epsilon, delta=task.delta, rho=rho),)


def divide_by_shares(
    epsilon: Fraction, delta: Fraction, shares: Mapping[str, Fraction]
) -> tuple[Round, ...]:
    """Give each round of Gaussian noise its share of the zero-concentrated loss.

    Parameters
    ----------
    shares
        By the name of a round; at most 1 together.
    """
    whole = _find_concentrated(epsilon, delta)
    return tuple(
        _plan_concentrated(name, whole * share, delta * share) for name, share in shares.items()
    )


def _plan_concentrated(name: str, rho: Fraction, delta: Fraction) -> Round:
    # Few digits, so that a design is short; rounded down.
    rho = Fraction(int(rho * (1 << 80)), 1 << 80)
    return Round(name=name, epsilon=convert_concentrated(rho, delta), delta=delta, rho=rho)


@lru_cache(maxsize=64)
def _find_concentrated(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest rho that converts to at most epsilon at delta, by bisection."""
    low, high = Fraction(0), epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        if convert_concentrated(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low
