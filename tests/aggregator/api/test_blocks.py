"""Plans whose sketches carry some of the features, through the server."""

import asyncio
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.answers.clusters import build_problem
from sfumato.aggregator.worker import Worker
from sfumato.shared.plan import SketchPlan, WindowRule
from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

N_BLOCKS = 6


def make_split_plan(**changes: Any) -> SketchPlan:
    """A plan of 60 features, 10 in each sketch."""
    return make_plan(**({"frequencies_per_sketch": 10, "epsilon": Fraction(10)} | changes))


async def fill(
    desk: Desk, plan: SketchPlan, n_devices: int, turn: int = SLOT
) -> tuple[bytes, list[Any]]:
    """Let devices upload the sketch of one slot each; return the study, and blocks with sums."""
    study = await desk.publish(plan)
    devices = [Device(1 + i) for i in range(n_devices)]
    await desk.enrol(study, *devices)
    released = []
    for device in devices:
        shown = await desk.read(f"/v1/devices/{device.device_id.hex()}")
        block = plan.blocks.choose(ordinal=shown["ordinal"], stream="main", turn=turn)
        sums = device.release(plan, noise_seed=device.seed, block=block)
        changes: dict[str, Any] = {} if turn else {"slots": (0, 0), "sequence": 0}
        await desk.send(study, device, plan, sums, block=block, **changes)
        released.append((block, sums))
    return study, released


async def freeze(desk: Desk, study: bytes) -> dict[str, Any]:
    made = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    assert made.status_code == 201, made.text
    shown: dict[str, Any] = await desk.read(made.headers["location"])
    return shown


async def test_sketches_of_all_blocks_make_one_global_sketch(server: Server) -> None:
    desk, plan = server.desk, make_split_plan()
    study, released = await fill(desk, plan, 2 * N_BLOCKS)
    shown = await freeze(desk, study)
    assert sorted(block for block, _ in released) == sorted(2 * list(range(N_BLOCKS)))
    assert shown["n_covered"] == 60
    assert shown["moments"]["n_sketches"] == [2] * N_BLOCKS
    assert shown["moments"]["first"] == [1000] * N_BLOCKS
    whole = np.zeros(120, dtype=np.int64)
    for block, sums in released:
        members = plan.blocks.members[block]
        whole[members] += sums[:10]
        whole[60 + members] += sums[10:]
    assert shown["sums"] == whole.tolist()
    snapshot = await server.services.snapshots.get(bytes.fromhex(shown["snapshot_id"]))
    problem = build_problem(plan, snapshot, 3)
    scaled = whole / (plan.amplitude * 1000)
    assert np.allclose(problem.sketch, scaled[:60] + 1j * scaled[60:], rtol=1e-12)


async def test_a_snapshot_of_too_few_sketches_says_so_and_decodes_what_there_is(
    server: Server,
) -> None:
    desk, plan = server.desk, make_split_plan()
    study, released = await fill(desk, plan, 4)
    shown = await freeze(desk, study)
    assert shown["n_covered"] == 40
    snapshot = await server.services.snapshots.get(bytes.fromhex(shown["snapshot_id"]))
    problem = build_problem(plan, snapshot, 3)
    url = f"/v1/studies/{study.hex()}/decodes"
    body = {"snapshot_id": shown["snapshot_id"], "n_clusters": 3, "settings": {"n_replicates": 1}}
    queued = await desk.post(url, body)
    assert await Worker(server.services.jobs, lease_s=60.0, poll_s=0.01).run_once(asyncio.Event())
    decoded = await desk.read(queued.headers["location"])
    assert decoded["result"]["warnings"][0].startswith("the selected sketches carry only 40 of 60")
    covered = np.sort(plan.blocks.members[[block for block, _ in released]].ravel())
    assert problem.frequencies.shape == (2, 40)
    assert np.array_equal(
        problem.frequencies, plan.frequencies.to_angular(plan.quantiser)[:, covered]
    )


async def test_exclusion_takes_a_device_out_of_its_block_alone(desk: Desk) -> None:
    plan = make_split_plan()
    study, released = await fill(desk, plan, N_BLOCKS)
    device = Device(3)
    url = f"/v1/devices/{device.device_id.hex()}/exclude"
    answer = await desk.operate("POST", url, {"reason": "lies"})
    assert answer.status_code == 200, answer.text
    shown = await freeze(desk, study)
    left = [1] * N_BLOCKS
    left[released[2][0]] = 0
    assert shown["moments"]["n_sketches"] == left
    assert shown["n_covered"] == 50


@pytest.mark.parametrize("block", [None, N_BLOCKS])
async def test_a_sketch_without_a_known_block_is_refused(desk: Desk, block: int | None) -> None:
    plan = make_split_plan()
    study, device = await desk.publish(plan), Device(1)
    await desk.enrol(study, device)
    sums = device.release(plan, noise_seed=1)
    answer = await desk.put(study, *device.message(study, plan, sums, block=block))
    assert_problem(answer, "implausible-sketch", 422, "block")


async def test_a_block_under_a_plan_without_blocks_is_refused(desk: Desk) -> None:
    plan = make_plan()
    study, device = await desk.publish(plan), Device(1)
    await desk.enrol(study, device)
    answer = await desk.put(study, *device.message(study, plan, block=0))
    assert_problem(answer, "implausible-sketch", 422, "block")


async def test_secret_numbers_of_records_are_estimated_for_each_block(server: Server) -> None:
    window = WindowRule(kind="time", origin=1_700_000_000, length_s=3600)
    plan = make_split_plan(neighbouring="add-remove-one", window=window)
    study, released = await fill(server.desk, plan, 2 * N_BLOCKS, turn=0)
    shown = await freeze(server.desk, study)
    counts = np.zeros(N_BLOCKS)
    for block, sums in released:
        counts[block] += sums[-1] / plan.count_scale
    assert shown["moments"]["first"] == np.rint(counts).tolist()
    assert shown["n_records"] == round(counts.sum())
    error = shown["n_records_error"]
    assert error == pytest.approx(np.sqrt(2 * N_BLOCKS * plan.count_variance))
    # Six standard errors: fails by chance once in 5e8 runs, and these draws have a seed.
    assert abs(shown["n_records"] - 500 * 2 * N_BLOCKS) < 6 * error
