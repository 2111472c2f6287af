"""Fleets of the benchmark of devices have liars that lie in the stated way."""

from fractions import Fraction

import numpy as np

from benchmarks.cases import make_noise
from benchmarks.insight_devices import N_DEVICES, measure_fleets
from benchmarks.insight_studies import Setting, Workshop
from benchmarks.progress import show_progress
from tests.benchmarks.test_insight import SETTING


def test_a_liar_may_add_no_noise_or_more() -> None:
    workshop = Workshop(setting=SETTING, seed=1)
    records = workshop.population.draw(1000, workshop.rng)
    quiet, again, loud = (
        workshop.select(records, n_noises=n, name="a").totals.sums for n in (0, 0, 9)
    )
    assert np.array_equal(quiet, again)
    energy = np.mean((loud - quiet).astype(float) ** 2) / workshop.plan.mechanism.variance
    # Nine noises; seeded, 80 coordinates.
    assert 4.0 < energy < 16.0


def test_liars_light_their_lamps() -> None:
    noise = make_noise("knorm", Fraction(5))
    small = Setting(**{**vars(SETTING), "n_records": 300, "n_sketches": 1, "noise": noise})
    with show_progress(1) as bar:
        rows = {(row.case, row.figure): row for row in measure_fleets(small, 1, bar)}
    assert rows["devices, small, no noise", "silence"].value == 1.0
    assert rows["devices, small, all records in a corner", "content"].value == 1.0
    honest = rows["devices, small, honest", "content"]
    # One per cent of fleets light any.
    assert (honest.value, honest.runs) == (0.0, N_DEVICES)
