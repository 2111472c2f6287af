"""Windows in time: false alarms at the stated rate, and changes at their place."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.learning.insight.changes import (
    compute_levels,
    find_begins,
    find_change_points,
    join_stretches,
    measure_usual_change,
    review,
    spend_levels,
    watch,
)
from sfumato.learning.insight.null_law import draw_errors
from sfumato.learning.insight.timeline import Timeline, follow
from sfumato.shared.errors import DecodingError
from tests.learning.insight.drawing import MIXTURE, Fleet, make_model, make_plan

N_WINDOWS = 12
GROWN = replace(MIXTURE, weights=np.array([0.35, 0.45, 0.2]))


def draw_year(fleet: Fleet, change_at: int = N_WINDOWS, n_sketches: int = 1) -> Timeline:
    selections = [
        fleet.draw(
            1000,
            n_sketches,
            mixture=GROWN if t >= change_at else MIXTURE,
            name=f"week {t}",
        )
        for t in range(N_WINDOWS)
    ]
    return follow(make_model(fleet.plan), selections)


def test_windows_without_a_change_are_told_apart_at_the_stated_rate() -> None:
    rng, fleet = np.random.default_rng(1), Fleet(make_plan(), 1)
    p_values, accepted, scans = [], [], []
    for _ in range(15):
        timeline = draw_year(fleet)
        levels = compute_levels(N_WINDOWS - 1, windows_per_year=12)
        p_values.append([reading.p for reading in watch(timeline, levels, rng=rng, n_years=499)])
        readings = watch(timeline, levels, rng=rng, references=[4, 8], n_years=499)
        accepted.append([reading.p for reading in readings])
        scans.append(bool(find_change_points(timeline, rng=rng, level=0.2, n_years=499)))
    # Seeded. 165 tests at 5 %: a standard error of 1.7 %; at 20 %, of 3.1 %; 15 scans, 10 %.
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.04)
    assert np.mean(np.array(p_values) < 0.2) == pytest.approx(0.2, abs=0.07)
    assert np.mean(scans) == pytest.approx(0.2, abs=0.16)
    # Accepted changes leave the number of false alarms as it is.
    assert np.mean(np.array(accepted) < 0.05) == pytest.approx(0.05, abs=0.04)
    assert np.mean(np.array(accepted) < 0.2) == pytest.approx(0.2, abs=0.07)
    # Prefixes are independent where nothing changes.
    logs = np.log(p_values)
    neighbours = np.corrcoef(logs[:, :-1].ravel(), logs[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 0.2


@pytest.mark.parametrize("changes", [{}, {"frequencies_per_sketch": 10}])
def test_a_change_is_found_at_its_window(changes: dict[str, int]) -> None:
    plan = make_plan(40, epsilon=Fraction(5), **changes)
    timeline = draw_year(Fleet(plan, 1), change_at=7, n_sketches=plan.blocks.n_blocks)
    rng = np.random.default_rng(1)
    (point,) = find_change_points(timeline, rng=rng)
    assert (point.place, point.window) == (7, "week 7")
    assert point.p < 1e-3
    assert point.size > 0.1
    readings = watch(timeline, compute_levels(N_WINDOWS - 1, windows_per_year=52), rng=rng)
    assert [r.window for r in readings if r.is_alarm][:1] == ["week 7"]
    assert "week 7" in [r.window for r in review(readings)]


def test_a_window_after_an_accepted_change_is_compared_with_those_since() -> None:
    assert find_begins(6, []) == [0, 0, 0, 0, 0]
    # The window of the change itself is compared with those before: the change is seen once.
    assert find_begins(6, [3]) == [0, 0, 0, 3, 3]
    assert find_begins(6, [3, 4, 9]) == [0, 0, 0, 3, 4]
    plan = make_plan(40, epsilon=Fraction(5))
    timeline = draw_year(Fleet(plan, 1), change_at=7)
    levels = compute_levels(N_WINDOWS - 1, windows_per_year=52)
    readings = watch(timeline, levels, rng=np.random.default_rng(1), references=[7])
    assert [each.window for each in readings if each.is_alarm] == ["week 7"]
    unaccepted = watch(timeline, levels, rng=np.random.default_rng(1))
    assert [each.window for each in unaccepted if each.is_alarm][:3] == [
        "week 7",
        "week 8",
        "week 9",
    ]


def test_where_windows_always_change_only_larger_changes_last() -> None:
    plan = make_plan(40, epsilon=Fraction(5))
    fleet = Fleet(plan, 1)
    steady = draw_year(fleet, change_at=7)
    assert measure_usual_change(steady) < 0.1
    # Two places to and fro, and far away from the ninth window on.
    moved = [replace(MIXTURE, means=MIXTURE.means + far) for far in (0.0, 0.5, 2.0, 2.5)]
    turning = follow(
        make_model(plan),
        [
            fleet.draw(1000, mixture=moved[t % 2 + 2 * (t >= 9)], name=f"week {t}")
            for t in range(N_WINDOWS)
        ],
    )
    usual = measure_usual_change(turning)
    assert usual > 0.3
    points = find_change_points(turning, rng=np.random.default_rng(1))
    assert len(points) > 1
    (kept,) = join_stretches(turning, points, smallest_shift=usual)
    assert kept.place == 9
    assert kept.size > usual
    assert measure_usual_change(turning.cut(0, 8)) == 0.0, "a few windows say little"


def test_windows_that_share_sketches_or_are_single_are_refused() -> None:
    fleet = Fleet(make_plan(), 1)
    window = fleet.draw(500, name="first")
    model = make_model(fleet.plan)
    with pytest.raises(DecodingError, match="at least 2"):
        follow(model, [window])
    timeline = follow(model, [window, fleet.draw(500)])
    with pytest.raises(DecodingError, match="levels: must be 1"):
        watch(timeline, spend_levels(2), rng=np.random.default_rng(1))
    with pytest.raises(DecodingError, match="share sketches"):
        follow(model, [window, fleet.draw(500), replace(window, name="again")])


def doubt(timeline: Timeline) -> Timeline:
    """Return the windows under a model that does not explain the sketches."""
    return replace(timeline, model=replace(timeline.model, is_fitted=False))


def test_windows_rest_on_all_features_only_where_sampling_matters_and_the_fit_does_not() -> None:
    weak, strong = (
        draw_year(Fleet(make_plan(40, epsilon=Fraction(epsilon)), 1)) for epsilon in (100, 1)
    )
    assert [each.is_directed for each in (weak, doubt(weak), strong, doubt(strong))] == [
        True,
        False,
        True,
        True,
    ]


def test_doubtful_windows_without_a_change_are_told_apart_at_the_stated_rate() -> None:
    rng, fleet = np.random.default_rng(1), Fleet(make_plan(40, epsilon=Fraction(100)), 1)
    p_values, scans = [], []
    for _ in range(15):
        timeline = doubt(draw_year(fleet))
        levels = compute_levels(N_WINDOWS - 1, windows_per_year=12)
        p_values += [reading.p for reading in watch(timeline, levels, rng=rng, n_years=499)]
        scans.append(bool(find_change_points(timeline, rng=rng, level=0.2, n_years=499)))
    # Seeded; standard errors as above.
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.04)
    assert np.mean(np.array(p_values) < 0.2) == pytest.approx(0.2, abs=0.07)
    assert np.mean(scans) == pytest.approx(0.2, abs=0.16)


def test_energies_of_simulated_windows_have_the_law_of_exact_errors() -> None:
    plan = make_plan(40, epsilon=Fraction(20))
    timeline = doubt(draw_year(Fleet(plan, 1)))
    assert not timeline.is_directed
    rng, contrasts = np.random.default_rng(1), timeline.contrast([0] * (len(timeline.windows) - 1))
    simulated = timeline.simulate(contrasts, rng=rng, n_years=4000)[:, 0, 0]
    errors = timeline.windows[0].errors + timeline.windows[1].errors
    exact = np.sum(draw_errors(timeline.model, errors, n_draws=4000, rng=rng) ** 2, axis=1)
    # Seeded; standard errors of 1 % to 2 % of the mean's, and 2 % to 4 % of the deviation's.
    assert np.mean(simulated) == pytest.approx(np.mean(exact), rel=0.05)
    assert np.std(simulated) == pytest.approx(np.std(exact), rel=0.15)


def test_two_changes_are_found_by_searching_again() -> None:
    plan = make_plan(40, epsilon=Fraction(5))
    fleet = Fleet(plan, 1)
    selections = [
        fleet.draw(1000, mixture=GROWN if 4 <= t < 9 else MIXTURE, name=str(t)) for t in range(12)
    ]
    timeline = follow(make_model(plan), selections)
    found = find_change_points(timeline, rng=np.random.default_rng(1))
    assert [point.place for point in found] == [4, 9]


def test_levels_keep_their_promise() -> None:
    assert compute_levels(3, windows_per_year=52).tolist() == [1 / 52] * 3
    assert compute_levels(1, windows_per_year=52, alarms_per_year=2.0)[0] == 1 / 26
    assert spend_levels(100_000, ever=0.05).sum() == pytest.approx(0.05, rel=1e-4)
    with pytest.raises(DecodingError, match="alarms_per_year"):
        compute_levels(3, windows_per_year=52, alarms_per_year=52.0)


def test_a_doubtful_change_is_found_at_its_window() -> None:
    plan = make_plan(40, epsilon=Fraction(100))
    timeline = doubt(draw_year(Fleet(plan, 1), change_at=7))
    assert not timeline.is_directed
    (point,) = find_change_points(timeline, rng=np.random.default_rng(1))
    assert point.place == 7
