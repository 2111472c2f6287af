from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from sfumato.analyst import DecodeResult
from sfumato.analyst.estimators import PrivatePCA
from sfumato.analyst.plots import plot_centroids, plot_components, save_figure
from tests.analyst.results import made


def make_result(k: int) -> DecodeResult:
    rng = np.random.default_rng(0)
    centroids = rng.normal(size=(k, 3)).tolist()
    return made.make_result(
        ("a", "b", "c"),
        ("m", "s", "1"),
        centroids=centroids,
        weights=[1 / k] * k,
        resolved=[True] * k,
    )


def test_a_picture_of_centroids_is_written(tmp_path: Path) -> None:
    figure = plot_centroids(make_result(12), pairs=((0, 1), (1, 2)), title="t")
    save_figure(figure, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert cast(Any, figure)._repr_png_().startswith(b"\x89PNG"), "a notebook shows it"
    assert [panel.get_xlabel() for panel in figure.axes[:2]] == ["a (m)", "b (s)"]
    assert figure.axes[1].get_ylabel() == "c", "a number without a unit has none"


def test_markers_lie_inside_their_panel_and_a_long_title_in_lines(tmp_path: Path) -> None:
    figure = plot_centroids(
        make_result(12), pairs=((0, 1), (1, 2)), title="all densities that may have made it " * 8
    )
    save_figure(figure, tmp_path / "p.png")
    for panel in figure.axes[:2]:
        (left, right), (low, high) = panel.get_xlim(), panel.get_ylim()
        for points in panel.collections:
            x, y = np.asarray(points.get_offsets(), dtype=np.float64)[0].tolist()
            assert 0.05 < (x - left) / (right - left) < 0.95
            assert 0.05 < (y - low) / (high - low) < 0.95
    title = cast(Any, figure)._suptitle
    assert title.get_window_extent().width < figure.bbox.width


def test_each_direction_has_its_loadings_and_noise_is_grey(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    records = rng.normal(size=(3000, 3)) * [3.0, 1.0, 1.0]
    fitted = PrivatePCA(epsilon="20", bounds=(-9, 9)).fit(records).answer_
    answer = replace(fitted, is_told_apart=np.array([True, False, False]))
    figure = plot_components(answer, names=["a", "b", "c"], units=["m", "s", "1"], title="t")
    save_figure(figure, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    shares, *directions = figure.axes
    assert [label.get_text() for label in directions[0].get_yticklabels()] == ["a", "b", "c"]
    assert len(directions) == 3
    assert "noise turns it by" in directions[0].get_title()
    unit_texts = [text.get_text().split()[-1] for text in directions[0].texts]
    assert unit_texts == ["m", "s", "1"]
    coloured, *grey = [bar.get_facecolor() for bar in shares.patches]
    assert coloured not in grey
    assert len(set(grey)) == 1
    assert "not told apart" in directions[1].get_title()
