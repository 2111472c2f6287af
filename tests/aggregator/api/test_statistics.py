"""Histograms, grids and moments, from upload to answer."""

import asyncio
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.worker import Worker
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, LogTransform, SketchPlan, WindowRule
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.fleet import Desk, Device, assert_problem, draw_records, make_plan
from tests.aggregator.serving import Server
from tests.shared.plan.looks import LOOK

pytestmark = pytest.mark.anyio

NUMBERS = (
    Dimension(name="pressure", unit="bar", lower=-10.0, upper=10.0),
    Dimension(name="flow", unit="l/s", lower=-10.0, upper=10.0),
)
MIXED = (
    Dimension(name="pressure", unit="bar", lower=-10.0, upper=10.0),
    Dimension(
        name="flow", unit="l/s", lower=-1e6, upper=1e6, transform=LogTransform(resolution=0.01)
    ),
    Dimension(name="site", unit="1", levels=("north", "south")),
)


def make_other_plan(statistic: str, **changes: Any) -> SketchPlan:
    """A plan of two numbers that sums something else than Fourier features."""
    choices: dict[str, Any] = {
        "dimensions": NUMBERS,
        "statistic": statistic,
        "n_frequencies": None,
        "seed": None,
    }
    if statistic == "grid":
        choices["cells"] = (40, 40)
    return make_plan(**(choices | changes))


def draw_mixed(seed: int, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Records with a column that is sometimes missing, and one of levels."""
    numbers = draw_records(seed, count)
    rng = np.random.default_rng(1000 + seed)
    levels = (rng.random(count) < 0.25).astype(np.float64)
    numbers[rng.random(count) < 0.1, 0] = np.nan
    return np.column_stack([numbers, levels])


async def fill(
    desk: Desk, plan: SketchPlan, n_devices: int = 4, count: int = 1500, *, first: int = 1
) -> tuple[bytes, Any]:
    """Let devices upload a sketch each; return the study and all records."""
    study = await desk.publish(plan)
    devices = [Device(first + i) for i in range(n_devices)]
    await desk.enrol(study, *devices)
    records = []
    for i, device in enumerate(devices):
        own = draw_mixed(i, count)[:, : plan.n_dimensions]
        block = i % plan.blocks.n_blocks
        accumulator = SketchAccumulator(plan.statistic_of(b"", block=block))
        accumulator.add(own)
        exact = plan.finish_sum(accumulator.sums, count)
        sums = plan.mechanism.add_noise(exact, SeededSource(i))
        chosen: dict[str, Any] = {"block": block} if plan.is_split else {}
        if not plan.releases_count:
            chosen["n_records"] = count
        else:
            chosen |= {"slots": (0, 0), "sequence": 0}
        message = device.message(study, plan, sums, **chosen)
        answer = await desk.put(study, *message)
        assert answer.status_code == 201, answer.text
        records.append(own)
    return study, np.concatenate(records)


async def freeze(desk: Desk, study: bytes) -> str:
    made = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    assert made.status_code == 201, made.text
    return str(made.json()["snapshot_id"])


async def test_a_histogram_shows_each_column_within_its_stated_error(desk: Desk) -> None:
    study, records = await fill(desk, make_other_plan("histogram", dimensions=MIXED))
    shown = await desk.read(f"/v1/snapshots/{await freeze(desk, study)}/histogram")
    pressure, flow, site = shown["marginals"]
    values = records[np.isfinite(records[:, 0]), 0]
    n = len(records)
    for bar in pressure["bars"]:
        inside = np.count_nonzero((bar["lower"] <= values) & (values < bar["upper"]))
        # An edge lies between two steps of the quantiser; six deviations fail once in 1e8.
        assert abs(bar["share"] - inside / n) <= 6 * bar["error"] + 0.002
    assert pressure["missing"] == pytest.approx(0.1, abs=0.02)
    for quantile in pressure["quantiles"]:
        assert quantile["low"] <= np.quantile(values, quantile["share"]) <= quantile["high"]
    assert flow["scale"] == "log"
    median = next(each for each in flow["quantiles"] if each["share"] == 0.5)
    assert median["low"] <= np.median(records[:, 1]) <= median["high"]
    assert [level["level"] for level in site["levels"]] == ["north", "south"]
    assert site["levels"][1]["share"] == pytest.approx(records[:, 2].mean(), abs=0.01)


async def test_a_gap_between_records_is_no_part_of_a_bar(desk: Desk) -> None:
    """The bars of two values are narrow, and so is what is said of their place."""
    plan = make_other_plan("histogram", epsilon=Fraction(1))
    study = await desk.publish(plan)
    device = Device(1)
    await desk.enrol(study, device)
    flags = np.repeat([[-8.0, -8.0], [8.0, 8.0]], [1500, 500], axis=0)
    accumulator = SketchAccumulator(plan.statistic_of(b""))
    accumulator.add(flags)
    sums = plan.mechanism.add_noise(plan.finish_sum(accumulator.sums, 2000), SeededSource(1))
    await desk.send(study, device, plan, sums, n_records=2000)
    shown = await desk.read(f"/v1/snapshots/{await freeze(desk, study)}/histogram")
    for marginal in shown["marginals"]:
        assert marginal["seen_lower"] <= -8 < 8 <= marginal["seen_upper"]
        for value, share in ((-8.0, 0.75), (8.0, 0.25)):
            (bar,) = (bar for bar in marginal["bars"] if bar["lower"] <= value < bar["upper"])
            assert bar["upper"] - bar["lower"] < 1.0
            # Six deviations fail once in 5,000 for a bin of Laplace noise.
            assert abs(bar["share"] - share) < 6 * bar["error"]


async def test_a_pilot_of_one_dimension_a_sketch_gives_bounds_for_a_main_study(desk: Desk) -> None:
    plan = make_other_plan("histogram", dimensions_per_sketch=1, epsilon=Fraction(1))
    study, records = await fill(desk, plan)
    snapshot = await freeze(desk, study)
    found = await desk.read(f"/v1/snapshots/{snapshot}/calibration?clusters=3")
    assert found["refusal"] is None
    for column, whole in zip(found["columns"], records.T, strict=True):
        values = whole[np.isfinite(whole)]
        assert column["lower"] < values.min() < values.max() < column["upper"]
        assert column["search_lower"] < np.quantile(values, 0.05)
        assert 0.5 < column["spread"] / values.std() < 2


async def test_few_reports_of_bins_are_no_pilot_and_the_answer_says_what_would_be(
    desk: Desk,
) -> None:
    reports = {"release": "phase.v1", "most_records": None, "least_records": None}
    plan = make_other_plan("histogram", epsilon=Fraction(3), **reports)
    study, _ = await fill(desk, plan, count=1)
    found = await desk.read(f"/v1/snapshots/{await freeze(desk, study)}/calibration?clusters=3")
    assert [column["name"] for column in found["columns"]] == ["pressure", "flow"]
    assert "reports would do" in found["refusal"]


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6)])
async def test_moments_show_the_correlation_within_its_band(desk: Desk, delta: Fraction) -> None:
    study, records = await fill(desk, make_other_plan("moments", delta=delta, norm_steps=2895))
    shown = await desk.read(f"/v1/snapshots/{await freeze(desk, study)}/moments")
    complete = records[np.isfinite(records).all(axis=1)]
    truth = np.corrcoef(complete.T)[0, 1]
    margin = 0.05
    assert shown["correlation_low"][0][1] - margin <= truth
    assert truth <= shown["correlation_high"][0][1] + margin
    assert shown["n_complete"] == pytest.approx(len(complete), rel=0.1)


@pytest.mark.parametrize("per_sketch", [1, 2])
async def test_a_look_measures_what_devices_hold_around_its_centres(
    desk: Desk, per_sketch: int
) -> None:
    part = replace(LOOK, assigned=("pressure",), summed=("pressure", "flow"))
    part = replace(part, clusters_per_sketch=per_sketch)
    units = replace(part.units, presence=0)
    numbers = tuple(replace(each, missing=0.0) for each in NUMBERS)
    plan = make_other_plan(
        "clusters", dimensions=numbers, clusters=replace(part, units=units), epsilon=Fraction(4)
    )
    study, records = await fill(desk, plan)
    snapshot = await freeze(desk, study)
    shown = await desk.read(f"/v1/snapshots/{snapshot}/clusters")
    pressure = np.where(np.isfinite(records[:, 0]), records[:, 0], 0.0)
    is_first = pressure <= 0.0  # of equally near centres the first takes a record
    first, second = shown["clusters"]
    # With one cluster in a sketch, two of four devices stand for all.
    margin = 0.02 if per_sketch == 2 else 0.05
    assert first["share"]["value"] == pytest.approx(is_first.mean(), abs=margin)
    assert second["share"]["value"] == pytest.approx(1.0 - is_first.mean(), abs=margin)
    assert shown["n_sketches"] == 4
    assert [each["name"] for each in shown["summed"]] == ["pressure", "flow"]
    assert shown["verdict"]["word"] in ("sound", "rough", "doubtful", "do not use")
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 3})
    assert_problem(answer, "wrong-statistic", 409, "statistic.kind")


async def test_centroids_are_decoded_from_a_grid(server: Server) -> None:
    desk = server.desk
    study, records = await fill(desk, make_other_plan("grid"))
    url = f"/v1/studies/{study.hex()}/decodes"
    queued = await desk.post(url, {"n_clusters": 3})
    assert queued.status_code == 202, queued.text
    assert await Worker(server.services.jobs, lease_s=60.0, poll_s=0.01).run_once(asyncio.Event())
    decoded = await desk.read(queued.headers["location"])
    assert decoded["state"] == "succeeded", decoded
    result = decoded["result"]
    assert (result["decoder"], result["quality"]) == ("grid", None)
    complete = records[np.isfinite(records).all(axis=1)]
    nearest = np.linalg.norm(complete[:, None] - np.array(result["centroids"]), axis=2).min(axis=1)
    assert np.sqrt(np.mean(nearest**2)) < 1.0


@pytest.mark.parametrize("statistic", ["histogram", "grid", "moments"])
async def test_a_secret_number_of_records_is_estimated(desk: Desk, statistic: str) -> None:
    plan = make_other_plan(
        statistic,
        neighbouring="add-remove-one",
        window=WindowRule(kind="time", origin=3600, length_s=3600),
    )
    study, records = await fill(desk, plan)
    shown = await desk.read(f"/v1/snapshots/{await freeze(desk, study)}")
    assert shown["n_records"] == pytest.approx(len(records), rel=0.05)


async def test_a_ball_that_shortens_many_records_is_named(desk: Desk) -> None:
    study, _ = await fill(desk, make_other_plan("moments"))
    shown = await desk.read(f"/v1/snapshots/{await freeze(desk, study)}/moments")
    assert any("were shortened" in warning for warning in shown["warnings"])


async def test_what_a_statistic_does_not_answer_is_refused_by_name(desk: Desk) -> None:
    study, _ = await fill(desk, make_other_plan("histogram"))
    snapshot = await freeze(desk, study)
    answer = await desk.http.get(f"/v1/snapshots/{snapshot}/moments", headers=desk.analyst)
    assert_problem(answer, "wrong-statistic", 409, "statistic.kind")
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 3})
    assert_problem(answer, "wrong-statistic", 409, "statistic.kind")
    body = {"weighting": "noise-optimal"}
    answer = await desk.post(f"/v1/studies/{study.hex()}/snapshots", body)
    assert_problem(answer, "request-invalid", 422, "weighting")


async def test_a_count_below_zero_by_more_than_noise_is_refused(desk: Desk) -> None:
    plan = make_other_plan("histogram")
    study, device = await desk.publish(plan), Device(1)
    await desk.enrol(study, device)
    low, high = plan.coordinate_limits(500)
    assert low[0] == -plan.mechanism.noise_bound
    assert high[0] == 500 + plan.mechanism.noise_bound
    sums = np.zeros(plan.n_coordinates, dtype=np.int64)
    sums[0] = low[0] - 1
    answer = await desk.put(study, *device.message(study, plan, sums, n_records=500))
    assert_problem(answer, "implausible-sketch", 422, "payload")


@pytest.mark.parametrize("statistic", ["histogram", "grid"])
async def test_counts_that_do_not_add_up_to_the_records_are_refused(
    desk: Desk, statistic: str
) -> None:
    plan = make_other_plan(statistic)
    study, device = await desk.publish(plan), Device(1)
    await desk.enrol(study, device)
    honest = device.release(plan, noise_seed=1)
    # Each coordinate by itself is one that noise may give, and so is their length.
    lie = honest + 1
    answer = await desk.put(study, *device.message(study, plan, lie, n_records=500))
    assert_problem(answer, "implausible-sketch", 422, "payload")
    answer = await desk.put(study, *device.message(study, plan, honest, n_records=500))
    assert answer.status_code == 201, answer.text
