"""Campaigns on the server: each phase follows from the answer before, once, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.aggregator.worker.loop import Worker
from sfumato.analyst.planning.campaigns import CampaignOutline, plan_campaign
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan, plan_to_json, require_follows
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import encode_proof_input
from tests.aggregator.api.test_bounded_keys import make_key
from tests.aggregator.fleet import Device, assert_problem
from tests.aggregator.serving import Server, SteppedClock

pytestmark = pytest.mark.anyio
Floats = NDArray[np.float64]

DAY = 86_400
START = int(SteppedClock().seconds) // DAY * DAY  # midnight before the test
CLUSTERS = np.array([[20.0, 2.0], [15.0, 6.0], [24.0, 9.0]])
N_RECORDS = 4000


def plan_first(**changes: Any) -> SketchPlan:
    outline: dict[str, Any] = {
        "dimensions": parse_columns(["room:degC:-10..40,load:kW:-5..15"]),
        "n_records": 2 * N_RECORDS,
        "n_devices": 2,
        "most_clusters": 3,
        "epsilon": Fraction(4),
        "origin": START,
        "length_s": DAY,
        "n_windows": (1, 1, 1),
    }
    return plan_campaign(CampaignOutline(**(outline | changes)))[1]


PILOT = plan_first()


def draw(seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    which = rng.choice(3, N_RECORDS, p=[0.5, 0.3, 0.2])
    return CLUSTERS[which] + rng.normal(0.0, [0.6, 0.4], (N_RECORDS, 2))


class Run:
    """A campaign with two devices, which have a key in each phase."""

    def __init__(self, server: Server, first: bytes, seed: int) -> None:
        self.server, self.first = server, first
        self.number, self.study = 0, first
        self.keys = {(0, i): Device(seed + i, labels={}) for i in range(2)}

    async def get(self) -> dict[str, Any]:
        """Return the campaign as an analyst sees it."""
        url = f"/v1/studies/{self.study.hex()}/campaign"
        found: dict[str, Any] = await self.server.desk.read(url)
        return found

    async def go_on(self, *, moved_s: float = 0.0) -> dict[str, Any]:
        """Let the scheduler work, and the worker after it; return the campaign then."""
        self.server.clock.seconds += moved_s
        await self.server.services.scheduler.run_due()
        if await Worker(self.server.services.jobs, lease_s=60.0, poll_s=0.01).run_once(
            asyncio.Event()
        ):
            self.server.clock.seconds += 10.0
            await self.server.services.scheduler.run_due()
        return await self.get()

    async def read_plan(self) -> SketchPlan:
        _, plan = await self.server.services.studies.get_plan(self.study)
        return plan

    async def send(self, *devices: int) -> None:
        """Let devices send all windows of the phase."""
        plan = await self.read_plan()
        for i in devices or (0, 1):
            device = self.keys[self.number, i]
            accumulator = SketchAccumulator(plan.statistic_of(device.device_id + b"main"))
            accumulator.add(draw(100 * self.number + i)[:, : plan.n_dimensions])
            exact = plan.finish_sum(accumulator.sums, N_RECORDS)
            sums = plan.mechanism.add_noise(exact, SeededSource(7 * self.number + i))
            header = {"n_records": N_RECORDS, "slots": (0, 0)}
            await self.server.desk.send(self.study, device, plan, sums, **header)

    async def follow(self, *devices: int) -> None:
        """Let devices continue in the next study, each with a new key."""
        before = self.number
        self.number += 1
        self.study = bytes.fromhex((await self.get())["phases"][self.number]["study_id"])
        for i in devices or (0, 1):
            after = self.keys[self.number, i] = Device(100 * self.number + 10 + i, labels={})
            answer = await enrol(self.server, continuation(self.keys[before, i], after, self.study))
            assert answer.status_code == 201, answer.text


def continuation(
    before: Device, after: Device, study: bytes, signer: Device | None = None
) -> dict[str, Any]:
    """Return the enrolment of a device that took part in the phase before."""
    body = after.enrolment("", study) | {"token": None}
    told = encode_proof_input(
        token="", study=study, public_key=after.public_key, labels=after.labels
    )
    proof = (signer or before).key.sign(told).hex()
    return body | {"continues": {"device_id": before.device_id.hex(), "proof": proof}}


async def enrol(server: Server, body: Mapping[str, Any]) -> httpx.Response:
    return await server.desk.http.post("/v1/enrolments", json=body)


async def begin(server: Server, plan: SketchPlan = PILOT, seed: int = 10, **how: Any) -> Run:
    study = await server.desk.publish(plan, "heating")
    url = f"/v1/studies/{study.hex()}/campaign"
    answer = await server.desk.operate("PUT", url, {"n_devices": 2} | how)
    assert answer.status_code == 200, answer.text
    run = Run(server, study, seed)
    await server.desk.enrol(study, run.keys[0, 0], run.keys[0, 1])
    return run


@pytest.fixture
async def run(server: Server) -> Run:
    """A campaign whose pilot was sent."""
    made = await begin(server)
    server.clock.seconds = START + DAY + 60.0
    await made.send()
    return made


def states(found: Mapping[str, Any]) -> list[str | None]:
    return [each["waits"] for each in found["phases"]]


async def test_a_campaign_goes_from_its_pilot_to_a_measured_answer_by_itself(run: Run) -> None:
    found = await run.go_on()
    assert [each["name"] for each in found["phases"]] == ["pilot", "sketch", "look"]
    assert states(found) == [None, "its windows are open", None]
    pilot = await run.read_plan()
    await run.follow()
    require_follows(pilot, sketch := await run.read_plan())
    assert sketch.window == PILOT.campaign.phases[1].window  # type: ignore[union-attr]
    run.server.clock.seconds += DAY
    await run.send(0)
    assert "1 of 2 devices have not sent" in str(states(await run.go_on())[1])
    await run.send(1)
    found = await run.go_on(moved_s=10.0)
    assert found["answer"] == found["phases"][1]["decode_id"]
    await run.follow()
    require_follows(sketch, await run.read_plan())
    run.server.clock.seconds += DAY
    await run.send()
    found = await run.go_on()
    assert states(found) == [None, None, None]
    decode = await run.server.services.decodes.get(bytes.fromhex(found["answer"]))
    assert decode.result is not None
    centroids = np.array(decode.result["centroids"])
    distance = ((centroids[:, None] - CLUSTERS) ** 2).sum(axis=2)
    assert distance.min(axis=1).max() < 0.05**2
    assert "no record is in two of the sketch and 1 look" in decode.result["looks"]["cost"]
    listed = (await run.server.desk.read("/v1/studies"))["items"]
    assert [each["name"] for each in listed] == ["heating", "heating sketch", "heating look"]


async def test_a_phase_waits_for_silent_devices_until_a_day_has_passed_or_the_operator_asks(
    server: Server,
) -> None:
    run = await begin(server)
    url = f"/v1/studies/{run.first.hex()}/campaign/next"
    await run.send(0)
    early = await server.desk.operate("POST", url, {})
    assert_problem(early, "request-invalid", 422, "campaign")
    assert "its windows are open" in early.json()["detail"]
    server.clock.seconds = START + DAY + 7200.0
    found = await run.go_on()
    assert states(found) == ["1 of 2 devices have not sent its last window", None, None]
    asked = await server.desk.operate("POST", url, {})
    assert asked.json()["phases"][1]["study_id"] is not None
    again = await server.desk.operate("POST", url, {})
    assert "its windows are open" in again.json()["detail"]
    await run.follow(0)
    server.clock.seconds = START + 2 * DAY + 7200.0
    await run.send(0)
    # Its answer is computed first; nobody must ask once more.
    assert states((await server.desk.operate("POST", url, {})).json())[1] == "its decode"
    assert (await run.go_on(moved_s=10.0))["phases"][2]["study_id"] is not None


async def test_a_silent_device_holds_a_phase_up_for_a_day_at_most(server: Server) -> None:
    run = await begin(server)
    await run.send(0)
    server.clock.seconds = START + DAY + 60.0
    assert (await run.go_on())["phases"][1]["study_id"] is None
    found = await run.go_on(moved_s=float(DAY))
    assert found["phases"][1]["study_id"] is not None


async def test_an_operator_who_wants_to_be_asked_is_waited_for(server: Server) -> None:
    run = await begin(server, is_automatic=False)
    server.clock.seconds = START + DAY + 60.0
    await run.send()
    assert states(await run.go_on())[0] == "the operator's yes"


async def test_a_pilot_that_nothing_follows_from_halts_with_the_reason(server: Server) -> None:
    weak = plan_first(epsilon=Fraction(1, 500))
    run = await begin(server, weak)
    server.clock.seconds = START + DAY + 60.0
    await run.send()
    found = await run.go_on()
    assert states(found)[0] == "the operator"
    assert "Do not run this" in found["phases"][0]["problem"]["detail"]
    assert found["phases"][1]["study_id"] is None


async def test_two_servers_that_go_on_at_once_publish_one_study(run: Run) -> None:
    campaigns = run.server.services.campaigns
    await asyncio.gather(
        *(campaigns.advance(run.first, is_asked=False) for _ in range(3)), return_exceptions=True
    )
    found = await run.get()
    studies = (await run.server.desk.read("/v1/studies"))["items"]
    assert [each["name"] for each in studies] == ["heating", "heating sketch"]
    assert studies[0]["next_study"] == studies[1]["study_id"] == found["phases"][1]["study_id"]


async def test_a_server_killed_after_it_published_goes_on_with_the_same_study(run: Run) -> None:
    services = run.server.services
    study = await services.studies.get_record(run.first)
    record = (await services.campaigns.describe(run.first))[0].record
    assert record is not None
    following = await services.campaigns._following.plan([record], study, anyway=False)
    assert following is not None
    made, _, _ = await services.studies.create(
        "heating sketch", plan_to_json(following.plan), follows=run.first
    )
    found = await run.go_on()
    assert found["phases"][1]["study_id"] == made.study.study_id.hex()


async def test_a_device_sees_the_next_study_with_a_new_etag(run: Run) -> None:
    path = f"/v1/studies/{run.first.hex()}"
    device = run.keys[0, 0]

    async def poll(etag: str) -> httpx.Response:
        headers = device.sign("GET", path, now=run.server.clock.now())
        return await run.server.desk.http.get(path, headers=headers | {"If-None-Match": etag})

    before = await poll("")
    assert before.json()["next_study"] is None
    await run.go_on()
    after = await poll(before.headers["ETag"])
    assert after.json()["next_study"] == (await run.get())["phases"][1]["study_id"]


@pytest.mark.parametrize(
    "case", ["another key", "a stranger", "revoked", "excluded", "other labels", "a second key"]
)
async def test_only_the_device_itself_continues_and_once(run: Run, case: str) -> None:
    await run.go_on()
    study = bytes.fromhex((await run.get())["phases"][1]["study_id"])
    before, after, desk = run.keys[0, 0], Device(77, labels={}), run.server.desk
    body = continuation(before, after, study)
    if case == "another key":
        body = continuation(before, after, study, signer=run.keys[0, 1])
    if case == "a stranger":
        other = await desk.publish(replace(PILOT, campaign=None), "other")
        await desk.enrol(other, stranger := Device(78, labels={}))
        body = continuation(stranger, after, study)
    if case in ("revoked", "excluded"):
        verb = case.removesuffix("d").removesuffix("e") + "e"
        url = f"/v1/devices/{before.device_id.hex()}/{verb}"
        assert (await desk.operate("POST", url, {"reason": "lost"})).status_code == 200
    if case == "other labels":
        body = continuation(before, Device(77, labels={"site": "north"}), study)
    if case == "a second key":
        assert (await enrol(run.server, body)).status_code == 201
        assert (await enrol(run.server, body)).status_code == 200, "the same again is answered"
        body = continuation(before, Device(79, labels={}), study)
    answer = await enrol(run.server, body)
    assert answer.status_code in (400, 401, 403, 422), answer.text


@pytest.mark.parametrize("verb", ["exclude", "revoke"])
async def test_what_ends_a_device_in_one_phase_ends_it_in_the_later_ones(
    run: Run, verb: str
) -> None:
    """But a key of one study ends it there alone."""
    await run.go_on()
    await run.follow()
    run.server.clock.seconds = START + 2 * DAY + 60.0
    await run.send()
    liar, there = run.keys[0, 0], run.keys[1, 0]
    url = f"/v1/devices/{liar.device_id.hex()}/{verb}"
    ended = verb.rstrip("e") + "ed"

    async def read_states() -> list[str]:
        devices = (liar, there, run.keys[1, 1])
        found = [await run.server.desk.read(f"/v1/devices/{d.device_id.hex()}") for d in devices]
        return [each["state"] for each in found]

    key = await make_key(run.server, "operator", study_id=run.first)
    kept = await run.server.desk.http.post(url, headers=key, json={"reason": "lies"})
    assert kept.status_code == 200
    assert await read_states() == [ended, "enrolled", "enrolled"]
    answer = await run.server.desk.operate("POST", url, {"reason": "lies"})
    assert answer.status_code == 200
    assert await read_states() == [ended, ended, "enrolled"]
    if verb == "exclude":
        body = answer.json()
        assert (body["later"], body["n_subtracted"]) == ([there.device_id.hex()], 2)
        again = await run.server.desk.operate("POST", url, {"reason": "again"})
        assert again.json() == body


async def test_nobody_joins_without_a_token_or_a_device_of_the_phase_before(run: Run) -> None:
    answer = await enrol(
        run.server, Device(80, labels={}).enrolment("", run.first) | {"token": None}
    )
    assert_problem(answer, "access-denied", 401, "token")


async def test_a_study_by_itself_and_a_later_phase_begin_no_campaign(run: Run) -> None:
    alone = await run.server.desk.publish(replace(PILOT, campaign=None), "alone")
    with pytest.raises(ConfigError, match="of no campaign"):
        await run.server.services.campaigns.begin(
            alone, n_devices=1, is_automatic=True, chooses=False
        )
    url = f"/v1/studies/{alone.hex()}/campaign"
    answer = await run.server.desk.http.get(url, headers=run.server.desk.analyst)
    assert_problem(answer, "not-found", 404, "study")


async def test_an_analysis_of_a_pilot_names_the_sketch_study_of_its_campaign(run: Run) -> None:
    asked = {"kind": "devices", "n_clusters": 3}
    url = f"/v1/studies/{run.first.hex()}/analyses"
    answer = await run.server.desk.operate("POST", url, asked)
    assert_problem(answer, "wrong-statistic", 409, "statistic.kind")
    assert answer.json()["fix"] == "wait for the sketch phase of its campaign"
    sketch = (await run.go_on())["phases"][1]["study_id"]
    answer = await run.server.desk.operate("POST", url, asked)
    assert_problem(answer, "wrong-statistic", 409, "statistic.kind")
    assert answer.json()["fix"] == f"use the sketch of its campaign: heating sketch ({sketch})"


async def test_a_withdrawn_phase_says_so_and_leaves_the_others(run: Run) -> None:
    await run.go_on()
    services = run.server.services
    sketch = bytes.fromhex((await run.get())["phases"][1]["study_id"])
    await services.studies.withdraw(run.first, name="heating")
    run.study = sketch
    found = await run.get()
    assert found["phases"][0]["waits"] == "nothing: its study was withdrawn"
    assert (found["study_id"], found["name"]) == (run.first.hex(), "heating sketch")
    await services.studies.purge()
    assert [each["number"] for each in (await run.get())["phases"]] == [0, 1, 2]
    again = await begin(run.server, plan_first(most_clusters=4), seed=60)
    await again.send()
    await again.go_on()
    await services.studies.withdraw(
        bytes.fromhex((await again.get())["phases"][1]["study_id"]), name="heating sketch"
    )
    await services.studies.purge()
    assert states(await again.get())[0] == "nothing: the study of its next phase was withdrawn"


async def test_a_replaced_device_is_replaced_in_later_phases_too(run: Run) -> None:
    """A lost gateway went on to the sketch; who took its place in the pilot follows behind it."""
    await run.go_on()
    desk, study = run.server.desk, bytes.fromhex((await run.get())["phases"][1]["study_id"])
    lost, went_on, new, follows = run.keys[0, 0], *(Device(90 + i, labels={}) for i in range(3))
    assert (await enrol(run.server, continuation(lost, went_on, study))).status_code == 201
    run.server.clock.seconds = START + 2 * DAY + 60.0
    _, plan = await run.server.services.studies.get_plan(study)
    await desk.send(study, went_on, plan, slots=(0, 0))
    run.server.clock.seconds += 10.0
    token = await desk.make_token(run.first)
    body = new.enrolment(token, run.first) | {"replaces": lost.device_id.hex()}
    assert (await enrol(run.server, body)).status_code == 201
    assert (await enrol(run.server, continuation(new, follows, study))).status_code == 201
    shown = await desk.read(f"/v1/devices/{follows.device_id.hex()}")
    assert shown["replaces"] == went_on.device_id.hex()
    assert (await desk.read(f"/v1/devices/{went_on.device_id.hex()}"))["state"] == "revoked"
    message = follows.message(study, plan, slots=(0, 0))
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, "slots")


async def test_what_a_campaign_may_be_stays_as_it_was_published(run: Run) -> None:
    """Only how it goes on can be changed: who waits, and for how many devices."""
    url = f"/v1/studies/{run.first.hex()}/campaign"
    changed = await run.server.desk.operate("PUT", url, {"n_devices": 5})
    assert states(changed.json())[0] == "3 of 5 devices have not sent its last window"
    assert asdict(await run.read_plan()) == asdict(PILOT)
