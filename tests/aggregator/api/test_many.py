"""Lists and references of a server with many studies and devices: queries, not seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio
_PLAN = make_plan()


@contextmanager
def counting(server: Server) -> Iterator[list[str]]:
    """Collect the statements that the server sends to its database."""
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        found.append(statement)

    engine = server.store.engine.sync_engine
    event.listen(engine, "after_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "after_cursor_execute", note)


async def publish(server: Server, name: str) -> bytes:
    """Publish a study, a second after the one before."""
    server.clock.seconds += 1.0
    return await server.desk.publish(_PLAN, name=name)


async def publish_many(server: Server, n: int) -> list[bytes]:
    """Publish studies of one plan, each with a device."""
    studies = []
    for number in range(n):
        studies.append(await publish(server, f"pumps {number}"))
        await server.desk.enrol(studies[-1], Device(number))
    return studies


@pytest.mark.parametrize("url", ["/v1/studies", "/v1/devices"])
async def test_a_list_takes_as_many_queries_for_twenty_as_for_two(server: Server, url: str) -> None:
    await publish_many(server, 20)
    counts = []
    for limit in (2, 2, 20):
        with counting(server) as statements:
            found = await server.desk.read(url, params={"limit": limit})
        assert len(found["items"]) == limit
        counts.append(len(statements))
    # The first one also loads what a server keeps in memory, such as the key.
    assert counts[1] == counts[2]


async def test_counts_and_arrivals_are_those_of_each_study(server: Server) -> None:
    studies = await publish_many(server, 3)
    await server.desk.enrol(studies[1], Device(7), Device(8))

    listed = (await server.desk.read("/v1/studies"))["items"]

    assert [each["n_devices"] for each in listed] == [1, 3, 1]
    alone = [await server.desk.read(f"/v1/studies/{each.hex()}") for each in studies]
    assert listed == alone


async def test_names_are_searched_by_how_they_begin(server: Server) -> None:
    for name in ("pumps 1", "pumps 10", "Pumps 1", "pump%", "pumps_1"):
        await publish(server, name)

    async def search(beginning: str, **more: object) -> list[str]:
        found = await server.desk.read("/v1/studies", params={"beginning": beginning} | more)
        return [each["name"] for each in found["items"]]

    assert await search("pumps 1") == ["pumps 1", "pumps 10"]
    assert await search("pump%") == ["pump%"]
    assert await search("") == ["pumps 1", "pumps 10", "Pumps 1", "pump%", "pumps_1"]
    first = await server.desk.read("/v1/studies", params={"beginning": "pumps", "limit": 2})
    assert await search("pumps", page=first["next_page"]) == ["pumps_1"]


async def test_a_reference_is_found_by_few_queries(server: Server) -> None:
    studies = await publish_many(server, 20)
    wanted = {"study": studies[7].hex(), "device": Device(7).device_id.hex()}
    for kind, identity in wanted.items():
        with counting(server) as statements:
            params = {"kind": kind, "reference": identity[:12]}
            found = await server.desk.read("/v1/references", params=params)
        assert found == {"kind": kind, "identity": identity}
        assert len(statements) <= 12
    named = {"kind": "study", "reference": "pumps 7"}
    assert (await server.desk.read("/v1/references", params=named))["identity"] == wanted["study"]


async def test_a_reference_to_nothing_is_refused_by_its_kind(desk: Desk) -> None:
    for kind, reference, problem, status, field in (
        ("decode", "abcdef", "not-found", 404, "decode"),
        ("study", "pumps", "not-found", 404, "study"),
        ("token", "abc", "request-invalid", 422, "token"),
        ("cell", "abcdef", "request-invalid", 422, "kind"),
        ("study", "a\nb", "request-invalid", 422, "reference"),
    ):
        params = {"kind": kind, "reference": reference}
        answer = await desk.http.get("/v1/references", params=params, headers=desk.analyst)
        assert_problem(answer, problem, status, field)
    answer = await desk.http.get("/v1/references", params={"kind": "study", "reference": "pumps"})
    assert_problem(answer, "access-denied", 401, answer.json()["field"])
