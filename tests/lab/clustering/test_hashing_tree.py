from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.lab.clustering import HashingTree
from sfumato.lab.clustering.hashing_tree import MOST_LEVELS, PublicTree, grow_tree
from sfumato.lab.clustering.unary import BLANK, choose_unary_law
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.privacy.testing import SeededSource
from tests.lab.clustering.reports import (
    Law,
    count_deviations,
    find_largest_odds,
    list_law,
    tally_fleets,
)
from tests.lab.clustering.test_local_methods import LOWER, SEED, TREE, UPPER


def choose(n_records: int, epsilon: str, n_clusters: int = 4) -> HashingTree:
    return HashingTree.choose(
        n_records=n_records,
        n_clusters=n_clusters,
        epsilon=Fraction(epsilon),
        lower=LOWER,
        upper=UPPER,
        seed=SEED,
    )


# The public tree.


def find_leaf(tree: PublicTree, record: list[int]) -> int:
    """Descend in Python's integers, node by node."""
    node = 0
    while node < len(tree.normals):
        dot = sum(a * u for a, u in zip(tree.normals[node].tolist(), record, strict=True))
        node = 2 * node + (2 if dot > int(tree.thresholds[node]) else 1)
    return node - len(tree.normals)


@given(
    depth=st.integers(1, 5),
    records=st.lists(
        st.lists(st.integers(-STEPS, STEPS), min_size=3, max_size=3), min_size=1, max_size=9
    ),
)
def test_a_record_descends_by_its_side_of_each_hyperplane(
    depth: int, records: list[list[int]]
) -> None:
    tree = grow_tree(SEED, depth, 3)
    assert tree.depth == depth
    found = tree.find_leaves(np.array(records, dtype=np.int16))
    assert found.tolist() == [find_leaf(tree, record) for record in records]


# Privacy.


def mix(tree: HashingTree, leaf: int, value: int) -> Law:
    """Return the exact law of the unary code of a record, given the stated coordinate."""
    chance = Fraction(value + STEPS, 2 * STEPS)
    zero, one = (list_law(tree.law, 2 * leaf + bit) for bit in (0, 1))
    return {code: (1 - chance) * zero[code] + chance * one[code] for code in zero}


@given(values=st.lists(st.integers(-STEPS, STEPS), min_size=1, max_size=4))
def test_any_two_records_give_a_report_within_the_odds(values: list[int]) -> None:
    tree = replace(TREE, depth=1)
    laws = [mix(tree, i % 2, value) for i, value in enumerate(values)]
    ends = [mix(tree, 0, -STEPS), mix(tree, 1, STEPS)]
    blank = list_law(tree.law, BLANK)
    # The coordinate is uniform for each record, so it leaves the odds as they are.
    assert find_largest_odds([*laws, *ends, blank]) == tree.odds


# Estimates. Five standard errors of twelve numbers: false alarm 6.9e-6; seeds are fixed.


def test_counts_and_sums_are_unbiased_with_blanks_and_a_wrong_epsilon_is_found() -> None:
    points = np.array([[-7.0, -2.0], [6.0, 3.0], [99.0, -99.0]])
    records = np.repeat(points, [6, 3, 6], axis=0)
    leaves = TREE.tree.find_leaves(np.rint(np.clip(points, -10, 10) / 10 * STEPS).astype(np.int64))
    assert len(set(leaves.tolist())) > 1
    fleets = tally_fleets(TREE, np.concatenate([records, np.full((5, 2), np.nan)]), 4000, 1)
    counts, sums = np.zeros(4), np.zeros((4, 2))
    for leaf, number, point in zip(leaves, (6, 3, 6), points, strict=True):
        counts[leaf] += number
        sums[leaf] += number * np.clip(point, -10, 10) / 10

    def measure(tree: HashingTree) -> list[float]:
        found = [tree.estimate_leaves(tally) for tally in fleets]
        return [
            count_deviations(np.stack([row[0] for row in found]), counts),
            count_deviations(np.stack([row[1] for row in found]), sums),
        ]

    assert max(measure(TREE)) < 5
    assert min(measure(replace(TREE, epsilon=Fraction(5, 2)))) > 5


# Choice.


def test_more_records_or_epsilon_give_a_deeper_tree_up_to_the_limits() -> None:
    depths = [
        choose(n_records, epsilon).depth
        for n_records, epsilon in ((10**3, "0.1"), (10**5, "0.3"), (10**5, "1"), (10**6, "1"))
    ]
    assert depths == sorted(depths)
    assert depths[0] < depths[-1]
    assert choose(1, "1/1000").depth == 1
    # Eight leaves a cluster, and as many as a report holds.
    assert choose(10**9, "5", n_clusters=2).depth == 4
    assert choose(10**9, "5", n_clusters=1000).depth == MOST_LEVELS


def test_the_tree_is_that_of_its_seed() -> None:
    tree = grow_tree(SEED, 2, 3)
    # Computed once: devices and server must agree on every bit of it.
    assert tree.normals[0].tolist() == [25707, -104707, -41544]
    assert tree.thresholds.tolist() == [-57042347, -537052863, -174630710]
    assert not np.array_equal(grow_tree(bytes(32), 2, 3).normals, tree.normals)


def test_a_record_on_a_hyperplane_goes_to_the_first_child() -> None:
    tree = PublicTree(normals=np.array([[2]]), thresholds=np.array([10]))
    assert tree.find_leaves(np.array([[4], [5], [6]])).tolist() == [0, 0, 1]


@pytest.mark.parametrize("n_dimensions", [1, 2, 10, 50])
def test_leaves_share_what_lies_near_the_middle_of_the_box(n_dimensions: int) -> None:
    rng = np.random.default_rng(0)
    records = np.rint(rng.normal(scale=STEPS / 3, size=(20_000, n_dimensions))).astype(np.int64)
    shares = np.bincount(grow_tree(SEED, 4, n_dimensions).find_leaves(records), minlength=16)
    # A sixteenth each if the public cloud were endless; it has 16 points a leaf.
    assert shares.min() > 20_000 / 16 / 3.5
    assert shares.max() < 20_000 / 16 * 3.5


def test_a_dithered_bit_beside_the_code_would_exceed_the_odds() -> None:
    def add_bit(code: Law, bit: int) -> Law:
        return {(*key, b): value * int(b == bit) for key, value in code.items() for b in (0, 1)}

    law = choose_unary_law(Fraction(2), 2)
    with pytest.raises(ZeroDivisionError):
        find_largest_odds([add_bit(list_law(law, 0), 0), add_bit(list_law(law, 1), 1)])


def test_the_stated_coordinate_is_uniform_for_records_and_blanks() -> None:
    tree = replace(TREE, lower=np.zeros(3), upper=np.ones(3))
    records = np.concatenate([np.ones((6000, 3)), np.full((6000, 3), np.nan)])
    reports = tree.report(records, SeededSource(1))
    for part in np.split(reports, 2):
        # Five standard deviations of 36.5 for each of six counts: false alarm 3.4e-6.
        assert np.all(np.abs(tree.tally(part).n_reports - 2000) < 183)


def test_coordinates_beyond_one_byte_are_stated() -> None:
    tree = replace(TREE, lower=np.zeros(300), upper=np.ones(300))
    tally = tree.tally(tree.report(np.zeros((6000, 300)), SeededSource(1)))
    # A coordinate has no report with probability 2e-9, one of them with 6e-7.
    assert tally.n_reports.min() > 0


def test_a_record_at_the_edge_of_the_box_always_has_the_same_bit() -> None:
    clear = replace(TREE, epsilon=Fraction(20))
    edge = np.array([[99.0, -99.0]] * 500)
    ones = clear.tally(clear.report(edge, SeededSource(1))).ones
    (leaf,) = set(clear.tree.find_leaves(np.array([[STEPS, -STEPS]] * 2)).tolist())
    # Half of the reports of a coordinate, about 250, have a one there.
    assert ones[0, 2 * leaf + 1] > 80
    assert ones[1, 2 * leaf] > 80
    assert ones.sum() == ones[0, 2 * leaf + 1] + ones[1, 2 * leaf]
