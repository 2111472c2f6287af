"""Mistakes in the rounds of private methods: each is found by the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from sfumato.learning.clustering.methods import sums, tree
from sfumato.learning.clustering.methods.candidates import CandidateMethod
from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Integers,
    Method,
    Noise,
    QuantisedRecords,
    Round,
    Task,
)
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.learning.clustering.methods.kernel import KernelMethod
from sfumato.learning.clustering.methods.lloyd import LloydMethod
from sfumato.learning.clustering.methods.split import SplitMethod
from sfumato.learning.clustering.methods.sums import ask_sums, find_nearest, sum_bodies
from sfumato.learning.clustering.methods.tree import TreeMethod
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.grid import locate_cells
from sfumato.shared.privacy import histogram
from sfumato.shared.privacy.cluster_sums import CellMoments, ClusterSums
from tests.learning.clustering.methods.replaying import find_leak, make_task

QUESTION = "a question depends on exact records"
ROUNDS = "the number of rounds depends on exact records"
SUMS = "the number of sums depends on exact records"
SENSITIVITY = "a sum moves beyond its sensitivity"
EPSILON = "the rounds divide epsilon wrongly"
DELTA = "the rounds divide delta wrongly"

METHODS: dict[str, Callable[[], Method]] = {
    "grid": lambda: GridMethod(n_rounds=2),
    "tree": TreeMethod,
    "candidates": lambda: CandidateMethod(n_rounds=2),
    "lloyd": lambda: LloydMethod(n_rounds=3),
    "lloyd gaussian": lambda: LloydMethod(n_rounds=3, noise="gaussian"),
    "kernel": lambda: KernelMethod(n_frequencies=20, n_rounds=2),
    "split": SplitMethod,
}


def task_of(name: str, relation: str = "replace-one", **changes: Any) -> Task:
    is_gaussian = "gaussian" in name or name in ("kernel", "split")
    delta = Fraction(1, 10**6) if is_gaussian else Fraction(0)
    return make_task(relation, scale=0.1, delta=delta, **changes)


@pytest.mark.parametrize("name", METHODS)
def test_the_methods_break_no_rule(name: str) -> None:
    assert find_leak(METHODS[name](), task_of(name, epsilon=Fraction(100))) == ""


# ---- what a method looks at ----

Look = Callable[[Integers, Integers], Integers]


@dataclass(kw_only=True)
class _Peeking(Curator):
    """Shows a method something of the exact sums in the place of an answer."""

    inner: Curator
    name: str
    look: Look

    def ask(self, noise: Noise, sums: Integers, **asked: Integers) -> Answer:
        answer = self.inner.ask(noise, sums, **asked)
        if answer.name == self.name:
            answer = replace(answer, values=self.look(sums, answer.values))
        # A method may also read the answers that the curator has kept.
        self.answers.append(answer)
        return answer

    @property
    def next_round(self) -> Round:
        return self.inner.next_round


@dataclass(frozen=True, kw_only=True)
class Peeks:
    """A method whose answers of one name are not what was released."""

    inner: Method
    peeks_at: str
    look: Look

    name: ClassVar[str] = "peeks"

    def describe(self) -> dict[str, Any]:
        return {}

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        return self.inner.plan_rounds(task)

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        peeking = _Peeking(
            rounds=curator.rounds,
            relation=curator.relation,
            source=curator.source,
            answers=list(curator.answers),
            inner=curator,
            name=self.peeks_at,
            look=self.look,
        )
        self.inner.release(records, task, peeking)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        raise NotImplementedError


def see_all(exact: Integers, noisy: Integers) -> Integers:
    return exact.copy()


def see_counts(exact: Integers, noisy: Integers) -> Integers:
    """Sums as they were released, over exact counts, as in the program of Balcan et al."""
    return np.column_stack([noisy[:, :-1], exact[:, -1]])


def see_first(exact: Integers, noisy: Integers) -> Integers:
    """Exact counts beside noisy residuals and squares."""
    return np.column_stack([exact[:, 0], noisy[:, 1:]])


def see_nothing(exact: Integers, noisy: Integers) -> Integers:
    return noisy.copy()


@pytest.mark.parametrize(
    ("name", "peeks_at", "look", "rule"),
    [
        ("grid", "counts", see_all, QUESTION),
        ("grid", "sums", see_counts, QUESTION),
        ("tree", "nodes", see_all, QUESTION),
        ("candidates", "votes", see_all, QUESTION),
        ("lloyd", "sums", see_counts, QUESTION),
        ("kernel", "features", see_counts, QUESTION),
        ("split", "cells", see_first, QUESTION),
        ("split", "clusters", see_first, QUESTION),
        # It is what is seen that is found, not the wrapper.
        ("tree", "nodes", see_nothing, ""),
    ],
)
def test_a_choice_that_looks_at_exact_counts_is_found(
    name: str, peeks_at: str, look: Look, rule: str
) -> None:
    planted = Peeks(inner=METHODS[name](), peeks_at=peeks_at, look=look)
    # With little noise what is seen decides alone; with much of it, what noise adds is missed.
    leaks = (
        find_leak(planted, task_of(name, epsilon=Fraction(epsilon)))
        for epsilon in (1000 if name == "tree" else 100, 1)
    )
    assert next(filter(None, leaks), "") == rule


# ---- what a method asks ----


class _CountsFullCellsAlone(GridMethod):
    """Its histogram has the cells that hold records, and not the empty ones."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        planned, sizes = self._design(task)
        _, counts = np.unique(locate_cells(records.steps, sizes), return_counts=True)
        noise = replace(planned, n_cells=len(counts))
        curator.ask(noise, counts.astype(np.int64), cells=np.array(sizes))


class _ReadsBoundsOffTheRecords(GridMethod):
    """Its grid spans the records, as published."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        steps = records.steps.astype(np.int64)
        low, high = steps.min(axis=0), steps.max(axis=0)
        stretched = (steps - low) * 2 * STEPS // np.maximum(high - low, 1) - STEPS
        super().release(replace(records, steps=stretched.astype(np.int16)), task, curator)


class _AsksAboutExactMeans(LloydMethod):
    """Its second question follows from exact sums."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        around = self._start(task)
        labels = find_nearest(records.steps, np.rint(around).astype(np.int64))
        exact = sum_bodies(records.steps, labels, task.n_clusters, 1)
        ask_sums(records, task, curator, around, "cube", STEPS)
        ask_sums(records, task, curator, exact[:, :-1] / exact[:, -1:].clip(1), "cube", STEPS)


class _SpendsAllOnEachLevel(TreeMethod):
    """It takes the levels of a tree to be of different records, which they are not."""

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        return tuple(replace(each, epsilon=task.epsilon) for each in super().plan_rounds(task))


class _DividesNoDelta(LloydMethod):
    """Each of its rounds may fail with the delta of the whole fit."""

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        return tuple(replace(each, delta=task.delta) for each in super().plan_rounds(task))


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        (_CountsFullCellsAlone(n_rounds=0), SUMS),
        (_ReadsBoundsOffTheRecords(n_rounds=0), SENSITIVITY),
        (_AsksAboutExactMeans(n_rounds=2), QUESTION),
        (_SpendsAllOnEachLevel(), EPSILON),
        (_DividesNoDelta(n_rounds=3, noise="gaussian"), DELTA),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_planted_fault_is_found(method: Any, rule: str) -> None:
    name = "gaussian" if getattr(method, "noise", "") == "gaussian" else ""
    assert rule in (find_leak(method, task_of(name)) or "nothing was found")


# ---- sensitivities ----


@pytest.mark.parametrize("name", METHODS)
def test_a_replaced_record_that_is_counted_once_in_sums_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (ClusterSums, CellMoments):
        for measured in {"measure_cubes", "measure_l1", "measure_l2_squared"} & set(vars(kind)):
            exact = getattr(kind, measured)
            monkeypatch.setattr(
                kind, measured, lambda self, _, exact=exact: exact(self, "add-remove-one")
            )
    assert find_leak(METHODS[name](), task_of(name)) == SENSITIVITY


def test_a_record_in_two_bodies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The children of a node keep the records that its parent's other child has.
    exact = sums.sum_bodies

    def sum_twice(vectors: Any, labels: Any, n_bodies: int, unit: int) -> Integers:
        found = exact(vectors, labels, n_bodies, unit)
        return found + found[::-1]

    monkeypatch.setattr(tree, "sum_bodies", sum_twice)
    assert find_leak(TreeMethod(), task_of("tree")) == SENSITIVITY


@pytest.mark.parametrize("name", ["grid", "candidates"])
def test_a_replaced_record_that_is_counted_once_in_cells_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histogram, "count_records_moved", lambda relation: 1)
    assert find_leak(METHODS[name](), task_of(name)) == SENSITIVITY
