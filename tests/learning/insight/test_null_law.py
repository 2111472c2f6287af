"""Draws of the errors have the law of the errors that the mechanisms make."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learning.estimate.weights import Weights
from sfumato.learning.insight.null_law import draw_errors, draw_noise, draw_unit_noise
from sfumato.learning.insight.selection import Selection, average
from sfumato.learning.insight.statistics import compute_sigma
from sfumato.shared.privacy.testing import SeededSource
from tests.learning.insight.drawing import Fleet, make_model, make_plan

MECHANISMS = ("discrete-knorm", "discrete-laplace", "discrete-gaussian")
ENERGY_DEVIATIONS = {"discrete-knorm": 1.53, "discrete-laplace": 2.5**0.5, "discrete-gaussian": 1.0}
"""Standard deviation of the energy of one sketch's noise, in that of Gaussian noise."""


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_energy_of_a_sketchs_noise_varies_as_that_of_the_mechanism(mechanism: str) -> None:
    plan, n = make_plan(40, mechanism), 400
    source = SeededSource(1)
    zero = np.zeros(80, dtype=np.int64)
    real = np.array([plan.mechanism.add_noise(zero, source) for _ in range(n)])
    drawn = draw_unit_noise(plan, 10_000, np.random.default_rng(1))
    for noise, variance in ((real, plan.mechanism.variance), (drawn, 1.0)):
        energies = np.mean(noise.astype(float) ** 2, axis=1) / variance
        assert energies.mean() == pytest.approx(1.0, abs=0.06)
        # Seeded. The deviation of 400 is known to 4 % (Gaussian) to 7 % (Laplace).
        deviation = energies.std() * np.sqrt(40)
        assert deviation == pytest.approx(ENERGY_DEVIATIONS[mechanism], rel=0.2)


def test_blocks_have_radii_of_their_own() -> None:
    plan = make_plan(40, frequencies_per_sketch=20)
    errors = average(plan, Fleet(plan, 1).draw(500, 2)).errors
    noise = draw_noise(plan, errors, 20_000, np.random.default_rng(1))
    members = plan.blocks.members
    energies = [
        np.sum(noise[:, part] ** 2 + noise[:, 40 + part] ** 2, axis=1)
        for part in (members[0, :10], members[0, 10:], members[1])
    ]
    correlations = np.corrcoef(energies)
    # Of 20,000 draws, so known to 0.007; the radius of one sketch is common to its features.
    assert correlations[0, 1] > 0.3
    assert abs(correlations[0, 2]) < 0.03


@pytest.mark.parametrize("changes", [{}, {"frequencies_per_sketch": 10}])
@pytest.mark.parametrize("most_exact", [0, 20])
def test_errors_of_selections_have_the_stated_covariance(
    changes: dict[str, Any], most_exact: int
) -> None:
    plan = make_plan(20, epsilon=Fraction(20), **changes)
    model, fleet = make_model(plan), Fleet(plan, 1)
    first, second = (average(plan, fleet.draw(300, n), most_exact=most_exact) for n in (4, 12))
    errors = first.errors + second.errors
    drawn = draw_errors(model, errors, n_draws=20_000, rng=np.random.default_rng(1))
    sigma = compute_sigma(model, errors)
    scale = np.sqrt(np.outer(np.diag(sigma), np.diag(sigma)))
    # Standard error of an entry 0.007 to 0.01; 820 entries, so five of them by chance once in 2000.
    assert np.abs((drawn.T @ drawn / 20_000 - sigma) / scale).max() < 0.06


def test_weights_reach_the_noise_of_few_sketches() -> None:
    plan = make_plan(20)
    drawn = Fleet(plan, 1).draw(300, 3)
    sizes = np.array([[300, 0]] * 3)
    selection = Selection(
        name="weighted",
        totals=drawn.totals,
        members=drawn.members,
        weights=Weights(a=0.0, b=1.0),
        sizes=sizes,
    )
    errors = average(plan, selection).errors
    (factors,) = errors.factors
    assert np.sum(factors**2) * plan.mechanism.variance == pytest.approx(errors.noise[0])
    by_size = average(plan, drawn)
    assert by_size.errors.noise == pytest.approx(errors.noise)
    assert by_size.features == pytest.approx(average(plan, selection).features)
