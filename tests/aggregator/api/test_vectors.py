"""A server takes the requests of the published vectors byte by byte."""

import json
from typing import Any

import httpx
import pytest

from sfumato.aggregator.resources.devices.record import TokenRecord
from sfumato.aggregator.resources.keys.service.keys import hash_secret
from sfumato.shared.wire import SKETCH_MEDIA_TYPE
from tests.aggregator.fleet import assert_problem
from tests.aggregator.serving import Server
from tests.vectors import make_vectors, wire_plans, wire_vectors

pytestmark = pytest.mark.anyio


def read(name: str) -> Any:
    return json.loads((make_vectors.HERE / f"{name}.json").read_text(encoding="utf-8"))


async def send(
    server: Server, request: dict[str, Any], body: bytes | None = None
) -> httpx.Response:
    content = request["body"].encode("utf-8") if body is None else body
    return await server.desk.http.request(
        request["method"], request["path"], headers=request["headers"], content=content
    )


async def enrol(server: Server) -> dict[str, Any]:
    """Publish the vectors' study with the vectors' token, and enrol with the vectors' request."""
    enrolment: dict[str, Any] = read("enrolment")
    now = server.clock.seconds = wire_vectors.CREATED
    study = await server.desk.publish(wire_plans.MASKED, wire_vectors.STUDY_NAME)
    assert study.hex() == enrolment["study"]["id"]
    token = TokenRecord(
        token_hash=hash_secret(enrolment["code"]["token"]),
        study_id=study,
        max_uses=1,
        created=now,
        expires=now + 1,
    )
    async with server.store.begin(write=True) as transaction:
        await transaction.add(token)
    answer = await send(server, enrolment["request"])
    assert (answer.status_code, answer.json()) == (201, enrolment["answer"]["body"])
    return enrolment


async def test_the_requests_of_the_vectors_lead_from_a_token_to_stored_sketches_and_another_key(
    server: Server,
) -> None:
    enrolment, signed = await enrol(server), read("requests")
    for vector in signed:
        assert (await send(server, vector["request"])).status_code == 200
    for vector in read("messages")["messages"][:2]:
        assert vector["request"]["headers"] == {"Content-Type": SKETCH_MEDIA_TYPE}
        answer = await send(server, vector["request"], bytes.fromhex(vector["message"]))
        assert (answer.status_code, answer.json()["sketch_id"]) == (201, vector["sketch_id"])
    rotation = enrolment["rotation"]
    answer = await send(server, rotation["request"])
    assert (answer.status_code, answer.json()) == (201, rotation["answer"]["body"])
    # From then on the old key signs no other request.
    assert_problem(
        await send(server, signed[0]["request"]), "request-signature-invalid", 401, "Signature"
    )


async def test_the_signature_of_a_vector_is_good_for_five_minutes(server: Server) -> None:
    await enrol(server)
    vector = read("requests")[0]
    for seconds, status in ((-301, 401), (-300, 200), (300, 200), (301, 401)):
        server.clock.seconds = wire_vectors.CREATED + seconds
        assert (await send(server, vector["request"])).status_code == status
