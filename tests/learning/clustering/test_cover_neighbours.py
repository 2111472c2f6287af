"""A cover of two neighbours that are given the same answers, and mistakes that this finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.clustering import cover
from sfumato.learning.clustering.cover import run_cover
from sfumato.learning.coverage.averages import (
    COUNT_UNIT,
    GaussianAverages,
    find_nearest,
)
from sfumato.learning.coverage.gains import CoverGains
from sfumato.learning.coverage.plan import CoverPlan
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.privacy.cover import GaussianEvent, PureEvent
from sfumato.shared.privacy.mechanisms.laplace import draw_laplace
from sfumato.shared.privacy.samplers import UNIT, RandomSource, draw_below_wide
from sfumato.shared.privacy.selection import ExponentialChoice
from sfumato.shared.privacy.testing import SeededSource
from tests.learning.clustering.methods.replaying import LeakError, require
from tests.learning.coverage.mixtures import make_plan

Integers = NDArray[np.int64]

QUESTION = "a question depends on exact records"
PICKS = "the number of picks depends on exact records"
GAIN = "a gain moves by more than one"
REMOVAL = "a covered record comes back"
VOTES = "votes move beyond their sensitivity"
AVERAGES = "averages move beyond their sensitivity"
RELATIONS = ("replace-one", "add-remove-one")


@dataclass(kw_only=True)
class Trace:
    """Exact sums and votes of a cover, before noise, and its answers."""

    gains: list[dict[int, int]] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)
    exact_votes: list[Integers] = field(default_factory=list)
    votes: list[Integers] = field(default_factory=list)
    exact_rounds: list[tuple[Integers, Integers]] = field(default_factory=list)
    rounds: list[Integers] = field(default_factory=list)
    centres: list[Integers] = field(default_factory=list)
    """Points that records were assigned to: public, as they follow from answers."""


class _Votes:
    """The noise of votes: keeps the exact ones that it is added to, and gives an answer again."""

    __array_ufunc__ = None

    def __init__(self, noise: Integers, trace: Trace, again: Trace | None) -> None:
        self._noise, self._trace, self._again = noise, trace, again

    def __radd__(self, exact: Integers) -> Integers:
        self._trace.exact_votes.append(exact.copy())
        released = exact + self._noise if self._again is None else self._again.votes[0].copy()
        self._trace.votes.append(released)
        return released


@contextmanager
def recording(trace: Trace, again: Trace | None) -> Iterator[None]:
    """Keep all that a cover asks; with a trace, repeat its answers."""
    draw, add_noise = CoverGains.draw, GaussianAverages.add_noise

    def pick(self: CoverGains, choice: ExponentialChoice, source: RandomSource) -> int:
        trace.gains.append(dict(zip(self._points.tolist(), self._gains.tolist(), strict=True)))
        if again is None:
            # Privacy is for all answers: let them be points that cover records, where some do.
            covering_some = self._points[self._gains > 0]
            key = draw(self, choice, source)
            if covering_some.size:
                key = int(covering_some[draw_below_wide(source, covering_some.size)])
        else:
            require(len(trace.picks) < len(again.picks), PICKS)
            key = again.picks[len(trace.picks)]
        trace.picks.append(key)
        return key

    def vote(source: RandomSource, rate: int, count: int) -> Any:
        require(again is None or count == again.votes[0].size, PICKS)
        return _Votes(draw_laplace(source, rate, count), trace, again)

    def assign(points: Integers, centres: Integers) -> Integers:
        trace.centres.append(centres.copy())
        return find_nearest(points, centres)

    def average(
        self: GaussianAverages, counts: Integers, sums: Integers, source: RandomSource
    ) -> Integers:
        trace.exact_rounds.append((counts.copy(), sums.copy()))
        if again is None:
            released = add_noise(self, counts, sums, source)
        else:
            released = again.rounds[len(trace.rounds)].copy()
        trace.rounds.append(released)
        return released

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoverGains, "draw", pick)
        patch.setattr(cover, "draw_laplace", vote)
        patch.setattr(cover, "find_nearest", assign)
        patch.setattr(GaussianAverages, "add_noise", average)
        yield


def trace_cover(plan: CoverPlan, steps: Integers, *, seed: int, again: Trace | None) -> Trace:
    trace = Trace()
    with recording(trace, again):
        run_cover(steps, plan, source=SeededSource(seed), rng=np.random.default_rng(0))
    return trace


def require_gains(first: Trace, second: Trace) -> None:
    """Refuse gains that one record moves by more than 1, or moves again once it was covered.

    A difference above 0 is that of a record of the first set, and below 0 one of the second.
    """
    require(len(first.picks) == len(second.picks), PICKS)
    gone: set[int] = set()
    for one, other, key in zip(first.gains, second.gains, first.picks, strict=True):
        changes = {point: one.get(point, 0) - other.get(point, 0) for point in {*one, *other}}
        signs = {int(np.sign(change)) for change in changes.values()} - {0}
        require(max(map(abs, changes.values()), default=0) <= 1, GAIN)
        require(not signs & gone, REMOVAL)
        gone |= {changes.get(key, 0)} - {0}


def compare_covers(plan: CoverPlan, near: Integers, far: Integers, *, seed: int) -> None:
    """Give two neighbours the same answers, and refuse what moves by more than was accounted."""
    first = trace_cover(plan, near, seed=seed, again=None)
    second = trace_cover(plan, far, seed=seed, again=first)
    require_gains(first, second)
    for one, other in zip(first.centres, second.centres, strict=True):
        require(np.array_equal(one, other), QUESTION)
    for votes, others in zip(first.exact_votes, second.exact_votes, strict=True):
        loss = Fraction(int(np.abs(votes - others).sum()) * plan.count_rate, UNIT)
        paid = plan.events[1]
        assert isinstance(paid, PureEvent)
        require(loss <= paid.epsilon, VOTES)
    whole = plan.events[-1]
    assert isinstance(whole, GaussianEvent)
    spent = Fraction(0)
    rounds = zip(plan.averages, first.exact_rounds, second.exact_rounds, strict=True)
    for averages, before, after in rounds:
        counts, sums = before[0] - after[0], before[1] - after[1]
        # Of the law that is drawn: a variance of sigma^2 counts as sigma^2 - 4.
        spent += Fraction(COUNT_UNIT**2 * int(np.sum(counts**2)), averages.sigma_count**2 - 4)
        spent += Fraction(sum(int(x) ** 2 for x in sums.ravel()), averages.sigma_sum**2 - 4)
    require(spent <= whole.mu_squared, AVERAGES)


def list_neighbours(relation: str) -> Iterator[tuple[int, Integers, Integers]]:
    """Return neighbours of many records and of few, one of which is far from the others.

    A record that cannot be read is not among those that a cover is given.
    """
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = (60, 2, 1)[seed % 3]
        steps = rng.normal(scale=6000.0, size=(n, 2)).astype(np.int64)
        corner = rng.choice([-STEPS, STEPS], size=2)
        near = np.concatenate([steps, [corner]])
        yield seed, near, steps
        if relation == "replace-one":
            yield seed, near, np.concatenate([steps, [-corner if seed % 2 else corner // 3]])


def find_leak(relation: str, **changes: Any) -> str:
    """Return the first rule that is broken between neighbours; empty if none is."""
    numbers: dict[str, Any] = {
        "n_clusters": 2,
        "n_dimensions": 2,
        "n_records": 60,
        "epsilon": Fraction(2),
        "delta": Fraction(1, 1000),
        "relation": relation,
    }
    plan = make_plan(**(numbers | changes))
    try:
        for seed, near, far in list_neighbours(relation):
            compare_covers(plan, near, far, seed=seed)
    except LeakError as leak:
        return str(leak)
    return ""


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_of_a_cover_break_no_rule(relation: str) -> None:
    assert find_leak(relation) == ""
    assert find_leak(relation, radius=9000) == ""


# ---- planted faults ----


def pick_while_records_are_left(
    places: Integers, grids: Sequence[Any], *, n_picks: int, choice: Any, source: Any
) -> Integers:
    """Stop once all records are covered, as the published program does."""
    found = []
    for grid in grids:
        left = CoverGains(grid, places)
        for _ in range(n_picks):
            if not left.remaining.any():
                break
            key = left.draw(choice, source)
            left.remove(key)
            found.append(grid.locate(key))
        places = places[left.remaining]
    return np.array(found, dtype=np.int64).reshape(-1, places.shape[1])


def remove_nothing(self: CoverGains, key: int) -> int:
    return 0


class WeighsTwice(CoverGains):
    """Counts a record for each of the two cells that it is nearest to."""

    def __init__(self, grid: Any, places: Integers) -> None:
        super().__init__(grid, places)
        self._weights *= 2
        self._gains *= 2
        self._levels = np.bincount(self._gains, minlength=1)


def measure_one(self: GaussianAverages, relation: str) -> Fraction:
    """Count a record that is replaced as one that goes."""
    return MEASURE(self, "add-remove-one")


MEASURE = GaussianAverages.measure


@pytest.mark.parametrize(
    ("relation", "name", "planted", "rules"),
    [
        ("add-remove-one", "coverage.gains.CoverGains.remove", remove_nothing, {REMOVAL}),
        ("replace-one", "coverage.gains.CoverGains", WeighsTwice, {GAIN}),
        ("replace-one", "clustering.cover.clip_to_ball", lambda steps, radius: steps, {AVERAGES}),
        ("add-remove-one", "clustering.cover.choose_points", pick_while_records_are_left, {PICKS}),
        ("replace-one", "coverage.averages.GaussianAverages.measure", measure_one, {AVERAGES}),
        ("replace-one", "coverage.plan.count_records_moved", lambda relation: 1, {VOTES}),
    ],
)
def test_a_planted_fault_of_a_cover_is_found(
    relation: str, name: str, planted: Any, rules: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"sfumato.learning.{name}", planted)
    assert find_leak(relation, radius=9000) in rules


def test_centres_that_follow_from_exact_votes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = _Votes.__radd__

    def show_votes(self: _Votes, exact: Integers) -> Integers:
        add(self, exact)
        return exact

    monkeypatch.setattr(_Votes, "__radd__", show_votes)
    assert find_leak("replace-one", radius=9000, epsilon=Fraction(20)) in {QUESTION, AVERAGES}


def test_neighbours_use_much_of_what_is_accounted() -> None:
    # Or a rule could not fail: a record in a corner is as long as records can be.
    relation = "add-remove-one"
    plan = make_plan(n_clusters=1, n_dimensions=2, n_records=60, relation=relation)
    _, near, far = next(list_neighbours(relation))
    first = trace_cover(plan, near, seed=1, again=None)
    second = trace_cover(plan, far, seed=1, again=first)
    change = first.exact_rounds[0][1] - second.exact_rounds[0][1]
    assert int(np.sum(change**2)) > 0.99 * plan.averages[0].radius ** 2
    assert int(np.sum(change**2)) <= plan.averages[0].radius ** 2
