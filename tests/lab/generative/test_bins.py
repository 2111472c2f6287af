"""Public bins: each record by itself, boxes counted exactly, too many cells refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.lab.generative.bins import Bins, count_boxes, draw_boxes
from sfumato.shared.errors import ConfigError
from tests.lab.generative.neighbours import make_bins

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_the_bin_of_a_record_depends_on_no_other_record(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bins = Bins(lower=np.array([-1.0, 0.0]), upper=np.array([1.0, 9.0]), n_bins=(7, 32))
    records = rng.normal(size=(20, 2)) * [1.0, 10.0]
    together = bins.find(records)
    assert together.tolist() == [bins.find(row[None])[0].tolist() for row in records]
    assert together.min() >= 0
    assert np.all(together < [7, 32])


@given(SEEDS)
def test_boxes_are_counted_as_their_records_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bins = make_bins((3, 4, 2))
    records = np.stack([rng.integers(0, size, 50) for size in bins.n_bins], axis=1)
    boxes = draw_boxes(bins.n_bins, 12, rng)
    inside = (records[:, None] >= boxes[None, :, :, 0]) & (records[:, None] < boxes[None, :, :, 1])
    expected = inside.all(axis=2).sum(axis=0)
    assert count_boxes(bins.count_cells(records), boxes).tolist() == expected.tolist()


def test_values_beyond_the_bounds_are_in_the_last_bins_and_missing_ones_nowhere() -> None:
    bins = make_bins((2, 3))
    records = np.array([[-9.0, 9.0], [1.0, 1.0], [np.nan, 0.0]])
    assert bins.find(records).tolist() == [[0, 2], [1, 1]]


def test_levels_keep_their_bins() -> None:
    bins = make_bins((2, 5))
    levels = np.array([[i % 2, i % 5] for i in range(10)])
    found = bins.find(levels.astype(float))
    assert found.tolist() == levels.tolist()
    placed = bins.place(found, np.random.default_rng(0))
    assert bins.find(placed).tolist() == levels.tolist()


def test_a_table_that_cannot_be_held_is_refused() -> None:
    bins = Bins(lower=np.zeros(10), upper=np.ones(10), n_bins=(16,) * 10)
    with pytest.raises(ConfigError, match=r"n_bins: make 2\^40 cells over 10 columns"):
        bins.require_table()


@pytest.mark.parametrize("n_bins", [(4,), (4, 0), (4, 1 << 13)])
def test_bins_out_of_range_are_refused(n_bins: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="n_bins: must be 2 numbers"):
        Bins(lower=np.zeros(2), upper=np.ones(2), n_bins=n_bins)
