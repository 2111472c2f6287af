"""The seed paper's figures: their points, their noise, and their pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import paper
from benchmarks.experiments import Bench, Options
from benchmarks.methods import Shape
from benchmarks.paper import SIGNAL, draw_part, measure_cases, pose_noisy
from benchmarks.paper_cases import PaperCase
from benchmarks.paper_pictures import draw_paper
from benchmarks.rows import Row, find_crossing
from benchmarks.sketches import Sketcher

SMALL = Shape(n_dimensions=10, n_clusters=10, n_records=20_000)
POINT = PaperCase(figure="fig2 right", curve="mixture m=2kd", place=100.0, features=2.0)


def test_a_point_has_the_snr_of_equation_six() -> None:
    dataset = SMALL.load(1)
    for groups in (1, 10):
        # Its law of frequencies does not follow from the SNR.
        case = replace(POINT, features=10.0, mask_groups=groups, decoder="cl-ompr")
        strong = pose_noisy(Sketcher(), case, dataset, 1)
        exact = pose_noisy(Sketcher(), replace(case, place=1e12), dataset, 1)
        assert strong.n_frequencies == 1000
        added = float(np.mean(np.abs(strong.sketch - exact.sketch) ** 2))
        # The mean of 1,000 squares of Laplace variates: five standard errors either way.
        wanted = SIGNAL / 100.0 - (groups - SIGNAL) / 20_000
        assert added == pytest.approx(wanted, rel=5 * np.sqrt(5.0 / 2000))
        assert strong.noise_variance - exact.noise_variance == pytest.approx(wanted)


def test_parts_of_a_large_set_are_of_one_mixture_and_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paper, "_CHUNK", 1000)
    first, second = draw_part(3, 0), draw_part(3, 1)
    assert first.true_means is not None
    assert second.true_means is not None
    assert np.array_equal(first.true_means, second.true_means)
    assert not np.array_equal(first.records, second.records)


def test_points_and_crossings_are_measured_and_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    private = replace(POINT, figure="fig3", curve="knorm L=1 m=2kd", mechanism="knorm", place=0.01)
    central = PaperCase(
        figure="fig3", curve="dplloyd sphere", place=0.1, method="lloyd-published", runs=1
    )
    points = (
        replace(POINT, runs=1),
        replace(private, runs=1),
        replace(private, runs=1, place=0.1),
        central,
    )
    monkeypatch.setattr(paper, "list_cases", lambda: points)
    monkeypatch.setattr(paper, "SOURCE", SMALL)
    monkeypatch.setattr(paper, "_RECORDS", 20_000)
    rows = list(measure_cases(Bench(options=Options(cases=("fig2", "2kd eps", "dplloyd")))))
    medians = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}
    assert list(medians) == [point.name for point in points]
    assert min(medians.values()) > 0.99
    assert medians["fig3 knorm L=1 m=2kd eps=0.1"] < 1.2
    crossing = [row for row in rows if row.figure == "epsilon_for_1.2"]
    assert [row.case for row in crossing] == ["fig3 knorm L=1 m=2kd"]
    area = [
        Row("paper", f"fig2 right mixture m={m}kd snr={snr}", "mean_relative_sse", 2.0, "1", 1, "")
        for m in (1, 10)
        for snr in (1, 100)
    ]
    draw_paper([*rows, *area], tmp_path / "paper.png")
    assert (tmp_path / "paper.png").stat().st_size > 10_000


def test_a_crossing_is_between_the_points_around_it() -> None:
    points = [(1e-3, 3.0), (1e-2, 1.44), (1e-1, 1.0)]
    assert find_crossing(points, 1.2) == pytest.approx(10**-1.5)
    # A curve that never falls below, or rises again, has none; one that is below has its start.
    assert find_crossing([(1e-3, 1.0), (1e-2, 1.3)], 1.2) is None
    assert find_crossing([(1e-3, 1.1), (1e-2, 1.0)], 1.2) == 1e-3
    assert find_crossing([], 1.2) is None
