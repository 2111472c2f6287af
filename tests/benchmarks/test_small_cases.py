"""Every list of cases, on the smallest cases of its kind: rows are valid and plausible."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    cover,
    digits,
    fleets,
    grids,
    local,
    methods,
    peers,
    phones,
    real_sets,
    reported_pilots,
    tables,
    utility,
)
from benchmarks.contenders import CONTENDERS, SKETCH
from benchmarks.datasets import Mixture
from benchmarks.honesty import run_trial
from benchmarks.methods import make_fleet_case
from benchmarks.mnist import Digits
from benchmarks.real_tables import Table
from benchmarks.runner import Bench, Case, Row, measure_cases
from benchmarks.trials import Setting, Trial, make_case
from sfumato.learning.planning.quality import predict_relative_sse


def make_digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Images with a row of pixels for each digit, some of them noise."""
    rng = np.random.default_rng(n)
    digits = rng.integers(0, 10, size=n)
    images = (rng.random((n, 784)) < 0.02).astype(float)
    for i, digit in enumerate(digits):
        images[i, 70 * digit : 70 * digit + 60] = 1.0
    return images, digits


SMALL = Mixture(n_dimensions=2, n_clusters=3, n_records=4000)
TINY = methods.Shape(n_dimensions=2, n_clusters=3, n_records=4000)


def collect(cases: Iterable[Case[Any, Any]], *parts: str) -> dict[tuple[str, str], Row]:
    found = measure_cases("test", Bench(seeds=1, cases=parts), cases)
    return {(row.case, row.figure): row for row in found}


def list_medians(rows: dict[tuple[str, str], Row]) -> dict[str, float]:
    return {c: row.value for (c, figure), row in rows.items() if figure == "median_relative_sse"}


def test_a_fleet_is_sketched_and_decoded_in_every_form() -> None:
    fleet = fleets.Fleet(source=SMALL, n_sketches=20, epsilon=Fraction(20))
    rows = collect([fleets.make_case(fleet), fleets.make_case(replace(fleet, is_alike=False))])
    assert {case.rpartition(" ")[2] for case in list_medians(rows)} == {"split", "whole"}
    assert 0.99 < min(list_medians(rows).values()) < 1.5
    assert rows[f"{fleet.name} whole", "sketch_bytes"].unit == "B"


def test_a_fleet_whose_devices_differ_has_two_clusters_on_each() -> None:
    fleet = fleets.Fleet(source=SMALL, n_sketches=20, epsilon=Fraction(1), is_alike=False)
    dataset = SMALL.load(1)
    divided = fleet.divide(dataset, 1).records
    assert sorted(map(tuple, divided)) == sorted(map(tuple, dataset.records))
    assert divided[:200].std(axis=0).sum() < dataset.records.std(axis=0).sum()


def test_grid_and_sketch_are_measured_on_the_same_records() -> None:
    study = grids.GridStudy(source=SMALL, n_epsilon=40_000, n_sketches=3)
    medians = list_medians(collect([grids.make_case(study), make_fleet_case(study)]))
    names = [f"{study.name} box=1 {name}" for name in ("grid", "fourier", "whole")]
    names += [f"fleet {study.name} {name}" for name in ("compressive", "whole", "grid")]
    assert list(medians) == names
    assert all(0.99 < value < 1.5 for value in medians.values())
    assert medians[names[0]] == medians[names[5]]


def test_local_methods_are_measured_on_the_same_records() -> None:
    few = phones.Phones(n_records=20_000, epsilon=Fraction(8))
    case = phones.make_case(few)
    medians = list_medians(collect([case], "grid", "tree", "one centre"))
    assert len(medians) == 3
    centre = medians[f"{case.name} one centre"]
    assert 3 < centre < 6
    # At this n and epsilon the tree is far better than one centre, and the grid has large cells.
    assert 1 < medians[f"{case.name} tree"] < 0.8 * centre
    records = few.source.load(1000).records
    assert np.mean(np.any(np.abs(records) > 10, axis=1)) < 0.001


def test_marginals_are_estimated_better_from_reports_than_from_noised_counts() -> None:
    case = local.make_marginal_case("a", SMALL, half_width=20.0, epsilon=Fraction(3), quick_runs=0)
    rows = collect([case])
    reports, laplace = (rows[f"a marginal {n}", "median_error"] for n in ("reports", "laplace"))
    assert 0.0 < reports.value < laplace.value


def test_methods_are_measured_with_a_scale_and_in_a_wide_box() -> None:
    names = (SKETCH, "grid", "tree", "lloyd-published")
    cases = [methods.make_case(TINY, 40_000, contenders=names, box=box) for box in (1.0, 4.0)]
    rows = collect(cases)
    assert [case.name for case in cases] == [
        "d=2 k=3 n=4e+03 n_eps=4e+04",
        "d=2 k=3 n=4e+03 wide n_eps=4e+04",
    ]
    assert len(list_medians(rows)) == 8
    assert 0.99 < min(list_medians(rows).values()) < 1.5
    assert rows[f"{cases[0].name} tree", "released"].value > 0


def test_every_contender_spends_all_of_epsilon() -> None:
    dataset = replace(TINY, n_records=2000).load(1)
    for name, contender in CONTENDERS.items():
        if not name.startswith(SKETCH):
            run = contender(dataset, Fraction(8), 1, 1.0)
            assert run.spent == 8, name
            assert run.centroids.shape == (3, 2)
            assert run.n_bytes > 0


def test_max_cover_has_the_recipe_of_its_authors(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = cover.Recipe(seed=1)
    assert recipe.records.shape == (50_000, 100)
    # Half of all coordinates lie below 0 and are clipped.
    assert np.mean(recipe.records == 0.0) == pytest.approx(0.5, abs=0.03)
    assert float(cover.find_delta(recipe)) == pytest.approx(50_000**-1.5)
    monkeypatch.setattr(cover, "_RECORDS", 1000)
    small = cover.Recipe(seed=2)
    for name, method in cover.METHODS.items():
        centroids = method(small, 4, Fraction(1))
        assert centroids.shape == (1 if name == "one centre" else 4, 100)
        assert centroids.min() >= -1e-9
        assert centroids.max() <= 100.0 + 1e-9


def test_peers_are_called_on_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_RECORDS", 2000)
    cases = [case for case in peers.list_cases() if case.name == "blobs k=16 d=4 epsilon=4"]
    ours = replace(
        cases[0], methods={name: cases[0].methods[name] for name in ("auto", "split", "pe")}
    )
    medians = list_medians(collect([ours]))
    assert len(medians) == 3
    assert 0.9 < min(medians.values()) < 1.5
    assert len(peers.load_g2(1).records) == 2048
    assert peers.load_iris().records.shape == (150, 4)


@pytest.mark.parametrize("way", ["MomentMixture", "NetworkMixture clipping=fixed"])
def test_a_classifier_learns_from_drawn_images(way: str) -> None:
    (images, own), (test_images, test_own) = make_digits(1000), make_digits(300)
    data = Digits(images=images, digits=own, test_images=test_images, test_digits=test_own)
    small: dict[str, Any] = {"n_hidden": 20, "n_steps": 60} if "Network" in way else {}
    drawn, of = (digits.WAYS | digits.VARIANTS)[way](data, "5", 0, **small)
    assert set(np.unique(drawn)) <= {0.0, 1.0}
    assert digits.measure_accuracy(drawn, of, data) > 0.9


def test_the_predicted_band_stands_beside_the_share_of_runs_inside_it() -> None:
    band = predict_relative_sse(snr=64.0, n_frequencies=500, n_clusters=10, n_dimensions=10)
    common: dict[str, Any] = {"truth_start": 1.0, "seconds": 1.0, "k_means_seconds": 1.0}
    common |= {"snr": 64.0, "n_frequencies": 500}
    ratios = [(band.low + band.high) / 2] * 3 + [band.high + 0.1]
    trials = [Trial(relative_sse=ratio, reference="lloyd", **common) for ratio in ratios]
    figures = {figure[0]: figure[1] for figure in utility.compare(trials)}
    assert figures["share_within_band"] == 0.75
    assert (figures["predicted_low"], figures["predicted_high"]) == (band.low, band.high)


def test_a_trial_is_judged_beside_descent_from_the_truth() -> None:
    rows = collect([make_case("a", Setting(source=SMALL, features=5))])
    figures = {figure: row.value for (_, figure), row in rows.items()}
    assert 0.99 < figures["median_relative_sse"] < 1.1
    assert 1.0 <= figures["truth_start_median"] < 1.1
    assert figures["n_frequencies"] == 30


def test_a_table_goes_through_the_whole_path_and_its_first_line_is_judged(cache: Path) -> None:
    rng = np.random.default_rng(0)
    middles = rng.normal(0.0, 9.0, size=(4, 3))[rng.integers(4, size=1500)]
    records = middles + rng.normal(size=(1500, 3))
    shape = real_sets.make_shape(Table(name="cars", columns=("a", "b", "c"), records=records), "t")
    assert 3 <= shape.dataset.n_clusters <= 8
    trial = run_trial(shape, real_sets.list_situations(1500)[0], "a text")
    rows = list(real_sets.describe([trial]))
    assert rows[0].case.startswith("worst cars n=1500, no noise, d=3")
    true = next(row for row in rows if row.figure == "true_first_lines")
    assert true.value == float(trial.ratio <= real_sets.WORST_OF_WORD.get(trial.word, np.inf))


def test_every_kind_of_column_is_found_from_reports() -> None:
    rows = list(reported_pilots.measure(Bench(quick=True)))
    assert len(rows) == 3 * len(reported_pilots.COLUMNS)
    ratios = [row.value for row in rows if row.figure == "worst_spread_ratio"]
    assert 1.0 <= min(ratios) <= max(ratios) < 3.0


def test_a_table_of_whole_numbers_is_asked_and_its_bars_are_judged() -> None:
    """At epsilon 2 bars are about right: fewer than half hold with probability below 1e-3."""
    rng = np.random.default_rng(0)
    records = np.column_stack([np.round(rng.normal(40.0, 12.0, 8000)), rng.normal(size=8000)])
    found = tables.Answers()
    tables.ask_table(("age", "score"), records, {"age": (0, 100), "score": (-6, 6)}, 1, found)
    rows = {row.figure: row.value for row in tables.describe("made up", 8000, found)}
    assert rows["questions"] > 100
    assert rows["share covered"] > 0.5
    assert rows["median relative SSE"] > 0.5
    said = [("sound", 1.1), ("sound", 1.3), ("rough", 1.3), ("doubtful", 9.0)]
    assert tables.judge(said) == 0.75


def test_bounds_are_rounded_outward_to_one_digit() -> None:
    ends = [(-3.0, -1), (12.0, -1), (12.0, 1), (0.0, 1), (0.34, 1), (-0.34, 1), (3000.0, 1)]
    found = [tables.round_outward(*end) for end in ends]
    assert found == pytest.approx([-3.0, 10.0, 20.0, 0.0, 0.4, -0.3, 3000.0])
