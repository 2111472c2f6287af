"""A curator that repeats answers, so that exact sums of two sets of records can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learning.clustering.methods.contract import (
    Answer,
    Curator,
    Integers,
    Method,
    Noise,
    QuantisedRecords,
    Task,
)
from learning.clustering.methods.sums import SumsNoise
from shared.core.quantise import STEPS
from shared.privacy.histogram import NoisyHistogram
from shared.privacy.mechanism import PrivacyGuarantee
from shared.privacy.mechanisms.cube import DiscreteCube
from shared.privacy.mechanisms.laplace import DiscreteLaplace
from shared.privacy.samplers import RandomSource
from shared.privacy.testing import SeededSource


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
        Values to answer with, one array a round.
    """

    repeated: Sequence[Integers] = ()
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
        i = len(self.answers)
        answer = Answer(name=self.next_round.name, asked=asked, values=self.repeated[i].copy())
        self.answers.append(answer)
        return answer

    def ask(self, noise: Noise, sums: Integers, **asked: Integers) -> Answer:
        self.exact.append(sums.copy())
        self.noises.append(noise)
        if not self.repeated:
            return super().ask(noise, sums, **asked)
        i = len(self.answers)
        answer = Answer(name=self.next_round.name, asked=asked, values=self.repeated[i].copy())
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
    answers = [answer.values for answer in first.answers]
    second = play(method, task, far, seed=seed, repeated=answers)
    assert len(first.answers) == len(second.answers)
    for one, other in zip(first.answers, second.answers, strict=True):
        assert one.name == other.name
        for name, array in one.asked.items():
            assert np.array_equal(array, other.asked[name]), "a question depends on exact records"
    return [
        measure_excess(noise, a - b)
        for noise, a, b in zip(first.noises, first.exact, second.exact, strict=True)
    ]


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
