"""The benchmark of synthetic records: its queries."""

import numpy as np

from benchmarks.synthesis import count, draw_boxes


def test_boxes_have_as_many_columns_as_asked_for_and_lie_within_the_records() -> None:
    records = np.random.default_rng(0).normal(size=(500, 3))
    for asked in (None, 1, 2):
        boxes = draw_boxes(records, asked, np.random.default_rng(1))
        sizes = {len(box) for box in boxes}
        assert sizes == ({1, 2, 3} if asked is None else {asked})
        for box in boxes:
            for i, low, high in box:
                assert records[:, i].min() <= low <= high <= records[:, i].max()


def test_counts_are_shares_of_the_records_inside() -> None:
    records = np.arange(10.0).reshape(5, 2)
    shares = count(records, [[(0, 0.0, 4.0)], [(0, 2.0, 8.0), (1, 0.0, 4.0)], [(1, 8.5, 9.5)]])
    assert shares.tolist() == [0.6, 0.2, 0.2]
