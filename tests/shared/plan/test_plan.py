import copy
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core import FourierStatistic, MaskSchedule, SketchAccumulator
from sfumato.shared.errors import (
    MalformedMessageError,
    PlanError,
    PlanMismatchError,
    SketchError,
    UnsupportedVersionError,
)
from sfumato.shared.plan import (
    SketchPlan,
    compute_plan_digest,
    decode_plan,
    encode_plan,
    make_statement,
    plan_from_json,
    plan_from_spec,
    plan_to_json,
)
from tests.shared.refusals import list_wrong_refusals

SPEC: dict[str, Any] = {
    "dimensions": [
        {"name": "temperature", "unit": "degF", "lower": -10.0, "upper": 110.0, "scale": 8.0},
        {"name": "wind", "unit": "mph", "lower": 0, "upper": 50, "scale": 3},
    ],
    "n_frequencies": 20,
    "seed": "a study of weather",
    "epsilon": "1",
    "window": {"kind": "time", "origin": 0, "length_s": 3600},
    "most_records": 5000,
    "labels": [{"name": "site", "values": ["north", "south"]}],
}
WIDE = [{"name": f"x{i}", "unit": "1", "lower": 0.0, "upper": 1.0, "scale": 0.1} for i in range(17)]

BY_TIMES = "leave-out-outside"
BOUNDED = {"kind": "time", "origin": 7200, "length_s": 3600}


def make(**changes: Any) -> SketchPlan:
    return plan_from_spec({**SPEC, **changes})


@pytest.mark.parametrize(
    ("missing", "is_sketchable"), [(None, [1, 1, 0, 0, 0, 0, 0]), ("a", [1, 1, 1, 1, 1, 1, 0])]
)
def test_a_number_that_is_no_level_is_missing(
    missing: str | None, is_sketchable: list[int]
) -> None:
    category = {"name": "kind", "unit": "1", "levels": ["a", "b"]}
    if missing is not None:
        category["missing"] = missing
    plan = make(dimensions=[SPEC["dimensions"][0], category])
    records = np.array([[1.0, level] for level in (0, 1, 2, -1, 0.5, np.nan, 0)])
    records[-1, 0] = np.inf
    assert plan.find_sketchable(records).tolist() == is_sketchable
    accumulator = SketchAccumulator(plan.statistic_of(b""))
    accumulator.add(records)
    assert accumulator.n_unsketchable == is_sketchable.count(0)


def test_bytes_and_json_carry_the_plan_exactly() -> None:
    plan = make(epsilon="1/3", measurements_per_record=5)
    assert decode_plan(encode_plan(plan)) == plan
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan
    assert compute_plan_digest(plan_from_json(plan_to_json(plan))) == compute_plan_digest(plan)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": "2"},
        {"seed": "another"},
        {"n_frequencies": 21},
        {"measurements_per_record": 10},
        {"most_records": 5001},
        {"least_records": 2},
        {"max_records_per_person": 24},
        {"window": {"kind": "time", "origin": 0, "length_s": 3601}},
        {"radius_law": {"kind": "adapted", "sigma_low": 1.0, "sigma_high": 2.0}},
        {"labels": []},
        {
            "neighbouring": "add-remove-one",
            "window": {"kind": "time", "origin": 3600, "length_s": 3600},
        },
    ],
)
def test_every_choice_changes_the_digest(change: dict[str, Any]) -> None:
    assert compute_plan_digest(make(**change)) != compute_plan_digest(make())


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "discrete-knorm"])
@given(epsilon=st.decimals("0.001", "50", places=4))
def test_the_scale_suffices_for_epsilon_in_whole_numbers(mechanism: str, epsilon: Any) -> None:
    plan = make(epsilon=str(epsilon), mechanism=mechanism)
    release = plan.release
    assert release.epsilon == Fraction(epsilon)
    num, den = release.scale.numerator, release.scale.denominator
    e_num, e_den = release.epsilon.numerator, release.epsilon.denominator
    assert num * e_num >= plan.sensitivity.value * e_den * den


def test_the_mechanism_is_the_best_that_the_other_choices_allow() -> None:
    assert make().release.mechanism == "discrete-knorm"
    assert make(measurements_per_record=5).release.mechanism == "discrete-laplace"
    assert make(delta="1e-9").release.mechanism == "discrete-gaussian"
    assert make(delta="1e-9").mechanism.guarantee.delta == Fraction(1, 10**9)
    assert make(mechanism="discrete-laplace").release.mechanism == "discrete-laplace"


def test_a_combination_that_is_wrong_or_wasteful_is_refused_with_the_reason() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"mechanism": "discrete-knorm", "measurements_per_record": 5}, "measurements_per_record"),
        (
            {"mechanism": "discrete-gaussian", "delta": "1e-6", "measurements_per_record": 5},
            "measurements_per_record",
        ),
        ({"mechanism": "discrete-knorm", "delta": "1e-6"}, "delta"),
        ({"mechanism": "discrete-laplace", "delta": "1e-6"}, "delta"),
        ({"mechanism": "discrete-gaussian"}, "delta"),
        ({"mechanism": "gaussian"}, "mechanism"),
        ({"delta": "1"}, "delta"),
        ({"delta": "-1e-6"}, "delta"),
        ({"delta": 1e-6}, "delta"),
    ]
    assert list_wrong_refusals(make, cases) == []


PRESENCE: dict[str, Any] = {
    "neighbouring": "add-remove-one",
    "window": {"kind": "time", "origin": 1_700_000_000, "length_s": 3600},
}


def test_hiding_presence_allows_no_window_minimum_or_mask_that_would_tell_it() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"window": {"kind": "count", "length": 100}}, "window.kind"),
        ({"window": {"kind": "time", "length_s": 3600}}, "window.origin"),
        ({"least_records": 1}, "least_records"),
        ({"least_records": -1}, "least_records"),
        ({"measurements_per_record": 5}, "measurements_per_record"),
        (
            {"measurements_per_record": 5, "mechanism": "discrete-laplace"},
            "measurements_per_record",
        ),
        ({"neighbouring": "bounded"}, "neighbouring"),
    ]
    assert list_wrong_refusals(lambda **change: make(**(PRESENCE | change)), cases) == []


@pytest.mark.parametrize(
    "choice",
    [
        {"mechanism": "discrete-laplace"},
        {"mechanism": "discrete-knorm"},
        {"delta": "1e-6"},
    ],
)
def test_a_plan_that_hides_presence_adds_the_count_to_all_that_follows_from_m(
    choice: dict[str, Any],
) -> None:
    plan = make(**(PRESENCE | choice))
    release = plan.release
    assert (plan.least_records, plan.releases_count) == (0, True)
    assert plan.payload_bytes == (2 * plan.n_frequencies + 1) * plan.payload_width
    features, count, stated = plan.privacy_target.sensitivity, plan.amplitude, plan.sensitivity
    assert (stated.norm, stated.value, plan.count_scale) == {
        "discrete-knorm": ("gon24", 1365, 1365),
        "discrete-laplace": ("l1", features.l1 + count, count),
        "discrete-gaussian": ("l2-squared", features.l2_squared + count**2, count),
    }[release.mechanism]
    assert decode_plan(encode_plan(plan)) == plan
    assert plan.mechanism.guarantee.epsilon <= release.epsilon


def test_what_a_sketch_of_secret_size_may_hold_follows_from_the_plan_alone() -> None:
    plan = make(**PRESENCE)
    assert plan.largest_coordinate(None) == plan.coordinate_bound
    low, high = plan.coordinate_limits(None)
    assert low.shape == high.shape == (plan.n_coordinates,)
    assert set(high[:-1].tolist()) == {plan.coordinate_bound}
    noise = plan.mechanism.noise_bound
    most = plan.most_records * plan.count_scale + noise
    assert (low[-1], high[-1]) == (-noise, most)
    assert most <= plan.coordinate_bound
    for n_records, other in ((3, plan), (None, make())):
        with pytest.raises(PlanError, match="n_records"):
            other.largest_coordinate(n_records)


def test_the_count_is_appended_only_where_it_is_secret() -> None:
    sums = np.arange(40, dtype=np.int64)
    plan = make(**PRESENCE)
    assert plan.finish_sum(sums, 7).tolist() == [*range(40), 7 * plan.count_scale]
    assert make().finish_sum(sums, 7) is sums


def test_a_wrong_field_is_refused_by_name() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"epsilon": 0.1}, "epsilon"),
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": "1/0"}, "epsilon"),
        ({"epsilon": "1e-30"}, "epsilon"),
        ({"n_frequencies": 0}, "n_frequencies"),
        ({"n_frequencies": 2.5}, "n_frequencies"),
        ({"n_frequencies": True}, "n_frequencies"),
        ({"n_frequencies": 1 << 20, "dimensions": WIDE}, "n_frequencies"),
        ({"measurements_per_record": 3}, "measurements_per_record"),
        ({"measurements_per_record": 0}, "measurements_per_record"),
        ({"most_records": 0}, "most_records"),
        ({"least_records": 0}, "least_records"),
        ({"most_sketches": 1 << 50}, "most_sketches"),
        ({"max_records_per_person": 0}, "max_records_per_person"),
        ({"seed": ""}, "seed"),
        ({"dimensions": []}, "dimensions"),
        ({"dimensions": [SPEC["dimensions"][0]] * 2}, "dimensions"),
        ({"dimensions": [{**SPEC["dimensions"][0], "lower": 120.0}]}, "dimensions.temperature"),
        ({"dimensions": [{**SPEC["dimensions"][0], "scale": 0.0}]}, "dimensions.temperature"),
        ({"dimensions": [{**SPEC["dimensions"][0], "scale": 1e-12}]}, "dimensions.scale"),
        ({"dimensions": [{"name": "a"}]}, "dimensions[0].unit"),
        ({"window": {"kind": "time", "length_s": 0}}, "window.length_s"),
        ({"window": {"kind": "count", "length": 6000}}, "window.length"),
        ({"window": {"kind": "moon"}}, "window.kind"),
        ({"radius_law": {"kind": "cauchy"}}, "radius_law.kind"),
        ({"labels": [{"name": "a", "values": []}]}, "labels.a"),
        ({"labels": [{"name": "a", "values": ["b\x1b[2J"]}]}, "labels.a"),
        ({"dimensions": [{**SPEC["dimensions"][0], "unit": "C\0"}]}, "dimensions.temperature"),
        ({"labels": [{"name": "a", "values": [str(i) for i in range(65)]}]}, "labels"),
        ({"colour": "blue"}, "colour"),
        ({"window": {**BOUNDED, "end": 7200 + 3600}}, "window.end"),
        ({"window": {**BOUNDED, "origin": 0}, "late_rule": BY_TIMES}, "window.origin"),
        ({"window": {**BOUNDED, "origin": -7200}, "late_rule": BY_TIMES}, "window.origin"),
        ({"window": {"kind": "time", "length_s": 60}, "late_rule": BY_TIMES}, "window.origin"),
        ({"window": {**BOUNDED, "end": 7200}, "late_rule": BY_TIMES}, "window.end"),
        ({"window": {**BOUNDED, "end": 7200 + 1}, "late_rule": BY_TIMES}, "window.end"),
        ({"window": {**BOUNDED, "end": 3600}, "late_rule": BY_TIMES}, "window.end"),
        ({"window": {"kind": "count", "length": 9}, "late_rule": BY_TIMES}, "late_rule"),
        ({"window": {"kind": "count", "length": 9, "end": 5}}, "window.length_s"),
        ({"late_rule": "forget"}, "late_rule"),
    ]
    assert list_wrong_refusals(make, cases) == []


def test_a_derived_field_that_differs_is_refused() -> None:
    plain, presence = plan_to_json(make()), plan_to_json(make(**PRESENCE))
    believed = []
    for document, path, value in (
        (plain, "statistic.frequencies_digest", "00" * 32),
        (plain, "release.scale", "1"),
        (plain, "release.sensitivity.norm", "l1"),
        (plain, "release.sensitivity.value", 1),
        (plain, "release.count_scale", 1),
        (plain, "coordinate_bound", 10),
        (plain, "payload_width", 8),
        (presence, "release.count_scale", 0),
        (presence, "payload_width", 8),
    ):
        changed = target = copy.deepcopy(document)
        *folders, name = path.split(".")
        for folder in folders:
            target = target[folder]
        target[name] = value
        try:
            plan_from_json(changed)
        except PlanMismatchError as error:
            if error.field == path:
                continue
        believed.append((path, value))
    assert believed == []


def test_a_version_of_the_future_is_refused_before_its_fields() -> None:
    with pytest.raises(UnsupportedVersionError, match="version 1"):
        plan_from_json({"format_version": 2, "something": "new"})


def test_bytes_that_are_not_a_plan_are_refused() -> None:
    encoded = encode_plan(make())
    for broken in (b"", b"\xff", encoded[:-1], encoded + b"\x00", b"\x01"):
        with pytest.raises((MalformedMessageError, PlanError)):
            decode_plan(broken)


@given(st.integers(0, 5000), st.integers(1, 255))
def test_no_flipped_byte_of_a_plan_passes_as_the_same_plan(position: int, mask: int) -> None:
    encoded = bytearray(encode_plan(make()))
    encoded[position % len(encoded)] ^= mask
    try:
        changed = decode_plan(bytes(encoded))
    except SketchError:
        return
    assert compute_plan_digest(changed) != compute_plan_digest(make())


def test_streams_get_masks_of_their_own_and_whole_plans_none() -> None:
    def masks_of(plan: SketchPlan, stream_id: bytes) -> MaskSchedule | None:
        statistic = plan.statistic_of(stream_id)
        assert isinstance(statistic, FourierStatistic)
        return statistic.masks

    masked = make(measurements_per_record=5)
    first, second = masks_of(masked, b"a/s"), masks_of(masked, b"b/s")
    assert first is not None
    assert second is not None
    assert first.assignment_key != second.assignment_key
    assert masks_of(make(), b"a/s") is None


def test_a_plan_without_an_end_is_encoded_as_if_there_were_no_such_field() -> None:
    window = plan_to_json(make(window=BOUNDED))["window"]
    assert window == {**BOUNDED, "length": 0}
    ending = make(window={**BOUNDED, "end": 14400}, late_rule=BY_TIMES)
    assert plan_to_json(ending)["window"] == {**window, "end": 14400}
    assert decode_plan(encode_plan(ending)) == ending
    assert ending.window.n_slots == 2
    assert make(window=BOUNDED).window.n_slots is None


def test_plans_share_no_record_where_both_are_bounded_and_their_times_are_apart() -> None:
    pilot = make(window={**BOUNDED, "end": 14400}, late_rule=BY_TIMES)
    main = make(window={**BOUNDED, "origin": 14400}, late_rule=BY_TIMES)
    early = make(window={**BOUNDED, "origin": 14399}, late_rule=BY_TIMES)
    assert pilot.shares_no_record(main)
    assert main.shares_no_record(pilot)
    for other in (
        pilot,
        early,
        make(window={**BOUNDED, "origin": 14400}),
        make(window={"kind": "count", "length": 9}),
    ):
        assert not pilot.shares_no_record(other)
        assert not other.shares_no_record(pilot)


def test_a_level_may_have_the_name_that_stands_for_no_number() -> None:
    levels = {"name": "site", "unit": "1", "levels": ["north", "unknown"], "missing": "unknown"}
    plan = make(dimensions=[*SPEC["dimensions"], levels], max_records_per_person="unknown")
    assert plan.dimensions[-1].missing == "unknown"
    assert plan.max_records_per_person is None
    assert decode_plan(encode_plan(plan)) == plan == plan_from_json(plan_to_json(plan))


def test_the_payload_width_holds_every_coordinate() -> None:
    plan = make()
    assert plan.coordinate_bound < 1 << (8 * plan.payload_width - 1)
    assert plan.coordinate_bound >= 1 << (8 * (plan.payload_width - 1) - 1)
    assert plan.payload_bytes == 40 * plan.payload_width


def test_a_missing_field_is_refused_by_name() -> None:
    spec = {name: value for name, value in SPEC.items() if name != "most_records"}
    with pytest.raises(PlanError, match="most_records: is missing"):
        plan_from_spec(spec)


def test_a_window_in_other_units_is_refused_with_the_key_in_seconds() -> None:
    with pytest.raises(PlanError, match=r"window.length: .* write a time as length_s, in seconds"):
        plan_from_spec(SPEC | {"window": {"length": "1 day"}})


def test_a_scale_far_beyond_its_range_is_refused() -> None:
    wide = [each | {"scale": 1e300} for each in SPEC["dimensions"]]
    with pytest.raises(PlanError, match=r"dimensions.scale: each scale must be smaller than"):
        plan_from_spec(SPEC | {"dimensions": wide})


def test_slots_are_half_open() -> None:
    window = make(window={"kind": "time", "origin": 100, "length_s": 10}).window
    assert [window.slot_of(t) for t in (99.9, 100, 109.9, 110)] == [0, 0, 0, 1]
    assert window.slot_bounds(1) == (110, 120)


def test_the_statement_of_a_bounded_plan_says_which_times_count() -> None:
    ending = make(window={**BOUNDED, "end": 14400}, late_rule=BY_TIMES)
    said = make_statement(ending).describe()
    assert "from 1970-01-01 02:00:00 UTC until before 1970-01-01 04:00:00 UTC count" in said
    without = make(window=BOUNDED, late_rule=BY_TIMES)
    assert "from 1970-01-01 02:00:00 UTC on count" in make_statement(without).describe()
    assert make_statement(make(window=BOUNDED)).times is None
