import contextlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from sfumato.analyst import Client
from sfumato.analyst.client import Decode
from sfumato.analyst.client.connection import Connection
from sfumato.analyst.questions import make_questions
from sfumato.shared.errors import (
    ConfigError,
    DecodingError,
    NotFoundError,
    OverloadedError,
    SketchError,
    TransportError,
)
from sfumato.shared.plan import plan_to_json
from sfumato.shared.structure import structure
from sfumato.shared.wire import problem_document
from sfumato.shared.wire.objects.advice import PlannedDimension
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.devices import PlanBody
from sfumato.shared.wire.objects.results import DecodeBody, ResultBody, SnapshotBody
from tests.aggregator.fleet import make_plan

ID = "d0" * 32
RUNNING: dict[str, Any] = (make_sample(DecodeBody) or {}) | {"decode_id": ID, "progress": 0.5}
RESULT: dict[str, Any] = (make_sample(ResultBody) or {}) | {
    "dimensions": [{"name": "flow", "unit": "l/s"}],
    "centroids": [[1.0], [2.0]],
    "weights": [0.75, 0.25],
}
DONE = RUNNING | {"state": "succeeded", "progress": 1.0, "result": RESULT}
FAILED = RUNNING | {
    "state": "failed",
    "problem": problem_document(DecodingError("no usable centroids were found")),
}
Answers = Callable[[str, int], httpx.Response]


def answer_origin(path: str) -> httpx.Response | None:
    """Answer requests for the snapshot and the plan that a result comes from."""
    if path.startswith("/v1/snapshots/"):
        return httpx.Response(200, json=make_sample(SnapshotBody))
    if path.endswith("/plan"):
        document = (make_sample(PlanBody) or {}) | {"plan": plan_to_json(make_plan())}
        return httpx.Response(200, json=document)
    return None


async def skip(_seconds: float) -> None:
    """Sleep for no time."""


def connect(answer: Answers) -> tuple[Decode, list[str]]:
    """Follow a decode at a server that answers the n-th request for a path so."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        if (origin := answer_origin(request.url.path)) is not None:
            return origin
        asked.append(request.url.path)
        return answer(request.url.path, asked.count(request.url.path))

    client = Client("http://server", patience_s=0.0)
    client.close()
    client._calls._server = Connection(
        "http://server",
        blocks=True,
        patience_s=0.0,
        sleep=skip,
        transport=httpx.MockTransport(handle),
    )
    return Decode(client, ID), asked


def stream(*events: tuple[str, Any]) -> httpx.Response:
    text = "".join(
        f"event: {name}\ndata: {json.dumps(data)}\n\n: ping\n\n" for name, data in events
    )
    return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})


def test_a_decode_is_followed_by_what_the_server_tells() -> None:
    decode, asked = connect(
        lambda _path, _n: stream(
            ("state", RUNNING | {"progress": 0.0}),
            ("progress", RUNNING),
            ("state", {"state": "succeeded", "progress": 1.0}),
            ("result", DONE),
        )
    )
    seen: list[float] = []
    result = decode.wait(progress=seen.append)
    assert result.centroids.tolist() == [[1.0], [2.0]]
    assert seen == [0.0, 0.5, 1.0]
    assert asked == [f"/v1/decodes/{ID}/events"]


@pytest.mark.parametrize(
    "refusal",
    [
        httpx.Response(404, json=problem_document(NotFoundError("is not an address"))),
        httpx.Response(429, json=problem_document(OverloadedError("holds 8 streams"))),
        httpx.Response(502, text="<html>"),
        httpx.Response(200, text="data: <html>\n"),
    ],
)
def test_where_no_stream_comes_through_the_decode_is_asked_for(refusal: httpx.Response) -> None:
    def answer(path: str, n: int) -> httpx.Response:
        if path.endswith("/events"):
            return refusal
        return httpx.Response(200, json=DONE if n == 3 else RUNNING)

    decode, asked = connect(answer)
    assert decode.wait().weights.tolist() == [0.75, 0.25]
    assert asked == [f"/v1/decodes/{ID}/events", *[f"/v1/decodes/{ID}"] * 3]


def test_a_stream_that_ends_early_is_opened_again() -> None:
    def answer(path: str, n: int) -> httpx.Response:
        if path.endswith("/events"):
            return stream(("state", RUNNING)) if n == 1 else stream(("result", FAILED))
        return httpx.Response(200, json=RUNNING)

    decode, asked = connect(answer)
    with pytest.raises(DecodingError, match="no usable centroids"):
        decode.wait()
    assert asked == [
        f"/v1/decodes/{ID}/events",
        f"/v1/decodes/{ID}",
        f"/v1/decodes/{ID}/events",
    ]


def test_a_decode_that_takes_too_long_is_left_to_go_on() -> None:
    decode, asked = connect(lambda path, _: httpx.Response(200, json=RUNNING))
    with pytest.raises(TransportError, match=f"within 0.02 s; it goes on.*watch {ID}"):
        decode.wait(timeout=0.02)
    assert f"/v1/decodes/{ID}" in asked


@pytest.mark.parametrize("streamed", [True, False])
def test_who_waits_hears_once_that_no_worker_is_there(streamed: bool) -> None:
    queued = RUNNING | {"state": "queued", "progress": 0.0, "n_workers": 0}

    def answer(path: str, n: int) -> httpx.Response:
        if not path.endswith("/events"):
            return httpx.Response(200, json=DONE if n == 3 else queued)
        if not streamed:
            return httpx.Response(404, json=problem_document(NotFoundError("is not an address")))
        return stream(("state", queued), ("progress", queued), ("result", DONE))

    heard: list[str] = []
    connect(answer)[0].wait(note=heard.append)
    assert heard == ["no worker is there: the decode waits until somebody starts `sfumato worker`"]


ARGUMENTS: dict[str, Any] = {
    "study": "pumps",
    "name": "pumps",
    "plan": make_plan(),
    "state": "open",
    "token_id": ID,
    "sketch_id": ID,
    "snapshot_id": ID,
    "device_id": ID,
    "decode_id": ID,
    "analysis_id": ID,
    "batch_id": ID,
    "first": {"last_slot": 3},
    "second": {"first_slot": 4, "labels": {"site": "north"}},
    "label": "site",
    "search_box": {"flow": (0, 1)},
    "key_id": ID[:16],
    "reference": ID[:8],
    "scope": "analyst",
    "message": b"",
    "reason": "r",
    "n_clusters": 2,
    "result": ID,
    "epsilon": "1",
    "dimensions": [PlannedDimension(name="flow", lower=0.0, upper=50.0)],
    "n_devices": 100,
    "records_per_window": 1000,
    "questions": make_questions(marginals=["flow"]),
    "seconds": 0.0,
    "schedule_id": ID,
    "alarm_id": ID,
    "every_s": 86400.0,
    "url": "https://example.org/hook",
    "decode": structure(DecodeBody, DONE, strict=False),
}
"""Arguments of each method, by the name of the parameter."""
WITHOUT_SERVER = ("close", "pause")
METHODS = sorted(
    name
    for name, _ in inspect.getmembers(Client, inspect.isfunction)
    if not name.startswith("_") and name not in WITHOUT_SERVER
)


def call(client: Client, name: str) -> Any:
    """Call a method with all that it needs, and take all that it yields."""
    method = getattr(client, name)
    parameters = inspect.signature(method).parameters.values()
    answer = method(**{p.name: ARGUMENTS[p.name] for p in parameters if p.default is p.empty})
    return list(answer) if isinstance(answer, Iterator) else answer


def test_every_call_of_a_closed_client_is_refused_as_ours() -> None:
    client = Client("http://127.0.0.1:9")
    client.close()
    client.close()
    calls: list[Callable[[], Any]] = [partial(call, client, name) for name in METHODS]
    for ask in (*calls, Decode(client, ID).wait):
        with pytest.raises(ConfigError, match="client: is closed"):
            ask()


STRANGE = [
    b"",
    b"<html>",
    b"[]",
    b"null",
    b'"text"',
    b"{}",
    b'{"items": 1}',
    b'{"items": [1]}',
    b'{"items": [{}]}',
    b'{"plan": 1, "token": 1, "decode_id": 1, "state": 1}',
    b'{"state": "succeeded", "progress": 1, "result": {}}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"1" * 10_000,
]


def answer_strangely(body: bytes, path: str, n: int) -> httpx.Response:
    return httpx.Response(200, content=body)


def test_what_no_aggregator_answers_is_a_value_or_an_error_of_ours() -> None:
    answer = httpx.Response(200)
    client = Client("http://server", patience_s=0.0)
    client._calls._server = Connection(
        "http://server",
        blocks=True,
        patience_s=0.0,
        sleep=skip,
        transport=httpx.MockTransport(lambda _request: answer),
    )
    for name, status, body in itertools.product(METHODS, (200, 302, 404, 500), STRANGE):
        answer = httpx.Response(status, content=body)
        with contextlib.suppress(SketchError):
            call(client, name)
    client.close()

    for body in STRANGE:
        decode, _ = connect(partial(answer_strangely, body))
        with pytest.raises(SketchError):
            decode.wait()


def test_what_cannot_be_a_key_or_an_address_is_refused_at_once() -> None:
    key = f"sfk_{16 * '0'}_{43 * 'a'}"
    for wrong in ("x", "", "sfk_none", f"{key}\n", f" {key}"):
        with pytest.raises(ConfigError, match="key: must be sfk_"):
            Client("http://127.0.0.1:9", key=wrong)
    for url in ("", "server", "ftp://server", "http://", "http://[::1", "//a"):
        with pytest.raises(ConfigError, match="url: must be an address"):
            Client(url)


def test_a_result_that_should_not_be_used_is_withheld_with_its_verdict_unless_asked_for() -> None:
    poor = RESULT | {
        "verdict": {"word": "do not use", "sentence": "noise is too strong for 2 clusters"},
        "resolved": [True, False],
    }
    decode, _ = connect(lambda _path, _n: stream(("result", DONE | {"result": poor})))
    with pytest.raises(DecodingError, match="noise is too strong for 2 clusters") as refusal:
        decode.wait()
    assert "allow_unusable=True" in str(refusal.value)
    result = decode.wait(allow_unusable=True)
    assert result.verdict == "do not use"
    assert result.resolved is not None
    assert result.resolved.tolist() == [True, False]
