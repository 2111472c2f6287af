"""Comparisons reject at the stated rate, and find, name and size what has changed."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.insight.comparison import (
    Change,
    Comparison,
    compare,
    compare_means,
    describe_p,
    draw_null,
)
from sfumato.learning.insight.null_law import draw_noise
from sfumato.learning.insight.selection import SelectionMean, average
from sfumato.learning.insight.shared_law import SharedDraws
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan
from tests.learning.insight.drawing import MIXTURE, Fleet, make_model, make_plan

STRONG = {"epsilon": Fraction(1)}
WEAK = {"epsilon": Fraction(100)}


def compare_alike(
    mechanism: str,
    n_sketches: int,
    n_pairs: int,
    *,
    n_records: int = 500,
    **changes: Any,
) -> list[Comparison]:
    """Compare pairs of selections of the same mixture."""
    plan = make_plan(40, mechanism, **changes)
    pairs = draw_pairs(plan, n_sketches, n_pairs, n_records)
    law = draw_null(make_model(plan), *pairs[0], rng=np.random.default_rng(3))
    return [compare_means(make_model(plan), *pair, law) for pair in pairs]


def draw_pairs(
    plan: SketchPlan, n_sketches: int, n_pairs: int, n_records: int = 500, most_exact: int = 20
) -> list[tuple[SelectionMean, SelectionMean]]:
    fleet = Fleet(plan, 3)

    def draw() -> SelectionMean:
        return average(plan, fleet.draw(n_records, n_sketches), most_exact=most_exact)

    return [(draw(), draw()) for _ in range(n_pairs)]


def rate(p_values: list[float], level: float = 0.05) -> float:
    return float(np.mean(np.array(p_values) < level))


@pytest.mark.parametrize(
    ("mechanism", "n_sketches", "n_pairs", "changes"),
    [
        ("discrete-knorm", 1, 300, WEAK),
        ("discrete-gaussian", 2, 150, STRONG),
    ],
)
def test_the_same_records_are_told_apart_at_the_stated_rate(
    mechanism: str, n_sketches: int, n_pairs: int, changes: dict[str, Any]
) -> None:
    found = compare_alike(mechanism, n_sketches, n_pairs, **changes)
    # Seeded. The standard error of a rate is 1.3 % of 300 pairs and 1.8 % of 150.
    margin = 0.035 if n_pairs == 300 else 0.05
    for p_values in ([c.p for c in found], [c.p_all for c in found], [c.p_moved for c in found]):
        assert rate(p_values) == pytest.approx(0.05, abs=margin)
    scores = np.array([[change.estimate / change.error for change in c.changes] for c in found])
    assert np.sqrt(np.mean(scores**2)) == pytest.approx(1.0, abs=0.1)
    # Some parameter of twelve is named in at most 5 % of pairs.
    assert np.mean([bool(c.named) for c in found]) < 0.05 + margin


def test_without_the_common_radius_the_rate_is_wrong() -> None:
    plan, rates = make_plan(40), []
    for most_exact in (20, 0):
        pairs = draw_pairs(plan, 1, 400, most_exact=most_exact)
        law = draw_null(make_model(plan), *pairs[0], rng=np.random.default_rng(3))
        found = [compare_means(make_model(plan), *pair, law) for pair in pairs]
        rates.append(rate([comparison.p_all for comparison in found]))
    # Seeded; standard error 1.1 %. The energy of Gaussian noise varies 1.5 times less.
    assert rates[0] < 0.075
    assert rates[1] > 0.085


def change_mixture(**changes: Any) -> GaussianMixture:
    return replace(MIXTURE, **changes)


def compare_with(mixture: GaussianMixture, n_records: int = 5000) -> Comparison:
    plan = make_plan(60, epsilon=Fraction(20))
    fleet = Fleet(plan, 5)
    first = fleet.draw(n_records, name="before")
    second = fleet.draw(n_records, mixture=mixture, name="after")
    return compare(make_model(plan), first, second, rng=np.random.default_rng(5))


def test_a_cluster_that_moves_is_named_with_its_axis_and_its_way() -> None:
    means = MIXTURE.means.copy()
    means[1, 0] += 0.5 * np.sqrt(2.0)
    found = compare_with(change_mixture(means=means))
    assert found.is_alarm
    change = found.named[0]
    assert (change.cluster, change.quantity, change.axis) == (1, "centre", "x")
    assert change.estimate == pytest.approx(0.5, abs=5 * change.error)
    assert change.estimate > 5 * change.error


def test_a_cluster_that_grows_is_named_by_its_share() -> None:
    found = compare_with(change_mixture(weights=np.array([0.4, 0.4, 0.2])))
    named = {(change.cluster, change.quantity): change.estimate for change in found.named}
    assert named[(1, "weight")] == pytest.approx(np.log(4 / 3), abs=0.15)
    assert named[(0, "weight")] < 0.0
    assert any("the share of cluster 2 changed by +" in line for line in found.describe())


def test_nothing_is_found_where_nothing_has_changed() -> None:
    found = compare_with(MIXTURE)
    assert not found.is_alarm
    assert found.p > 0.05
    assert found.describe()[2] == "changes: none"


def test_a_certain_difference_too_small_to_matter_raises_no_alarm() -> None:
    means = MIXTURE.means + np.array([0.05, 0.0])
    found = compare_with(change_mixture(means=means), n_records=90_000)
    assert found.p < 0.01
    assert found.size < found.smallest_shift
    assert not found.is_alarm
    assert replace(found, smallest_shift=0.01).is_alarm


def test_exchanged_selections_have_the_opposite_changes() -> None:
    plan = make_plan()
    model, fleet = make_model(plan), Fleet(plan, 1)
    first, second = (average(plan, fleet.draw(500)) for _ in range(2))
    law = draw_null(model, first, second, rng=np.random.default_rng(1))
    forth, back = (compare_means(model, *pair, law) for pair in ((first, second), (second, first)))
    assert (forth.p, forth.size) == (back.p, back.size)
    assert [c.estimate for c in forth.changes] == [-c.estimate for c in back.changes]


def test_selections_that_overlap_or_are_empty_are_refused() -> None:
    plan = make_plan()
    model, fleet, rng = make_model(plan), Fleet(plan, 1), np.random.default_rng(1)
    first, second = fleet.draw(500, name="march"), fleet.draw(500, name="april")
    both = replace(second, name="spring", members=first.members | second.members)
    with pytest.raises(DecodingError, match="march and spring share sketches"):
        compare(model, first, both, rng=rng)
    with pytest.raises(DecodingError, match="april holds none"):
        compare(model, first, replace(second, members=frozenset()), rng=rng)
    with pytest.raises(DecodingError, match="may holds none"):
        compare(model, first, fleet.draw(500, 0, name="may"), rng=rng)
    with pytest.raises(DecodingError, match="n_draws: must be at least 100"):
        compare(model, first, second, rng=rng, n_draws=20)


@pytest.mark.parametrize(("epsilon", "is_directed"), [(1, True), (100, False)])
def test_where_sampling_matters_and_the_fit_leaves_more_than_errors_all_features_decide(
    epsilon: int, is_directed: bool
) -> None:
    plan = make_plan(40, epsilon=Fraction(epsilon))
    fleet = Fleet(plan, 5)
    sides = fleet.draw(1000, name="before"), fleet.draw(1000, name="after")
    sure = make_model(plan)
    doubtful = replace(sure, is_fitted=False)
    known, found = (
        compare(model, *sides, rng=np.random.default_rng(1)) for model in (sure, doubtful)
    )
    assert found.changes == known.changes
    assert known.assumptions == ("assumes independent records",)
    if is_directed:
        assert found == known
    else:
        assert found.p == pytest.approx(found.p_all, abs=1e-3)
        assert "3 round clusters do not describe the records" in found.describe()[-1]


def test_what_sampling_adds_to_the_directed_statistic_is_what_the_draws_have() -> None:
    plan = make_plan(40, epsilon=Fraction(30))
    model, (pair, *_) = make_model(plan), draw_pairs(plan, 1, 1)
    errors = pair[0].errors + pair[1].errors
    law = draw_null(model, *pair, rng=np.random.default_rng(1), n_draws=4000)
    rng = np.random.default_rng(2)
    noise = law.statistics.measure_moved(draw_noise(plan, errors, 4000, rng))
    sampling = law.statistics.measure_sampling(errors)
    # Seeded; the draws' means have standard errors of 1 % each.
    assert sampling == pytest.approx(law.moved.mean - float(np.mean(noise)), rel=0.1)
    shared = SharedDraws(model, rng=rng, n_draws=4000).find_law(pair[0].errors, pair[1].errors)
    # Its covariance is rounded to within a quarter.
    assert shared.statistics.measure_sampling() == pytest.approx(sampling, rel=0.3)
    assert shared.is_directed == law.is_directed


def test_a_common_shift_has_its_own_size() -> None:
    found = compare_with(change_mixture(means=MIXTURE.means + np.array([0.3, 0.0])))
    # One direction of many: frequencies turn more along some than along others.
    assert found.size == pytest.approx(0.3, abs=0.1)
    assert 0.0 < found.size_error < 0.1


def test_the_report_gives_size_certainty_and_words_in_this_order() -> None:
    lines = compare_with(MIXTURE).describe()
    heads = [line.split(":")[0] for line in lines[:3]]
    assert heads == ["size", "certainty", "changes"]
    assert "assumes independent records" in lines[3:]


def test_differences_beyond_a_scale_have_no_figure() -> None:
    found = compare_with(change_mixture(means=-MIXTURE.means))
    assert found.describe()[0] == "size: as if every record had moved by more than 1 scale"


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0123, "p = 0.012"),
        (6e-4, "p = 0.0006"),
        (3e-4, "p = 0.0003 (extrapolated from 1999 draws)"),
        (1e-9, "p < 1e-4 (extrapolated from 1999 draws)"),
    ],
)
def test_p_values_beyond_the_draws_are_printed_as_extrapolated(p: float, text: str) -> None:
    assert describe_p(p, 1999) == text


def test_changes_are_described_in_percent_or_deviations() -> None:
    change = Change(cluster=0, quantity="variance", axis=None, estimate=-0.5, error=0.1, p=0.2)
    assert change.describe() == "the variance of cluster 1 changed by -39% (error 6%)"
    assert not change.is_named
