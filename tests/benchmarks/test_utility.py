from pathlib import Path

import pytest

from benchmarks.figures import draw_utility, find_rule_budget
from benchmarks.rows import Row
from benchmarks.trials import Trial
from benchmarks.utility import _compare
from sfumato.learning.estimate.snr import predict_snr
from sfumato.learning.planning.quality import predict_quality, predict_relative_sse


def trial(relative_sse: float, snr: float) -> Trial:
    return Trial(
        relative_sse=relative_sse,
        truth_start=relative_sse,
        seconds=1.0,
        snr=snr,
        n_frequencies=500,
        reference="lloyd",
    )


def test_the_predicted_band_stands_beside_the_share_of_runs_inside_it() -> None:
    band = predict_relative_sse(snr=64.0, n_frequencies=500, n_clusters=10, n_dimensions=10)
    inside, outside = (band.low + band.high) / 2, band.high + 0.1
    trials = [trial(inside, 64.0)] * 3 + [trial(outside, 64.0)]
    rows = {row.figure: row.value for row in _compare("a case", trials)}
    assert rows["share_within_band"] == 0.75
    assert (rows["predicted_low"], rows["predicted_high"]) == (band.low, band.high)
    assert rows["median_snr"] == 64.0


@pytest.mark.parametrize("n_sketches", [1, 100])
def test_the_papers_rule_begins_where_it_is_drawn(n_sketches: int) -> None:
    def promises(n_epsilon: float) -> bool:
        noise = 32.0 * 1000**2 * n_sketches / n_epsilon**2
        snr = predict_snr(signal_energy=0.35, noise_energy=noise, alpha=1.0, n_records=10**9)
        quality = predict_quality(snr=snr, n_frequencies=1000, n_clusters=10, n_dimensions=10)
        return quality.largest_relative_sse == 1.2

    budget = find_rule_budget(n_sketches)
    assert promises(1.001 * budget)
    assert not promises(0.999 * budget)


def test_figures_are_drawn_with_bands_that_have_no_upper_end(tmp_path: Path) -> None:
    rows = [
        Row(
            benchmark="utility",
            case=case,
            figure=figure,
            value=value,
            unit="1",
            runs=1,
            baseline="",
        )
        for case, value in (("a", 1.1), ("b", 9.0), ("nowhere", 2.0))
        for figure in ("median_relative_sse", "p90_relative_sse", "predicted_low")
    ]
    draw_utility(rows, {"a": ("knorm", 1e4), "b": ("knorm", 1e3)}, tmp_path / "utility.png")
    assert (tmp_path / "utility.png").read_bytes().startswith(b"\x89PNG")
