"""A device that decides a cluster, or moves the answer, makes it doubtful; honest ones do not."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.verdict import Influence
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.influence import add_influence, rank_sources
from sfumato.learning.insight.pairs import pose_pooled
from sfumato.shared.plan import SketchPlan, WindowRule
from tests.learning.insight.drawing import MIXTURE, Fleet, make_plan

POINT = GaussianMixture(
    weights=np.ones(1), means=np.array([[15.0, -12.0]]), variances=np.full((1, 2), 1e-6)
)
# Half of what a device has lies between two clusters, which pulls one of them there.
PULL = GaussianMixture(
    weights=np.array([0.2, 0.8]),
    means=np.array([[0.0, 0.0], [3.2, 4.4]]),
    variances=np.array([[1.0, 1.0], [0.02, 0.02]]),
)


def draw(
    plan: SketchPlan, mixtures: Sequence[GaussianMixture], *, n_records: int = 500, seed: int = 3
) -> list[Totals]:
    fleet = Fleet(plan, seed)
    return [fleet.draw(n_records, mixture=each).totals for each in mixtures]


def decode(
    plan: SketchPlan, sums: Sequence[Totals], *, n_clusters: int, kind: str = "device"
) -> Solution:
    whole = reduce(add, sums)
    problem = pose_pooled(plan, whole, n_clusters=n_clusters)
    solution = MixtureDecoder().solve(problem, rng=np.random.default_rng(0))
    return add_influence(plan, solution, sums, whole=whole, kind=kind, seed=0)


def get_influence(solution: Solution) -> Influence:
    assert solution.influence is not None
    return solution.influence


PLANS = {
    "knorm": make_plan(60, epsilon=Fraction(20)),
    "secret numbers": make_plan(
        60,
        epsilon=Fraction(20),
        neighbouring="add-remove-one",
        window=WindowRule(kind="time", origin=60, length_s=60),
    ),
    "blocks": make_plan(60, epsilon=Fraction(10), frequencies_per_sketch=30),
}


@pytest.mark.parametrize("name", PLANS)
def test_one_device_of_twenty_that_decides_a_cluster_makes_it_doubtful(name: str) -> None:
    plan = PLANS[name]
    sums = draw(plan, [*[MIXTURE] * 19, POINT])
    assert rank_sources(plan, reduce(add, sums), sums)[0] == 19
    solution = decode(plan, sums, n_clusters=4)
    found, verdict = get_influence(solution), solution.verdict
    assert found.decides_cluster
    assert found.share == pytest.approx(0.05, abs=0.02)
    assert found.share_without < 0.01
    np.testing.assert_allclose(solution.centroids[found.cluster], [15.0, -12.0], atol=0.5)
    assert verdict is not None
    assert verdict.word in ("doubtful", "do not use")
    assert f"one device of 20 decides cluster {found.cluster + 1}" in verdict.sentence
    assert solution.bars is not None
    assert solution.bars.word == "none"
    assert solution.posterior is not None
    assert not solution.posterior.is_trusted


@pytest.mark.parametrize("name", ["secret numbers", "blocks"])
def test_honest_devices_that_hold_different_records_change_no_verdict(name: str) -> None:
    plan, rng = PLANS[name], np.random.default_rng(8)
    mixtures = [
        replace(MIXTURE, weights=np.sort(rng.dirichlet(np.ones(3)))[::-1]) for _ in range(30)
    ]
    sums = draw(plan, mixtures)
    whole = reduce(add, sums)
    problem = pose_pooled(plan, whole, n_clusters=3)
    before = MixtureDecoder().solve(problem, rng=np.random.default_rng(0))
    after = add_influence(plan, before, sums, whole=whole, kind="device", seed=0)
    assert get_influence(after).ratio < 1.1
    assert not get_influence(after).matters
    assert after.verdict == before.verdict


def test_a_device_that_moves_a_centre_with_its_allowed_share_is_found() -> None:
    plan = PLANS["knorm"]
    solution = decode(plan, draw(plan, [*[MIXTURE] * 5, PULL]), n_clusters=3)
    found, verdict = get_influence(solution), solution.verdict
    assert found.matters
    assert verdict is not None
    assert verdict.word in ("doubtful", "do not use")


def test_few_devices_are_not_looked_at_because_each_holds_much_of_the_records() -> None:
    plan = PLANS["knorm"]
    sums = draw(plan, [MIXTURE] * 3 + [POINT])
    parts = decode(plan, sums, n_clusters=4, kind="part")
    bare = replace(parts, influence=None)
    whole = reduce(add, sums)
    devices = add_influence(plan, bare, sums, whole=whole, kind="device", seed=0)
    assert devices.influence is None
    assert get_influence(parts).decides_cluster
    assert "one part of 4 decides cluster" in get_influence(parts).describe()
