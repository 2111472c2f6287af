"""The benchmark of comparisons releases real sketches, and counts what it says."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.cases import make_noise
from benchmarks.datasets import Mixture, RealData
from benchmarks.insight import (
    Scope,
    measure_false_alarms,
    measure_power,
)
from benchmarks.insight_studies import Setting, Workshop
from benchmarks.progress import show_progress
from sfumato.learning.insight.covariance import stack
from sfumato.learning.insight.selection import average

SETTING = Setting(
    name="small",
    source=Mixture(n_dimensions=5, n_clusters=3, n_records=600),
    n_frequencies=40,
    noise=make_noise("knorm", Fraction(50)),
    n_records=2000,
    n_sketches=2,
)
SCOPE = Scope(n_studies=1, n_pairs=40, n_tries=5, n_years=1, n_fleets=1)


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
    workshop = Workshop(setting=Setting(**{**vars(SETTING), "source": dataset}), seed=1)
    drawn = workshop.population.draw(26_000, workshop.rng)
    whole = workshop.population.dataset.records
    assert len(whole) >= len(drawn)
    chosen = np.random.default_rng((1, 1)).choice(len(whole), 26_000, replace=False)
    assert np.array_equal(drawn, whole[chosen])


def test_changes_are_found_more_often_than_nothing() -> None:
    with show_progress(2) as bar:
        alike = {row.figure: row for row in measure_false_alarms(SETTING, SCOPE, bar)}
        found = {(row.case, row.figure): row for row in measure_power(SETTING, SCOPE, bar)}
    assert alike["false_alarms_5_smallest"].runs == 40
    # Two in forty are expected; seven or more come by chance once in 250.
    assert alike["false_alarms_5_smallest"].value * 0.05 * 40 < 7
    assert found["moves 1 sd, small", "power_smallest"].value == 1.0
    assert found["moves 1 sd, small", "estimate"].value == pytest.approx(1.0, abs=0.3)
