"""The benchmark of synthetic records: its queries, and its ways."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.datasets import Dataset
from benchmarks.runner import Bench
from benchmarks.synthesis import Queries, count, draw_boxes, measure, widen
from benchmarks.synthesis_ways import WAYS


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


def test_widened_boxes_have_whole_bins_of_which_each_value_is_in_one() -> None:
    values = np.linspace(-4.0, 4.0, 16 * 20, endpoint=False)[:, None]
    boxes = [[(0, -3.9, -3.6)], [(0, -0.1, 0.1)], [(0, 3.7, 3.9)]]
    shares = count(np.append(values, [[4.0]], axis=0), widen(boxes, -4.0, 4.0))
    assert shares * 321 == pytest.approx([20, 40, 21])


def make_dataset() -> Dataset:
    rng = np.random.default_rng(0)
    first = rng.choice([-2.0, 0.0, 2.0], size=4000)
    records = np.stack([first, first + 0.2, rng.normal(size=4000)], axis=1)
    records += 0.2 * rng.normal(size=records.shape)
    return Dataset(
        name="small", records=np.clip(records, -4, 4), lower=-4.0, upper=4.0, n_clusters=3
    )


def test_the_tree_keeps_what_columns_share_and_independent_columns_do_not() -> None:
    dataset = make_dataset()
    queries = Queries(dataset, 0)
    ways = ("pair tree", "MWEM T=10", "independent columns", "MomentMixture")
    errors = {way: queries.judge(WAYS[way](dataset, Fraction(8), 0)) for way in ways}
    figure = "relative_error, whole bins"
    assert errors["pair tree"][figure] < 0.3 * errors["independent columns"][figure]
    for figures in errors.values():
        assert figures["absolute_error"] < 0.2
        assert not any("stated" in name for name in figures)


def test_items_are_drawn() -> None:
    cases = ["sparse eps=1 independent"]
    rows = {row.figure: row for row in measure(Bench(seeds=1, cases=cases))}
    assert {row.case for row in rows.values()} == {"sparse eps=1 independent items"}
    assert 0.0 < rows["any_item_error, 1 to 3"].value < 0.2
