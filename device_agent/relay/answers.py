"""Answers to devices: those of the server as it gave them, and the relay's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx

from sfumato.shared.errors import SketchError, TooLargeError
from sfumato.shared.wire import PROBLEM_MEDIA_TYPE, problem_document, problem_type_of

_KEPT = ("Content-Type", "Date", "ETag", "Retry-After")
_RETRY_S = 30


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to one request: its status, some headers, and its body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def to_http(self) -> bytes:
        """Return the answer as HTTP writes it, for ways that have no other form."""
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:
            phrase = "-"
        lines = [f"HTTP/1.1 {self.status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Content-Length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


def answer_as_server(response: httpx.Response) -> Answer:
    """Return the server's answer, with the headers that a device may need."""
    headers = {name: response.headers[name] for name in _KEPT if name in response.headers}
    return Answer(status=response.status_code, headers=headers, body=response.content)


def answer_problem(error: SketchError) -> Answer:
    """Return the answer that stands for an error of the relay itself."""
    headers = {"Content-Type": PROBLEM_MEDIA_TYPE}
    kind = problem_type_of(type(error))
    if kind.action == "retry":
        headers["Retry-After"] = str(_RETRY_S)
    # After a body that was not read the connection cannot serve another request.
    if isinstance(error, TooLargeError):
        headers["Connection"] = "close"
    body = json.dumps(problem_document(error)).encode()
    return Answer(status=kind.status, headers=headers, body=body)


def answer_kept() -> Answer:
    """Return the answer that a message is kept, and that the server has not answered yet.

    It names no sketch, so that no device takes it for the server's receipt.
    """
    body = json.dumps({"state": "kept by a relay; send the same again for the server's answer"})
    headers = {"Content-Type": "application/json", "Retry-After": str(_RETRY_S)}
    return Answer(status=HTTPStatus.ACCEPTED, headers=headers, body=body.encode())
