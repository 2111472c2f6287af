"""Laws from shared draws reject at the stated rate, and agree with the law of a single pair."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learning.insight.comparison import Comparison, compare_means, draw_null
from sfumato.learning.insight.covariance import Density
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import SelectionMean, average
from sfumato.learning.insight.shared_law import SharedDraws
from sfumato.shared.plan import WindowRule
from tests.learning.insight.drawing import Fleet, make_model, make_plan

SECRET = {
    "neighbouring": "add-remove-one",
    "window": WindowRule(kind="time", origin=60, length_s=60),
}


def share_draws(model: StudyModel, n_draws: int = 1999) -> SharedDraws:
    return SharedDraws(model, rng=np.random.default_rng(3), n_draws=n_draws)


def turn(draws: SharedDraws, mean: SelectionMean) -> SelectionMean:
    return replace(mean, features=draws.rotate(mean))


@pytest.mark.parametrize(
    ("n_sketches", "changes"),
    [(4, {"frequencies_per_sketch": 20, "epsilon": Fraction(10)}), (1, SECRET)],
)
def test_the_same_records_are_told_apart_at_the_stated_rate(
    n_sketches: int, changes: dict[str, Any]
) -> None:
    plan = make_plan(40, **changes)
    model, fleet, found = make_model(plan), Fleet(plan, 7), []
    draws, quiet = share_draws(model), []
    rng = np.random.default_rng(1)
    for _ in range(150):
        # Numbers of records differ: each pair has a law of its own, of shared draws.
        sides = [
            turn(draws, average(plan, fleet.draw(int(n), n_sketches)))
            for n in rng.integers(800, 1200, 2)
        ]
        law = draws.find_law(sides[0].errors, sides[1].errors)
        found.append(compare_means(model, sides[0], sides[1], law))
        difference = (sides[1].features - sides[0].features)[None]
        energy = float(law.statistics.measure_quiet(difference)[0])
        quiet.append(law.quiet.estimate_lower_p(energy))
    # Seeded. The standard error of a rate is 1.8 %; four rates of two cases exceed three of these
    # by chance once in 40.
    margin = 0.054
    for name in ("p", "p_all", "p_moved", "p_single"):
        assert rate(found, name) == pytest.approx(0.05, abs=margin)
    # Sampling adds to the energy of noise, so that honest noise looks silent at most as often.
    assert np.mean(np.array(quiet) < 0.05) < 0.05 + margin
    scores = np.array([[change.estimate / change.error for change in c.changes] for c in found])
    assert np.sqrt(np.mean(scores**2)) == pytest.approx(1.0, abs=0.1)


def rate(found: list[Comparison], name: str) -> float:
    return float(np.mean([getattr(comparison, name) < 0.05 for comparison in found]))


@pytest.mark.parametrize("changes", [{}, {"frequencies_per_sketch": 10}, SECRET])
def test_a_shared_law_agrees_with_that_of_the_pair_alone(changes: dict[str, Any]) -> None:
    plan = make_plan(40, epsilon=Fraction(5), **changes)
    model, fleet = make_model(plan), Fleet(plan, 1)
    first, second = (average(plan, fleet.draw(1000, n)) for n in (4, 30))
    draws = share_draws(model, 6000)
    shared = draws.find_law(first.errors, second.errors)
    alone = draw_null(model, first, second, rng=np.random.default_rng(1), n_draws=6000)
    # Seeded; quantiles of 6000 draws. The directed statistic sees a covariance off by a quarter.
    for q in (0.05, 0.5, 0.95):
        for one, other, rel in ((shared.all, alone.all, 0.05), (shared.moved, alone.moved, 0.25)):
            assert np.quantile(one.draws, q) == pytest.approx(np.quantile(other.draws, q), rel=rel)
    assert shared.all.mean == pytest.approx(np.trace(alone.statistics.sigma), rel=0.02)
    difference = second.features - first.features
    rotated = draws.rotate(second) - draws.rotate(first)
    assert shared.statistics.measure_variance(rotated) == pytest.approx(
        alone.statistics.measure_variance(difference), rel=1e-3
    )
    assert rotated @ rotated == pytest.approx(difference @ difference)
    assert shared.statistics.errors == pytest.approx(alone.statistics.errors, rel=0.1)


def test_draws_are_wide_where_the_posterior_leaves_the_covariance_open() -> None:
    plan = make_plan(40, epsilon=Fraction(200))
    certain = make_model(plan)
    # Records at one point have no sampling error at all.
    point = Density(weights=np.ones(1), means=np.zeros((1, 2)), covariances=np.zeros((1, 2, 2)))
    open_model = StudyModel(
        plan=plan,
        fit=certain.fit,
        density=certain.density,
        draws=((1.0, point), (1.0, certain.density)),
    )
    fleet = Fleet(plan, 1)
    first, second = (average(plan, fleet.draw(500)) for _ in range(2))
    spreads = []
    for model in (certain, open_model):
        law = share_draws(model).find_law(first.errors, second.errors)
        spreads.append(law.all.deviation / law.all.mean)
    assert spreads[1] > 1.5 * spreads[0]
