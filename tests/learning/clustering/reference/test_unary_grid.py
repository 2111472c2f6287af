import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from sfumato.learning.clustering.reference import UnaryGrid
from tests.learning.clustering.reference.reports import (
    count_deviations,
    tally_fleets,
)
from tests.learning.clustering.reference.test_local_methods import GRID


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
