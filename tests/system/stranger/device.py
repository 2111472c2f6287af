"""The walk of a device: the steps of ``shared/wire/README.md``; the numbers are its sections.

It draws no noise: the caller gives it.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.system.stranger import plans, wire
from tests.system.stranger.wire import require

RETRY = "retry"


@dataclass(frozen=True)
class Answer:
    """Answer of the server; headers by their lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.body)
        require(isinstance(found, dict), "object")
        return dict(found)


class Device:
    """The walk of section 2."""

    def __init__(self, code: str, key: wire.Key) -> None:
        self.server, self.study, self.token = wire.read_code(code)
        self.key, self.device = key, key.key_id
        parts = urlsplit(self.server)
        require((parts.scheme, parts.hostname) == ("http", "127.0.0.1"), "loopback")
        self._address = ("127.0.0.1", parts.port or 80)
        self.plan = self._fetch_plan()

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        connection = http.client.HTTPConnection(*self._address)
        try:
            connection.request(method, path, body=body or None, headers=dict(headers))
            answer = connection.getresponse()
            headers_in = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers_in, answer.read())
        finally:
            connection.close()

    def send_signed(self, method: str, path: str, document: Any = None) -> Answer:
        body = b"" if document is None else json.dumps(document).encode("utf-8")
        headers = wire.sign_headers(self.key, self.device, method, path, body, int(time.time()))
        return self.send(
            method, path, headers | ({"Content-Type": "application/json"} if body else {}), body
        )

    def _fetch_plan(self) -> plans.Plan:
        path = f"/v1/studies/{self.study.hex()}/plan"
        exact = self.send("GET", path, {"Accept": "application/cbor"})
        stated = self.send("GET", path, {"Accept": "application/json"})
        require((exact.status, stated.status) == (200, 200), "plan")
        return plans.Plan.read(exact.body, stated.document["name"], self.study)

    def enrol(self, labels: Mapping[str, str]) -> Answer:
        told = wire.proof_input(self.token, self.study, self.key.public, labels)
        document = {
            "token": self.token,
            "study_id": self.study.hex(),
            "public_key": self.key.public.hex(),
            "labels": dict(labels),
            "proof": self.key.sign(told).hex(),
        }
        body = json.dumps(document).encode("utf-8")
        answer = self.send("POST", "/v1/enrolments", {"Content-Type": "application/json"}, body)
        if answer.status in (200, 201):
            require(answer.document["device_id"] == self.device.hex(), "device_id")
        return answer

    def change_key(self, next_key: wire.Key, last_sequences: Mapping[str, int]) -> Answer:
        told = wire.rotation_input(self.device, next_key.public, last_sequences)
        answer = self.send_signed(
            "POST",
            "/v1/devices/me/keys",
            {
                "public_key": next_key.public.hex(),
                "last_sequences": dict(last_sequences),
                "proof": next_key.sign(told).hex(),
            },
        )
        if answer.status in (200, 201):
            require(answer.document["key_id"] == next_key.key_id.hex(), "key_id")
            self.key = next_key
        return answer

    def upload(self, stream: str, sequence: int, message: bytes) -> Answer:
        sketch_id = wire.sha256(wire.sketch_id_input(self.study, self.device, stream, sequence))
        return self.send(
            "PUT",
            wire.sketch_path(self.study, sketch_id),
            {"Content-Type": "application/vnd.sfumato.sketch+cbor"},
            message,
        )


def choose_action(answer: Answer, sketch_id: bytes, actions: Mapping[str, str]) -> str | None:
    """11. Return what to do with a sketch; None if it is stored.

    ``actions`` is the table, by slug.
    """
    try:
        document = answer.document
    except (ValueError, wire.RefusedError):
        return RETRY
    if answer.status in (200, 201):
        return None if document.get("sketch_id") == sketch_id.hex() else RETRY
    if answer.headers.get("content-type", "").partition(";")[0] != "application/problem+json":
        return RETRY
    slug = str(document.get("type", "")).removeprefix("/problems/")
    return actions.get(slug, RETRY)
