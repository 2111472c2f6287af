from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.estimate.snr import predict_mechanism_snr
from sfumato.learning.planning.candidates import predict_candidate
from sfumato.learning.planning.outline import (
    FEATURES_PER_PARAMETER,
    LARGEST_FREQUENCIES,
    POSSIBLE_CLUSTERS,
    StudyOutline,
)
from sfumato.learning.planning.planner import (
    Advice,
    advise,
    find_smallest_epsilon,
)
from sfumato.learning.planning.quality import predict_relative_sse
from sfumato.shared.errors import PlanError, PrivacyError
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.privacy import (
    MECHANISMS,
    FourierShape,
    PrivacyTarget,
    calibrate_mechanism,
    certify_odds,
    choose_law,
)

PURE = Fraction(0)
DELTA = Fraction(1, 10**6)

outlines = st.builds(
    StudyOutline,
    n_records=st.integers(10_000, 10**8),
    n_sketches=st.integers(1, 10_000),
    n_dimensions=st.integers(1, 12),
    n_clusters=st.integers(1, 12),
)
epsilons = st.fractions(Fraction(1, 50), 20, max_denominator=1000)
deltas = st.sampled_from([PURE, DELTA])
targets = st.floats(1.03, 2.0)


def outline(**changes: Any) -> StudyOutline:
    known = {"n_records": 26_115, "n_sketches": 12, "n_dimensions": 4, "n_clusters": 5}
    return StudyOutline(**(known | changes))


def advise_on(study: StudyOutline, epsilon: Fraction, delta: Fraction, target: float) -> Advice:
    return advise(study, epsilon=epsilon, delta=delta, target_sse=target)


@given(outlines, epsilons, deltas, targets)
@settings(max_examples=8)
def test_the_best_that_can_be_calibrated_is_recommended_or_where_bytes_are_scarce_the_least(
    study: StudyOutline, epsilon: Fraction, delta: Fraction, target: float
) -> None:
    advice = advise_on(study, epsilon, delta, target)
    best = advice.recommended
    if best.reports_phases:
        certify_odds(choose_law(epsilon, r := best.frequencies_per_sketch), epsilon, r)
    else:
        shape = FourierShape(
            n_frequencies=best.frequencies_per_sketch,
            measurements_per_record=best.frequencies_per_sketch,
        )
        noise = calibrate_mechanism(
            PrivacyTarget(
                mechanism=best.mechanism,
                shape=shape,
                epsilon=best.epsilon,
                delta=best.delta,
                neighbouring="replace-one",
            )
        )
        assert noise.guarantee.epsilon <= epsilon
        assert noise.guarantee.delta <= delta
    reaching = [c for c in advice.candidates if not c.has_masks and c.band.reaches(target)]
    assert advice.meets_target == bool(reaching)
    if not reaching:
        assert best.band.high == min(c.band.high for c in advice.candidates)
        return
    least = min(c.band.high for c in reaching) + 0.005
    assert best.band.high <= least
    assert best.delta == min(c.delta for c in reaching if c.band.high <= least)
    rivals = [c for c in reaching if c.delta == min(c.delta for c in reaching)]
    scarce = advise_on(replace(study, bytes_are_scarce=True), epsilon, delta, target).recommended
    assert scarce.sketch_bytes <= min(c.sketch_bytes for c in rivals)


@given(outlines, epsilons, epsilons, deltas, st.sampled_from([1.05, 1.1, 1.3]))
@settings(max_examples=5)
def test_quality_never_falls_as_epsilon_grows(
    study: StudyOutline, one: Fraction, other: Fraction, delta: Fraction, target: float
) -> None:
    less, more = (
        advise_on(study, epsilon, delta, target).recommended.band.high
        for epsilon in sorted((one, other))
    )
    assert more <= less + 0.005


def test_a_plan_for_many_clusters_supports_fewer_and_its_range_is_where_the_band_ends() -> None:
    found = advise_on(outline(n_records=10**6, n_clusters=10), Fraction(1), PURE, 1.1)
    best, supported = found.recommended, found.cluster_range
    assert supported.within_target >= 10
    for k, reaches in ((1, True), (supported.within_target, True), (10**3, False)):
        band = predict_relative_sse(
            snr=best.snr, n_frequencies=best.n_frequencies, n_clusters=k, n_dimensions=4
        )
        assert band.reaches(1.1) == reaches
    beyond = predict_relative_sse(
        snr=best.snr,
        n_frequencies=best.n_frequencies,
        n_clusters=supported.at_most + 1,
        n_dimensions=4,
    )
    assert beyond.high == float("inf")


def test_an_unknown_number_of_clusters_is_planned_for_as_high_as_the_budget_allows() -> None:
    def plan(n_records: int) -> int:
        study = outline(n_records=n_records)
        advice = advise(study, epsilon=Fraction(1), target_sse=1.1, knows_clusters=False)
        planned = advice.outline.n_clusters
        assert advice.meets_target or planned == min(POSSIBLE_CLUSTERS)
        return planned

    assert plan(10**7) == max(POSSIBLE_CLUSTERS)
    assert min(POSSIBLE_CLUSTERS) < plan(120_000) < max(POSSIBLE_CLUSTERS)
    assert plan(1000) == min(POSSIBLE_CLUSTERS)


@given(outlines, st.sampled_from([PURE, DELTA]), st.sampled_from([1.08, 1.1, 1.3]))
@settings(max_examples=2)
def test_the_smallest_epsilon_suffices_and_a_tenth_less_does_not(
    study: StudyOutline, delta: Fraction, target: float
) -> None:
    best = find_smallest_epsilon(study, delta=delta, target_sse=target)
    if best is None:
        assert not advise_on(study, Fraction(100), delta, target).meets_target
        return
    assert best.band.reaches(target)
    assert advise_on(study, best.epsilon, delta, target).recommended == best
    if best.epsilon > Fraction(1, 10**6):
        assert not reaches(study, best.epsilon * Fraction(9, 10), delta, target)


def reaches(study: StudyOutline, epsilon: Fraction, delta: Fraction, target: float) -> bool:
    try:
        return advise_on(study, epsilon, delta, target).meets_target
    except PrivacyError:
        return False


@given(
    st.sampled_from(list(MECHANISMS)),
    st.sampled_from([2, 5, 10]),
    epsilons,
    st.integers(10_000, 10**7),
)
@settings(max_examples=40)
def test_snr_rises_with_epsilon_and_records_and_the_band_falls(
    mechanism: str, factor: int, epsilon: Fraction, n_records: int
) -> None:
    def predict(records: int, level: Fraction) -> Any:
        return predict_candidate(
            outline(n_records=records),
            mechanism=mechanism,
            n_frequencies=20 * factor,
            epsilon=level,
            delta=DELTA,
        )

    base = predict(n_records, epsilon)
    for better in (predict(2 * n_records, epsilon), predict(n_records, epsilon * Fraction(11, 10))):
        assert better.snr > base.snr
        assert better.band.low <= base.band.low
        assert better.band.high <= base.band.high


def test_a_delta_is_used_by_the_gaussian_alone_and_without_one_it_is_no_candidate() -> None:
    pure = advise_on(outline(), Fraction(1), PURE, 1.1)
    assert {c.mechanism for c in pure.candidates} == {"discrete-knorm", "discrete-laplace"}
    both = advise_on(outline(), Fraction(1), DELTA, 1.1)
    assert {c.mechanism for c in both.candidates if c.delta} == {"discrete-gaussian"}


def test_one_sketch_carries_every_frequency_as_do_gaussian_noise_and_few_devices() -> None:
    one = outline(n_sketches=1, devices_differ=False)
    assert not any(c.is_split for c in advise_on(one, Fraction(1), DELTA, 1.1).candidates)
    assert not advise_on(outline(), Fraction(1), DELTA, 1.1).recommended.is_split
    fleet = outline(n_records=10**6, n_sketches=1000)
    found = advise_on(fleet, Fraction(1, 10), DELTA, 1.1).candidates
    split = {candidate.mechanism for candidate in found if candidate.is_split}
    assert split == {"discrete-knorm"}


def test_small_sketches_of_pure_epsilon_are_said_to_surpass_a_delta_where_they_do() -> None:
    fleet = outline(
        n_records=10**6, n_sketches=1000, n_dimensions=10, n_clusters=10, devices_differ=False
    )
    advice = advise_on(fleet, Fraction(1, 10), DELTA, 1.1)
    other = advice.surpassed
    assert other is not None
    assert other.mechanism == "discrete-gaussian"
    assert other.band.high > advice.recommended.band.high
    # Where devices differ, Gaussian noise is better; and without a delta, or without small
    # sketches, there is nothing to compare.
    for study, delta in ((replace(fleet, devices_differ=True), DELTA), (fleet, PURE)):
        assert advise_on(study, Fraction(1, 10), delta, 1.1).surpassed is None
    assert advise_on(outline(), Fraction(1), DELTA, 1.1).surpassed is None


def test_the_smallest_selection_that_is_wanted_can_be_decoded() -> None:
    fleet = outline(n_records=10**6, n_sketches=1000, n_dimensions=10, n_clusters=10)
    for smallest in (1, 7, 30, 1000):
        advice = advise_on(
            replace(fleet, smallest_selection=smallest, devices_differ=False),
            Fraction(1, 10),
            PURE,
            1.1,
        )
        assert all(c.shortest_selection <= smallest for c in advice.candidates)
        assert advice.recommended.is_split == (smallest > 1)


def test_candidates_that_cannot_be_calibrated_are_left_out_with_their_reason() -> None:
    # K-norm noise is too coarse above 273, the Gaussian's bound ends at 100.
    advice = advise_on(outline(), Fraction(1000), DELTA, 1.1)
    assert {c.mechanism for c in advice.candidates} == {"discrete-laplace"}
    refused = {refusal.mechanism for refusal in advice.refusals}
    assert refused == {"discrete-knorm", "discrete-gaussian"}
    assert all(refusal.error.field == "epsilon" for refusal in advice.refusals)


def make_spec() -> dict[str, Any]:
    return {
        "dimensions": [
            {"name": str(i), "unit": "1", "lower": 0, "upper": 1, "scale": 0.1} for i in range(4)
        ],
        "n_frequencies": 20,
        "seed": "a study",
        "epsilon": "1",
        "window": {"kind": "time", "length_s": 3600},
        "most_records": 1000,
    }


def test_snr_counts_what_hiding_presence_adds() -> None:
    study = outline(neighbouring="add-remove-one")
    for candidate in advise_on(study, Fraction(1), DELTA, 1.1).candidates:
        plan = plan_from_spec(
            make_spec()
            | {
                "n_frequencies": candidate.n_frequencies,
                "frequencies_per_sketch": candidate.frequencies_per_sketch,
                "delta": str(candidate.delta),
                "mechanism": candidate.mechanism,
                "most_records": study.most_records,
                "neighbouring": "add-remove-one",
                "window": {"kind": "time", "origin": 3600, "length_s": 3600},
            }
        )
        snr = predict_mechanism_snr(
            plan.mechanism,
            n_sketches=study.n_sketches,
            n_records=study.n_records,
            count_variance=0.0,
            signal_energy=candidate.prediction.signal_energy,
        )
        share = study.n_sketches * plan.count_variance / study.n_records**2
        assert 1 / candidate.snr - 1 / snr == pytest.approx(share, rel=1e-6)


OUTLINES: list[tuple[dict[str, Any], str]] = [
    ({"n_records": 0}, "n_records"),
    ({"n_sketches": 0}, "n_sketches"),
    ({"n_dimensions": 0}, "n_dimensions"),
    ({"n_clusters": -1}, "n_clusters"),
    ({"mask_groups": 0}, "mask_groups"),
    ({"neighbouring": "bounded"}, "neighbouring"),
    ({"n_records": 11}, "n_records"),
    ({"n_clusters": 1 << 20}, "n_clusters"),
    ({"smallest_selection": 0}, "smallest_selection"),
    ({"smallest_selection": 13}, "smallest_selection"),
    ({"signal_energy": 0.0}, "signal_energy"),
    ({"signal_energy": float("nan")}, "signal_energy"),
    ({"unit": "person"}, "unit"),
    ({"unit": "device", "neighbouring": "add-remove-one"}, "neighbouring"),
    ({"unit": "device", "by_time": False}, "by_time"),
    ({"unit": "device", "mask_groups": 2}, "mask_groups"),
]
BUDGETS: list[tuple[Any, Any, float, str]] = [
    (Fraction(0), PURE, 1.1, "epsilon"),
    (Fraction(-1), PURE, 1.1, "epsilon"),
    (0.1, PURE, 1.1, "epsilon"),
    (Fraction(1), Fraction(1), 1.1, "delta"),
    (Fraction(1), Fraction(-1, 2), 1.1, "delta"),
    (Fraction(1), 1e-6, 1.1, "delta"),
    (Fraction(1), PURE, 1.0, "target_sse"),
    (Fraction(1), PURE, float("nan"), "target_sse"),
]


def test_an_outline_budget_or_target_that_breaks_a_rule_is_refused_by_field() -> None:
    for change, field in OUTLINES:
        with pytest.raises(PrivacyError) as refusal:
            outline(**change)
        assert refusal.value.field == field, change
        assert refusal.value.fix
    for epsilon, delta, target, field in BUDGETS:
        with pytest.raises(PrivacyError) as refusal:
            advise_on(outline(), epsilon, delta, target)
        assert refusal.value.field == field, (epsilon, delta, target)
    assert find_smallest_epsilon(outline(), target_sse=1.001) is None


def test_weak_noise_gets_ten_features_a_parameter_and_a_tail_and_less_noise_five() -> None:
    best = advise_on(outline(n_records=10**7), Fraction(10), PURE, 1.3).recommended
    assert best.band.features_per_parameter == 10.0
    assert best.law_choice.law.tail_share
    # Weather at epsilon 1, where a tail in five features cost a hundredth of the SSE.
    weather = advise_on(outline(n_sketches=1), Fraction(1), PURE, 1.3).recommended
    assert weather.band.features_per_parameter == 5.0
    assert not weather.law_choice.law.tail_share


def test_the_smallest_epsilon_is_an_exact_number_of_three_digits() -> None:
    best = find_smallest_epsilon(outline(), target_sse=1.1)
    assert best is not None
    epsilon = best.epsilon
    assert epsilon * 1000 == int(epsilon * 1000)
    assert Fraction(1, 10) <= epsilon < 1


def test_pure_noise_favours_few_frequencies_and_gaussian_noise_does_not_care() -> None:
    advice = advise_on(outline(n_records=30_000, n_sketches=1000), Fraction(1), DELTA, 1.05)

    def spread(mechanism: str) -> list[float]:
        return [
            c.band.snr_per_parameter
            for c in advice.candidates
            if c.mechanism == mechanism and not c.is_split
        ]

    knorm, gaussian = spread("discrete-knorm"), spread("discrete-gaussian")
    # Where noise dominates, x = SNR m / (k d) falls as 1 / m with the one, not with the other.
    assert knorm[0] / knorm[-1] == pytest.approx(
        FEATURES_PER_PARAMETER[-1] / FEATURES_PER_PARAMETER[0], rel=0.1
    )
    assert max(gaussian) / min(gaussian) < 1.01


def test_pure_epsilon_is_preferred_where_it_is_as_good() -> None:
    assert advise_on(outline(), Fraction(20), DELTA, 1.1).recommended.delta == 0
    assert advise_on(outline(), Fraction(1, 2), DELTA, 1.1).recommended.delta == DELTA


def test_masks_come_with_laplace_only_and_are_never_recommended() -> None:
    advice = advise_on(outline(mask_groups=10), Fraction(1), DELTA, 1.1)
    masked = [candidate for candidate in advice.candidates if candidate.has_masks]
    assert masked
    assert {candidate.mechanism for candidate in masked} == {"discrete-laplace"}
    assert not advice.recommended.has_masks
    for candidate in masked:
        dense = next(
            c
            for c in advice.candidates
            if (c.mechanism, c.n_frequencies, c.has_masks)
            == ("discrete-laplace", candidate.n_frequencies, False)
        )
        assert candidate.snr < dense.snr


def test_a_large_fleet_is_advised_to_send_small_sketches() -> None:
    fleet = outline(n_records=10**6, n_sketches=1000, n_dimensions=10, n_clusters=10)
    differ = advise_on(fleet, Fraction(1, 10), PURE, 1.5).recommended
    alike = advise_on(replace(fleet, devices_differ=False), Fraction(1, 10), PURE, 1.1).recommended
    assert (differ.n_frequencies, differ.frequencies_per_sketch) == (500, 20)
    assert (alike.n_frequencies, alike.frequencies_per_sketch) == (500, 2)
    assert differ.band.reaches(1.5)
    assert alike.band.reaches(1.1)
    for best in (differ, alike):
        assert best.shortest_selection * best.frequencies_per_sketch == best.n_frequencies


def test_a_budget_that_no_mechanism_can_keep_is_refused() -> None:
    with pytest.raises(PrivacyError, match="epsilon: is so small"):
        advise_on(outline(), Fraction(1, 10**15), PURE, 1.1)


def test_hiding_presence_needs_no_record_in_every_sketch_and_takes_no_masks() -> None:
    study = outline(neighbouring="add-remove-one", n_records=5, mask_groups=2)
    advice = advise_on(study, Fraction(1), PURE, 1.1)
    assert not any(candidate.has_masks for candidate in advice.candidates)
    assert {refusal.error.field for refusal in advice.refusals} == {"measurements_per_record"}


def test_no_candidate_has_more_frequencies_than_a_plan_may() -> None:
    assert max(outline(n_dimensions=1000, n_clusters=300).frequencies) <= LARGEST_FREQUENCIES
    with pytest.raises(
        PlanError, match=f"n_frequencies: must be between 1 and {LARGEST_FREQUENCIES}"
    ):
        plan_from_spec(make_spec() | {"n_frequencies": LARGEST_FREQUENCIES + 1})
