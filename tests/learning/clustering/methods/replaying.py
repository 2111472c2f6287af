"""A curator that repeats answers, so that exact sums of two sets of records can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Curator,
    Integers,
    Method,
    Noise,
    QuantisedRecords,
    Task,
)
from sfumato.learning.clustering.methods.sums import SumsNoise
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.histogram import NoisyHistogram
from sfumato.shared.privacy.mechanism import PrivacyGuarantee
from sfumato.shared.privacy.mechanisms.cube import DiscreteCube
from sfumato.shared.privacy.mechanisms.gaussian import bound_joint_delta
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.samplers import RandomSource
from sfumato.shared.privacy.testing import SeededSource


class LeakError(AssertionError):
    """A rule of the rounds of a private method is broken: its text says which."""


def require(holds: bool, rule: str) -> None:
    if not holds:
        raise LeakError(rule)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The place of a noise where an answer was drawn in another way."""

    guarantee: PrivacyGuarantee

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        raise NotImplementedError


@dataclass(kw_only=True)
class RecordingCurator(Curator):
    """Keeps the exact sums that were asked about; repeats given answers, if there are any.

    Parameters
    ----------
    repeated
        Answers to give again, one a round: what is asked must then be what was asked for them.
    """

    repeated: Sequence[Answer] = ()
    exact: list[Integers] = field(default_factory=list)
    noises: list[Noise] = field(default_factory=list)

    def draw(
        self,
        guarantee: PrivacyGuarantee,
        release: Callable[[RandomSource], Integers],
        **asked: Integers,
    ) -> Answer:
        # What is drawn is no sum: each method's own tests compare it.
        self.exact.append(np.zeros(0, dtype=np.int64))
        self.noises.append(Drawn(guarantee=guarantee))
        if not self.repeated:
            return super().draw(guarantee, release, **asked)
        return self._repeat(asked)

    def ask(self, noise: Noise, sums: Integers, **asked: Integers) -> Answer:
        self.exact.append(sums.copy())
        self.noises.append(noise)
        if not self.repeated:
            return super().ask(noise, sums, **asked)
        answer = self._repeat(asked)
        same = answer.values.shape == sums.shape
        require(same, "the number of sums depends on exact records")
        return answer

    def _repeat(self, asked: Mapping[str, Integers]) -> Answer:
        i = len(self.answers)
        require(i < len(self.repeated), "the number of rounds depends on exact records")
        again = self.repeated[i]
        is_same = asked.keys() == again.asked.keys() and all(
            np.array_equal(array, again.asked[name]) for name, array in asked.items()
        )
        require(is_same, "a question depends on exact records")
        answer = Answer(name=self.next_round.name, asked=asked, values=again.values.copy())
        self.answers.append(answer)
        return answer


def play(
    method: Method, task: Task, records: QuantisedRecords, *, seed: int = 0, **more: Any
) -> RecordingCurator:
    """Let a method ask all that it asks."""
    curator = RecordingCurator(
        rounds=method.plan_rounds(task), relation=task.relation, source=SeededSource(seed), **more
    )
    method.release(records, task, curator)
    return curator


def measure_excess(noise: Noise, change: Integers) -> Fraction:
    """Return by how much a change of sums is beyond the sensitivity of the noise; 1 is all of it.

    In the norm of the mechanism itself, squared for Gaussian noise.
    """
    mechanism: Any = noise
    if isinstance(noise, Drawn):
        return Fraction(0)
    if isinstance(noise, SumsNoise | NoisyHistogram):
        mechanism = noise.mechanism
    if isinstance(mechanism, DiscreteCube):
        return Fraction(int(np.abs(change).max(axis=1).sum()), mechanism.norm_sensitivity)
    if isinstance(mechanism, DiscreteLaplace):
        return Fraction(int(np.abs(change).sum()), mechanism.sensitivity_l1)
    squares = sum(int(value) ** 2 for value in change.ravel().tolist())
    return Fraction(squares, mechanism.sensitivity_l2_squared)


def compare_neighbours(
    method: Method, task: Task, near: QuantisedRecords, far: QuantisedRecords, *, seed: int = 0
) -> list[Fraction]:
    """Return, for each round, how much of its sensitivity two neighbours use.

    Both get the same answers, as the definition of privacy asks for: what is asked must then be
    the same, and the sums within the sensitivity.
    """
    first = play(method, task, near, seed=seed)
    second = play(method, task, far, seed=seed, repeated=first.answers)
    require(
        len(first.answers) == len(second.answers), "the number of rounds depends on exact records"
    )
    return [
        measure_excess(noise, a - b)
        for noise, a, b in zip(first.noises, first.exact, second.exact, strict=True)
    ]


def require_planned_cost(method: Method, task: Task) -> None:
    """Refuse rounds that are planned for more than the task's epsilon and delta, or for less."""
    rounds = method.plan_rounds(task)
    require(sum(each.delta for each in rounds) == task.delta, "the rounds divide delta wrongly")
    if any(each.rho is not None for each in rounds):
        rho = sum((each.rho or Fraction(0) for each in rounds), Fraction(0))
        little = Fraction(99, 100) * task.epsilon
        is_whole = (
            bound_joint_delta(rho, task.epsilon) <= task.delta < bound_joint_delta(rho, little)
        )
    else:
        is_whole = sum(each.epsilon for each in rounds) == task.epsilon
    require(is_whole, "the rounds divide epsilon wrongly")


N_PAIRS = {300: 3, 3: 9, 1: 3}
"""Pairs of neighbours by their size: of few records, one empties a cluster, a cell or a node."""


def find_leak(method: Method, task: Task) -> str:
    """Return the first rule that is broken, by the plan or between neighbours; empty if none is."""
    try:
        require_planned_cost(method, task)
        for n, n_pairs in N_PAIRS.items():
            for seed in range(n_pairs):
                near, far = make_neighbours(task.relation, seed, n, task.n_dimensions)
                used = compare_neighbours(method, task, near, far, seed=seed)
                require(max(used) <= 1, "a sum moves beyond its sensitivity")
    except LeakError as leak:
        return str(leak)
    except PrivacyError as refusal:
        # The curator holds every noise against the plan.
        return str(refusal)
    return ""


def make_task(relation: str, **changes: Any) -> Task:
    """Make a task of a few records in two dimensions."""
    given: dict[str, Any] = {
        "n_records": 300,
        "n_dimensions": 2,
        "n_clusters": 3,
        "epsilon": Fraction(1),
        "relation": relation,
        "seed": b"public",
    }
    return Task(**given | changes)


def draw_steps(seed: int, n: int = 300, d: int = 2) -> NDArray[np.int16]:
    """Draw records in three clusters, and some at the walls."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(-20_000, 20_000, size=(3, d))
    steps = means[rng.integers(3, size=n)] + rng.normal(scale=4000, size=(n, d))
    return np.rint(np.clip(steps, -STEPS, STEPS)).astype(np.int16)


def make_neighbours(relation: str, seed: int, n: int = 300, d: int = 2) -> list[QuantisedRecords]:
    """Make neighbours that differ in one record: far away, near, missing, or absent."""
    rng = np.random.default_rng(seed + 1000)
    steps = draw_steps(seed, n, d)
    place = int(rng.integers(n))
    near = QuantisedRecords(steps=steps)
    rest = np.delete(steps, place, axis=0)
    if relation == "add-remove-one":
        return [near, QuantisedRecords(steps=rest, n_missing=0)]
    kind = seed % 3
    if kind == 0:
        return [near, QuantisedRecords(steps=rest, n_missing=1)]
    moved = steps.copy()
    corner = rng.choice([-STEPS, STEPS], size=d)
    moved[place] = corner if kind == 1 else np.clip(moved[place].astype(int) + 1, -STEPS, STEPS)
    return [near, QuantisedRecords(steps=moved)]
