"""Public bins: each record by itself, boxes counted exactly, too many cells refused."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from sfumato.learning.generative.reference.bins import Bins, count_boxes, draw_boxes
from tests.learning.generative.reference.neighbours import make_bins

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
