from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.resources.jobs.store import has_leasable_job
from sfumato.learning.planning.quality import predict_relative_sse
from sfumato.shared.plan import WindowRule
from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server
from tests.walking import Walk

pytestmark = pytest.mark.anyio


async def fill(desk: Desk) -> tuple[bytes, list[np.ndarray[Any, Any]]]:
    """Two devices north and south, two slots each; return the study and what they released."""
    plan = make_plan()
    study = await desk.publish(plan)
    devices = [Device(1), Device(2, {"site": "south"})]
    await desk.enrol(study, *devices)
    released = []
    for device in devices:
        for i in range(2):
            sums = device.release(plan, noise_seed=10 * device.seed + i)
            await desk.send(study, device, plan, sums, sequence=i)
            released.append(sums)
    return study, released


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        ({}, [0, 1, 2, 3]),
        ({"labels": {"site": "south"}}, [2, 3]),
        ({"first_slot": SLOT + 1}, [1, 3]),
        ({"last_slot": SLOT}, [0, 2]),
        ({"first_slot": SLOT, "last_slot": SLOT, "labels": {"site": "north"}}, [0]),
    ],
)
async def test_a_snapshot_is_the_exact_sum_of_what_it_selects(
    desk: Desk, selection: dict[str, Any], chosen: list[int]
) -> None:
    study, released = await fill(desk)
    url = f"/v1/studies/{study.hex()}/snapshots"
    first, second = await desk.post(url, selection), await desk.post(url, selection)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    made = first.json()
    assert made["n_sketches"] == len(chosen)
    assert made["n_records"] == 500 * len(chosen)
    assert made["n_devices"] == len({i // 2 for i in chosen})
    whole = {"first_slot": None, "last_slot": None, "labels": {}} | selection
    assert made["selection"] == whole
    shown = await desk.read(first.headers["location"])
    assert shown["sums"] == np.sum([released[i] for i in chosen], axis=0).tolist()
    assert {name: shown[name] for name in made} == made
    assert shown["snr"] > 0
    assert shown["noise_energy"] > 0


async def test_equal_sketches_have_an_equal_digest_whatever_the_words(desk: Desk) -> None:
    study, _ = await fill(desk)
    url = f"/v1/studies/{study.hex()}/snapshots"
    narrow = (await desk.post(url, {"first_slot": SLOT, "last_slot": SLOT + 1})).json()
    wide = (await desk.post(url, {})).json()
    assert narrow["digest"] == wide["digest"]
    assert narrow["snapshot_id"] != wide["snapshot_id"]
    assert narrow["selection"]["first_slot"] == SLOT


async def test_a_new_sketch_makes_another_snapshot_and_the_old_one_stays(desk: Desk) -> None:
    study, _ = await fill(desk)
    url = f"/v1/studies/{study.hex()}/snapshots"
    before = await desk.post(url, {})
    frozen = await desk.read(before.headers["location"])
    await desk.send(study, Device(1), sequence=5)
    after = await desk.post(url, {})
    assert after.status_code == 201
    assert after.json()["digest"] != before.json()["digest"]
    assert await desk.read(before.headers["location"]) == frozen


async def test_a_selection_that_is_empty_or_unknown_is_refused(desk: Desk) -> None:
    study, _ = await fill(desk)
    with Walk() as walk:
        for selection, field in [
            ({"first_slot": SLOT + 9}, "selection"),
            ({"first_slot": SLOT + 1, "last_slot": SLOT}, "selection"),
            ({"labels": {"site": "west"}}, "labels.site"),
            ({"labels": {"floor": "1"}}, "labels.floor"),
            ({"weighting": "equal"}, "weighting"),
            ({"weighting": None}, "weighting"),
            ({"first_slot": 0.5}, "first_slot"),
            ({"first_slot": 1 << 60}, "first_slot"),
        ]:
            with walk.cell(selection, field):
                answer = await desk.post(f"/v1/studies/{study.hex()}/snapshots", selection)
                assert_problem(answer, "request-invalid", 422, field)


async def test_windows_by_count_are_not_selected_by_slot(desk: Desk) -> None:
    study = await desk.publish(make_plan(window=WindowRule(kind="count", length=500)))
    answer = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {"first_slot": 1})
    assert_problem(answer, "request-invalid", 422, "selection")


async def test_utility_is_that_of_a_snapshot_of_everything(desk: Desk) -> None:
    study, _ = await fill(desk)
    made = (await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})).json()
    utility = await desk.read(f"/v1/studies/{study.hex()}/utility")
    assert utility.pop("band") is None
    assert utility == {name: made[name] for name in utility}


async def test_utility_for_a_number_of_clusters_predicts_the_band_of_a_decode(desk: Desk) -> None:
    study, plan = (await fill(desk))[0], make_plan()
    url = f"/v1/studies/{study.hex()}/utility"
    utility = await desk.read(url, params={"n_clusters": 2})
    expected = predict_relative_sse(
        snr=utility["snr"],
        n_frequencies=plan.n_frequencies,
        n_clusters=2,
        n_dimensions=plan.n_dimensions,
    )
    assert (utility["band"]["low"], utility["band"]["high"]) == (expected.low, expected.high)
    assert utility["band"]["statement"] == expected.describe()
    many = await desk.read(url, params={"n_clusters": 1000})
    assert many["band"]["high"] is None
    refused = await desk.http.get(url, params={"n_clusters": 0}, headers=desk.analyst)
    assert_problem(refused, "request-invalid", 422, "n_clusters")


async def test_a_decode_is_queued_once_under_its_identity(desk: Desk) -> None:
    study, _ = await fill(desk)
    url = f"/v1/studies/{study.hex()}/decodes"
    snapshot = (await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})).json()
    first = await desk.post(url, {"n_clusters": 3})
    same = await desk.post(
        url,
        {
            "snapshot_id": snapshot["snapshot_id"],
            "n_clusters": 3,
            "decoder": "mixture",
            # Said or left out, the default is the default.
            "settings": {"n_replicates": 12},
            "seed": 0,
        },
    )
    assert (first.status_code, same.status_code) == (202, 200)
    assert first.json() == same.json()
    assert first.headers["location"] == f"/v1/decodes/{first.json()['decode_id']}"
    assert first.json()["state"] == "queued"
    assert first.json()["snapshot_id"] == snapshot["snapshot_id"]
    for change in ({"seed": 1}, {"n_clusters": 2}, {"settings": {"n_replicates": 4}}):
        other = await desk.post(url, {"n_clusters": 3} | change)
        assert other.status_code == 202
        assert other.json()["decode_id"] != first.json()["decode_id"]


async def test_a_decode_that_cannot_be_is_refused_and_not_queued(server: Server) -> None:
    study, _ = await fill(server.desk)
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"decoder": "crystal-ball"}, "decoding-invalid", "decoder"),
        ({"n_clusters": 0}, "decoding-invalid", "n_clusters"),
        ({"n_clusters": 41}, "decoding-invalid", "n_clusters"),
        ({"n_clusters": "3"}, "request-invalid", "n_clusters"),
        ({"n_clusters": True}, "request-invalid", "n_clusters"),
        ({"settings": {"colour": 1}}, "decoding-invalid", "settings.colour"),
        ({"settings": {"name": "x"}}, "decoding-invalid", "settings.name"),
        ({"settings": {"n_replicates": 0}}, "decoding-invalid", "n_replicates"),
        ({"seed": -1}, "request-invalid", "seed"),
        ({"seed": 1 << 63}, "request-invalid", "seed"),
        ({"snapshot_id": "ab" * 32}, "not-found", "snapshot"),
        ({"snapshot_id": "zz"}, "request-invalid", "snapshot_id"),
    ]
    with Walk() as walk:
        for change, slug, field in cases:
            with walk.cell(change, slug, field):
                body = {"n_clusters": 3} | change
                answer = await server.desk.post(f"/v1/studies/{study.hex()}/decodes", body)
                assert_problem(answer, slug, 404 if slug == "not-found" else 422, field)
                async with server.store.begin() as transaction:
                    assert not await has_leasable_job(transaction, now=server.clock.now())


async def test_a_decode_of_nothing_is_refused(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 3})
    assert_problem(answer, "request-invalid", 422, "selection")


async def test_a_snapshot_of_another_study_is_not_found(desk: Desk) -> None:
    study, _ = await fill(desk)
    snapshot = (await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})).json()
    other = await desk.publish(make_plan(), name="other")
    body = {"n_clusters": 3, "snapshot_id": snapshot["snapshot_id"]}
    answer = await desk.post(f"/v1/studies/{other.hex()}/decodes", body)
    assert_problem(answer, "not-found", 404, "snapshot")


async def test_a_queued_decode_is_cancelled_and_asked_for_again(desk: Desk) -> None:
    study, _ = await fill(desk)
    url = f"/v1/studies/{study.hex()}/decodes"
    made = await desk.post(url, {"n_clusters": 3})
    where = made.headers["location"]
    cancelled = await desk.http.delete(where, headers=desk.analyst)
    assert cancelled.json()["state"] == "cancelled"
    assert (await desk.read(where))["finished"] is not None
    again = await desk.post(url, {"n_clusters": 3})
    assert (again.status_code, again.json()["state"]) == (202, "queued")
    assert again.headers["location"] == where


async def test_an_unknown_decode_or_snapshot_is_not_found(desk: Desk) -> None:
    for what in ("decode", "snapshot"):
        answer = await desk.http.get(f"/v1/{what}s/{'ab' * 32}", headers=desk.analyst)
        assert_problem(answer, "not-found", 404, what)
    answer = await desk.http.delete(f"/v1/decodes/{'ab' * 32}", headers=desk.analyst)
    assert_problem(answer, "not-found", 404, "decode")


async def test_a_decode_of_a_selection_is_that_of_its_snapshot(desk: Desk) -> None:
    plan, devices = make_plan(), [Device(1), Device(2, {"site": "south"})]
    study = await desk.open(*devices, plan=plan)
    for device in devices:
        await desk.send(study, device, plan)
    url, selection = f"/v1/studies/{study.hex()}", {"labels": {"site": "south"}}
    decode = await desk.post(f"{url}/decodes", {"n_clusters": 2, "selection": selection})
    assert decode.status_code == 202, decode.text
    snapshot = await desk.post(f"{url}/snapshots", selection)
    assert (snapshot.status_code, snapshot.json()["n_devices"]) == (200, 1)
    identity = snapshot.json()["snapshot_id"]
    assert decode.json()["snapshot_id"] == identity
    both = {"n_clusters": 2, "selection": selection, "snapshot_id": identity}
    answer = await desk.post(f"{url}/decodes", both)
    assert_problem(answer, "request-invalid", 422, "selection")


@pytest.mark.parametrize("n_clusters", [0, -1])
async def test_clusters_of_none_are_refused_before_what_the_study_holds(
    desk: Desk, n_clusters: int
) -> None:
    study = await desk.publish(make_plan())
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": n_clusters})
    assert_problem(answer, "decoding-invalid", 422, "n_clusters")
