"""The benchmark of synthetic records: its queries, its ways, and its page."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.datasets import Dataset
from benchmarks.pages import read_row
from benchmarks.rows import Row
from benchmarks.synthesis import Queries, count, draw_boxes, widen
from benchmarks.synthesis_page import write_page
from benchmarks.synthesis_pictures import draw_synthesis
from benchmarks.synthesis_ways import FLEETS, SKETCH, WAYS


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


def make_row(case: str, figure: str, value: float) -> str:
    return Row("synthesis", case, figure, value, "1", 10, "true shares").to_json()


def test_the_page_begins_with_the_rows_in_which_the_sketch_loses() -> None:
    lines = [
        make_row(f"weather eps=1/2 {way}", f"{each}_error{kind}", value)
        for way, value in ((SKETCH, 0.3), ("pair tree", 0.2), ("MWEM T=30", 1.4))
        for each in ("relative", "absolute")
        for kind in ("", ", whole bins")
    ]
    lines += [make_row(f"weather eps=1/2 {way}", "relative_error", 0.6) for way in FLEETS]
    lines.append(make_row("sparse eps=1 pair tree", "any_item_error, 1 to 3", 0.25))
    page = write_page(lines, "2026-11-26", "../pictures/synthesis.png")
    assert page.startswith("# Synthetic records beside other methods\n\nMeasured on 2026-11-26")
    losses = page.index("## Where sketch and histograms lose")
    assert losses < page.index("![Relative error") < page.index("## Range queries, uniform ends")
    assert "| weather | 1/2 | uniform ends | relative | pair tree | 0.20 | 0.30 |" in page
    assert "| weather | 1/2 | whole bins | absolute | pair tree | 20.0% | 30.0% |" in page
    assert "| MWEM T=30 | 1.40 |" not in page
    assert "| weather | 1/2 | 0.30 (30.0%) | 0.20 (20.0%) | 1.40 (140.0%) |" in page
    assert "| weather | 1/2 | 0.30 / 0.30 | 0.60 / - | 0.60 / - |" in page
    assert "| sparse | 1 | pair tree | 10 | 0.250 | - |" in page
    assert json.loads(lines[0])["commit"] in page
    for table in page.split("\n\n"):
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in rows}) <= 1


@pytest.mark.parametrize("has_items", [False, True])
def test_ranges_are_drawn_over_epsilon_and_item_sets_over_their_size(
    has_items: bool, tmp_path: Path
) -> None:
    lines = [
        make_row(f"weather eps={epsilon} {SKETCH}", "relative_error", 0.3)
        for epsilon in ("1/2", "2")
    ]
    lines += [
        make_row("sparse eps=1 pair tree", f"any_item_error, {size}", 0.25)
        for size in ("1 to 3", "5/5")
        if has_items
    ]
    draw_synthesis([read_row(line) for line in lines], tmp_path / "found.png")
    height = int.from_bytes((tmp_path / "found.png").read_bytes()[20:24])
    assert height == 770 + 396 * has_items
