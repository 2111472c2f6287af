"""What both local methods keep: the odds of a report, its bytes, and centroids that are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.lab.clustering import HashingTree, Tally, UnaryGrid
from sfumato.shared.errors import PlanError, PrivacyError, RecordError
from sfumato.shared.privacy.testing import SeededSource
from tests.lab.clustering.reports import (
    compute_mean_square,
    draw_clusters,
    exceeds_exp,
    measure_quality,
)
from tests.shared.privacy.sources import CountingSource

LOWER, UPPER = np.full(2, -10.0), np.full(2, 10.0)
BOX: dict[str, Any] = {"lower": LOWER, "upper": UPPER}
SEED = bytes(range(32))
TREE = HashingTree(epsilon=Fraction(2), depth=2, seed=SEED, **BOX)
GRID = UnaryGrid(epsilon=Fraction(2), sizes=(3, 4), **BOX)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A method with small numbers, how one is chosen, and what its tests expect."""

    small: Any
    choose: Callable[..., Any]
    n_bytes: int
    quality: float


KINDS = {
    "tree": Kind(
        small=TREE,
        choose=lambda **given: HashingTree.choose(**BOX, seed=SEED, **given),
        # The coordinate, the dither (no word of this seed is redrawn) and a word for each bit.
        n_bytes=8 + 8 + 4 * 8,
        quality=2.0,
    ),
    "grid": Kind(
        small=GRID,
        choose=lambda **given: UnaryGrid.choose(**BOX, **given),
        n_bytes=12 * 4,
        quality=1.3,
    ),
}
each = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def choose(kind: Kind, epsilon: str, n_records: int = 20_000, n_clusters: int = 4) -> Any:
    return kind.choose(n_records=n_records, n_clusters=n_clusters, epsilon=Fraction(epsilon))


@each
def test_odds_are_below_exp_epsilon_and_those_of_a_wrong_law_are_not(kind: Kind) -> None:
    for epsilon in map(Fraction, ("1/1000", "0.3", "1", "3", "10", "20")):
        method = replace(kind.small, epsilon=epsilon)
        assert not exceeds_exp(method.odds, epsilon), epsilon
        wrong = replace(method.law, threshold=method.law.threshold - 1)
        assert exceeds_exp(wrong.odds, epsilon), epsilon


@each
def test_a_report_takes_the_same_random_bytes_whatever_the_record(kind: Kind) -> None:
    taken = set()
    for value in (0.0, 99.0, np.nan):
        source = CountingSource(0)
        kind.small.report(np.full((5, 2), value), source)
        taken.add(source.n_bytes)
    assert taken == {5 * kind.n_bytes}


@each
def test_tallies_of_parts_add_up(kind: Kind) -> None:
    reports = kind.small.report(draw_clusters(100, 0)[0], SeededSource(0))
    parts = (reports, reports[:30], reports[30:])
    whole, first, second = (kind.small.tally(part) for part in parts)
    assert (first + second).total == whole.total == 100
    assert np.array_equal((first + second).n_reports, whole.n_reports)
    assert np.array_equal((first + second).ones, whole.ones)


# None of the seeds 1 to 40 fails one of the bounds below.


@each
def test_centroids_of_clear_clusters_are_found_also_beside_records_without_values(
    kind: Kind,
) -> None:
    records, means = draw_clusters(20_000, 1)
    method = choose(kind, "4")
    assert measure_quality(method, records, means, 1) < kind.quality
    random = np.random.default_rng(1).uniform(-10.0, 10.0, size=(4, 2))
    assert compute_mean_square(records, random) / compute_mean_square(records, means) > 5
    records[18_000:] = np.nan
    reports = method.report(records, SeededSource(3))
    found = method.estimate(reports, n_clusters=4, rng=np.random.default_rng(3))
    kept = records[:18_000]
    assert compute_mean_square(kept, found) / compute_mean_square(kept, means) < kind.quality


def make_tally(*shape: int) -> Tally:
    return Tally(ones=np.zeros(shape, np.int64), n_reports=np.ones(shape[0], np.int64))


REFUSED: list[tuple[str, str, Callable[[], object]]] = [
    ("no level", "depth", lambda: replace(TREE, depth=0)),
    ("too many levels", "depth", lambda: replace(TREE, depth=10)),
    ("a short seed", "seed", lambda: replace(TREE, seed=b"short")),
    ("other bounds", "lower, upper", lambda: replace(TREE, upper=[10.0])),
    ("no order", "dimensions[0]", lambda: replace(TREE, lower=UPPER, upper=LOWER)),
    (
        "too many dimensions",
        "lower, upper",
        lambda: replace(TREE, lower=np.zeros(70_000), upper=np.ones(70_000)),
    ),
    ("no record", "n_records", lambda: choose(KINDS["tree"], "1", n_records=0)),
    ("no cluster", "n_clusters", lambda: choose(KINDS["tree"], "1", n_clusters=0)),
    ("another length", "reports", lambda: TREE.tally(np.zeros((4, 9), np.uint8))),
    ("another coordinate", "reports", lambda: TREE.tally(np.full((4, 3), 2, np.uint8))),
    (
        "no report",
        "reports",
        lambda: TREE.estimate_leaves(TREE.tally(np.zeros((0, 3), np.uint8))),
    ),
    ("another tally", "tally", lambda: TREE.estimate_leaves(make_tally(2, 5))),
    ("one size", "sizes", lambda: replace(GRID, sizes=(3,))),
    ("a size of zero", "sizes", lambda: replace(GRID, sizes=(3, 0))),
    ("too many cells", "sizes", lambda: replace(GRID, sizes=(300, 300))),
    ("other bounds", "lower, upper", lambda: replace(GRID, upper=[10.0])),
    ("no dimension", "lower, upper", lambda: replace(GRID, lower=[], upper=[], sizes=())),
    ("no order", "dimensions[0]", lambda: replace(GRID, lower=UPPER, upper=LOWER)),
    ("no record", "n_records", lambda: choose(KINDS["grid"], "1", n_records=0)),
    ("no cluster", "n_clusters", lambda: choose(KINDS["grid"], "1", n_clusters=0)),
    ("another length", "reports", lambda: GRID.tally(np.zeros((4, 9), np.uint8))),
    (
        "no report",
        "reports",
        lambda: GRID.recover(
            GRID.tally(np.zeros((0, 2), np.uint8)), n_clusters=2, rng=np.random.default_rng()
        ),
    ),
    ("another tally", "tally", lambda: GRID.estimate_counts(make_tally(1, 5))),
    (
        "no centroid",
        "n_clusters",
        lambda: GRID.estimate(
            np.zeros((4, 2), np.uint8), n_clusters=0, rng=np.random.default_rng()
        ),
    ),
]


@each
def test_an_epsilon_without_a_guarantee_and_records_of_another_shape_are_refused(
    kind: Kind,
) -> None:
    with pytest.raises(PrivacyError) as refusal:
        replace(kind.small, epsilon=Fraction(30))
    assert refusal.value.field == "epsilon"
    with pytest.raises(RecordError) as misread:
        kind.small.report(np.zeros((4, 3)), SeededSource(0))
    assert misread.value.field == "records"


@each
def test_more_epsilon_gives_better_centroids(kind: Kind) -> None:
    records, means = draw_clusters(20_000, 2)
    low, middle, high = (
        np.median([measure_quality(choose(kind, e), records, means, s) for s in range(3)])
        for e in ("0.3", "1", "6")
    )
    assert high < middle < low


@each
def test_more_clusters_than_cells_are_repeated_inside_the_box(kind: Kind) -> None:
    # One report: a coordinate of the tree has none.
    reports = kind.small.report(np.zeros((1, 2)), SeededSource(0))
    found = kind.small.estimate(reports, n_clusters=40, rng=np.random.default_rng(0))
    assert found.shape == (40, 2)
    assert np.all(np.abs(found) <= 10.0)


def test_wrong_arguments_are_refused_by_name() -> None:
    for what, field, attempt in REFUSED:
        with pytest.raises(PlanError) as refusal:
            attempt()
        assert refusal.value.field == field, what
        assert refusal.value.fix, what
