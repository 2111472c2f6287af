"""A device that lies as well as it can: what one of its sketches moves the sum by, and no more."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.core import AMPLITUDE, feature_table
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.privacy import MECHANISMS
from sfumato.shared.privacy.plausibility import compute_influence
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan

pytestmark = pytest.mark.anyio

M = 200


def make_liars_plan(mechanism: str, **changes: Any) -> SketchPlan:
    delta = Fraction(1, 10**6) if mechanism == "discrete-gaussian" else Fraction(0)
    return make_plan(mechanism=mechanism, delta=delta, n_frequencies=M, **changes)


def lie(plan: SketchPlan, n_equal: float, n_records: int | None) -> NDArray[np.int64]:
    """Return the sum of so many records at one point, as far as single coordinates may say so."""
    phases = np.random.default_rng(3).integers(0, 1 << 16, size=M)
    sums = np.rint(n_equal * feature_table()[phases].T.ravel().astype(np.float64))
    if plan.releases_count:
        sums = np.append(sums, 0.0)
    low, high = plan.coordinate_limits(n_records)
    return np.clip(sums, low, high).astype(np.int64)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("n_records", [1, 10, 2000])
async def test_a_liar_moves_the_sum_as_far_as_stated_and_no_further(
    desk: Desk, mechanism: str, n_records: int
) -> None:
    plan, device = make_liars_plan(mechanism), Device(1)
    study = await desk.open(device, plan=plan)
    stated = compute_influence(plan.privacy_target, plan.mechanism, n_records=n_records)
    # Features are shorter than A by what their table rounds.
    for share, is_stored in ((0.999, True), (1.002, False)):
        sums = lie(plan, share * stated, n_records)
        message = device.message(study, plan, sums, n_records=n_records)
        answer = await desk.put(study, *message)
        if is_stored:
            assert answer.status_code == 201, answer.text
            moved = np.linalg.norm(sums.astype(np.float64)) / (AMPLITUDE * np.sqrt(M))
            assert 0.99 * stated < moved < stated
        else:
            other = device.message(study, plan, sums, n_records=n_records, sequence=1)
            answer = await desk.put(study, *other)
            assert_problem(answer, "implausible-sketch", 422, "payload")
            assert "norm" in answer.json()["detail"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_coordinates_that_are_all_as_large_as_one_may_be_are_refused(
    desk: Desk, mechanism: str
) -> None:
    plan, device = make_liars_plan(mechanism), Device(1)
    study = await desk.open(device, plan=plan)
    sums = np.full(2 * M, plan.largest_coordinate(10), dtype=np.int64)
    sums[::2] *= -1
    answer = await desk.put(study, *device.message(study, plan, sums, n_records=10))
    assert_problem(answer, "implausible-sketch", 422, "payload")


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_who_says_that_there_are_few_records_weighs_as_few(
    desk: Desk, mechanism: str
) -> None:
    """The released number of records bounds what a sketch of secret size may hold."""
    plan = make_liars_plan(
        mechanism,
        neighbouring="add-remove-one",
        window=WindowRule(kind="time", origin=1_700_000_000, length_s=3600),
        most_records=1_000_000,
        epsilon=Fraction(20),
    )
    device = Device(1)
    study = await desk.open(device, plan=plan)
    scale, noise = plan.count_scale, plan.mechanism.noise_bound
    for slot, (said, n_records) in enumerate([(0, 0), (5000, 5000), (10**9, 10**6)]):
        most = min(plan.most_records, n_records + noise // scale)
        stated = compute_influence(plan.privacy_target, plan.mechanism, n_records=most)
        for share, status in ((1.002, 422), (0.999, 201)):
            sums = lie(plan, share * stated, None)
            sums[-1] = min(said * scale, plan.coordinate_limits(None)[1][-1])
            answer = await desk.put(
                study, *device.message(study, plan, sums, sequence=slot, slots=(slot, slot))
            )
            assert answer.status_code == status, (said, share, answer.text)


@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_an_honest_sketch_of_few_or_the_most_records_is_stored(
    desk: Desk, mechanism: str, neighbouring: str
) -> None:
    """Refused less than once in 2^40 times: never with this seed, or any other to be tried."""
    window = WindowRule(kind="time", origin=1_700_000_000, length_s=3600)
    plan = make_liars_plan(mechanism, neighbouring=neighbouring, most_records=700, window=window)
    device = Device(1)
    study = await desk.open(device, plan=plan)
    for sequence, count in enumerate((1, 30, 700)):
        sums = device.release(plan, noise_seed=sequence, count=count)
        low, high = plan.coordinate_limits(None if plan.releases_count else count)
        more: dict[str, Any] = {} if plan.releases_count else {"n_records": count}
        sums = np.clip(sums, low, high)
        slots = (sequence, sequence)
        await desk.send(study, device, plan, sums, sequence=sequence, slots=slots, **more)


async def put_until_refused(
    desk: Desk, study: bytes, plan: SketchPlan, device: Device, *, one_stream: bool
) -> tuple[int, dict[str, Any]]:
    """Upload sketches under invented names, or of made-up windows; return how many were taken."""
    sums = device.release(plan, noise_seed=device.seed)
    for number in range(100):
        stream, sequence = ("main", number) if one_stream else (f"invented-{number}", 0)
        message = device.message(
            study, plan, sums, stream=stream, sequence=sequence, slots=(number, number)
        )
        answer = await desk.put(study, *message)
        if answer.status_code != 201:
            assert_problem(answer, "study-closed", 403, answer.json()["field"])
            return number, answer.json()
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("one_stream", [True, False])
async def test_a_device_that_floods_a_study_takes_its_share_and_no_more(
    desk: Desk, one_stream: bool
) -> None:
    plan, liar, honest = make_plan(most_sketches=40), Device(1), Device(2)
    study = await desk.open(liar, honest, plan=plan)
    taken, problem = await put_until_refused(desk, study, plan, liar, one_stream=one_stream)
    assert (taken, problem["field"]) == (5, "most_sketches_per_device")
    assert "exclude the device if it lies" in problem["fix"]
    await desk.send(study, honest, plan)


async def test_a_device_has_as_many_streams_as_the_plan_says(desk: Desk) -> None:
    plan, device = make_plan(most_streams_per_device=3), Device(1)
    study = await desk.open(device, plan=plan)
    taken, problem = await put_until_refused(desk, study, plan, device, one_stream=False)
    assert (taken, problem["field"]) == (3, "most_streams_per_device")
    await desk.send(study, device, plan, stream="invented-0", sequence=1, slots=(9, 9))


async def test_excluding_who_filled_a_study_makes_room_for_the_others(desk: Desk) -> None:
    plan, liars, honest = make_plan(most_sketches=16), [Device(i) for i in range(8)], Device(9)
    study = await desk.open(*liars, honest, plan=plan)
    for liar in liars:
        assert (await put_until_refused(desk, study, plan, liar, one_stream=False))[0] == 2
    refused = await desk.put(study, *honest.message(study, plan))
    assert_problem(refused, "study-closed", 403, "most_sketches")
    assert refused.json()["fix"].startswith("exclude the devices that fill it")
    url = f"/v1/devices/{liars[3].device_id.hex()}/exclude"
    answer = await desk.operate("POST", url, {"reason": "floods"})
    assert answer.json()["n_subtracted"] == 2
    await desk.send(study, honest, plan)
