from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.clustering.reference import HashingTree, Tally
from sfumato.learning.clustering.reference.hashing_tree import MOST_LEVELS, PublicTree, grow_tree
from sfumato.learning.clustering.reference.unary import BLANK, choose_unary_law
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import PlanError, PrivacyError, RecordError
from sfumato.shared.privacy.testing import SeededSource
from tests.learning.clustering.reference.reports import (
    Law,
    compute_mean_square,
    count_deviations,
    draw_clusters,
    exceeds_exp,
    find_largest_odds,
    list_law,
    measure_quality,
    tally_fleets,
)
from tests.shared.privacy.sources import CountingSource

SEED = bytes(range(32))
LOWER, UPPER = np.full(2, -10.0), np.full(2, 10.0)
TREE = HashingTree(epsilon=Fraction(2), lower=LOWER, upper=UPPER, depth=2, seed=SEED)


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


def test_the_tree_is_that_of_its_seed() -> None:
    tree = grow_tree(SEED, 2, 3)
    # Computed once: devices and server must agree on every bit of it.
    assert tree.normals[0].tolist() == [25707, -104707, -41544]
    assert tree.thresholds.tolist() == [-57042347, -537052863, -174630710]
    assert not np.array_equal(grow_tree(bytes(32), 2, 3).normals, tree.normals)


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


@pytest.mark.parametrize("epsilon", ["1/1000", "0.3", "1", "3", "10", "20"])
def test_odds_are_below_exp_epsilon_and_those_of_a_wrong_law_are_not(epsilon: str) -> None:
    tree = replace(TREE, epsilon=Fraction(epsilon))
    assert not exceeds_exp(tree.odds, Fraction(epsilon))
    wrong = replace(tree.law, threshold=tree.law.threshold - 1)
    assert exceeds_exp(wrong.odds, Fraction(epsilon))


def test_a_dithered_bit_beside_the_code_would_exceed_the_odds() -> None:
    def add_bit(code: Law, bit: int) -> Law:
        return {(*key, b): value * int(b == bit) for key, value in code.items() for b in (0, 1)}

    law = choose_unary_law(Fraction(2), 2)
    with pytest.raises(ZeroDivisionError):
        find_largest_odds([add_bit(list_law(law, 0), 0), add_bit(list_law(law, 1), 1)])


def test_a_report_takes_the_same_random_bytes_whatever_the_record() -> None:
    taken = set()
    for value in (0.0, 99.0, np.nan):
        source = CountingSource(0)
        TREE.report(np.full((5, 2), value), source)
        taken.add(source.n_bytes)
    # The coordinate, the dither (no word of this seed is redrawn) and a word for each bit.
    assert taken == {5 * (8 + 8 + 4 * 8)}


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


def test_a_record_at_the_edge_of_the_box_always_has_the_same_bit() -> None:
    clear = replace(TREE, epsilon=Fraction(20))
    edge = np.array([[99.0, -99.0]] * 500)
    ones = clear.tally(clear.report(edge, SeededSource(1))).ones
    (leaf,) = set(clear.tree.find_leaves(np.array([[STEPS, -STEPS]] * 2)).tolist())
    # Half of the reports of a coordinate, about 250, have a one there.
    assert ones[0, 2 * leaf + 1] > 80
    assert ones[1, 2 * leaf] > 80
    assert ones.sum() == ones[0, 2 * leaf + 1] + ones[1, 2 * leaf]


def test_tallies_of_parts_add_up() -> None:
    records, _ = draw_clusters(100, 0)
    reports = TREE.report(records, SeededSource(0))
    whole, first, second = (TREE.tally(part) for part in (reports, reports[:30], reports[30:]))
    assert (first + second).total == whole.total == 100
    assert np.array_equal((first + second).n_reports, whole.n_reports)
    assert np.array_equal((first + second).ones, whole.ones)


# None of the seeds 1 to 40 fails one of the bounds below.


def test_centroids_of_clear_clusters_are_found_and_a_random_answer_is_far_worse() -> None:
    records, means = draw_clusters(20_000, 1)
    assert measure_quality(choose(20_000, "4"), records, means, 1) < 2
    random = np.random.default_rng(1).uniform(-10.0, 10.0, size=(4, 2))
    assert compute_mean_square(records, random) / compute_mean_square(records, means) > 5


def test_more_epsilon_gives_better_centroids() -> None:
    records, means = draw_clusters(20_000, 2)
    low, middle, high = (
        np.median([measure_quality(choose(20_000, e), records, means, s) for s in range(3)])
        for e in ("0.3", "1", "6")
    )
    assert high < middle < low


def test_records_that_cannot_be_sketched_dilute_the_others_little() -> None:
    records, means = draw_clusters(20_000, 3)
    records[18_000:] = np.nan
    tree = choose(20_000, "4")
    reports = tree.report(records, SeededSource(3))
    centroids = tree.estimate(reports, n_clusters=4, rng=np.random.default_rng(3))
    kept = records[:18_000]
    assert compute_mean_square(kept, centroids) / compute_mean_square(kept, means) < 2


def test_a_coordinate_without_a_report_and_more_clusters_than_leaves_are_allowed() -> None:
    one = TREE.report(np.zeros((1, 2)), SeededSource(0))
    centroids = TREE.estimate(one, n_clusters=7, rng=np.random.default_rng(0))
    assert centroids.shape == (7, 2)
    assert np.all(np.abs(centroids) <= 10.0)


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


# Refusals.


@pytest.mark.parametrize(
    ("attempt", "field"),
    [
        pytest.param(lambda: replace(TREE, depth=0), "depth", id="no level"),
        pytest.param(lambda: replace(TREE, depth=10), "depth", id="too many levels"),
        pytest.param(lambda: replace(TREE, seed=b"short"), "seed", id="a short seed"),
        pytest.param(lambda: replace(TREE, upper=[10.0]), "lower, upper", id="unequal bounds"),
        pytest.param(
            lambda: replace(TREE, lower=UPPER, upper=LOWER),
            "dimensions[0]",
            id="bounds out of order",
        ),
        pytest.param(
            lambda: replace(TREE, lower=np.zeros(70_000), upper=np.ones(70_000)),
            "lower, upper",
            id="too many dimensions",
        ),
        pytest.param(lambda: choose(0, "1"), "n_records", id="no record"),
        pytest.param(lambda: choose(9, "1", n_clusters=0), "n_clusters", id="no cluster"),
        pytest.param(
            lambda: TREE.tally(np.zeros((4, 9), np.uint8)), "reports", id="another length"
        ),
        pytest.param(
            lambda: TREE.tally(np.full((4, 3), 2, np.uint8)), "reports", id="another coordinate"
        ),
        pytest.param(
            lambda: TREE.estimate_leaves(TREE.tally(np.zeros((0, 3), np.uint8))),
            "reports",
            id="no report",
        ),
        pytest.param(
            lambda: TREE.estimate_leaves(
                Tally(ones=np.zeros((2, 5), np.int64), n_reports=np.ones(2, np.int64))
            ),
            "tally",
            id="another tally",
        ),
    ],
)
def test_wrong_arguments_are_refused_by_name(attempt: Callable[[], object], field: str) -> None:
    with pytest.raises(PlanError) as refusal:
        attempt()
    assert refusal.value.field == field
    assert refusal.value.fix


def test_an_epsilon_without_a_guarantee_and_records_of_another_shape_are_refused() -> None:
    with pytest.raises(PrivacyError) as refusal:
        replace(TREE, epsilon=Fraction(30))
    assert refusal.value.field == "epsilon"
    with pytest.raises(RecordError) as misread:
        TREE.report(np.zeros((4, 3)), SeededSource(0))
    assert misread.value.field == "records"
