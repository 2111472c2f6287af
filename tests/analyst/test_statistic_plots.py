from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.statistic_plots import plot_calibration, plot_histogram
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.statistics import (
    BarBody,
    ColumnBody,
    HistogramBody,
    LevelBody,
    MarginalBody,
)


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
