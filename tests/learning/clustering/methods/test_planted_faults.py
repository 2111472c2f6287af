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
    divide_concentrated,
)
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.learning.clustering.methods.kernel import KernelMethod
from sfumato.learning.clustering.methods.lloyd import LloydMethod
from sfumato.learning.clustering.methods.starts import make_rng
from sfumato.learning.clustering.methods.sums import ask_sums, find_nearest, make_noise, sum_bodies
from sfumato.learning.clustering.methods.tree import TreeMethod
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.grid import locate_cells
from sfumato.shared.privacy import histogram
from sfumato.shared.privacy.cluster_sums import ClusterSums
from tests.learning.clustering.methods.replaying import find_leak, make_task

QUESTION = "a question depends on exact records"
ROUNDS = "the number of rounds depends on exact records"
SUMS = "the number of sums depends on exact records"
SENSITIVITY = "a sum moves beyond its sensitivity"
EPSILON = "the rounds divide epsilon wrongly"
DELTA = "the rounds divide delta wrongly"
RELATIONS = ("replace-one", "add-remove-one")

METHODS: dict[str, Callable[[], Method]] = {
    "grid": lambda: GridMethod(n_rounds=2),
    "tree": TreeMethod,
    "candidates": lambda: CandidateMethod(n_rounds=2),
    "lloyd": lambda: LloydMethod(n_rounds=3),
    "lloyd gaussian": lambda: LloydMethod(n_rounds=3, noise="gaussian"),
    "kernel": lambda: KernelMethod(n_frequencies=20, n_rounds=2),
}


def task_of(name: str, relation: str = "replace-one", **changes: Any) -> Task:
    is_gaussian = "gaussian" in name or name == "kernel"
    delta = Fraction(1, 10**6) if is_gaussian else Fraction(0)
    return make_task(relation, scale=0.1, delta=delta, **changes)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", METHODS)
def test_the_methods_break_no_rule(name: str, relation: str) -> None:
    assert find_leak(METHODS[name](), task_of(name, relation, epsilon=Fraction(100))) == ""


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


def cut_off(exact: Integers, noisy: Integers, least: int) -> Integers:
    counts = exact if exact.ndim == 1 else exact[:, -1:] // STEPS
    return np.where(counts < least, 0, noisy)


def see_which_are_empty(exact: Integers, noisy: Integers) -> Integers:
    return cut_off(exact, noisy, 1)


def see_which_are_small(exact: Integers, noisy: Integers) -> Integers:
    """Counts of fewer than two records become 0, as by a threshold on exact counts."""
    return cut_off(exact, noisy, 2)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("name", "peeks_at", "look"),
    [
        ("grid", "counts", see_all),
        ("grid", "counts", see_which_are_empty),
        ("grid", "counts", see_which_are_small),
        ("grid", "sums", see_counts),
        ("tree", "nodes", see_all),
        ("tree", "nodes", see_counts),
        ("tree", "nodes", see_which_are_empty),
        ("tree", "nodes", see_which_are_small),
        ("tree", "sums", see_counts),
        ("candidates", "cells", see_all),
        ("candidates", "cells", see_which_are_empty),
        ("candidates", "cells", see_which_are_small),
        ("candidates", "votes", see_all),
        ("candidates", "votes", see_which_are_empty),
        ("candidates", "sums", see_counts),
        ("lloyd", "sums", see_counts),
        ("lloyd", "sums", see_which_are_empty),
        ("kernel", "features", see_counts),
    ],
)
def test_a_choice_that_looks_at_exact_counts_is_found(
    name: str, peeks_at: str, look: Look, relation: str
) -> None:
    planted = Peeks(inner=METHODS[name](), peeks_at=peeks_at, look=look)
    # With little noise what is seen decides alone; with much of it, what noise adds is missed.
    leaks = (
        find_leak(planted, task_of(name, relation, epsilon=Fraction(epsilon)))
        for epsilon in (1000 if name == "tree" else 100, 1)
    )
    assert next(filter(None, leaks), "") == QUESTION


def test_a_method_that_sees_its_answers_through_a_wrapper_breaks_no_rule() -> None:
    # It is what is seen that is found, not the wrapper.
    planted = Peeks(
        inner=METHODS["tree"](), peeks_at="nodes", look=lambda exact, noisy: noisy.copy()
    )
    assert find_leak(planted, task_of("tree")) == ""


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


class _SizesItsGridByTheRecords(GridMethod):
    """Its cells follow from the exact number of records."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        n_records = max(task.n_clusters, len(records.steps))
        super().release(records, replace(task, n_records=n_records), curator)


class _CountsEachColumnApart(GridMethod):
    """A record counts once in each column, and the noise is that of one count."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        planned, sizes = self._design(task)
        cells = [locate_cells(records.steps[:, [i]], (m,)) for i, m in enumerate(sizes)]
        counts = np.concatenate(
            [np.bincount(found, minlength=m) for found, m in zip(cells, sizes, strict=True)]
        )
        noise = replace(planned, n_cells=len(counts))
        curator.ask(noise, counts.astype(np.int64), cells=np.array(sizes))


class _StopsAtAnEmptyCluster(LloydMethod):
    """It ends its rounds once a cluster holds no record."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        around = self._start(task)
        for planned in self.plan_rounds(task):
            labels = find_nearest(records.steps, np.rint(around).astype(np.int64))
            if not np.bincount(labels, minlength=task.n_clusters).all():
                return
            answer = ask_sums(records, task, curator, around, "cube", STEPS)
            around = self._read(task, planned, answer).centroids


class _StopsWhereNothingIsLeft(TreeMethod):
    """It asks about no further level once no record is in a node that was divided."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        rng = make_rng(task, self.name)
        nodes = np.zeros(len(records.steps), dtype=np.intp)
        divided = tree._Divided.of_root(task.n_dimensions)
        for planned in self.plan_rounds(task):
            if not (nodes >= 0).any():
                return
            answer = tree._ask_nodes(records, nodes, task, curator, divided)
            divided = tree._divide(task, planned, answer, rng)
            nodes = divided.descend(records.steps, nodes)


class _ClipsByTheExactSpread(GridMethod):
    """Its radius follows from the spread of the records."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        spread = float(records.steps.std()) / STEPS
        super().release(records, replace(task, scale=spread), curator)


class _AsksAboutExactMeans(LloydMethod):
    """Its second question follows from exact sums."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        around = self._start(task)
        labels = find_nearest(records.steps, np.rint(around).astype(np.int64))
        exact = sum_bodies(records.steps, labels, task.n_clusters, 1)
        ask_sums(records, task, curator, around, "cube", STEPS)
        ask_sums(records, task, curator, exact[:, :-1] / exact[:, -1:].clip(1), "cube", STEPS)


class _SumsBeyondItsRadius(LloydMethod):
    """It sums residuals that are not clipped."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        noise = make_noise("cube", curator.next_round, task, 2000)
        labels = find_nearest(records.steps, np.rint(self._start(task)).astype(np.int64))
        curator.ask(noise, sum_bodies(records.steps, labels, task.n_clusters, 2000))


class _CountsApart(LloydMethod):
    """It divides all sums by the exact number of records of the first cluster."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        noise = make_noise("cube", curator.next_round, task, STEPS)
        labels = find_nearest(records.steps, np.rint(self._start(task)).astype(np.int64))
        found = sum_bodies(records.steps, labels, task.n_clusters, STEPS)
        curator.ask(noise, found * 300 // max(1, int(found[0, -1]) // STEPS))


class _CentresTheRecords(LloydMethod):
    """It takes the exact mean off all records before it sums them."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        mean = np.rint(records.steps.mean(axis=0)).astype(np.int64)
        moved = np.clip(records.steps - mean, -STEPS, STEPS).astype(np.int16)
        super().release(replace(records, steps=moved), task, curator)


class _VotesTwice(CandidateMethod):
    """Each record is there twice, as for its two nearest candidates."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        twice = np.concatenate([records.steps, records.steps])
        super().release(replace(records, steps=twice), task, curator)


class _SpendsAllOnEachLevel(TreeMethod):
    """It takes the levels of a tree to be of different records, which they are not."""

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        return tuple(replace(each, epsilon=task.epsilon) for each in super().plan_rounds(task))


class _ForgetsTheVotes(CandidateMethod):
    """It divides epsilon between cells and sums, and votes for nothing."""

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        return tuple(
            replace(each, epsilon=each.epsilon * (1 if each.name == "votes" else Fraction(3, 2)))
            for each in super().plan_rounds(task)
        )


class _AsksForMoreThanWasPlanned(GridMethod):
    """Its rounds cost what the whole fit may."""

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        super().release(records, replace(task, epsilon=2 * task.epsilon), curator)


class _DividesNoDelta(LloydMethod):
    """Each of its rounds may fail with the delta of the whole fit."""

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        return tuple(replace(each, delta=task.delta) for each in super().plan_rounds(task))


class _DividesNoRho(LloydMethod):
    """Each of its rounds has the concentrated loss of the whole fit; delta is divided."""

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        (whole,) = divide_concentrated(task, "sums", 1)
        return (replace(whole, delta=task.delta / self.n_rounds),) * self.n_rounds


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("method", "rule"),
    [
        (_CountsFullCellsAlone(n_rounds=0), SUMS),
        (_ReadsBoundsOffTheRecords(n_rounds=0), SENSITIVITY),
        (_CountsEachColumnApart(n_rounds=0), SENSITIVITY),
        (_ClipsByTheExactSpread(n_rounds=1), QUESTION),
        (_AsksForMoreThanWasPlanned(n_rounds=1), "within what was planned"),
        (_StopsAtAnEmptyCluster(n_rounds=3), ROUNDS),
        (_StopsWhereNothingIsLeft(n_rounds=0), ROUNDS),
        (_AsksAboutExactMeans(n_rounds=2), QUESTION),
        (_SumsBeyondItsRadius(n_rounds=1), SENSITIVITY),
        (_CountsApart(n_rounds=1), SENSITIVITY),
        (_CentresTheRecords(n_rounds=1), SENSITIVITY),
        (_VotesTwice(), SENSITIVITY),
        (_SpendsAllOnEachLevel(), EPSILON),
        (_ForgetsTheVotes(), EPSILON),
        (_DividesNoDelta(n_rounds=3, noise="gaussian"), DELTA),
        (_DividesNoRho(n_rounds=3, noise="gaussian"), EPSILON),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_planted_fault_is_found(method: Any, rule: str, relation: str) -> None:
    name = "gaussian" if getattr(method, "noise", "") == "gaussian" else ""
    assert rule in (find_leak(method, task_of(name, relation)) or "nothing was found")


def test_a_grid_that_is_sized_by_the_exact_number_of_records_is_found() -> None:
    task = task_of("grid", "add-remove-one", epsilon=Fraction(10), n_clusters=1)
    assert find_leak(GridMethod(n_rounds=0), task) == ""
    assert find_leak(_SizesItsGridByTheRecords(n_rounds=0), task) == QUESTION


# ---- sensitivities ----


@pytest.mark.parametrize("name", METHODS)
def test_a_replaced_record_that_is_counted_once_in_sums_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for measured in ("measure_cubes", "measure_l1", "measure_l2_squared"):
        exact = getattr(ClusterSums, measured)
        monkeypatch.setattr(
            ClusterSums, measured, lambda self, _, exact=exact: exact(self, "add-remove-one")
        )
    assert find_leak(METHODS[name](), task_of(name)) == SENSITIVITY


@pytest.mark.parametrize("name", ["grid", "candidates"])
def test_a_replaced_record_that_is_counted_once_in_cells_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histogram, "count_records_moved", lambda relation: 1)
    assert find_leak(METHODS[name](), task_of(name)) == SENSITIVITY


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_count_that_weighs_more_than_its_noise_covers_is_found(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = sums.sum_bodies
    monkeypatch.setattr(
        sums, "sum_bodies", lambda vectors, labels, k, unit: exact(vectors, labels, k, 2 * unit)
    )
    assert find_leak(LloydMethod(n_rounds=1), task_of("lloyd", relation)) == SENSITIVITY


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_record_in_two_bodies_is_found(relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The children of a node keep the records that its parent's other child has.
    exact = sums.sum_bodies

    def sum_twice(vectors: Any, labels: Any, n_bodies: int, unit: int) -> Integers:
        found = exact(vectors, labels, n_bodies, unit)
        return found + found[::-1]

    monkeypatch.setattr(tree, "sum_bodies", sum_twice)
    assert find_leak(TreeMethod(), task_of("tree", relation)) == SENSITIVITY
