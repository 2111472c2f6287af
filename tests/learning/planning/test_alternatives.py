from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from sfumato.learning.planning.alternatives import FLEET_SIZES, FleetForecast, forecast_fleets
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise


def outline(**changes: Any) -> StudyOutline:
    known: dict[str, Any] = {
        "n_records": 10**6,
        "n_sketches": 1000,
        "n_dimensions": 10,
        "n_clusters": 10,
    }
    return StudyOutline(**(known | changes))


def forecast(study: StudyOutline, epsilon: Fraction) -> tuple[FleetForecast, ...]:
    return forecast_fleets(advise(study, epsilon=epsilon, target_sse=1.2))


@pytest.mark.parametrize("devices_differ", [False, True])
def test_more_sketches_never_help_and_small_sketches_never_harm(devices_differ: bool) -> None:
    study = outline(devices_differ=devices_differ)
    fleets = forecast(study, Fraction(1, 10))
    assert [fleet.n_sketches for fleet in fleets] == list(FLEET_SIZES)
    for fleet in fleets:
        assert fleet.whole is not None
        assert not fleet.whole.is_split
        if not fleet.chosen.reports_phases:
            assert fleet.chosen.mechanism == fleet.whole.mechanism
        if fleet.chosen.is_split:
            assert fleet.chosen.band.high <= fleet.whole.band.high
    highs = [fleet.chosen.band.high for fleet in fleets]
    # Up to what counts as equal.
    assert all(one <= other + 0.01 for one, other in pairwise(highs))
    assert not fleets[0].chosen.is_split
    assert fleets[4].chosen.is_split
    # A record a sketch: the last fleet alone sends phase reports.
    assert [fleet.chosen.reports_phases for fleet in fleets] == [False] * 6 + [True]


def test_there_are_at_most_as_many_sketches_as_records() -> None:
    fleets = forecast(outline(n_records=5000), Fraction(1))
    assert [fleet.n_sketches for fleet in fleets] == [1, 10, 100, 1000]


def test_the_smallest_selection_limits_how_small_sketches_become() -> None:
    study = outline(smallest_selection=50, devices_differ=False)
    for fleet in forecast(study, Fraction(1, 10)):
        assert fleet.chosen.shortest_selection <= min(50, fleet.n_sketches)


def test_sizes_whose_sums_would_not_fit_are_left_out() -> None:
    fleets = forecast(outline(n_records=10**15), Fraction(1))
    assert [fleet.n_sketches for fleet in fleets] == list(FLEET_SIZES[1:])
