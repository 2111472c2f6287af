"""The seed paper's figures: their points, and their noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import paper
from benchmarks.methods import Shape
from benchmarks.paper import SIGNAL, Point, draw_part, measure, pose_noisy
from benchmarks.runner import Bench

SMALL = Shape(n_dimensions=10, n_clusters=10, n_records=20_000)
POINT = Point(curve="fig2 right mixture m=2kd", place=100.0, features=2.0)


def test_a_point_has_the_snr_of_equation_six() -> None:
    dataset = SMALL.load(1)
    for groups in (1, 10):
        # Its law of frequencies does not follow from the SNR.
        case = replace(POINT, features=10.0, mask_groups=groups, decoder="cl-ompr")
        strong = pose_noisy(case, dataset, 1)
        exact = pose_noisy(replace(case, place=1e12), dataset, 1)
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


def test_points_and_crossings_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    private = replace(POINT, curve="fig3 knorm L=1 m=2kd", mechanism="knorm", n_records=20_000)
    central = Point(curve="fig3 dplloyd sphere", place=0.1, method="lloyd-published")
    points = (POINT, *(replace(private, place=x) for x in (0.01, 0.1)), central)
    monkeypatch.setattr(paper, "list_points", lambda: ((point, 1, 0) for point in points))
    monkeypatch.setattr(paper, "SOURCE", SMALL)
    rows = list(measure(Bench()))
    medians = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}
    assert list(medians) == [point.name for point in points]
    assert min(medians.values()) > 0.99
    assert medians["fig3 knorm L=1 m=2kd eps=0.1"] < 1.2
    crossing = [row for row in rows if row.figure == "epsilon_for_1.2"]
    assert [row.case for row in crossing] == ["fig3 knorm L=1 m=2kd"]
