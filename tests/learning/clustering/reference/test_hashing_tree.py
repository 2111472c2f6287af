from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from sfumato.learning.clustering.reference import HashingTree
from sfumato.learning.clustering.reference.hashing_tree import MOST_LEVELS, PublicTree, grow_tree
from sfumato.learning.clustering.reference.unary import BLANK
from sfumato.shared.core.quantise import STEPS
from tests.learning.clustering.reference.reports import (
    Law,
    count_deviations,
    find_largest_odds,
    list_law,
    tally_fleets,
)
from tests.learning.clustering.reference.test_local_methods import LOWER, SEED, TREE, UPPER


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
