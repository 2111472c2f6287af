"""The benchmark of comparisons releases real sketches, and counts what it says."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import insight
from benchmarks.datasets import Mixture, RealData
from benchmarks.insight import measure_devices, measure_false_alarms, measure_power
from benchmarks.insight_studies import Workshop, make_setting
from benchmarks.runner import Bench
from sfumato.learning.insight.covariance import stack
from sfumato.learning.insight.selection import average

SETTING = make_setting(
    "small", "knorm", 50, 40, 2000, 2, Mixture(n_dimensions=5, n_clusters=3, n_records=600)
)


def test_a_selection_is_a_mean_of_features_with_the_noise_of_its_sketches() -> None:
    workshop = Workshop(setting=SETTING, seed=1)
    records = workshop.population.draw(2000, workshop.rng)
    mean = average(workshop.plan, workshop.select(records))
    quantiser = workshop.plan.quantiser
    frequencies = workshop.plan.frequencies.to_angular(quantiser)
    exact = stack(np.exp(1j * (records - quantiser.centre) @ frequencies).mean(axis=0))
    (factors,) = mean.errors.factors
    assert factors.size == 2
    # Seeded; 80 coordinates, whose energy has a standard deviation of 0.2 to 0.25.
    energy = np.mean((mean.features - exact) ** 2) / mean.errors.noise[0]
    assert energy == pytest.approx(1.0, abs=0.8)


def test_real_records_of_a_pair_are_different_ones() -> None:
    dataset = RealData(name="weather")
    workshop = Workshop(setting=replace(SETTING, source=dataset), seed=1)
    drawn = workshop.population.draw(26_000, workshop.rng)
    whole = workshop.population.dataset.records
    assert len(whole) >= len(drawn)
    chosen = np.random.default_rng((1, 1)).choice(len(whole), 26_000, replace=False)
    assert np.array_equal(drawn, whole[chosen])


def test_changes_are_found_more_often_than_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insight, "_N_PAIRS", 40)
    monkeypatch.setattr(insight, "_N_TRIES", 5)
    bench = Bench(seeds=1)
    alike = {row.figure: row for row in measure_false_alarms(bench, SETTING)}
    found = {(row.case, row.figure): row for row in measure_power(bench, SETTING)}
    assert alike["false_alarms_5_smallest"].runs == 40
    # Two in forty are expected; seven or more come by chance once in 250.
    assert alike["false_alarms_5_smallest"].value * 0.05 * 40 < 7
    assert found["moves 1 sd, small", "power_smallest"].value == 1.0
    assert found["moves 1 sd, small", "estimate"].value == pytest.approx(1.0, abs=0.3)


def test_devices_that_changed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insight, "_N_FLEETS", 1)
    found = {(row.case, row.figure): row.value for row in measure_devices(Bench(seeds=1), SETTING)}
    assert found["6 of 6 devices change, small", "changed"] == 6.0
    assert found["0 of 6 devices change, small", "changed"] <= 1.0
