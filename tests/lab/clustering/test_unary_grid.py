import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from sfumato.lab.clustering import UnaryGrid
from sfumato.lab.clustering.unary import BLANK
from sfumato.lab.clustering.unary_grid import MOST_CELLS
from tests.lab.clustering.reports import (
    count_deviations,
    tally_fleets,
)
from tests.lab.clustering.test_local_methods import GRID


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


# Privacy.


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


# Choice.


def test_records_outside_the_box_are_in_the_cells_of_its_corners() -> None:
    corners = np.array([[-99.0, -99.0], [-99.0, 99.0], [99.0, -99.0], [99.0, 99.0]])
    assert GRID.find_cells(corners).tolist() == [0, 3, 8, 11]


def test_rows_that_are_not_finite_have_no_cell() -> None:
    rows = np.array([[np.nan, 0.0], [0.0, np.inf], [-np.inf, 0.0], [0.1, 0.1]])
    assert GRID.find_cells(rows).tolist() == [BLANK, BLANK, BLANK, 6]


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
