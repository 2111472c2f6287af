import asyncio
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.aggregator.answers.clusters import build_problem
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.worker import Worker
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.utility import form_sketch
from sfumato.learning.estimate.weights import SIZE_WEIGHTS, WEIGHTINGS
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

UNEQUAL = [round(100 * 100 ** (i / 19)) for i in range(20)]
"""From 100 to 10,000 in equal ratios."""


def make_noisy_plan() -> SketchPlan:
    """Return a plan whose noise dominates: pure epsilon by the K-norm mechanism."""
    return make_plan(mechanism="discrete-knorm", epsilon=Fraction(2), most_records=10_000)


async def fill(desk: Desk, sizes: list[int]) -> tuple[bytes, list[NDArray[np.int64]]]:
    """Upload a sketch of each size; return the study and what was released."""
    plan = make_noisy_plan()
    study = await desk.publish(plan)
    devices = [Device(1 + i) for i in range(len(sizes))]
    await desk.enrol(study, *devices)
    released = []
    for device, size in zip(devices, sizes, strict=True):
        sums = device.release(plan, noise_seed=device.seed, count=size)
        await desk.send(study, device, plan, sums, n_records=size)
        released.append(sums)
    return study, released


async def freeze(desk: Desk, study: bytes, weighting: str) -> dict[str, Any]:
    """Make a snapshot of everything and read it back."""
    url = f"/v1/studies/{study.hex()}/snapshots"
    made = await desk.post(url, {"weighting": weighting})
    assert made.status_code == 201, made.text
    shown: dict[str, Any] = await desk.read(made.headers["location"])
    assert {name: shown[name] for name in made.json()} == made.json()
    return shown


async def test_noise_optimal_weights_raise_the_snr_of_unequal_sketches(desk: Desk) -> None:
    study, released = await fill(desk, UNEQUAL)
    by_size = await freeze(desk, study, "size")
    optimal = await freeze(desk, study, "noise-optimal")
    assert optimal["snr"] > 1.5 * by_size["snr"] > 0
    assert optimal["noise_energy"] < by_size["noise_energy"]
    assert optimal["signal_energy"] == pytest.approx(by_size["signal_energy"], rel=0.2)
    for name in ("digest", "snapshot_id"):
        assert optimal[name] != by_size[name]
    assert (by_size["weighting"], optimal["weighting"]) == WEIGHTINGS
    assert by_size["weights"] == {"a": 1.0, "b": 0.0}
    assert optimal["weights"]["b"] > 0
    for shown in (by_size, optimal):
        assert shown["moments"] == {
            "n_sketches": [len(UNEQUAL)],
            "first": [sum(UNEQUAL)],
            "second": [sum(n**2 for n in UNEQUAL)],
            "third": [sum(n**3 for n in UNEQUAL)],
            "energy": [0],
        }
        columns = np.array(released).T.tolist()
        assert shown["sums"] == [sum(column) for column in columns]
        assert shown["size_sums"] == [
            sum(n * s for n, s in zip(UNEQUAL, column, strict=True)) for column in columns
        ]


async def test_equal_sketches_count_alike_under_either_weighting(desk: Desk) -> None:
    study, _ = await fill(desk, [1500] * 6)
    by_size = await freeze(desk, study, "size")
    optimal = await freeze(desk, study, "noise-optimal")
    for name in ("snr", "signal_energy", "noise_energy"):
        assert optimal[name] == pytest.approx(by_size[name], rel=1e-9)
    for shown in (by_size, optimal):
        a, b = shown["weights"]["a"], shown["weights"]["b"]
        total = a * shown["moments"]["first"][0] + b * shown["moments"]["second"][0]
        assert (a * 1500 + b * 1500**2) / total == pytest.approx(1 / 6)


async def test_a_problem_has_the_sketch_and_noise_of_the_snapshots_weights(
    server: Server,
) -> None:
    study, released = await fill(server.desk, UNEQUAL)
    shown = await freeze(server.desk, study, "noise-optimal")
    snapshot = await server.services.snapshots.get(bytes.fromhex(shown["snapshot_id"]))
    plan, n = make_noisy_plan(), np.array(UNEQUAL, dtype=np.float64)
    share = snapshot.weight_a * n + snapshot.weight_b * n**2
    share /= share.sum()
    each = np.array(released) / (plan.amplitude * plan.alpha * n[:, None])
    average = (share[:, None] * each).sum(axis=0)
    problem = build_problem(plan, snapshot, 3)
    m = plan.n_frequencies
    assert np.allclose(problem.sketch, average[:m] + 1j * average[m:], rtol=1e-12)
    scale = plan.amplitude * plan.alpha * n
    noise = float(np.sum(2 * plan.mechanism.variance * (share / scale) ** 2))
    sampling = (1 / plan.alpha - snapshot.signal_energy) * float(np.sum(share**2 / n))
    assert shown["noise_energy"] == pytest.approx(noise)
    assert problem.noise_variance == pytest.approx(noise + sampling)
    n_effective = 1 / float(np.sum(share**2 / n))
    energy = float(np.mean(np.abs(problem.sketch) ** 2)) - noise - 1 / (plan.alpha * n_effective)
    assert snapshot.signal_energy == pytest.approx(energy / (1 - 1 / n_effective), rel=1e-6)
    assert snapshot.snr == pytest.approx(snapshot.signal_energy / (noise + sampling), rel=1e-4)


async def test_a_decode_uses_the_stored_weights_and_chooses_none(server: Server) -> None:
    study, _ = await fill(server.desk, [100, 2000])
    shown = await freeze(server.desk, study, "noise-optimal")
    snapshot = await server.services.snapshots.get(bytes.fromhex(shown["snapshot_id"]))
    plan = make_noisy_plan()
    first, again = build_problem(plan, snapshot, 3), build_problem(plan, snapshot, 3)
    assert first.sketch.tobytes() == again.sketch.tobytes()
    assert first.noise_variance == again.noise_variance
    other = build_problem(plan, replace(snapshot, weight_a=1.0, weight_b=0.0), 3)
    assert other.sketch.tobytes() != first.sketch.tobytes()


async def test_a_decode_of_a_noise_optimal_snapshot_succeeds_under_its_own_identity(
    server: Server,
) -> None:
    desk = server.desk
    study, _ = await fill(desk, UNEQUAL)
    worker = Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)
    seen = []
    for weighting in WEIGHTINGS:
        snapshot = await freeze(desk, study, weighting)
        body = {
            "snapshot_id": snapshot["snapshot_id"],
            "n_clusters": 3,
            "settings": {"n_replicates": 1},
        }
        answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", body)
        assert answer.status_code == 202, answer.text
        assert await worker.run_once(asyncio.Event())
        decode = await desk.read(answer.headers["location"])
        assert decode["state"] == "succeeded"
        assert decode["result"]["snr"] == snapshot["snr"]
        seen.append(decode)
    assert seen[0]["decode_id"] != seen[1]["decode_id"]
    assert seen[0]["result"]["centroids"] != seen[1]["result"]["centroids"]


async def test_an_unknown_weighting_is_refused_with_those_that_there_are(server: Server) -> None:
    study, _ = await fill(server.desk, [500])
    url = f"/v1/studies/{study.hex()}/snapshots"
    answer = await server.desk.post(url, {"weighting": "equal"})
    assert_problem(answer, "request-invalid", 422, "weighting")
    for weighting in WEIGHTINGS:
        assert f"'{weighting}'" in answer.json()["detail"]
    with pytest.raises(ConfigError, match="weighting: must be one of size, noise-optimal"):
        await server.services.snapshots.create(study, Selection(), weighting="equal")


async def test_the_interface_documents_both_weightings_by_example(desk: Desk) -> None:
    schemas = (await desk.http.get("/openapi.json")).json()["components"]["schemas"]
    request = schemas["SnapshotRequest"]
    assert tuple(request["properties"]["weighting"]["enum"]) == WEIGHTINGS
    assert request["example"]["weighting"] == "noise-optimal"
    shown = schemas["SnapshotSumsBody"]["example"]
    assert shown["weighting"] == "noise-optimal"
    # A plan without a secure sum has no batches to count.
    left_out = set(schemas["SnapshotSumsBody"]["properties"]) - set(shown)
    assert left_out == {"n_batches", "n_waiting"}
    assert set(shown["moments"]) == {"n_sketches", "first", "second", "third", "energy"}
    assert set(shown["weights"]) == {"a", "b"}


def test_a_sketch_under_size_weights_is_the_sum_over_all_records() -> None:
    plan = make_noisy_plan()
    m = plan.n_frequencies
    sums = np.random.default_rng(3).integers(-(10**9), 10**9, size=2 * m)
    huge = np.full((2, 2 * m), (1 << 62) - 1)
    sketch = form_sketch(
        plan, SIZE_WEIGHTS, SizeMoments.of_sizes([100, 900]), sums=sums, size_sums=huge
    )
    scaled = sums / (plan.amplitude * plan.alpha * 1000)
    assert np.array_equal(sketch, scaled[:m] + 1j * scaled[m:])
