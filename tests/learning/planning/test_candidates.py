from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.planning import candidates
from sfumato.learning.planning.candidates import (
    Candidate,
    choose_candidate,
    predict_candidate,
    predict_splits,
)
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.privacy import MECHANISMS

KNORM = "discrete-knorm"
M = 300
outlines = st.builds(
    StudyOutline,
    n_records=st.integers(100_000, 10**8),
    n_sketches=st.integers(1, 100_000),
    n_dimensions=st.just(10),
    n_clusters=st.just(10),
    neighbouring=st.sampled_from(["replace-one", "add-remove-one"]),
    devices_differ=st.booleans(),
)
epsilons = st.fractions(Fraction(1, 100), 10, max_denominator=1000)
frequencies = st.sampled_from([200, 300, 504, 509])  # many divisors, and a prime


def outline(**changes: Any) -> StudyOutline:
    known: dict[str, Any] = {
        "n_records": 10**6,
        "n_sketches": 1000,
        "n_dimensions": 10,
        "n_clusters": 10,
        "devices_differ": False,
    }
    return StudyOutline(**(known | changes))


def predict(study: StudyOutline, r: int, epsilon: Fraction, m: int = M, **more: Any) -> Candidate:
    return predict_candidate(
        study,
        mechanism=more.pop("mechanism", KNORM),
        n_frequencies=m,
        frequencies_per_sketch=r,
        epsilon=epsilon,
        **more,
    )


def compute_cost(n_sketches: int, r: int, neighbouring: str) -> float:
    """The noise of L sketches of r features over that of one sketch of all, where it dominates."""
    study = outline(neighbouring=neighbouring, n_sketches=n_sketches)
    one = outline(neighbouring=neighbouring, n_sketches=1)
    epsilon = Fraction(1, 10_000)
    return predict(one, M, epsilon).snr / predict(study, r, epsilon).snr


@pytest.mark.parametrize("n_sketches", [1, 2, 10, 50, 100, 300])
def test_sketches_of_m_over_l_features_cost_little_more_than_one_sketch_of_all(
    n_sketches: int,
) -> None:
    m, q = M, n_sketches / M
    cost = compute_cost(n_sketches, M // n_sketches, "replace-one")
    exact = (m + n_sketches) * (m + n_sketches / 2) / ((m + 1) * (m + 1 / 2))
    assert cost == pytest.approx(exact, rel=1e-3)
    assert cost == pytest.approx(1 + 1.5 * q + 0.5 * q**2, rel=2 / m)
    # A secret number of records raises it, because every sketch sends one.
    secret = compute_cost(n_sketches, M // n_sketches, "add-remove-one")
    other = (m + n_sketches) * (m + 3 * n_sketches / 2) / ((m + 1) * (m + 3 / 2))
    assert secret == pytest.approx(other, rel=1e-3)
    assert secret == pytest.approx(1 + 2.5 * q + 1.5 * q**2, rel=3 / m)
    # The two forms differ by far more than what is allowed: neither passes for the other.
    assert n_sketches < 10 or secret != pytest.approx(exact, rel=1e-2)


def test_devices_that_differ_make_sketches_of_few_features_worse() -> None:
    def find_best(*, devices_differ: bool) -> Candidate:
        study = outline(devices_differ=devices_differ)
        splits = predict_splits(study, n_frequencies=M, epsilon=Fraction(1, 10))
        return max(splits, key=lambda candidate: candidate.snr)

    assert find_best(devices_differ=False).frequencies_per_sketch <= 2
    assert 12 <= find_best(devices_differ=True).frequencies_per_sketch <= 30
    one, other = (
        predict(outline(devices_differ=differ, signal_energy=0.35), 1, Fraction(1, 10))
        for differ in (False, True)
    )
    # 0.3 (m / r - 1) / L, up to the tenth that 1,000 sketches for 300 features are uneven.
    added = 0.35 / other.snr - 0.35 / one.snr
    assert added == pytest.approx(0.3 * 299 / 1000, rel=0.03)
    assert added >= 0.3 * 299 / 1000


@given(outlines, frequencies, epsilons)
@settings(max_examples=40)
def test_the_search_misses_no_small_sketch_that_is_better(
    study: StudyOutline, m: int, epsilon: Fraction
) -> None:
    whole = predict(study, m, epsilon, m=m).snr
    found = list(predict_splits(study, n_frequencies=m, epsilon=epsilon, least_snr=whole))
    allowed = [r for r in range(1, m) if m % r == 0 and study.n_sketches * r >= m]
    every = [predict(study, r, epsilon, m=m) for r in allowed]
    best = max([whole, *(candidate.snr for candidate in every)])
    assert best == max([whole, *(candidate.snr for candidate in found)])
    # What it left out has fewer features than all that it found, and is no better.
    left = [candidate for candidate in every if candidate not in found]
    assert found == every[len(left) :][::-1]


@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("r", [1, 20, M])
def test_sketch_bytes_are_those_of_the_plan(r: int, neighbouring: str) -> None:
    study = outline(neighbouring=neighbouring)
    for mechanism in MECHANISMS:
        delta = Fraction(1, 10**6) if mechanism == "discrete-gaussian" else Fraction(0)
        candidate = predict(study, r, Fraction(1, 10), mechanism=mechanism, delta=delta)
        plan = plan_from_spec(
            {
                "dimensions": [{"name": "x", "unit": "1", "lower": 0, "upper": 1, "scale": 0.1}],
                "n_frequencies": M,
                "frequencies_per_sketch": r,
                "seed": "a study",
                "epsilon": "1/10",
                "delta": str(delta),
                "mechanism": mechanism,
                "neighbouring": neighbouring,
                "window": {"kind": "time", "origin": 3600, "length_s": 3600},
                "most_records": study.most_records,
            }
        )
        assert candidate.sketch_bytes == plan.payload_bytes
        assert candidate.shortest_selection == plan.blocks.n_blocks


def test_among_equals_the_shortest_selection_is_chosen_and_where_bytes_are_scarce_the_least_r() -> (
    None
):
    study = outline(n_records=10**8)
    found = [predict(study, r, Fraction(10)) for r in (M, 100, 20, 4, 1)]
    highs = [candidate.band.high for candidate in found]
    assert max(highs) - min(highs) < 0.005
    assert choose_candidate(found, 1.2).frequencies_per_sketch == M
    assert choose_candidate(found[1:], 1.2).frequencies_per_sketch == 100
    assert choose_candidate(found, 1.2, bytes_are_scarce=True).frequencies_per_sketch == 1


def test_beyond_m_sketches_the_cost_is_three_or_five_for_every_m() -> None:
    for n_sketches in (3000, 30_000):
        q = n_sketches / M
        assert compute_cost(n_sketches, 1, "replace-one") == pytest.approx(3 * q, rel=2 / M)
        assert compute_cost(n_sketches, 1, "add-remove-one") == pytest.approx(5 * q, rel=3 / M)
        # Sketches of all features cost as many times the noise of one.
        assert compute_cost(n_sketches, M, "replace-one") == pytest.approx(n_sketches, rel=1e-3)


def test_gaussian_noise_gains_nothing_from_small_sketches() -> None:
    study, delta = outline(n_sketches=3000), Fraction(1, 10**6)
    snrs = [
        predict(study, r, Fraction(1, 100), mechanism="discrete-gaussian", delta=delta).snr
        for r in (1, 20, M)
    ]
    assert max(snrs) == pytest.approx(min(snrs), rel=0.01)


def test_where_few_devices_rule_small_sketches_out_nothing_is_calibrated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = outline(n_sketches=12, devices_differ=True)
    whole = predict(study, M, Fraction(1))
    calibrated: list[Any] = []
    monkeypatch.setattr(candidates, "_calibrate", calibrated.append)
    assert not list(
        predict_splits(study, n_frequencies=M, epsilon=Fraction(1), least_snr=whole.snr)
    )
    assert not calibrated


def test_small_sketches_that_break_a_rule_are_refused() -> None:
    masks = {"mechanism": "discrete-laplace", "measurements_per_record": 30}
    refused: list[tuple[dict[str, Any], int, dict[str, Any], str]] = [
        *(({}, r, {}, "must be a divisor of n_frequencies") for r in (7, 0, 600)),
        ({"smallest_selection": 14}, 20, {}, "at least 22, so that the smallest selection"),
        ({"n_sketches": 14}, 20, {}, "at least 22, so that the smallest selection"),
        ({}, 20, masks, "with masks for each record"),
    ]
    for changes, r, more, words in refused:
        with pytest.raises(PrivacyError, match=words) as refusal:
            predict(outline(**changes), r, Fraction(1), **more)
        assert refusal.value.field == "frequencies_per_sketch"
    assert predict(outline(smallest_selection=15), 20, Fraction(1)).shortest_selection == 15
