import re
from collections.abc import Iterator

import httpx
import pytest

from tests.aggregator.fleet import Desk, assert_problem

pytestmark = pytest.mark.anyio

STUDY = "ab" * 32
CALLS = {
    "operator": """
        POST /v1/studies
        PATCH DELETE /v1/studies/{study}
        POST GET /v1/studies/{study}/tokens
        DELETE /v1/tokens/{token}
        POST GET /v1/keys
        DELETE /v1/keys/{key}
        GET /v1/audit
        POST /v1/identity/rotate
        POST GET /v1/studies/{study}/alarms
        GET PATCH DELETE /v1/alarms/{alarm}
        POST /v1/alarms/{alarm}/test
        GET /v1/alarms/{alarm}/deliveries
        POST /v1/studies/{study}/batches/{batch}/open
        POST /v1/studies/{study}/batches/{batch}/admit
        POST /v1/studies/{study}/batches/{batch}/set-aside
        POST /v1/studies/{study}/batches/{batch}/give-up
        POST /v1/devices/{device}/exclude
        POST /v1/devices/{device}/revoke
    """,
    "analyst": """
        GET /v1/studies
        GET /v1/studies/{study}
        POST /v1/advice
        GET /v1/references
        GET /v1/studies/{study}/devices
        GET /v1/devices
        GET /v1/devices/{device}
        GET /v1/studies/{study}/sketches
        GET /v1/studies/{study}/refusals
        GET /v1/studies/{study}/batches
        GET /v1/studies/{study}/batches/suspects
        GET /v1/studies/{study}/batches/{batch}
        GET /v1/studies/{study}/utility
        POST /v1/studies/{study}/snapshots
        GET /v1/snapshots/{snapshot}
        GET /v1/snapshots/{snapshot}/histogram
        GET /v1/snapshots/{snapshot}/moments
        GET /v1/snapshots/{snapshot}/calibration
        POST GET /v1/studies/{study}/decodes
        GET DELETE /v1/decodes/{decode}
        GET /v1/decodes/{decode}/events
        POST /v1/decodes/{decode}/questions
        POST /v1/decodes/{decode}/records
        POST GET /v1/studies/{study}/schedules
        GET PATCH DELETE /v1/schedules/{schedule}
        POST GET /v1/studies/{study}/published
        GET /v1/studies/{study}/publications
        POST GET /v1/studies/{study}/analyses
        POST GET /v1/studies/{study}/accepted-changes
        DELETE /v1/studies/{study}/accepted-changes/{first_slot}
        GET DELETE /v1/analyses/{analysis}
        GET /v1/analyses/{analysis}/events
    """,
    "none": """
        GET /v1/studies/{study}/privacy
        GET /v1/studies/{study}/plan
        GET /v1/studies/{study}/frequencies
        POST /v1/enrolments
        GET /v1/devices/me
        PUT /v1/devices/me/heartbeat
        POST /v1/devices/me/keys
        PUT /v1/studies/{study}/sketches/{sketch}
        GET /v1/identity
        GET /healthz
        GET /readyz
        GET /metrics
        GET /problems
        GET /problems/{slug}
    """,
}
"""By the least scope that may make them; devices and the public need no key."""


def list_calls(scope: str) -> Iterator[tuple[str, str]]:
    """Yield method and path of each call of a scope."""
    for line in CALLS[scope].split("\n"):
        *methods, path = line.split() or [""]
        yield from ((method, path) for method in methods)


async def request(desk: Desk, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    """Make a call about things that are not there."""
    places = {"first_slot": "5", "key": "ab" * 8}
    url = re.sub(r"\{(\w+)\}", lambda found: places.get(found[1], STUDY), path)
    body: dict[str, str] | None = {} if method in ("POST", "PATCH") else None
    return await desk.http.request(method, url, headers=headers, json=body)


async def test_a_call_is_refused_without_a_known_key_of_its_scope(desk: Desk) -> None:
    unknown = (
        {},
        *({"Authorization": each} for each in ("Bearer sfk_unknown", "Basic b3A6", "Bearer")),
    )
    walk = [
        *(
            (call, headers, 401, "access-denied")
            for headers in unknown
            for scope in ("operator", "analyst")
            for call in list_calls(scope)
        ),
        *((call, desk.analyst, 403, "forbidden") for call in list_calls("operator")),
    ]
    wrong = []
    for (method, path), headers, status, slug in walk:
        answer = await request(desk, method, path, headers)
        try:
            assert_problem(answer, slug, status, "Authorization")
            assert status == 403 or answer.headers["www-authenticate"].startswith("Bearer")
        except AssertionError:
            wrong.append((method, path, headers, answer.status_code, answer.text))
    assert wrong == []


async def test_every_call_of_the_interface_has_a_scope(desk: Desk) -> None:
    described = (await desk.http.get("/openapi.json")).json()["paths"]
    calls = [(method.upper(), path) for path in described for method in described[path]]
    assert sorted(calls) == sorted(call for scope in CALLS for call in list_calls(scope))
