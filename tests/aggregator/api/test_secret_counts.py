"""Studies that hide presence: the server knows numbers of records by their noised sums alone."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.utility import estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.wire import encode_payload
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan

pytestmark = pytest.mark.anyio

MECHANISMS: list[str] = ["discrete-knorm", "discrete-laplace", "discrete-gaussian"]


def make_secret_plan(mechanism: str = "discrete-knorm", **changes: Any) -> SketchPlan:
    return make_plan(
        neighbouring="add-remove-one",
        mechanism=mechanism,
        delta=Fraction(1, 10**6) if mechanism == "discrete-gaussian" else Fraction(0),
        window=WindowRule(kind="time", origin=1_700_000_000, length_s=3600),
        **changes,
    )


async def prepare(desk: Desk, plan: SketchPlan, *devices: Device) -> bytes:
    study = await desk.open(*devices, plan=plan)
    return study


async def put(desk: Desk, study: bytes, plan: SketchPlan, counts: dict[Device, list[int]]) -> Any:
    """Upload slots of these numbers of records; return the sum of what was released."""
    total = np.zeros(plan.n_coordinates, dtype=np.int64)
    for device, numbers in counts.items():
        for slot, number in enumerate(numbers):
            sums = device.release(plan, noise_seed=100 * device.seed + slot, count=number)
            message = device.message(study, plan, sums, sequence=slot, slots=(slot, slot))
            answer = await desk.put(study, *message)
            assert answer.status_code == 201, answer.text
            total += sums
    return total


class Key(Device):
    """A device that can be a key of a dictionary."""

    __hash__ = object.__hash__


async def test_a_sketch_of_secret_size_is_stored_and_its_number_of_records_is_null(
    desk: Desk,
) -> None:
    plan, device = make_secret_plan(), Key(1)
    study = await prepare(desk, plan, device)
    url = f"/v1/studies/{study.hex()}"
    assert (await desk.read(url))["n_records"] == 0
    await put(desk, study, plan, {device: [500, 0]})
    listed = (await desk.read(f"{url}/sketches"))["items"]
    assert sorted(item["slots"] for item in listed) == [[0, 0], [1, 1]]
    assert [item["n_records"] for item in listed] == [None, None]
    shown = await desk.read(url)
    assert (shown["n_sketches"], shown["n_records"]) == (2, None)
    assert "presence" in (await desk.read(f"{url}/privacy"))["statement"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_public": True, "n_records": 500}, "n_public"),
        ({"slots": (1, 1)}, "slots"),
        ({"slots": (0, 1)}, "slots"),
        ({"slots": None}, "slots"),
        ({"sequence": 3}, "slots"),
        ({"payload": bytes(120 * 4)}, "payload"),
    ],
)
async def test_a_sketch_that_a_plan_of_secret_sizes_makes_impossible_is_refused(
    desk: Desk, changes: dict[str, Any], field: str
) -> None:
    plan, device = make_secret_plan(), Device(1)
    study = await prepare(desk, plan, device)
    message = device.message(study, plan, **({"slots": (0, 0)} | changes))
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, field)


async def test_a_public_study_takes_no_sketch_of_secret_size(desk: Desk) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk, plan, device)
    message = device.message(
        study, plan, device.release(plan, noise_seed=1), n_records=None, n_public=False
    )
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, "n_public")


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("coordinate", [0, -1])
async def test_a_coordinate_is_as_large_as_the_plan_allows_and_no_larger(
    desk: Desk, coordinate: int, end: int
) -> None:
    plan, device = make_secret_plan(), Device(1)
    study = await prepare(desk, plan, device)
    sums = np.zeros(plan.n_coordinates, dtype=np.int64)
    sums[coordinate] = plan.coordinate_limits(None)[end][coordinate]
    beyond = sums.copy()
    beyond[coordinate] += 1 if end else -1
    for values, status in ((beyond, 422), (sums, 201)):
        message = device.message(
            study,
            plan,
            payload=encode_payload(values, plan.payload_width),
            slots=(0, 0),
        )
        assert (await desk.put(study, *message)).status_code == status


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_the_records_of_a_snapshot_are_the_noised_counts_over_their_scale(
    desk: Desk, mechanism: str
) -> None:
    plan = make_secret_plan(mechanism)
    north, south = Key(1), Key(2, {"site": "south"})
    study = await prepare(desk, plan, north, south)
    total = await put(desk, study, plan, {north: [900, 0, 700], south: [0, 1400]})
    url = f"/v1/studies/{study.hex()}"
    made = (await desk.post(f"{url}/snapshots", {})).json()
    assert made["n_records"] == round(int(total[-1]) / plan.count_scale)
    assert made["n_records_error"] == pytest.approx(math.sqrt(5 * plan.count_variance))
    # Six standard errors: true of a sound estimate but for one seed in 10^4, heavy tails included.
    assert abs(made["n_records"] - 3000) <= 6 * made["n_records_error"]
    assert (made["weighting"], made["weights"]) == ("size", {"a": 1.0, "b": 0.0})
    assert (made["snr"] > 0, made["noise_energy"] > 0) == (True, True)
    shown = await desk.read(f"/v1/snapshots/{made['snapshot_id']}")
    assert shown["sums"] == total.tolist()
    assert set(shown["size_sums"]) == {0}
    utility = await desk.read(f"{url}/utility")
    for name in ("n_sketches", "n_records", "n_records_error", "snr", "noise_energy"):
        assert utility[name] == made[name]


async def test_weights_that_need_each_number_of_records_are_refused(desk: Desk) -> None:
    plan, device = make_secret_plan(), Key(1)
    study = await prepare(desk, plan, device)
    await put(desk, study, plan, {device: [1500]})
    answer = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {"weighting": "noise-optimal"})
    assert answer.status_code == 422
    assert answer.json()["field"] == "weighting"


async def test_records_that_noise_could_stand_for_make_no_snapshot_and_no_snr(desk: Desk) -> None:
    plan, device = make_secret_plan(), Key(1)
    study = await prepare(desk, plan, device)
    await put(desk, study, plan, {device: [0] * 8})
    url = f"/v1/studies/{study.hex()}"
    answer = await desk.post(f"{url}/snapshots", {})
    assert (answer.status_code, answer.json()["field"]) == (422, "selection")
    assert "too few records" in answer.json()["detail"]
    assert (await desk.post(f"{url}/decodes", {"n_clusters": 3})).status_code == 422
    utility = await desk.read(f"{url}/utility")
    assert (utility["n_sketches"], utility["snr"], utility["noise_energy"]) == (8, 0.0, None)
    assert utility["n_records"] >= 1
    assert utility["n_records_error"] > 0


def make_totals(plan: SketchPlan, *, n_records: int, n_sketches: int) -> SketchTotals:
    """Sums without noise: every feature has modulus 1/2."""
    sums = np.zeros(plan.n_coordinates, dtype=np.int64)
    sums[: plan.n_frequencies] = n_records * plan.amplitude // 2
    sums[-1] = n_records * plan.count_scale
    return SketchTotals(
        sums=sums,
        size_sums=split_limbs([0] * sums.size),
        moments=SizeMoments.of_sizes([0] * n_sketches),
        n_devices=1,
        members=b"",
    )


def test_the_noise_of_the_count_lowers_the_snr_by_its_share_of_the_signal() -> None:
    plan = make_secret_plan()
    totals = make_totals(plan, n_records=100_000, n_sketches=4)
    count = count_records(plan, totals)
    assert count.n_records == 100_000
    exact = replace(count, standard_error=0.0, errors=np.zeros(1))
    with_it = estimate_utility(plan, totals, count, SIZE_WEIGHTS)
    without = estimate_utility(plan, totals, exact, SIZE_WEIGHTS)
    assert with_it.snr < without.snr
    # What it adds to the noise, relative to the signal, is the relative variance of the count.
    assert 1 / with_it.snr - 1 / without.snr == pytest.approx(count.relative_variance[0], rel=0.01)


@pytest.mark.parametrize("total", [-(10**9), -1, 0, 1])
def test_an_estimate_is_never_below_one_record(total: int) -> None:
    plan = make_secret_plan()
    totals = make_totals(plan, n_records=0, n_sketches=3)
    totals.sums[-1] = total
    count = count_records(plan, totals)
    assert count.n_records == 1
    assert not count.is_clear


def test_no_sketch_is_no_record() -> None:
    count = count_records(
        make_secret_plan(), make_totals(make_secret_plan(), n_records=0, n_sketches=0)
    )
    assert (count.n_records, count.is_clear) == (0, False)
