"""The running service against its own description."""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from sfumato.aggregator.app import create_app
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.shared.plan import plan_to_json
from sfumato.shared.wire import PROBLEM_MEDIA_TYPE, SKETCH_MEDIA_TYPE, problem_types
from sfumato.shared.wire.access import list_declared
from tests.aggregator.databases import open_sqlite
from tests.aggregator.fleet import Device, make_plan
from tests.aggregator.processes import running
from tests.soak import small_and_soak

CHECKS = [
    allow_header_conformance,
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]

VECTORS = Path(__file__).parents[2] / "vectors"
PATIENCE_S = 120.0
"""The usual ten seconds are too few for a server on a busy machine."""


@schemathesis.serializer(SKETCH_MEDIA_TYPE)
def serialise_sketch(_context: schemathesis.SerializationContext, value: Any) -> bytes:
    """Send what was drawn as it is."""
    return value if isinstance(value, bytes) else str(value).encode()


def test_the_description_is_valid_and_names_every_schema_apart(tmp_path: Path) -> None:
    # It compiles grammars for a second, which every worker would wait for that collects this.
    from openapi_spec_validator import OpenAPIV31SpecValidator

    document = create_app(Settings(database_url=str(tmp_path / "aggregator.db"))).openapi()
    assert not list(OpenAPIV31SpecValidator(document).iter_errors())
    titles = Counter(schema["title"] for schema in document["components"]["schemas"].values())
    assert max(titles.values()) == 1


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Run a server; yield its address and an operator key."""
    database = tmp_path_factory.mktemp("service") / "aggregator.db"
    key = asyncio.run(make_key(database))
    with running("--database", str(database)) as address:
        yield address, key


async def make_key(database: Path) -> str:
    async with open_sqlite(database) as store:
        services = Services(store, SystemClock())
        key, _ = await services.keys.create(name="op", scope="operator")
    return key


@pytest.fixture(scope="module")
def filled(service: tuple[str, str]) -> tuple[str, str, dict[str, str]]:
    """Give a study with a sketch, so that calls can find something."""
    address, key = service
    headers = {"Authorization": f"Bearer {key}"}
    plan = make_plan()
    with httpx.Client(base_url=address, headers=headers) as http:
        body = {"name": "pumps", "plan": plan_to_json(plan)}
        study = http.post("/v1/studies", json=body).json()["study_id"]
        token = http.post(f"/v1/studies/{study}/tokens", json={"max_uses": 2}).json()["token"]
        # The first has no sketch, for a walk along the links may exclude it.
        for device in (Device(2), Device(1)):
            http.post("/v1/enrolments", json=device.enrolment(token, bytes.fromhex(study)))
        sketch, message = device.message(bytes.fromhex(study), plan)
        http.put(
            f"/v1/studies/{study}/sketches/{sketch}",
            content=message,
            headers={"Content-Type": SKETCH_MEDIA_TYPE},
        )
        snapshot = http.post(f"/v1/studies/{study}/snapshots", json={}).json()["snapshot_id"]
        decode = http.post(f"/v1/studies/{study}/decodes", json={"n_clusters": 3}).json()
    known = {"study": study, "snapshot": snapshot, "decode": decode["decode_id"]}
    return address, key, known


@pytest.fixture(scope="module")
def schema(service: tuple[str, str]) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{service[0]}/openapi.json")


def test_every_problem_response_is_described_with_an_example(service: tuple[str, str]) -> None:
    document = httpx.get(f"{service[0]}/openapi.json").json()
    described = {}
    for calls in document["paths"].values():
        for call in calls.values():
            for status, response in call["responses"].items():
                if status.startswith(("4", "5")):
                    examples = response["content"][PROBLEM_MEDIA_TYPE]["examples"]
                    for slug, example in examples.items():
                        assert example["value"]["status"] == int(status)
                        described[slug] = example["value"]["type"]
    # A wrong method is no call, so no call can describe it; the second server has others.
    elsewhere = {"method-not-allowed", "seal-invalid", "helper-restored", "plan-not-accepted"}
    elsewhere |= {"batch-differs", "batch-committed"}
    assert described == {
        problem.slug: problem.uri for problem in problem_types() if problem.slug not in elsewhere
    }


def test_calls_that_make_something_describe_their_idempotency_key(
    service: tuple[str, str],
) -> None:
    document = httpx.get(f"{service[0]}/openapi.json").json()
    found = set()
    for calls in document["paths"].values():
        for call in calls.values():
            named = {each["name"]: each for each in call.get("parameters", [])}
            if "Idempotency-Key" in named:
                assert not named["Idempotency-Key"]["required"]
                assert "Retry-After" in call["responses"]["409"]["headers"]
                found.add(call["operationId"])
    assert found == {call.name for call in list_declared() if call.makes}


def test_the_upload_is_described_by_a_message_of_the_vectors(service: tuple[str, str]) -> None:
    document = httpx.get(f"{service[0]}/openapi.json").json()
    upload = document["paths"]["/v1/studies/{study}/sketches/{sketch}"]["put"]["requestBody"]
    shown = upload["content"][SKETCH_MEDIA_TYPE]["examples"]["sketch"]["value"]
    vectors = json.loads((VECTORS / "messages.json").read_text())["messages"]
    assert shown == vectors[0]["message"]
    for name in re.findall(r"`([\w/]+\.cddl)`", upload["description"]):
        assert (VECTORS.parents[1] / name).is_file()


@small_and_soak("n_examples", 1, 24)
def test_the_service_keeps_its_description_whatever_is_asked(
    filled: tuple[str, str, dict[str, str]], schema: schemathesis.BaseSchema, n_examples: int
) -> None:
    _, key, known = filled
    headers = {"Authorization": f"Bearer {key}"}
    operations: list[Any] = [result.ok() for result in list(schema.get_all_operations())]  # type: ignore[union-attr]
    assert len(operations) > 20

    seen: set[int] = set()

    for operation, mode in itertools.product(operations, GenerationMode):
        if mode is GenerationMode.NEGATIVE and not _can_be_wrong(operation):
            continue

        @settings(
            max_examples=n_examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            for name in known.keys() & case.path_parameters.keys():
                case.path_parameters[name] = known[name]
            _end_events(case)
            response = case.call(headers=headers, timeout=PATIENCE_S)
            seen.add(response.status_code)
            case.validate_response(response, checks=CHECKS)

        ask()
    # It was understood, it was refused, and neither by chance alone.
    assert {200, 201, 404, 422} <= seen, seen


def _end_events(case: Any) -> None:
    """Ask for no more than the events there are: without a worker a decode waits for ever."""
    if case.path.endswith("/events") and _is_whole(case.query.get("seconds", 0)):
        case.query["seconds"] = 0


def _is_whole(value: Any) -> bool:
    """Tell whether a value of a query is read as a whole number."""
    return isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit())


def test_links_lead_from_answers_to_calls_that_exist(service: tuple[str, str]) -> None:
    document = httpx.get(f"{service[0]}/openapi.json").json()
    operations = {
        call["operationId"]: {parameter["name"] for parameter in call.get("parameters", [])}
        for calls in document["paths"].values()
        for call in calls.values()
    }
    n_links = 0
    for calls in document["paths"].values():
        for call in calls.values():
            for response in call["responses"].values():
                for link in response.get("links", {}).values():
                    (parameter,) = link["parameters"]
                    assert parameter.removeprefix("path.") in operations[link["operationId"]]
                    n_links += 1
    assert n_links > 40


@small_and_soak("n_walks", 1, 40)
def test_the_service_keeps_its_description_along_every_link(
    filled: tuple[str, str, dict[str, str]], schema: schemathesis.BaseSchema, n_walks: int
) -> None:
    """Walk from answer to answer: what one call made, the next ones are asked about."""
    _, key, _ = filled
    headers = {"Authorization": f"Bearer {key}"}
    plan = plan_to_json(make_plan())
    turns = itertools.count()
    followed: Counter[str] = Counter()

    class Walk(schema.as_state_machine()):  # type: ignore[misc]
        def before_call(self, case: Any) -> None:
            super().before_call(case)
            turn = next(turns)
            # What is drawn is hardly ever valid: a plan's derived fields would have to agree.
            usual = {
                "POST /v1/studies": {"name": f"walk {turn}", "plan": plan},
                "POST /v1/studies/{study}/snapshots": {},
                "POST /v1/studies/{study}/decodes": {"n_clusters": 2},
            }
            _end_events(case)
            if turn % 2:
                case.body = usual.get(case.operation.label, case.body)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": headers, "timeout": PATIENCE_S}

        def after_call(self, response: Any, case: Any) -> None:
            if response.status_code < 300:
                followed[case.operation.label] += 1

        def validate_response(self, response: Any, case: Any, **options: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    def find_missing() -> str:
        """Name what only an earlier answer can name, and no walk has reached."""
        reached = {label for label in followed if "{" in label}
        last = {f"{method} /v1/decodes/{{decode}}" for method in ("GET", "DELETE")}
        if not {"GET /v1/studies/{study}", "GET /v1/studies/{study}/plan"} <= reached:
            return "a study or its plan"
        if not {"GET /v1/snapshots/{snapshot}", *last} & reached:
            return "a snapshot or a decode"
        return "" if len(reached) >= 8 else "eight calls"

    # Where walks lead depends on what the server holds, so some more may be needed.
    for number in range(36 * n_walks):
        if number >= n_walks and not find_missing():
            break
        walk: Any = seed(number)(type("SeededWalk", (Walk,), {}))
        # Walks change the server, so a beginning that two share may lead elsewhere the second time.
        with suppress(FlakyStrategyDefinition):
            walk.run(
                settings=settings(
                    max_examples=4,
                    stateful_step_count=12,
                    database=None,
                    deadline=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
    assert not find_missing(), followed


def _can_be_wrong(operation: Any) -> bool:
    """Tell whether there is anything in a call that could break a rule."""
    return bool(operation.query or operation.body)
