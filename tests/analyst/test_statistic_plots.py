from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.plots import plot_moments
from sfumato.analyst.statistic_plots import _Scale, plot_calibration, plot_drift, plot_histogram
from sfumato.learning.calibration.drift import compare
from sfumato.shared.structure import structure
from sfumato.shared.wire.bodies.declaring import make_sample
from sfumato.shared.wire.bodies.statistics import (
    BarBody,
    ColumnBody,
    HistogramBody,
    LevelBody,
    MarginalBody,
    MomentsAnswerBody,
)
from tests.learning.calibration.drawing import draw_marginals


def make_marginal(name: str, edges: list[float], **changes: Any) -> MarginalBody:
    bars = [BarBody(lower=low, upper=high, share=0.3, error=0.01) for low, high in pairwise(edges)]
    known: dict[str, Any] = {
        "name": name, "unit": "kW", "scale": "log", "n_records": 1e4, "bars": bars,
        "quantiles": [], "levels": [], "seen_lower": None, "seen_upper": None,
        "below": 0.0, "above": 0.0, "missing": 0.0, "error": 0.01,
    }  # fmt: skip
    return MarginalBody(**(known | changes))


def make_answer(*marginals: MarginalBody) -> HistogramBody:
    sample = (make_sample(HistogramBody) or {}) | {"marginals": []}
    return HistogramBody(**(vars(structure(HistogramBody, sample)) | {"marginals": [*marginals]}))


SITE = make_marginal(
    "site", [], levels=[LevelBody(level="north", share=0.6, error=0.01)], missing=0.3
)


def test_values_over_many_octaves_are_on_a_logarithmic_scale_and_others_are_not() -> None:
    resolutions = {"wide": 1e-3, "near": 1e-3, "site": None}
    wide, near = make_marginal("wide", [1.0, 10.0, 1e4]), make_marginal("near", [1.0, 2.0, 3.0])
    figure = plot_histogram(make_answer(wide, near, SITE), resolutions=resolutions, title="t")
    labels = [panel.get_xlabel() for panel in figure.axes]
    assert labels == ["wide (kW, log scale)", "near (kW)", "site: share of the records (%)"]
    figure.canvas.draw()
    shown = [float(text.get_text().replace(",", "")) for text in figure.axes[0].get_xticklabels()]
    assert max(shown) > 100.0 * min(each for each in shown if each > 0.0)


def test_ticks_of_a_logarithmic_scale_are_few_round_values_in_order() -> None:
    for resolution, low, high in ((1e-6, -20.0, 30.0), (1.0, 0.0, 12.0), (10.0, -6.0, 6.0)):
        scale = _Scale(resolution=resolution)
        ticks = scale._choose_ticks(low, high)
        places = scale.place(ticks)
        assert ticks == sorted(ticks)
        assert 0.0 in ticks
        assert 3 <= len(ticks) <= 6
        assert low <= places[0] < places[-1] <= high
        assert min(b - a for a, b in pairwise(places)) >= (high - low) / 5.0
        assert all(f"{tick:.0e}".lstrip("-")[0] in "0125" for tick in ticks)
    assert _Scale(resolution=None)._choose_ticks(0.0, 1.0) == []


def test_areas_of_bars_are_shares() -> None:
    answer = make_answer(make_marginal("a", [0.0, 1.0, 3.0]))
    (panel,) = plot_histogram(answer, resolutions={"a": None}, title="t").axes
    heights = panel.patches[0].get_data().values  # type: ignore[attr-defined]
    np.testing.assert_allclose(heights, [0.3, 0.15])


def test_many_records_in_a_bar_too_narrow_to_be_seen_are_drawn_with_their_share() -> None:
    answer = make_answer(make_marginal("a", [0.0, 1e-6, 1.0, 2.0]))
    (panel,) = plot_histogram(answer, resolutions={"a": None}, title="t").axes
    assert [text.get_text() for text in panel.texts] == ["30%"]
    # The others are not flattened by it.
    assert panel.get_ylim()[1] < 0.5


def test_what_a_main_plan_takes_is_drawn_for_each_number_of_the_pilot() -> None:
    sample: dict[str, Any] = make_sample(ColumnBody) or {}
    columns = [
        structure(ColumnBody, sample | {"name": "kept"}),
        structure(ColumnBody, sample | {"name": "constant", "is_kept": False}),
    ]
    edges = [0.0, 1.0, 5.0, 9.0]
    answer = make_answer(make_marginal("kept", edges), SITE, make_marginal("constant", edges))
    figure = plot_calibration(
        answer,
        columns,
        search_box={"kept": [1.1, 9.1]},
        bounds={"kept": (-4.5, 14.7)},
        title="t",
    )
    kept, site, constant = figure.axes
    assert kept.get_title() == "bounds -4.5 to 14.7; green: search box"
    assert [text.get_text() for text in kept.texts] == ["scale"]
    (scale,) = kept.lines
    assert np.ptp(np.asarray(scale.get_xdata(), dtype=float)) == pytest.approx(0.4)
    assert "left out" in constant.get_title()
    assert [text.get_text() for text in site.get_yticklabels()] == ["north", "other or none"]


def test_blocks_that_have_moved_are_marked() -> None:
    rng = np.random.default_rng(0)
    records = rng.normal(50.0, 5.0, (5000, 2))
    pilots = [
        draw_marginals(records + shift, strength=1000.0, seed=i)
        for i, shift in enumerate(([0.0, 0.0], [30.0, 0.0]))
    ]
    drifts = compare(*pilots)
    named = {"x0": 1e-6, "x1": 1e-6}
    figure = plot_drift(drifts, resolutions=named, units=dict.fromkeys(named, "m"), title="t")
    moved, same = figure.axes
    assert same.get_title() == "no drift stands out"
    assert "%" in moved.get_title()
    assert len(moved.patches) > len(same.patches)


def test_correlations_that_may_be_none_are_grey() -> None:
    sample: dict[str, Any] = make_sample(MomentsAnswerBody) or {}
    sample |= {
        "axes": [{"name": "a", "unit": "m"}, {"name": "b", "unit": "s"}],
        "correlation": [[1.0, 0.1], [0.1, 1.0]],
        "correlation_low": [[1.0, -0.1], [-0.1, 1.0]],
        "correlation_high": [[1.0, 0.3], [0.3, 1.0]],
        "components": [sample["components"][0], sample["components"][0]],
    }
    figure = plot_moments(structure(MomentsAnswerBody, sample), title="t")
    matrix, shares, *directions = figure.axes
    assert [text.get_text() for text in matrix.texts] == ["1.00", "0.10", "0.10", "1.00"]
    colours = [text.get_color() for text in matrix.texts]
    assert colours[0] == colours[3] != colours[1] == colours[2]
    assert len(shares.patches) == len(directions) == 2
