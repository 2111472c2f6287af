"""Synthetic records of a decode."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.learning.decoding.density import Posterior
from sfumato.learning.generative.columns import Column, LevelColumn, NumberColumn
from sfumato.learning.generative.synthesis import Origin, Synthesiser
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.wire.objects.answers import PromiseBody, describe_promise
from sfumato.shared.wire.objects.synthesis import SynthesisRequest

ORIGIN = Origin(snapshot_id="00", decoder="mixture/5")


def make_plan() -> SketchPlan:
    return create_plan(
        PlanSpec(
            dimensions=(
                Dimension(name="pressure", unit="bar", lower=0.0, upper=10.0, scale=0.5),
                Dimension(name="flow", unit="l/s", lower=-5.0, upper=5.0, scale=0.5),
                Dimension(name="site", unit="1", levels=("north", "south")),
            ),
            n_frequencies=16,
            epsilon=Fraction(1),
            window=WindowRule(kind="count", length=1000),
            seed="ab" * 32,
            most_records=1000,
        )
    )


def make_posterior(*, is_trusted: bool = True) -> Posterior:
    """Two draws that differ a little: pressure and flow rise together, and sites differ."""
    means = np.array([[3.0, -2.0, 1.0, 0.0], [7.0, 2.0, 0.0, 1.0]])
    return Posterior(
        shares=np.array([0.5, 0.5]),
        draw_of=np.array([0, 0, 1, 1]),
        weights=np.array([0.5, 0.5, 0.54, 0.46]),
        means=np.vstack([means, means + 0.1]),
        roots=np.tile(0.3 * np.eye(4), (4, 1, 1)),
        lower=np.array([0.0, -5.0, 0.0, 0.0]),
        upper=np.array([10.0, 5.0, 1.0, 1.0]),
        doubt=0.0,
        held_out=1.0,
        is_trusted=is_trusted,
    )


def make(**changes: object) -> Synthesiser:
    whole = Synthesiser(plan=make_plan(), posterior=make_posterior(), verdict="sound")
    return replace(whole, **changes)  # type: ignore[arg-type]


HISTOGRAM = (
    NumberColumn(
        name="flow",
        edges=np.array([-5.0, 0.0, 5.0]),
        shares=np.array([0.0, 0.2, 0.8, 0.0]),
        resolution=None,
        error=0.01,
    ),
    LevelColumn(name="site", shares=np.array([0.9, 0.1]), error=0.01),
)


def test_the_same_seed_and_part_give_the_same_records_and_others_give_further_ones() -> None:
    one = make().draw(100, seed=3)
    assert np.array_equal(one, make().draw(100, seed=3))
    assert not np.array_equal(one, make().draw(100, seed=4))
    assert not np.array_equal(one, make().draw(100, seed=3, part=1))


def test_records_follow_the_densities_and_stay_inside_the_bounds() -> None:
    pressure, flow, site = make().draw(5000, seed=0).T
    assert np.corrcoef(pressure, flow)[0, 1] > 0.95
    assert np.corrcoef(flow, site)[0, 1] > 0.95
    assert pressure.min() >= 0.0
    assert set(site) == {0.0, 1.0}


def test_a_histogram_sets_the_columns_that_it_has_and_keeps_what_they_share() -> None:
    found = make(columns=HISTOGRAM)
    pressure, flow, site = found.draw(5000, seed=0).T
    assert np.mean(flow < 0.0) == pytest.approx(0.2, abs=1e-3)
    assert np.mean(site == 1.0) == pytest.approx(0.1, abs=1e-3)
    plain = make().draw(5000, seed=0)
    assert np.array_equal(pressure, plain[:, 0])
    # Rounding makes some values equal, so that their order may differ.
    ranks = [np.argsort(np.argsort(each)) for each in (flow, plain[:, 1])]
    assert np.max(np.abs(ranks[0] - ranks[1])) < 20
    assert found.matched == ("flow", "site")


def test_a_column_in_another_unit_or_with_other_levels_is_refused_by_name() -> None:
    with pytest.raises(DecodingError, match="'flow' in gal/min, and the study in l/s"):
        make(columns=[replace(HISTOGRAM[0], unit="gal/min")])
    make(columns=[replace(HISTOGRAM[0], unit="l/s")])
    with pytest.raises(DecodingError, match="levels south, north, and the study with north, south"):
        make(columns=[replace(HISTOGRAM[1], levels=("south", "north"))])
    make(columns=[replace(HISTOGRAM[1], levels=("north", "south"))])


def test_noise_is_not_sampled_unless_somebody_insists() -> None:
    with pytest.raises(DecodingError, match=r"do not use.*plan advise"):
        make(verdict="do not use")
    insisted = make(verdict="do not use", allow_unusable=True)
    body = insisted.answer(SynthesisRequest(), origin=ORIGIN, privacy=[])
    assert body.statement.startswith("Do not use these records")


def test_an_answer_spells_levels_and_states_errors_of_columns_with_a_histogram() -> None:
    body = make(columns=HISTOGRAM).answer(SynthesisRequest(n_records=10), origin=ORIGIN, privacy=[])
    assert set(body.columns[2]) <= {"north", "south"}
    # Pressure has no histogram.
    assert [each.n_columns for each in body.errors] == [1]
    assert all(0.0 < each.error < 0.2 for each in body.errors)
    assert "The columns flow, site follow a histogram, where" in body.statement


@pytest.mark.parametrize("verdict", ["doubtful", "do not use"])
def test_no_error_is_stated_where_the_verdict_forbids_it(verdict: str) -> None:
    """Columns that a pilot could not see make a decode doubtful, whatever its densities are."""
    doubtful = make(verdict=verdict, columns=HISTOGRAM, allow_unusable=True)
    body = doubtful.answer(SynthesisRequest(), origin=ORIGIN, privacy=[])
    assert (body.errors, body.correlation_errors) == ([], [])
    assert "usually off" not in body.statement


def test_a_single_number_without_a_histogram_is_told_to_add_one() -> None:
    plan = make_plan()
    whole = make_posterior()
    alone = replace(
        whole,
        means=whole.means[:, :1],
        roots=whole.roots[:, :1, :1],
        lower=whole.lower[:1],
        upper=whole.upper[:1],
    )
    found = make(plan=replace(plan, dimensions=plan.dimensions[:1]), posterior=alone)
    body = found.answer(SynthesisRequest(), origin=ORIGIN, privacy=[])
    assert "cannot be stated without a histogram" in body.statement


@pytest.mark.parametrize("columns", [(), HISTOGRAM])
def test_errors_of_correlations_are_stated_with_and_without_a_histogram(
    columns: tuple[Column, ...],
) -> None:
    body = make(columns=columns).answer(SynthesisRequest(n_records=5000), origin=ORIGIN, privacy=[])
    # Site has levels.
    (found,) = body.correlation_errors
    assert found.columns == ["pressure", "flow"]
    assert 0.0 < found.error < 0.05
    said = f"Correlations of two of pressure, flow are usually off by {found.error:.2f}."
    assert said in body.statement


def test_the_answer_says_what_both_studies_cost_together() -> None:
    promise = describe_promise(make_plan())
    half = replace(promise, epsilon="1/2")

    def describe(*privacy: PromiseBody) -> str:
        return make().answer(SynthesisRequest(), origin=ORIGIN, privacy=privacy).statement

    assert describe(promise).endswith("cost each record epsilon = 1 under replace-one.")
    assert describe(promise, half).endswith("epsilon = 3/2 in all, if it is in both.")
    gaussian = replace(half, delta="1/1000000")
    assert "epsilon = 3/2 and delta = 1/1000000 in all" in describe(promise, gaussian)
    assert describe(promise, replace(half, neighbouring="add-remove-one")).endswith(
        "and the histogram epsilon = 1/2 under add-remove-one."
    )
    exact = replace(promise, epsilon="inf", mechanism="none")
    said = "NOT PRIVATE: they were made from exact sums, without noise."
    for both in ((exact,), (exact, half), (promise, exact)):
        assert describe(*both).endswith(said)


def test_a_histogram_of_other_columns_is_refused_by_name() -> None:
    with pytest.raises(DecodingError, match=r"histogram: has no column of the study: it has 'x'"):
        make(columns=[replace(HISTOGRAM[0], name="x")])


def test_a_column_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(DecodingError, match="'site' as a number, and the study with 2 levels"):
        make(columns=[replace(HISTOGRAM[0], name="site")])
    with pytest.raises(DecodingError, match="'flow' with 2 levels, and the study as a number"):
        make(columns=[replace(HISTOGRAM[1], name="flow")])


@pytest.mark.parametrize("n_records", [0, 20_001])
def test_a_part_has_its_bounds(n_records: int) -> None:
    with pytest.raises(DecodingError, match="n_records: must be 1 to 20000"):
        make().draw(n_records, seed=0)


def test_no_error_is_stated_where_bars_mean_nothing() -> None:
    posterior = make_posterior(is_trusted=False)
    doubtful = make(posterior=posterior, verdict="doubtful", columns=HISTOGRAM)
    body = doubtful.answer(SynthesisRequest(), origin=ORIGIN, privacy=[])
    assert body.errors == []
    assert body.statement.startswith("Doubt these records")
    assert body.correlation_errors == []
    assert "cannot be stated: decode fewer clusters" in body.statement


def test_no_error_is_stated_without_a_histogram_and_the_answer_says_how_to_add_one() -> None:
    body = make().answer(SynthesisRequest(), origin=ORIGIN, privacy=[])
    assert body.errors == []
    assert "cannot be stated without a histogram" in body.statement
    assert "`--histogram`" in body.statement


def test_a_small_table_is_further_off_than_a_large_one() -> None:
    both = (replace(HISTOGRAM[0], name="pressure", edges=np.array([0.0, 5.0, 10.0])), HISTOGRAM[0])
    small, large = (make(columns=both).estimate_errors(n) for n in (50, 20_000))
    for ours, theirs in zip(small.estimate_ranges()[1:], large.estimate_ranges()[1:], strict=True):
        assert ours.error > theirs.error + 0.005
    assert small.estimate_correlations()[0].error > large.estimate_correlations()[0].error


def test_densities_that_agree_once_they_follow_the_histogram_make_no_error_of_their_own() -> None:
    """Draws that differ by a shift of a column alone give one and the same table."""
    shifted = make_posterior()
    shifted = replace(
        shifted, weights=np.full(4, 0.5), means=shifted.means * [1, 1, 0, 0] + [0, 0, 1, 0]
    )
    both = (replace(HISTOGRAM[0], name="pressure", edges=np.array([0.0, 5.0, 10.0])), HISTOGRAM[0])
    exact = [replace(each, error=0.0) for each in both]
    found = make(posterior=shifted, columns=exact).estimate_errors(10**9).estimate_ranges()
    assert [each.n_columns for each in found] == [1, 2]
    assert found[1].error < 1e-3


def test_columns_without_an_error_are_named() -> None:
    body = make(columns=HISTOGRAM).answer(SynthesisRequest(), origin=ORIGIN, privacy=[])
    assert "No error is stated for shares of pressure, site." in body.statement
