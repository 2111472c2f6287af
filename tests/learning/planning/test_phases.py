from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.estimate.snr import DEFAULT_SIGNAL_ENERGY
from sfumato.learning.planning.candidates import SPLIT_MECHANISM, Candidate, predict_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.phases import (
    find_least_reports,
    list_phase_reports,
    predict_phase_reports,
)
from sfumato.learning.planning.planner import advise, find_smallest_epsilon
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.privacy import choose_law

PURE, ONE = Fraction(0), Fraction(1)
M = 500


def outline(**changes: Any) -> StudyOutline:
    known: dict[str, Any] = {
        "n_records": 10**6,
        "n_sketches": 10**6,
        "n_dimensions": 10,
        "n_clusters": 10,
    }
    return StudyOutline(**(known | changes))


def predict(study: StudyOutline, r: int = 1, epsilon: Fraction = ONE, m: int = M) -> Candidate:
    return predict_phase_reports(study, n_frequencies=m, n_reports=r, epsilon=epsilon)


def recommend(study: StudyOutline, epsilon: Fraction) -> Candidate:
    return advise(study, epsilon=epsilon, target_sse=1.2).recommended


@pytest.mark.parametrize(("r", "epsilon"), [(1, "1"), (1, "1/10"), (2, "6"), (5, "10")])
def test_the_snr_is_that_of_the_energy_of_a_report(r: int, epsilon: str) -> None:
    level, signal = Fraction(epsilon), DEFAULT_SIGNAL_ENERGY
    energy = choose_law(level, r).energy
    expected = signal * r * 10**6 / (M * (energy - signal))
    assert predict(outline(signal_energy=signal), r, level).snr == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("r", [1, 2, 5])
def test_sketch_bytes_and_the_shortest_selection_are_those_of_the_plan(r: int) -> None:
    candidate = predict(outline(), r)
    plan = plan_from_spec(
        {
            "dimensions": [{"name": "x", "unit": "1", "lower": 0, "upper": 1, "scale": 0.1}],
            "release": "phase.v1",
            "n_frequencies": M,
            "frequencies_per_sketch": r,
            "seed": "a study",
            "epsilon": "1",
            "window": {"kind": "time", "length_s": 3600},
        }
    )
    assert candidate.sketch_bytes == plan.payload_bytes == 2 * r
    assert candidate.shortest_selection == plan.blocks.n_blocks
    assert candidate.mechanism == plan.release.mechanism
    assert candidate.unit == plan.release.unit


@pytest.mark.parametrize("devices_differ", [False, True])
@pytest.mark.parametrize("epsilon", ["1/10", "3/10", "1", "2", "3", "4", "5", "6"])
def test_phase_reports_win_with_one_record_a_device_and_lose_from_two_on(
    epsilon: str, devices_differ: bool
) -> None:
    # So many devices that quality is neither lost nor all the same.
    level = Fraction(epsilon)
    n_devices = round(50_000 * min(200.0, choose_law(level).energy))
    for q, wins in ((1, True), (2, False), (3, False), (10, False)):
        study = outline(
            n_records=q * n_devices, n_sketches=n_devices, devices_differ=devices_differ
        )
        best = recommend(study, level)
        assert best.reports_phases == wins
        assert best.is_split


def predict_sums(study: StudyOutline, r: int, epsilon: Fraction) -> Candidate:
    return predict_candidate(
        study,
        mechanism=SPLIT_MECHANISM,
        n_frequencies=M,
        frequencies_per_sketch=r,
        epsilon=epsilon,
    )


@pytest.mark.parametrize(("epsilon", "r"), [("1", 1), ("5.8", 1), ("6", 2), ("10", 2), ("20", 5)])
def test_the_number_of_reports_of_a_record_follows_epsilon(epsilon: str, r: int) -> None:
    # Two halves of epsilon have less noise than one whole from 4.8 on, and from 5.9 on where the
    # energy of the signal, which every report has besides, is taken off.
    found = list_phase_reports(outline(), n_frequencies=M, epsilon=Fraction(epsilon))
    assert max(found, key=lambda candidate: candidate.snr).frequencies_per_sketch == r


@pytest.mark.parametrize("epsilon", ["1/10", "1", "6"])
def test_where_the_unit_is_a_device_phase_reports_win_whatever_its_records(epsilon: str) -> None:
    for n_records in (10**5, 10**8):
        study = outline(n_records=n_records, n_sketches=10**5, unit="device")
        best = recommend(study, Fraction(epsilon))
        assert best.reports_phases


def test_where_the_unit_is_a_device_a_sketch_counts_as_one_record() -> None:
    device, one = outline(n_records=10**8, unit="device"), outline(devices_differ=False)
    for r in (1, 5):
        mean, sketch = (predict_sums(study, r, ONE) for study in (device, one))
        assert (mean.unit, mean.snr) == ("device", sketch.snr)
        plan = plan_from_spec(
            {
                "dimensions": [{"name": "x", "unit": "1", "lower": 0, "upper": 1, "scale": 0.1}],
                "unit": "device",
                "n_frequencies": M,
                "frequencies_per_sketch": r,
                "seed": "a study",
                "epsilon": "1",
                "window": {"kind": "time", "length_s": 3600},
                "most_records": device.most_records,
            }
        )
        assert mean.sketch_bytes == plan.payload_bytes
    assert device.device_variance == 0.0


@pytest.mark.parametrize(
    "changes",
    [{"neighbouring": "add-remove-one"}, {"by_time": False}, {"n_sketches": 20}],
)
def test_phase_reports_are_no_candidates_where_a_plan_cannot_have_them(
    changes: dict[str, Any],
) -> None:
    study = outline(**changes)
    assert list_phase_reports(study, n_frequencies=M, epsilon=ONE) == ()
    advice = advise(study, epsilon=ONE, target_sse=1.2)
    assert not any(candidate.reports_phases for candidate in advice.candidates)
    with pytest.raises(PrivacyError):
        predict(study)


@given(
    st.sampled_from(["3/10", "1", "3", "6"]),
    st.sampled_from([1.15, 1.2, 1.5]),
    st.integers(1, 12),
    st.integers(1, 12),
)
@settings(max_examples=15)
def test_the_least_number_of_reports_suffices_and_one_less_does_not(
    epsilon: str, target: float, n_dimensions: int, n_clusters: int
) -> None:
    level = Fraction(epsilon)
    study = outline(n_dimensions=n_dimensions, n_clusters=n_clusters)
    least = find_least_reports(study, epsilon=level, target_sse=target)
    assert least is not None
    for size, suffices in ((least, True), (least - 1, False)):
        fleet = replace(study, n_records=max(1, size), n_sketches=max(1, size))
        assert suffices == any(
            candidate.band.reaches(target)
            for m in fleet.frequencies
            for candidate in list_phase_reports(fleet, n_frequencies=m, epsilon=level)
        )


def test_a_report_is_of_one_record_whatever_else_the_device_holds() -> None:
    one, many = (predict(outline(n_records=n)) for n in (10**6, 10**8))
    assert one == many
    assert predict(outline(devices_differ=False)) == one
    assert predict(outline(unit="device")) == one
    assert (one.unit, one.release, one.delta) == ("device", "phase.v1", PURE)


@pytest.mark.parametrize(("epsilon", "least"), [("1/10", 3), ("1", 3), ("2", 3), ("3", 4)])
def test_reports_of_each_record_in_a_window_of_its_own_lose_from_three_or_four_records_on(
    epsilon: str, least: int
) -> None:
    n_devices = 10**6
    for q in (2, 3, 4, 5):
        alike = outline(n_records=q * n_devices, n_sketches=n_devices, devices_differ=False)
        apart = replace(alike, n_sketches=q * n_devices)
        phases, sums = (
            max(candidate.snr for candidate in found)
            for found in (
                list_phase_reports(apart, n_frequencies=M, epsilon=Fraction(epsilon)),
                [predict_sums(alike, r, Fraction(epsilon)) for r in (1, 2, 4, 5, 10)],
            )
        )
        # At epsilon 3 they are alike at three records.
        assert (phases < 0.99 * sums) == (q >= least)
        assert q == 3 or phases != pytest.approx(sums, rel=0.01)


def test_few_devices_that_are_the_unit_send_means_of_many_features() -> None:
    # Twenty reports of at most eight features do not carry the two hundred that are needed.
    best = recommend(outline(n_records=10**6, n_sketches=20, unit="device"), Fraction(10))
    assert not best.reports_phases
    assert best.unit == "device"


def test_a_smallest_selection_and_the_range_of_a_report_limit_its_features() -> None:
    found = list_phase_reports(outline(smallest_selection=100), n_frequencies=M, epsilon=ONE)
    assert [candidate.frequencies_per_sketch for candidate in found] == [5]
    found = list_phase_reports(outline(), n_frequencies=M, epsilon=Fraction(30))
    assert [candidate.frequencies_per_sketch for candidate in found] == [5]
    assert not list_phase_reports(outline(), n_frequencies=M, epsilon=Fraction(1, 2000))


def test_phase_reports_are_among_the_candidates_only_of_those_m_where_they_are_best() -> None:
    advice = advise(outline(), epsilon=ONE, target_sse=1.2)
    phases = [candidate for candidate in advice.candidates if candidate.reports_phases]
    assert [candidate.n_frequencies for candidate in phases] == list(outline().frequencies)
    assert advice.recommended in phases
    two = advise(outline(n_records=2 * 10**6), epsilon=ONE, target_sse=1.2)
    assert not any(candidate.reports_phases for candidate in two.candidates)


def test_of_equal_bands_the_reports_of_the_highest_snr_are_chosen() -> None:
    study = outline(n_dimensions=2, n_clusters=5)
    assert recommend(study, ONE).frequencies_per_sketch == 1


def test_a_phase_report_is_the_smallest_sketch_where_bytes_are_scarce() -> None:
    study = outline(n_records=10**7, n_sketches=10**7, bytes_are_scarce=True)
    best = recommend(study, Fraction(3))
    assert (best.release, best.sketch_bytes) == ("phase.v1", 2)


def test_phase_reports_lower_the_smallest_epsilon() -> None:
    by_time, by_count = (
        find_smallest_epsilon(outline(by_time=by_time), target_sse=1.2) for by_time in (True, False)
    )
    assert by_time is not None
    assert by_count is not None
    assert by_time.reports_phases
    assert not by_count.reports_phases
    assert by_time.epsilon < by_count.epsilon


def test_no_number_of_reports_suffices_where_none_may_be_sent() -> None:
    assert find_least_reports(outline(by_time=False), epsilon=ONE, target_sse=1.2) is None


def test_650_thousand_phones_are_needed_for_ten_clusters_in_ten_dimensions() -> None:
    least = find_least_reports(outline(), epsilon=ONE, target_sse=1.2)
    assert least is not None
    assert 600_000 < least < 700_000
