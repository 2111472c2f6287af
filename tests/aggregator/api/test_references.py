"""Names and first digits in addresses, in place of ids."""

from __future__ import annotations

import pytest

from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan

pytestmark = pytest.mark.anyio


async def test_a_study_is_found_by_its_name_and_by_first_digits(desk: Desk) -> None:
    study = (await desk.publish(make_plan(), name="pumps 1 · Łódź")).hex()
    await desk.publish(make_plan(seed="00" * 32), name="other")

    for reference in (study, study[:6], study[:13], "pumps 1 · Łódź"):
        for path in ("", "/refusals", "/privacy", "/sketches", "/decodes"):
            url = f"/v1/studies/{reference}{path}"
            answer = await desk.operate("GET", url)
            assert answer.status_code == 200, (url, answer.text)
    shown = await desk.operate("GET", f"/v1/studies/{study[:6]}")
    assert shown.json()["study_id"] == study


async def test_a_reference_that_fits_none_or_several_lists_what_there_is(desk: Desk) -> None:
    ids = [(await desk.publish(make_plan(seed=f"0{i}" * 32), name="twins")).hex() for i in range(2)]

    several = await desk.operate("GET", "/v1/studies/twins")
    assert_problem(several, "request-invalid", 422, "study")
    assert all(each[:12] in several.json()["detail"] for each in ids)
    none = await desk.operate("GET", "/v1/studies/triplets")
    assert_problem(none, "not-found", 404, "study")
    assert "twins" in none.json()["detail"]
    lost = await desk.operate("GET", "/v1/decodes/abcdef")
    assert_problem(lost, "not-found", 404, "decode")


async def test_names_are_told_to_holders_of_a_key_alone(desk: Desk) -> None:
    await desk.publish(make_plan(), name="pumps")

    for name in ("pumps", "no such study"):
        answer = await desk.http.get(f"/v1/studies/{name}/sketches")
        assert_problem(answer, "access-denied", 401, answer.json()["field"])


async def test_a_withdrawn_study_has_neither_name_nor_first_digits(desk: Desk) -> None:
    study = await desk.publish(make_plan(), name="pumps")
    await desk.withdraw(study, "pumps")

    for reference in ("pumps", study.hex()[:8]):
        answer = await desk.operate("GET", f"/v1/studies/{reference}")
        assert_problem(answer, "not-found", 404, "study")


async def test_devices_are_found_by_first_digits(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    devices = [Device(seed) for seed in (1, 2)]
    await desk.enrol(study, *devices)

    for device in devices:
        digits = device.device_id.hex()[:8]
        shown = await desk.operate("GET", f"/v1/devices/{digits}")
        assert shown.json()["device_id"] == device.device_id.hex()
    nobody = await desk.http.get(f"/v1/devices/{digits}")
    assert_problem(nobody, "access-denied", 401, nobody.json()["field"])
