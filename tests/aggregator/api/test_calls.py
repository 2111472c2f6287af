"""Routes and declared calls are the same, whatever each states of the other."""

from typing import Any

import pytest

from sfumato.shared.wire import problem_types
from sfumato.shared.wire.access import list_declared
from sfumato.shared.wire.calls.call import Bare, Nothing, Pages
from tests.aggregator.api.test_access import CALLS, list_calls
from tests.aggregator.fleet import Desk

pytestmark = pytest.mark.anyio

GRANTED = {"enrol": "operator", "monitor": "operator", "reader": "viewer"}
"""Scopes that are tested as another: an operator may do all, a viewer what a reader may."""


DECLARED = {call.name: call for call in list_declared()}


async def test_every_route_serves_a_call_and_every_call_is_served(desk: Desk) -> None:
    served = {
        (operation["operationId"], method.upper(), path)
        for path, methods in (await desk.http.get("/openapi.json")).json()["paths"].items()
        for method, operation in methods.items()
    }
    assert served == {(call.name, call.method, call.path) for call in list_declared()}
    assert len(served) == len(DECLARED) > 70


def test_the_scopes_of_calls_are_those_that_are_tested() -> None:
    found = {
        scope: {
            (call.method, call.path)
            for call in list_declared()
            if GRANTED.get(call.scope, call.scope)
            in ((scope,) if scope != "none" else ("public", "device"))
        }
        for scope in CALLS
    }
    assert found == {scope: set(list_calls(scope)) for scope in CALLS}


async def test_queries_bodies_and_types_of_answers_are_those_of_the_description(
    desk: Desk,
) -> None:
    document = (await desk.http.get("/openapi.json")).json()
    described = {
        each["operationId"]: each for path in document["paths"].values() for each in path.values()
    }
    for name, call in DECLARED.items():
        operation = described[name]
        query = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        pages = {"page", "limit"} if isinstance(call, Pages) and not call.is_whole else set()
        assert query == {*call.query.split(), *pages}, name
        body = operation.get("requestBody", {"content": {}})["content"]
        assert list(body) == ([call.sends] if call.has_body else []), name
        assert call.media in operation["responses"][str(call.status)]["content"], name
        if isinstance(call.request, type) and call.request is not Nothing:
            schema = body["application/json"]["schema"]["$ref"]
            assert schema.rpartition("/")[2] == call.request.__name__


def test_a_call_states_its_problems_by_scope_path_and_body() -> None:
    def find(scope: Any, route: str) -> set[str]:
        return Bare(scope, route, str).list_problems()

    assert find("public", "GET /v1/identity") == set()
    assert find("analyst", "GET /v1/keys") == {"access-denied", "forbidden"}
    with_path = {"access-denied", "forbidden", "not-found", "request-invalid"}
    assert find("operator", "DELETE /v1/keys/{key}") == with_path
    assert find("operator", "GET /v1/alarms/{alarm}") == with_path | {"study-withdrawn"}
    known = {problem.slug for problem in problem_types()}
    assert {each for call in DECLARED.values() for each in call.list_problems()} <= known


def test_a_call_without_a_text_in_its_resource_cannot_be_declared() -> None:
    for call in DECLARED.values():
        assert call.text[0].isupper()
        assert call.text.partition("\n")[0].endswith(".")
    with pytest.raises((RuntimeError, KeyError)):  # the first before Python 3.12

        class Resource:
            """A resource.

            Attributes
            ----------
            list_things
                List the things.
            """

            get_thing = Bare("public", "GET /v1/thing", str)
