"""The quadtree against its definition, and the published search against brute force."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.lab.clustering.local_search import (
    bound_cost,
    compute_cost,
    compute_swap_costs,
)
from sfumato.learning.clustering.methods.candidates import CandidateMethod, _keep_live, _Quadtree
from sfumato.learning.clustering.methods.contract import QuantisedRecords
from sfumato.shared.errors import ConfigError
from tests.learning.clustering.methods.replaying import (
    compare_neighbours,
    draw_steps,
    make_neighbours,
    make_task,
    play,
)

HALF = 20


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_a_record_is_in_the_child_whose_cell_holds_it(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    tree = _Quadtree(half=HALF, shift=rng.integers(2 * HALF + 1, size=d))
    places = rng.integers(-HALF, HALF + 1, size=(30, d))
    parents, inside = np.zeros((1, d), dtype=np.int64), np.zeros(30, dtype=np.int64)
    for level in (1, 2, 3):
        children = tree.list_children(parents)
        assert len({tuple(child) for child in children}) == len(parents) << d
        number = tree.find_child(places, inside, level)
        exact = (places + HALF + tree.shift) * 2**level // tree.width
        for i in range(30):
            if inside[i] >= 0:
                assert tuple(children[number[i]]) == tuple(exact[i])
            else:
                assert number[i] == -1
        # The centre of a cell is in it, unless it was moved into the cube.
        centres = tree.find_centres(children, level)
        cells = (centres + HALF + tree.shift) * 2**level // tree.width
        within = np.abs(centres) < HALF
        assert np.array_equal(cells[within], children[within])
        live = np.flatnonzero(rng.random(len(children)) < 0.6)
        order = np.full(len(children) + 1, -1)
        order[live] = np.arange(len(live))
        parents, inside = children[live], order[number]


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_costs_of_swaps_are_those_of_the_swapped_sets(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.integers(-HALF, HALF + 1, size=(12, 2))
    candidates = rng.integers(-HALF, HALF + 1, size=(6, 2))
    chosen = rng.choice(6, size=k)
    costs = compute_swap_costs(places, candidates, chosen)
    for i, j in itertools.product(range(k), range(6)):
        swapped = chosen.copy()
        swapped[i] = j
        assert costs[i, j] == compute_cost(places, candidates[swapped])
    # One record moves no cost by more than the stated sensitivity, and corners attain it.
    without = compute_swap_costs(places[1:], candidates, chosen)
    assert np.max(np.abs(costs - without)) <= bound_cost(2, HALF)
    corner = np.full((1, 2), HALF)
    assert compute_cost(corner, -corner) == bound_cost(2, HALF)


def test_many_columns_are_projected_and_found_again() -> None:
    steps = draw_steps(1, n=4000, d=12)
    task = make_task("replace-one", n_records=4000, n_dimensions=12, epsilon=Fraction(20))
    curator = play(CandidateMethod(), task, QuantisedRecords(steps=steps))
    assert curator.answers[0].asked["parents"].shape == (1, 4)
    found = CandidateMethod().recover(
        task, curator.answers, n_clusters=3, rng=np.random.default_rng(0)
    )
    labels = np.argmin(((steps[:, None] - found.centroids[None]) ** 2).sum(axis=2), axis=1)
    cost = np.mean((steps - found.centroids[labels]) ** 2)
    # A third of the variance of all records is between clusters and would be lost by one centroid.
    assert cost < 0.5 * np.mean((steps - steps.mean(axis=0)) ** 2)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_neighbours_of_many_columns_move_no_sum_of_a_later_round_beyond_its_sensitivity(
    relation: str,
) -> None:
    used = []
    method = CandidateMethod(n_rounds=3)
    task = make_task(relation, n_dimensions=12, epsilon=Fraction(20), scale=0.1)
    for seed in range(4):
        near, far = make_neighbours(relation, seed, d=12)
        used.append(max(compare_neighbours(method, task, near, far, seed=seed)[-2:]))
    assert Fraction(1, 5) < max(used) <= 1


def test_no_more_cells_live_than_can_be_divided() -> None:
    counts = np.arange(40_000)
    live = _keep_live(counts, 100.0, 4)
    assert live.tolist() == list(range(40_000 - (1 << 10), 40_000))
    assert _keep_live(counts, 39_990.0, 4).tolist() == list(range(39_991, 40_000))


def test_columns_that_cannot_be_projected_are_refused_before_anything_is_asked() -> None:
    task = make_task("replace-one", n_records=1 << 30, n_dimensions=30_000)
    with pytest.raises(ConfigError, match="n_projected"):
        CandidateMethod(depth=1).plan_rounds(task)
