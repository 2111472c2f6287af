import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from analyst import Client
from analyst.client import Decode
from analyst.connection import Connection
from shared.errors import DecodingError, NotFoundError, OverloadedError
from shared.wire import problem_document

RUNNING: dict[str, Any] = {"decode_id": "d", "state": "running", "progress": 0.5}
RESULT = {
    "dimensions": [{"name": "flow", "unit": "l/s"}],
    "centroids": [[1.0], [2.0]],
    "weights": [0.75, 0.25],
    "residual": 0.1,
    "noise_floor": 0.1,
    "solver": "mixture/1",
    "warnings": [],
    "snr": 100.0,
    "quality": {"statement": "good"},
    "privacy": {"statement": "private"},
    "seconds": 1.0,
}
DONE = RUNNING | {"state": "succeeded", "progress": 1.0, "snapshot_id": "s", "result": RESULT}
FAILED = RUNNING | {
    "state": "failed",
    "problem": problem_document(DecodingError("no usable centroids were found")),
}
Answers = Callable[[str, int], httpx.Response]


def connect(answer: Answers) -> tuple[Decode, list[str]]:
    """Follow a decode at a server that answers the n-th request for a path so."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return answer(request.url.path, asked.count(request.url.path))

    client = Client("http://server", patience_s=0.0)
    client.close()
    client._server = Connection(
        "http://server",
        patience_s=0.0,
        sleep=lambda _: None,
        transport=httpx.MockTransport(handle),
    )
    return Decode(client, "d"), asked


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
    assert asked == ["/v1/decodes/d/events"]


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
    assert asked == ["/v1/decodes/d/events", *["/v1/decodes/d"] * 3]


def test_a_stream_that_ends_early_is_opened_again() -> None:
    def answer(path: str, n: int) -> httpx.Response:
        if path.endswith("/events"):
            return stream(("state", RUNNING)) if n == 1 else stream(("result", FAILED))
        return httpx.Response(200, json=RUNNING)

    decode, asked = connect(answer)
    with pytest.raises(DecodingError, match="no usable centroids"):
        decode.wait()
    assert asked == ["/v1/decodes/d/events", "/v1/decodes/d", "/v1/decodes/d/events"]
