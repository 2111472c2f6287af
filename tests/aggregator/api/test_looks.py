"""A decode takes second looks over: what they measure replaces what its sketch predicts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from sfumato.aggregator.resources.jobs.record import DecodeRecord
from sfumato.aggregator.worker.loop import Worker
from sfumato.analyst import AsyncClient
from sfumato.analyst.client.connection import Connection
from sfumato.analyst.periods import Choice
from sfumato.analyst.results import DecodeResult
from sfumato.learning.answers.clusters import find_worse
from sfumato.learning.looks.design import Aim
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import ConfigError, DecodingError, NotFoundError, WrongStatisticError
from sfumato.shared.plan import ClustersPart, Dimension, PlanSpec, SketchPlan, create_plan
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.fleet import CLUSTERS, SLOT, Device, assert_problem, draw_records, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio
Floats = NDArray[np.float64]
PARTS = [draw_records(seed, 2000) for seed in (1, 2)]
RECORDS = np.concatenate(PARTS)


@pytest.fixture
async def client(server: Server) -> AsyncIterator[AsyncClient]:
    key = server.desk.operator["Authorization"].removeprefix("Bearer ")
    async with AsyncClient("http://aggregator", key=key) as made:
        transport = httpx.ASGITransport(app=server.app)
        made._server = Connection("http://aggregator", key=key, transport=transport)
        yield made


async def collect(
    server: Server, name: str, plan: SketchPlan, parts: Sequence[Floats] = PARTS, **more: int
) -> None:
    """Publish a study, to which a device each has sent a sketch of its part of the records."""
    seed = int.from_bytes(name.encode()[:4], "big")
    devices = [Device(seed + i) for i in range(len(parts))]
    study = await server.desk.publish(plan, name)
    await server.desk.enrol(study, *devices)
    for i, (device, records) in enumerate(zip(devices, parts, strict=True)):
        accumulator = SketchAccumulator(plan.statistic_of(device.device_id + b"main"))
        accumulator.add(records)
        exact = plan.finish_sum(accumulator.sums, len(records))
        sums = plan.mechanism.add_noise(exact, SeededSource(device.seed))
        slot = SLOT + i * more.get("slots", 0)
        header = {"n_records": len(records), "slots": (slot, slot)}
        await server.desk.send(study, device, plan, sums, **header)


async def solve(server: Server, client: AsyncClient, **more: Any) -> DecodeResult:
    decode = await client.decode("main", n_clusters=3, **more)
    await work(server)
    return await decode.wait()


async def work(server: Server) -> bool:
    return await Worker(server.services.jobs, lease_s=60.0, poll_s=0.01).run_once(asyncio.Event())


async def look(
    server: Server, client: AsyncClient, name: str, at: DecodeResult | str
) -> SketchPlan:
    planned = await client.plan_look(at, epsilon="2", same_records=True)
    await collect(server, name, planned.plan)
    return planned.plan


def cost(centres: Any) -> float:
    return float(((RECORDS[:, None] - centres) ** 2).sum(axis=2).min(axis=1).sum())


async def test_a_sketch_is_refined_by_one_look_and_by_a_second_at_the_refined_centres(
    server: Server, client: AsyncClient
) -> None:
    await collect(server, "main", make_plan(epsilon=Fraction(2)))
    first = await solve(server, client)
    assert first.looks is None
    await look(server, client, "look", "main")
    once = await solve(server, client, looks=["look"])
    # What the first look has cost is not forgotten.
    words = (await client.plan_look(once, epsilon="2", same_records=True)).describe()
    assert any("one record costs epsilon 6 in all" in each for each in words)
    plan = await look(server, client, "again", once)
    assert isinstance(plan.statistic, ClustersPart)
    assert plan.statistic.result == once.identity
    snapshot = (await client.snapshot("again")).snapshot_id
    twice = await solve(server, client, looks=["look", snapshot])
    best = cost(KMeans(3, init=CLUSTERS, n_init=1).fit(RECORDS).cluster_centers_)
    assert cost(twice.centroids) - best < (cost(first.centroids) - best) / 4
    taken = twice.looks
    assert taken is not None
    assert len(taken.looks) == 2
    assert taken.looks[1] == await client.clusters(snapshot)
    assert np.array_equal(taken.centroids, first.centroids)
    assert np.array_equal(taken.weights, first.weights)
    assert "costs epsilon 6 in all" in taken.cost
    assert twice.weight_errors is not None
    labels = ((RECORDS[:, None] - twice.centroids) ** 2).sum(axis=2).argmin(axis=1)
    shares = np.bincount(labels, minlength=3) / len(RECORDS)
    # Of 3 shares one lies beyond five deviations of Laplace noise in 800 runs; the seed is fixed.
    assert (np.abs(twice.weights - shares) < 5 * twice.weight_errors).all()
    measured = taken.looks[-1].verdict
    assert twice.verdict == find_worse(first.verdict, measured.word)
    assert f"measured: {measured.sentence}" in twice.reason
    assert f"predicted: {first.reason}" in twice.reason


async def test_the_same_looks_are_the_same_decode_and_give_the_same_bytes_after_a_kill(
    server: Server, client: AsyncClient
) -> None:
    await collect(server, "main", make_plan())
    bare = await solve(server, client)
    await look(server, client, "look", bare)
    decode = await client.decode("main", n_clusters=3, looks=["look"])
    assert decode.decode_id != bare.decode_id
    # A worker leases it, and dies.
    job = await server.services.jobs.take(lease_s=1.0)
    assert job is not None
    lost = await server.services.jobs.prepare(job)
    died = lost.describe(lost.solve(progress=lambda _: None, cancelled=lambda: False), seconds=0.0)
    server.clock.seconds += 2.0
    assert await work(server)
    record = await server.services.decodes.get(bytes.fromhex(decode.decode_id))
    assert isinstance(record, DecodeRecord)
    assert record.result is not None
    assert {**record.result, "seconds": 0.0} == died
    again = await client.decode("main", n_clusters=3, looks=["look"])
    assert again.decode_id == decode.decode_id
    assert (await decode.state()).looks == [died["looks"]["looks"][0]["snapshot_id"]]


async def test_a_decode_that_finds_other_clusters_than_were_looked_at_fails_and_says_so(
    server: Server, client: AsyncClient
) -> None:
    await collect(server, "main", make_plan())
    planned = await client.plan_look(await solve(server, client), epsilon="2")
    part = planned.part
    # Two of the centres beside the first cluster, as of another optimum.
    near = (part.centres[0], tuple(x + 900 for x in part.centres[0]), part.centres[1])
    plan = create_plan(replace(planned.spec, clusters=replace(part, centres=near)))
    await collect(server, "other", plan)
    decode = await client.decode("main", n_clusters=3, looks=["other"])
    await work(server)
    with pytest.raises(DecodingError, match=r"looks\.0: was at other clusters"):
        await decode.wait()


async def test_a_look_that_no_result_of_the_study_can_take_over_is_refused_by_rule_and_fix(
    server: Server, client: AsyncClient
) -> None:
    await collect(server, "main", make_plan())
    planned = await client.plan_look(await solve(server, client), epsilon="2")
    await collect(server, "look", planned.plan)

    async def refuse(kind: type[Exception], words: str, *looks: str, k: int = 3) -> None:
        with pytest.raises(kind, match=words):
            await client.decode("main", n_clusters=k, looks=looks)

    async def publish(name: str, spec: PlanSpec) -> None:
        await collect(server, name, create_plan(spec))

    spec, part = planned.spec, planned.part
    await publish("nobody's", replace(spec, clusters=replace(part, result=b"")))
    wider = tuple(replace(each, upper=20.0) for each in spec.dimensions)
    await publish("wider", replace(spec, dimensions=wider))
    await refuse(WrongStatisticError, r"looks\.1: must be clusters", "look", "main")
    await refuse(ConfigError, r"looks\.0: must be a look at a published result", "nobody's")
    await refuse(ConfigError, r"looks\.0: must have the columns of this study", "wider")
    await refuse(ConfigError, r"looks\.0: must be at 2 centres, and is at 3", "look", k=2)
    await refuse(ConfigError, r"looks\.1: must be of another study", "look", "look")
    await refuse(NotFoundError, "study", "absent")
    await refuse(NotFoundError, "snapshot", "ab" * 32)
    url = f"/v1/studies/{await client.find_study('main')}/decodes"
    answer = await server.desk.post(url, {"n_clusters": 3, "looks": ["ab"]})
    assert_problem(answer, "request-invalid", 422, "looks.0")


async def test_a_look_that_measures_only_leaves_the_centroids_and_measures_the_shares(
    server: Server, client: AsyncClient
) -> None:
    await collect(server, "main", make_plan())
    first = await solve(server, client)
    planned = await client.plan_look(first, epsilon="1", aim="measure")
    await collect(server, "look", planned.plan)
    found = await solve(server, client, looks=["look"])
    assert np.array_equal(found.centroids, first.centroids)
    assert found.looks is not None
    assert found.weights.tolist() == pytest.approx(
        [each.share.value for each in found.looks.looks[0].clusters], abs=1e-9
    )
    assert found.bars == first.bars
    with pytest.raises(ConfigError, match="columns"):
        await client.plan_look(first, epsilon="1", columns=[Dimension(name="x", unit="1")])


async def test_the_server_plans_the_look_that_a_client_plans(
    server: Server, client: AsyncClient
) -> None:
    await collect(server, "main", make_plan())
    decode = await client.decode("main", n_clusters=3)
    url = f"/v1/decodes/{decode.decode_id}/look"
    assert_problem(await server.desk.post(url, {}), "decoding-invalid", 422, "decode")
    await work(server)
    first = await decode.wait()
    column = Dimension(name="x", unit="mi", lower=0.0, upper=10.0)
    plans: dict[Aim, tuple[Dimension, ...]] = {"measure": (), "refine": (), "profile": (column,)}
    for aim, columns in plans.items():
        for same in (False, True):
            planned = await client.plan_look(
                first, epsilon="1/2", aim=aim, same_records=same, columns=columns
            )
            asked: dict[str, Any] = {
                "aim": aim,
                "epsilon": "1/2",
                "same_records": same,
                "columns": [{"name": "x", "unit": "mi", "lower": 0.0, "upper": 10.0}][
                    : len(columns)
                ],
            }
            answer = await server.desk.post(url, asked)
            assert answer.status_code == 200
            assert answer.json() == asdict(planned.to_body())
            assert len(answer.json()["summed"]) == {"measure": 0, "refine": 2, "profile": 3}[aim]
    for asked, field in (
        ({"epsilon": "0"}, "epsilon"),
        ({"delta": "none"}, "delta"),
        ({"columns": [asdict(column)]}, "columns"),
        ({"clusters_per_sketch": 2}, "clusters_per_sketch (--per-sketch)"),
    ):
        assert_problem(await server.desk.post(url, asked), "request-invalid", 422, field)


def draw_window(seed: int, share: float) -> Floats:
    """Draw 2,000 records, of which the first cluster has a share."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(3, 2000, p=[share, 0.6 - share, 0.4])
    return CLUSTERS[chosen] + 0.5 * rng.standard_normal((2000, 2))


async def test_comparison_and_timeline_use_the_shares_that_a_look_has_measured(
    server: Server, client: AsyncClient
) -> None:
    windows = [draw_window(seed, share) for seed, share in enumerate((0.2, 0.2, 0.35, 0.35))]
    await collect(server, "main", make_plan(), windows, slots=1)
    planned = await client.plan_look(await solve(server, client), epsilon="4", same_records=True)
    # The devices of the last window have not answered yet.
    await collect(server, "look", planned.plan, windows[:3], slots=1)
    first, second = (Choice(first_slot=SLOT + i, last_slot=SLOT + i) for i in (1, 2))
    comparison = await client.compare("main", first, second, n_clusters=3, look="look")
    bare = await client.compare("main", first, second, n_clusters=3)
    assert comparison.analysis_id != bare.analysis_id
    timeline = await client.timeline("main", n_clusters=3, look="look")
    for _ in range(3):
        assert await work(server)
    found = (await comparison.wait()).body
    assert not any(each.is_measured for each in (await bare.wait()).body.changes)
    j = int(np.argmin([np.linalg.norm(np.array(each.centre) + 5.0) for each in found.clusters]))
    for each in found.changes:
        assert each.is_measured == (each.quantity == "weight")
        if each.is_measured and each.cluster == j:
            assert abs(each.estimate - np.log(0.35 / 0.2)) < 5 * each.error
            assert each.is_named
            assert "measured share" in each.words
    body = (await timeline.wait()).body
    assert "shares of 3 of 4 windows are measured by a second look" in body.words
    for window, share, is_measured in zip(
        body.windows, (0.2, 0.2, 0.35, 0.35), (True, True, True, False), strict=True
    ):
        assert window.clusters is not None
        cluster = window.clusters[j]
        assert cluster.is_measured == is_measured
        assert cluster.weight == pytest.approx(share, abs=0.06)


async def test_a_look_of_other_windows_or_clusters_is_refused_in_an_analysis(
    server: Server, client: AsyncClient
) -> None:
    windows = [draw_window(seed, 0.3) for seed in range(2)]
    await collect(server, "main", make_plan(), windows, slots=1)
    planned = await client.plan_look(await solve(server, client), epsilon="4", same_records=True)
    other = replace(planned.spec, window=replace(planned.spec.window, length_s=7200))
    await collect(server, "slow", create_plan(other), windows, slots=1)
    await collect(server, "look", planned.plan, windows, slots=1)
    first, second = (Choice(first_slot=SLOT + i, last_slot=SLOT + i) for i in (0, 1))
    with pytest.raises(ConfigError, match="look: must have the windows of this study"):
        await client.compare("main", first, second, n_clusters=3, look="slow")
    with pytest.raises(ConfigError, match="look: must be at 2 centres, and is at 3"):
        await client.compare("main", first, second, n_clusters=2, look="look")
    with pytest.raises(WrongStatisticError, match="look: must be clusters"):
        await client.compare("main", first, second, n_clusters=3, look="main")
