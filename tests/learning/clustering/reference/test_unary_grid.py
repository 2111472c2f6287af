import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.clustering.reference import Tally, UnaryGrid
from sfumato.learning.clustering.reference.unary import BLANK
from sfumato.learning.clustering.reference.unary_grid import MOST_CELLS
from sfumato.shared.errors import PlanError, PrivacyError, RecordError
from sfumato.shared.privacy.testing import SeededSource
from tests.learning.clustering.reference.reports import (
    compute_mean_square,
    count_deviations,
    draw_clusters,
    exceeds_exp,
    measure_quality,
    tally_fleets,
)
from tests.shared.privacy.sources import CountingSource

LOWER, UPPER = np.full(2, -10.0), np.full(2, 10.0)
GRID = UnaryGrid(epsilon=Fraction(2), lower=LOWER, upper=UPPER, sizes=(3, 4))


def choose(n_records: int, epsilon: str, *, n_dimensions: int = 2) -> UnaryGrid:
    return UnaryGrid.choose(
        n_records=n_records,
        n_clusters=4,
        epsilon=Fraction(epsilon),
        lower=np.full(n_dimensions, -10.0),
        upper=np.full(n_dimensions, 10.0),
    )


# Cells.


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_each_cell_holds_its_centre(sizes: list[int]) -> None:
    lower = np.arange(len(sizes)) - 3.0
    grid = UnaryGrid(epsilon=Fraction(1), lower=lower, upper=lower + 7.0, sizes=tuple(sizes))
    centres = grid.find_centres()
    assert grid.find_cells(centres).tolist() == list(range(math.prod(sizes)))
    assert np.all((lower < centres) & (centres < lower + 7.0))


def test_records_outside_the_box_are_in_the_cells_of_its_corners() -> None:
    corners = np.array([[-99.0, -99.0], [-99.0, 99.0], [99.0, -99.0], [99.0, 99.0]])
    assert GRID.find_cells(corners).tolist() == [0, 3, 8, 11]


def test_rows_that_are_not_finite_have_no_cell() -> None:
    rows = np.array([[np.nan, 0.0], [0.0, np.inf], [-np.inf, 0.0], [0.1, 0.1]])
    assert GRID.find_cells(rows).tolist() == [BLANK, BLANK, BLANK, 6]


# Privacy.


@pytest.mark.parametrize("epsilon", ["1/1000", "0.3", "1", "3", "10", "20"])
def test_odds_are_below_exp_epsilon_and_those_of_a_wrong_law_are_not(epsilon: str) -> None:
    grid = replace(GRID, epsilon=Fraction(epsilon))
    assert not exceeds_exp(grid.odds, Fraction(epsilon))
    wrong = replace(grid.law, threshold=grid.law.threshold - 1)
    assert exceeds_exp(wrong.odds, Fraction(epsilon))


def test_a_report_takes_the_same_random_bytes_whatever_the_record() -> None:
    taken = set()
    for value in (0.0, 99.0, np.nan):
        source = CountingSource(0)
        GRID.report(np.full((5, 2), value), source)
        taken.add(source.n_bytes)
    assert taken == {5 * 12 * 4}


# Estimates. Five standard errors of twelve counts: false alarm 6.9e-6; seeds are fixed.


def test_counts_are_unbiased_with_blanks_and_a_wrong_epsilon_is_found() -> None:
    records = np.array([[-9.0, -9.0]] * 7 + [[9.0, 9.0]] * 3 + [[np.nan, 0.0]] * 5)
    tallies = tally_fleets(GRID, records, 3000, 1)
    expected = np.zeros(12)
    expected[[0, 11]] = 7, 3
    found = np.stack([GRID.estimate_counts(tally) for tally in tallies])
    assert count_deviations(found, expected) < 5
    wrong = replace(GRID, epsilon=Fraction(21, 10))
    found = np.stack([wrong.estimate_counts(tally) for tally in tallies])
    assert count_deviations(found, expected) > 5


def test_tallies_of_parts_add_up() -> None:
    records, _ = draw_clusters(100, 0)
    reports = GRID.report(records, SeededSource(0))
    whole, first, second = (GRID.tally(part) for part in (reports, reports[:30], reports[30:]))
    assert (first + second).total == whole.total == 100
    assert np.array_equal((first + second).ones, whole.ones)


# None of the seeds 1 to 40 fails one of the bounds below.


def test_centroids_of_clear_clusters_are_found_and_a_random_answer_is_far_worse() -> None:
    records, means = draw_clusters(20_000, 1)
    assert measure_quality(choose(20_000, "4"), records, means, 1) < 1.3
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
    grid = choose(20_000, "4")
    reports = grid.report(records, SeededSource(3))
    centroids = grid.estimate(reports, n_clusters=4, rng=np.random.default_rng(3))
    kept = records[:18_000]
    assert compute_mean_square(kept, centroids) / compute_mean_square(kept, means) < 1.3


def test_more_clusters_than_cells_are_repeated_inside_the_box() -> None:
    records, _ = draw_clusters(50, 0)
    reports = GRID.report(records, SeededSource(0))
    centroids = GRID.estimate(reports, n_clusters=40, rng=np.random.default_rng(0))
    assert centroids.shape == (40, 2)
    assert np.all(np.abs(centroids) <= 10.0)


# Choice.


def test_more_records_or_epsilon_give_more_cells_up_to_the_limit() -> None:
    sizes = [
        choose(n_records, epsilon).n_cells
        for n_records, epsilon in ((10**3, "0.1"), (10**5, "0.3"), (10**5, "1"), (10**6, "1"))
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert choose(10**9, "5").n_cells <= MOST_CELLS
    assert choose(1, "1/1000").n_cells == 1
    assert sorted(choose(10**6, "0.3", n_dimensions=10).sizes)[::9] == [1, 2]


# Refusals.


@pytest.mark.parametrize(
    ("attempt", "field"),
    [
        pytest.param(lambda: replace(GRID, sizes=(3,)), "sizes", id="one size"),
        pytest.param(lambda: replace(GRID, sizes=(3, 0)), "sizes", id="a size of zero"),
        pytest.param(lambda: replace(GRID, sizes=(300, 300)), "sizes", id="too many cells"),
        pytest.param(lambda: replace(GRID, upper=[10.0]), "lower, upper", id="unequal bounds"),
        pytest.param(
            lambda: replace(GRID, lower=[], upper=[], sizes=()), "lower, upper", id="no dimension"
        ),
        pytest.param(
            lambda: replace(GRID, lower=UPPER, upper=LOWER),
            "dimensions[0]",
            id="bounds out of order",
        ),
        pytest.param(lambda: choose(0, "1"), "n_records", id="no record"),
        pytest.param(
            lambda: UnaryGrid.choose(
                n_records=9, n_clusters=0, epsilon=Fraction(1), lower=LOWER, upper=UPPER
            ),
            "n_clusters",
            id="no cluster",
        ),
        pytest.param(
            lambda: GRID.tally(np.zeros((4, 9), np.uint8)), "reports", id="another length"
        ),
        pytest.param(
            lambda: GRID.recover(
                GRID.tally(np.zeros((0, 2), np.uint8)), n_clusters=2, rng=np.random.default_rng()
            ),
            "reports",
            id="no report",
        ),
        pytest.param(
            lambda: GRID.estimate_counts(
                Tally(ones=np.zeros((1, 5), np.int64), n_reports=np.ones(1, np.int64))
            ),
            "tally",
            id="another tally",
        ),
        pytest.param(
            lambda: GRID.estimate(
                np.zeros((4, 2), np.uint8), n_clusters=0, rng=np.random.default_rng()
            ),
            "n_clusters",
            id="no centroid",
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
        replace(GRID, epsilon=Fraction(30))
    assert refusal.value.field == "epsilon"
    with pytest.raises(RecordError) as misread:
        GRID.report(np.zeros((4, 3)), SeededSource(0))
    assert misread.value.field == "records"
