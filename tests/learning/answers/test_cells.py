"""Stretches of values that a histogram tells apart."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.answers.cells import list_cells

from .test_distribution import BOX, N_BINS, count


@given(
    step=st.sampled_from([0.0, 0.25, 1.0, 2.0]),
    place=st.integers(-96, 96).map(lambda number: number / 8.0),
    includes=st.booleans(),
)
@settings(max_examples=100)
def test_the_cells_below_a_place_hold_the_values_below_it(
    step: float, place: float, includes: bool
) -> None:
    values = np.arange(-10.0, 10.0 + 1e-9, step or 0.01)
    cells = list_cells(count(values, noise=1.0, seed=0), step, BOX)
    part = cells.find_part(place, includes=includes)
    below = np.sum(values <= place) if includes else np.sum(values < place)
    share = below / len(values)
    per_cell = np.histogram(values, np.concatenate([[-np.inf], cells.borders, [np.inf]]))[0] / len(
        values
    )
    found = float(np.sum(per_cell[: part.cell]) + part.share * per_cell[part.cell])
    assert found == pytest.approx(share, abs=0.002 if step == 0.0 else 1e-9)


def test_values_of_a_step_lie_in_cells_of_their_own_and_empty_bins_in_none() -> None:
    cells = list_cells(count(np.arange(-10.0, 11.0), noise=1.0, seed=0), 1.0, BOX)
    assert cells.first.tolist() == cells.last.tolist() == list(range(-10, 11))
    assert cells.counts == pytest.approx(np.ones(21), abs=8.0)
    wide = list_cells(count(np.arange(-10.0, 11.0), noise=1.0, seed=0), 0.01, BOX)
    assert wide.n_cells == N_BINS + 2
    assert np.all(wide.last >= wide.first)
