"""Plans of phase reports, and plans that protect all records of a device, through the server."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.answers.clusters import build_problem
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, SketchPlan
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm
from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, draw_records, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


def make_phase_plan(**changes: Any) -> SketchPlan:
    """A plan of 60 features, 10 in each report."""
    choices = {"release": "phase.v1", "most_records": None, "frequencies_per_sketch": 10}
    return make_plan(**(choices | {"most_sketches_per_device": 3} | changes))


def make_bin_plan(*names: str) -> SketchPlan:
    """A plan whose devices report the bin of one dimension each."""
    return make_phase_plan(
        statistic="histogram",
        dimensions=tuple(Dimension(name=x, unit="1", lower=-10.0, upper=10.0) for x in names),
        epsilon=Fraction(3),
        n_frequencies=None,
        seed=None,
        frequencies_per_sketch=None,
    )


def report(device: Device, study: bytes, plan: SketchPlan, block: int, **changes: Any) -> Any:
    """Return the identity and message of a device's report of one record, and its rows."""
    accumulator = SketchAccumulator(plan.statistic_of(b"", block=block))
    accumulator.add(draw_records(device.seed, 1))
    rows = plan.mechanism.add_noise(accumulator.sums, SeededSource(device.seed))
    fields = {"payload": PayloadForm.of(plan).encode(rows), "kind": "phase.v1", "n_records": 1}
    return *device.message(study, plan, rows, block=block, **(fields | changes)), rows


async def send(desk: Desk, plan: SketchPlan, n_devices: int) -> tuple[bytes, list[Any]]:
    """Let devices report one record each; return the study, and blocks with rows."""
    study = await desk.publish(plan)
    devices = [Device(1 + i) for i in range(n_devices)]
    await desk.enrol(study, *devices)
    sent = []
    for device in devices:
        shown = await desk.read(f"/v1/devices/{device.device_id.hex()}")
        block = plan.blocks.choose(ordinal=shown["ordinal"], stream="main", turn=SLOT)
        *message, rows = report(device, study, plan, block)
        answer = await desk.put(study, *message)
        assert answer.status_code == 201, answer.text
        sent.append((block, rows))
    return study, sent


async def test_reports_are_summed_as_rows_and_the_gain_is_divided_out(server: Server) -> None:
    desk, plan = server.desk, make_phase_plan()
    study, sent = await send(desk, plan, 12)
    made = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    shown = await desk.read(made.headers["location"])
    assert shown["n_covered"] == 60
    assert shown["n_records"] == 12
    whole = np.zeros(120, dtype=np.int64)
    for block, rows in sent:
        members = plan.blocks.members[block]
        whole[members] += rows[:10]
        whole[60 + members] += rows[10:]
    assert shown["sums"] == whole.tolist()
    snapshot = await server.services.snapshots.get(bytes.fromhex(shown["snapshot_id"]))
    problem = build_problem(plan, snapshot, 3)
    scaled = whole / (plan.amplitude * plan.mechanism.gain * 2)
    assert np.allclose(problem.sketch, scaled[:60] + 1j * scaled[60:], rtol=1e-12)
    # Two reports of each feature: energy (1 / gain^2 - |z|^2) / 2.
    energy = (plan.mechanism.gain**-2 - shown["signal_energy"]) / 2
    assert problem.feature_noise is not None
    assert np.mean(problem.feature_noise) == pytest.approx(energy, rel=1e-3)


async def test_a_device_has_one_report_in_a_slot_of_the_plans_kind_and_length(
    server: Server,
) -> None:
    desk, plan = server.desk, make_phase_plan()
    study = await desk.publish(plan)
    device = Device(1)
    await desk.enrol(study, device)
    for changes, field in (
        ({"kind": "local.v1"}, "kind"),
        ({"n_records": 2}, "n_records"),
        ({"payload": bytes(40)}, "payload"),
    ):
        *message, _ = report(device, study, plan, 0, **changes)
        assert_problem(await desk.put(study, *message), "implausible-sketch", 422, field)
    *first, _ = report(device, study, plan, 0)
    assert (await desk.put(study, *first)).status_code == 201
    *second, _ = report(device, study, plan, 0, sequence=1, slots=(SLOT, SLOT))
    assert_problem(await desk.put(study, *second), "implausible-sketch", 422, "slots")


async def test_a_sketch_of_a_local_plan_is_not_of_the_kind_of_reports(server: Server) -> None:
    desk, plan = server.desk, make_plan()
    study = await desk.publish(plan)
    device = Device(1)
    await desk.enrol(study, device)
    message = device.message(study, plan, kind="phase.v1")
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, "kind")


async def test_a_mean_of_a_device_counts_once_and_no_longer_than_one_record(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan(unit="device")
    study = await desk.publish(plan)
    device = Device(1)
    await desk.enrol(study, device)
    sums = device.release(plan, noise_seed=1, count=300)
    message = device.message(study, plan, sums, n_records=300)
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, "n_records")
    message = device.message(study, plan, 9 * sums, n_records=1)
    assert_problem(await desk.put(study, *message), "implausible-sketch", 422, "payload")
    assert (await desk.put(study, *device.message(study, plan, sums, n_records=1))).is_success


async def test_reports_of_bins_are_counted_and_answered(server: Server) -> None:
    desk = server.desk
    plan = make_bin_plan("x", "y")
    study, sent = await send(desk, plan, 8)
    made = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    place = made.headers["location"]
    shown = await desk.read(f"{place}/histogram")
    assert [each["name"] for each in shown["marginals"]] == ["x", "y"]
    for i, marginal in enumerate(shown["marginals"]):
        assert marginal["n_records"] == sum(block == i for block, _ in sent)
        shares = [bar["share"] for bar in marginal["bars"]]
        whole = sum(shares) + marginal["below"] + marginal["above"] + marginal["missing"]
        assert whole == pytest.approx(1.0)
        # Eight reports bound nothing.
        assert marginal["quantiles"][2]["low"] is None
    found = await desk.read(f"{place}/calibration?clusters=3")
    assert "too few devices for a pilot" in found["refusal"]


async def test_a_report_of_a_bin_that_there_is_not_is_refused(server: Server) -> None:
    desk = server.desk
    plan = make_bin_plan("x")
    study, device = await desk.publish(plan), Device(1)
    await desk.enrol(study, device)
    payload = (259).to_bytes(2, "little")
    sums = np.zeros(259, dtype=np.int64)
    fields = {"payload": payload, "kind": "phase.v1", "n_records": 1}
    refused = await desk.put(study, *device.message(study, plan, sums, **fields))
    assert_problem(refused, "malformed-message", 400, "payload")
