import math
from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.api.dependencies import encode_page
from sfumato.shared.plan import SketchPlan, WindowRule, compute_plan_digest
from sfumato.shared.wire import CLOCK_LEEWAY_S, encode_payload
from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, change_bytes, make_plan
from tests.aggregator.serving import Server, SteppedClock

pytestmark = pytest.mark.anyio


async def prepare(desk: Desk, *devices: Device, plan: SketchPlan | None = None) -> bytes:
    study = await desk.open(*(devices or (Device(1),)), plan=plan or make_plan())
    return study


async def count_stored(desk: Desk, study: bytes) -> int:
    listed = await desk.read(f"/v1/studies/{study.hex()}/sketches")
    summary = await desk.read(f"/v1/studies/{study.hex()}")
    devices = await desk.read(f"/v1/studies/{study.hex()}/devices")
    n_listed = len(listed["items"])
    assert summary["n_sketches"] == n_listed
    assert sum(device["n_sketches"] for device in devices["items"]) == n_listed
    return n_listed


async def read_refusals(desk: Desk, study: bytes) -> dict[str, int]:
    found = await desk.read(f"/v1/studies/{study.hex()}/refusals")
    return {item["problem"]: item["count"] for item in found["items"]}


async def test_a_sketch_is_stored_once_and_sent_again_it_is_acknowledged(desk: Desk) -> None:
    study = await prepare(desk)
    sketch, body = Device(1).message(study, make_plan())
    first, second = await desk.put(study, sketch, body), await desk.put(study, sketch, body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json() == {"sketch_id": sketch, "state": "stored"}
    assert await count_stored(desk, study) == 1
    assert await read_refusals(desk, study) == {}


async def test_a_stored_sketch_is_listed_with_what_it_covers(desk: Desk, server: Server) -> None:
    study, device = await prepare(desk), Device(1)
    sketch, body = device.message(study, make_plan())
    await desk.put(study, sketch, body)
    (item,) = (await desk.read(f"/v1/studies/{study.hex()}/sketches"))["items"]
    assert item["sketch_id"] == sketch
    assert item["device_id"] == device.device_id.hex()
    assert (item["stream"], item["sequence"], item["slots"]) == ("main", 0, [SLOT, SLOT])
    assert item["n_records"] == 500
    assert item["received"] == "2026-03-01T12:00:00.000000Z"


async def test_sketches_are_listed_in_pages_that_miss_none(desk: Desk) -> None:
    study, device, plan = await prepare(desk), Device(1), make_plan()
    for i in range(5):
        sketch, body = device.message(study, plan, sequence=i)
        assert (await desk.put(study, sketch, body)).status_code == 201
    seen: list[str] = []
    page: dict[str, Any] = {"next_page": None}
    for _ in range(3):
        params = {"limit": 2} | ({"page": page["next_page"]} if page["next_page"] else {})
        page = await desk.read(f"/v1/studies/{study.hex()}/sketches", params=params)
        seen += [item["sketch_id"] for item in page["items"]]
    assert page["next_page"] is None
    assert len(seen) == len(set(seen)) == 5


async def test_a_page_that_was_never_given_is_refused(desk: Desk) -> None:
    study = await prepare(desk)
    endless = [encode_page((time, b"")) for time in (math.nan, math.inf, -math.inf)]
    for page in ("elsewhere", *endless):
        url = f"/v1/studies/{study.hex()}/sketches?page={page}"
        answer = await desk.http.get(url, headers=desk.analyst)
        assert_problem(answer, "request-invalid", 422, "page")


async def test_a_sketch_for_an_unknown_study_is_refused(desk: Desk) -> None:
    await prepare(desk)
    unknown = bytes(32)
    sketch, body = Device(1).message(unknown, make_plan())
    assert_problem(await desk.put(unknown, sketch, body), "not-found", 404, "study")


async def test_a_message_under_another_address_is_refused(desk: Desk) -> None:
    plan = make_plan()
    study = await prepare(desk)
    other = await desk.publish(plan, name="other")
    sketch, body = Device(1).message(study, plan)
    assert_problem(await desk.put(other, sketch, body), "malformed-message", 400, "study")
    answer = await desk.put(study, "00" * 32, body)
    assert_problem(answer, "malformed-message", 400, "sketch_id")
    assert await count_stored(desk, study) == await count_stored(desk, other) == 0


async def test_a_sketch_of_an_unknown_device_is_refused(desk: Desk) -> None:
    study = await prepare(desk)
    sketch, body = Device(9).message(study, make_plan())
    assert_problem(await desk.put(study, sketch, body), "access-denied", 401, "device")
    assert await read_refusals(desk, study) == {"access-denied": 1}


async def test_a_device_of_another_study_is_refused(desk: Desk) -> None:
    study = await prepare(desk)
    other = await desk.publish(make_plan(), name="other")
    sketch, body = Device(1).message(other, make_plan())
    assert_problem(await desk.put(other, sketch, body), "not-found", 404, "device")
    assert await count_stored(desk, study) == 0


async def test_a_key_of_another_device_does_not_sign_for_this_one(desk: Desk) -> None:
    study = await prepare(desk)
    forged = Device(2)
    forged.device_id = Device(1).device_id
    sketch, body = forged.message(study, make_plan())
    assert_problem(await desk.put(study, sketch, body), "signature-invalid", 422, "signature")
    assert await count_stored(desk, study) == 0


async def test_a_sketch_with_another_plan_digest_is_refused(desk: Desk) -> None:
    study = await prepare(desk)
    digest = compute_plan_digest(make_plan(most_sketches=999))
    sketch, body = Device(1).message(study, make_plan(), plan_digest=digest)
    assert_problem(await desk.put(study, sketch, body), "plan-mismatch", 422, "plan_digest")
    assert await count_stored(desk, study) == 0
    assert await read_refusals(desk, study) == {"plan-mismatch": 1}


async def test_a_flipped_bit_anywhere_in_a_message_is_refused(desk: Desk) -> None:
    study = await prepare(desk)
    sketch, body = Device(1).message(study, make_plan())
    rng = np.random.default_rng(7)
    n_head = 400  # envelope and header, each byte of them; and a sample of the payload
    positions = [*range(n_head), *rng.integers(n_head, len(body), size=60)]
    for position in positions:
        altered = change_bytes(body, int(position), 1 << int(rng.integers(8)))
        answer = await desk.put(study, sketch, altered)
        assert answer.status_code in (400, 401, 404, 422), (position, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    assert await count_stored(desk, study) == 0
    refused = await read_refusals(desk, study)
    assert sum(refused.values()) == len(positions)
    assert set(refused) <= {
        "malformed-message",
        "unsupported-version",
        "signature-invalid",
        "access-denied",
    }
    # Nothing of all that stands in the way of the true one.
    assert (await desk.put(study, sketch, body)).status_code == 201


async def test_a_truncated_or_prolonged_message_is_refused(desk: Desk) -> None:
    study = await prepare(desk)
    sketch, body = Device(1).message(study, make_plan())
    for altered in (body[:-1], body[: len(body) // 2], body[:1], b"", body + b"\0"):
        assert_problem(await desk.put(study, sketch, altered), "malformed-message", 400, "message")
    assert await count_stored(desk, study) == 0


async def test_a_message_longer_than_the_plan_allows_is_refused_before_it_is_read(
    desk: Desk,
) -> None:
    plan = make_plan()
    study = await prepare(desk)
    body = bytes(plan.payload_bytes + 2049)
    assert_problem(await desk.put(study, "00" * 32, body), "too-large", 413, "body")
    assert await read_refusals(desk, study) == {"too-large": 1}


async def test_a_replay_with_other_bytes_is_refused_and_the_first_stays(desk: Desk) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk)
    sketch, body = device.message(study, plan)
    assert (await desk.put(study, sketch, body)).status_code == 201
    _, other_noise = device.message(study, plan, device.release(plan, noise_seed=99))
    _, other_header = device.message(study, plan, report_id=bytes(16))
    for other in (other_noise, other_header):
        assert_problem(await desk.put(study, sketch, other), "duplicate-upload", 409, "sketch_id")
    assert await count_stored(desk, study) == 1
    assert (await desk.put(study, sketch, body)).status_code == 200


@pytest.mark.parametrize(
    ("lower", "upper", "n_lower", "status"),
    [
        ((SLOT, SLOT), (SLOT, SLOT), 500, 422),
        ((SLOT, SLOT + 2), (SLOT + 1, SLOT + 3), 500, 422),
        ((SLOT, SLOT), (SLOT - 1, SLOT - 1), 500, 422),
        ((SLOT, SLOT), (SLOT, SLOT + 1), 2000, 201),
        ((SLOT, SLOT), (SLOT + 1, SLOT + 1), 500, 201),
    ],
)
@pytest.mark.parametrize("late", [False, True])
async def test_a_window_has_one_sketch_unless_it_was_closed_full(
    desk: Desk,
    lower: tuple[int, int],
    upper: tuple[int, int],
    n_lower: int,
    status: int,
    late: bool,
) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk)
    messages = [
        device.message(study, plan, sequence=3, slots=lower, n_records=n_lower),
        device.message(study, plan, sequence=7, slots=upper),
    ]
    if late:  # the lower one arrives after the higher one
        messages.reverse()
    assert (await desk.put(study, *messages[0])).status_code == 201
    answer = await desk.put(study, *messages[1])
    assert answer.status_code == status, answer.text
    if status == 422:
        assert_problem(answer, "implausible-sketch", 422, "slots")
    assert await count_stored(desk, study) == (1 if status == 422 else 2)


async def test_the_same_window_on_another_stream_is_another_window(desk: Desk) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk)
    for stream in ("main", "second"):
        answer = await desk.put(study, *device.message(study, plan, stream=stream))
        assert answer.status_code == 201


async def test_a_closed_study_takes_no_new_sketch_but_acknowledges_stored_ones(
    desk: Desk,
) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk)
    stored = device.message(study, plan)
    assert (await desk.put(study, *stored)).status_code == 201
    await desk.change(study, "closed")
    new = device.message(study, plan, sequence=1)
    assert_problem(await desk.put(study, *new), "study-closed", 403, "study")
    assert (await desk.put(study, *stored)).status_code == 200
    assert await count_stored(desk, study) == 1
    await desk.change(study, "open")
    assert (await desk.put(study, *new)).status_code == 201


async def test_a_full_study_takes_no_more(desk: Desk) -> None:
    plan = make_plan(most_sketches=1)
    study = await prepare(desk, Device(1), Device(2), plan=plan)
    await desk.send(study, Device(1), plan)
    answer = await desk.put(study, *Device(2).message(study, plan))
    assert_problem(answer, "study-closed", 403, "most_sketches")
    assert await count_stored(desk, study) == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_records": 9}, "n_records"),
        ({"n_records": 2001}, "n_records"),
        ({"n_public": False, "n_records": None}, "n_public"),
        ({"slots": None}, "slots"),
        ({"payload": b"\0"}, "payload"),
    ],
)
async def test_a_sketch_that_the_plan_makes_impossible_is_refused(
    desk: Desk, changes: dict[str, Any], field: str
) -> None:
    plan = make_plan(least_records=10)
    study = await prepare(desk, plan=plan)
    sums = Device(1).release(plan, noise_seed=1)
    message = Device(1).message(study, plan, sums, **changes)
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, field)
    assert await count_stored(desk, study) == 0


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("n_records", [1, 2000])
async def test_a_coordinate_is_as_large_as_records_and_noise_allow_and_no_larger(
    desk: Desk, sign: int, n_records: int
) -> None:
    plan = make_plan()
    study = await prepare(desk)
    sums = np.zeros(2 * plan.n_frequencies, dtype=np.int64)
    sums[-1] = sign * (plan.largest_coordinate(n_records) + 1)
    beyond = Device(1).message(study, plan, sums, n_records=n_records)
    assert_problem(await desk.put(study, *beyond), "implausible-sketch", 422, "payload")
    sums[-1] -= sign
    await desk.send(study, Device(1), plan, sums, n_records=n_records)


async def test_the_least_integer_of_the_widest_payload_is_refused(desk: Desk) -> None:
    plan = make_plan()
    study = await prepare(desk)
    limit = 1 << (8 * plan.payload_width - 1)
    sums = np.full(2 * plan.n_frequencies, -limit, dtype=np.int64)
    payload = encode_payload(sums, plan.payload_width)
    message = Device(1).message(study, plan, sums, payload=payload)
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, "payload")


async def test_a_window_behind_the_end_of_its_study_is_refused(desk: Desk) -> None:
    window = WindowRule(kind="time", origin=3600, length_s=3600, end=3 * 3600)
    plan = make_plan(window=window, late_rule="leave-out-outside")
    study = await prepare(desk, plan=plan)
    behind = Device(1).message(study, plan, slots=(1, 2))
    assert_problem(await desk.put(study, *behind), "implausible-sketch", 422, "slots")
    await desk.send(study, Device(1), plan, slots=(0, 1))


async def test_a_window_that_has_not_begun_is_held_until_it_has(
    desk: Desk, clock: SteppedClock
) -> None:
    plan = make_plan(window=WindowRule(kind="time", origin=7, length_s=3600))
    study = await prepare(desk, plan=plan)
    slot = plan.window.slot_of(clock.now()) + 1000
    early = Device(1).message(study, plan, slots=(slot - 2, slot))
    begins = plan.window.slot_bounds(slot)[0] - CLOCK_LEEWAY_S
    for wait in (int(begins - clock.now()), 1):
        clock.seconds = begins - wait
        answer = await desk.put(study, *early)
        assert_problem(answer, "too-early", 422, "slots")
        assert answer.headers["Retry-After"] == str(wait)
    assert await count_stored(desk, study) == 0
    assert await read_refusals(desk, study) == {"too-early": 2}
    clock.seconds = begins
    assert (await desk.put(study, *early)).status_code == 201
    # The server's clock may be set back: what is stored stays known.
    clock.seconds -= 10_000
    assert (await desk.put(study, *early)).status_code == 200


async def test_what_is_refused_for_good_is_not_held(desk: Desk, clock: SteppedClock) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk)
    slot = plan.window.slot_of(clock.now()) + 1000
    too_many = device.message(study, plan, slots=(slot, slot), n_records=2001)
    assert_problem(await desk.put(study, *too_many), "implausible-sketch", 422, "n_records")
    early = device.message(study, plan, slots=(slot, slot))
    await desk.change(study, "closed")
    assert_problem(await desk.put(study, *early), "study-closed", 403, "study")


async def test_windows_by_count_carry_no_slots(desk: Desk) -> None:
    plan = make_plan(window=WindowRule(kind="count", length=500))
    study = await prepare(desk, plan=plan)
    timed = Device(1).message(study, plan, slots=(1, 1))
    assert_problem(await desk.put(study, *timed), "implausible-sketch", 422, "slots")
    for sequence in range(2):
        await desk.send(study, Device(1), plan, sequence=sequence)
