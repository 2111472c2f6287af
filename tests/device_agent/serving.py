"""A small real aggregator for these tests: it verifies what arrives and remembers it."""

import json
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sfumato.shared.errors import (
    AccessError,
    DuplicateUploadError,
    MalformedMessageError,
    NotFoundError,
    PlanMismatchError,
    SignatureError,
    SketchError,
    StudyClosedError,
    StudyWithdrawnError,
)
from sfumato.shared.plan import SketchPlan, compute_plan_digest, encode_plan, plan_to_json
from sfumato.shared.wire import (
    PROBLEM_MEDIA_TYPE,
    RequestSignature,
    SketchMessage,
    compute_study_id,
    decode_message,
    device_id_of,
    encode_proof_input,
    encode_rotation_input,
    parse_request_signature,
    problem_document,
    verify_proof,
    verify_request,
)
from tests.ports import hold_port, port_of

TOKEN = "sfe_test"


class Server:
    """One study, its devices and sketches; switches make it misbehave."""

    def __init__(
        self, plan: SketchPlan, name: str = "test", clock: Callable[[], float] | None = None
    ) -> None:
        self.plan = plan
        self.name = name
        self.study = compute_study_id(name, plan)
        self.plan_bytes = encode_plan(plan)
        self.plan_digest = compute_plan_digest(plan).hex()
        self.search_box: dict[str, list[float]] = {}
        self.generation = "a" * 32
        self.first_ordinal = 0
        self.clock = clock
        self.clock_offset = 0.0
        self.tokens = {TOKEN: 1}
        self.devices: dict[bytes, tuple[bytes, dict[str, str]]] = {}
        self.retired: list[tuple[bytes, bytes, dict[str, int]]] = []
        """Device, key that it has replaced, and the last sketches that this one has signed."""
        self.key_answers: list[SketchError | int | None] = []
        """Answers to the next changes of keys, as in ``answers``."""
        self.stored: dict[bytes, SketchMessage] = {}
        self.received: list[tuple[bytes, bytes]] = []
        self.requests: list[str] = []
        self.answers: dict[int, SketchError | int | None] = {}
        """By sequence: refuse with an error, or answer a bare status; None after it was stored."""
        self.retry_after = ""
        self.state = "open"
        self.accept_until: str | None = None
        self.heartbeats: list[dict[str, Any]] = []
        self.n_unmodified = 0
        self.extra_sequences: dict[str, int] = {}
        self.published: bytes | None = None
        """The published result; None for none."""
        self.result_keys: list[dict[str, Any]] = []
        """As ``/v1/identity`` shows them; none from a server without."""
        self.limit: int | None = None
        """After so many uploads received the answers to others are lost."""
        self.tls: ssl.SSLContext | None = None
        """Speaks TLS from the next start on."""
        self._http: ThreadingHTTPServer | None = None
        held = hold_port()  # while the server is away, too
        weakref.finalize(self, held.close)
        self._port = port_of(held)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._port}"

    def start(self) -> None:
        server = self

        class Bound(_Handler):
            study = server

        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), Bound)
        if self.tls is not None:
            # The handshake is made by the thread of the connection, not by the one that accepts.
            self._http.socket = self.tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def now(self) -> float:
        return (self.clock or time.time)() + self.clock_offset

    def payloads(self) -> dict[int, bytes]:
        return {m.header.sequence: m.payload for m in self.stored.values()}

    def enrol(self, document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        public_key, labels = bytes.fromhex(document["public_key"]), document["labels"]
        device = device_id_of(public_key)
        study = bytes.fromhex(document["study_id"])
        verify_proof(
            encode_proof_input(
                token=document["token"], study=study, public_key=public_key, labels=labels
            ),
            public_key=public_key,
            proof=bytes.fromhex(document["proof"]),
        )
        if study != self.study:
            raise NotFoundError("no such study", field="study_id")
        answer = {"device_id": device.hex(), "study_id": study.hex(), "labels": labels}
        if self.devices.get(device) == (public_key, labels):
            return 200, answer
        if not self.tokens.get(document["token"]):
            raise AccessError("is unknown or used up", field="token", fix="ask for another")
        self.tokens[document["token"]] -= 1
        self.devices[device] = (public_key, labels)
        return 201, answer

    def verify(
        self, headers: dict[str, str], *, method: str, path: str, body: bytes = b""
    ) -> RequestSignature:
        signature = parse_request_signature(headers)
        if signature.device not in self.devices:
            raise AccessError("is unknown", field="device", fix="enrol it")
        verify_request(
            signature,
            method=method,
            path=path,
            body=body,
            public_key=self.devices[signature.device][0],
            now=self.now(),
        )
        if self.state == "withdrawn":
            raise StudyWithdrawnError("was withdrawn", field="study")
        return signature

    def change_key(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        document, path = json.loads(body), "/v1/devices/me/keys"
        device, new = parse_request_signature(headers).device, bytes.fromhex(document["public_key"])
        last = document["last_sequences"]
        verify_proof(
            encode_rotation_input(device=device, public_key=new, last_sequences=last),
            public_key=new,
            proof=bytes.fromhex(document["proof"]),
        )
        answer = self.key_answers.pop(0) if self.key_answers else ...
        if isinstance(answer, SketchError):
            raise answer
        if isinstance(answer, int):
            return answer, {}
        present, labels = self.devices[device]
        old = self.retired[-1][1] if new == present else present
        self.devices[device] = (old, labels)
        try:
            self.verify(headers, method="POST", path=path, body=body)
        finally:
            self.devices[device] = (present, labels)
        if new == present:
            self.retired.pop()
        self.retired.append((device, old, last))
        self.devices[device] = (new, labels)
        if answer is None:
            return 503, {}
        return 201, {"device_id": device.hex(), "key_id": device_id_of(new).hex()}

    def notify(self, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.verify(headers, method="GET", path=f"/v1/studies/{self.study.hex()}")
        if headers.get("if-none-match") == self.etag:
            self.n_unmodified += 1
            return 304, {}
        return 200, {
            "study_id": self.study.hex(),
            "name": self.name,
            "plan_digest": self.plan_digest,
            "state": self.state,
            "accept_until": self.accept_until,
        }

    @property
    def etag(self) -> str:
        return f'"{self.state} {self.accept_until}"'

    def describe_device(self, headers: dict[str, str]) -> dict[str, Any]:
        signature = self.verify(headers, method="GET", path="/v1/devices/me")
        last: dict[str, int] = dict(self.extra_sequences)
        for message in self.stored.values():
            header = message.header
            if header.device != signature.device:
                continue
            last[header.stream] = max(last.get(header.stream, -1), header.sequence)
        return {
            "device_id": signature.device.hex(),
            "study_id": self.study.hex(),
            "ordinal": self.first_ordinal + list(self.devices).index(signature.device),
            "streams": [
                {"stream": stream, "last_sequence": sequence, "last_slot": None}
                | self.describe_gaps(signature.device, stream, sequence)
                for stream, sequence in last.items()
            ],
            "server_time": self.now(),
            "generation": self.generation,
        }

    def describe_gaps(self, device: bytes, stream: str, last: int) -> dict[str, Any]:
        held = {
            message.header.sequence
            for message in self.stored.values()
            if (message.header.device, message.header.stream) == (device, stream)
        } | set(range(self.extra_sequences.get(stream, -1) + 1))
        absent = [number for number in range(last) if number not in held]
        ranges = [{"first": number, "last": number} for number in absent]
        return {"n_missing": len(absent), "missing": ranges}

    def put(self, sketch_id: bytes, body: bytes) -> tuple[int, dict[str, Any]]:
        self.received.append((sketch_id, body))
        message = decode_message(body)
        header = message.header
        if header.sketch_id != sketch_id or header.study != self.study:
            raise MalformedMessageError("does not match the address", field="sketch_id")
        if header.device not in self.devices:
            raise AccessError("is unknown", field="device", fix="enrol it")
        self._verify_sketch(message)
        if header.plan_digest.hex() != self.plan_digest:
            raise PlanMismatchError("is not the study's", field="plan_digest")
        if self.state == "closed" and self.accept_until is None:
            raise StudyClosedError("is closed", field="study")
        answer = self.answers.get(header.sequence, ...)
        if isinstance(answer, SketchError):
            raise answer
        if isinstance(answer, int):
            return answer, {}
        stored = self.stored.get(sketch_id)
        if stored is not None and stored.payload != message.payload:
            raise DuplicateUploadError("other bytes are stored", field="sketch_id")
        self.stored[sketch_id] = message
        if answer is None or (self.limit is not None and len(self.received) > self.limit):
            return 503, {}
        return (200 if stored else 201), {"sketch_id": sketch_id.hex(), "state": "stored"}

    def _verify_sketch(self, message: SketchMessage) -> None:
        header = message.header
        try:
            message.verify(self.devices[header.device][0])
        except SignatureError:
            for device, key, last in self.retired:
                known = device == header.device and header.sequence <= last.get(header.stream, -1)
                with suppress(SignatureError):
                    if known:
                        return message.verify(key)
            raise


class _Handler(BaseHTTPRequestHandler):
    study: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer waits 40 ms for an acknowledgement

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            try:
                self.request.do_handshake()
            except OSError:
                self.handle = lambda: None  # type: ignore[method-assign]
        super().setup()

    def log_message(self, *_: object) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(self.study.now() if timestamp is None else timestamp, usegmt=True)

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        body = self._body()
        if self.path.endswith("/keys"):
            headers = {k.lower(): v for k, v in self.headers.items()}
            self._answer(lambda: self.study.change_key(headers, body))
            return
        self._answer(lambda: self.study.enrol(json.loads(body)))

    def do_OPTIONS(self) -> None:
        """Allow pages of any origin what a device does."""
        self.send_response(204)
        for name in ("Origin", "Methods", "Headers"):
            self.send_header(f"Access-Control-Allow-{name}", "*")
        self.end_headers()

    def do_PUT(self) -> None:
        body = self._body()
        if self.path.endswith("/heartbeat"):
            headers = {k.lower(): v for k, v in self.headers.items()}
            self._answer(lambda: self._note_heartbeat(headers, body))
            return
        sketch_id = bytes.fromhex(self.path.rsplit("/", 1)[1])
        self._answer(lambda: self.study.put(sketch_id, body))

    def _note_heartbeat(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        self.study.verify(headers, method="PUT", path="/v1/devices/me/heartbeat", body=body)
        self.study.heartbeats.append(json.loads(body))
        return 200, {}

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _get(self) -> tuple[int, dict[str, Any] | bytes]:
        server = self.study
        if self.path == "/v1/devices/me":
            return 200, server.describe_device({k.lower(): v for k, v in self.headers.items()})
        if self.path == f"/v1/studies/{server.study.hex()}":
            return server.notify({k.lower(): v for k, v in self.headers.items()})
        if self.path == "/v1/identity" and server.result_keys:
            return 200, {"keys": server.result_keys}
        if self.path == f"/v1/studies/{server.study.hex()}/published" and server.published:
            headers = {k.lower(): v for k, v in self.headers.items()}
            server.verify(headers, method="GET", path=self.path)
            return 200, server.published
        if self.path != f"/v1/studies/{server.study.hex()}/plan":
            raise NotFoundError("no such study", field="study", fix="check its identity")
        if self.headers.get("Accept") == "application/cbor":
            return 200, server.plan_bytes
        return 200, {
            "plan": plan_to_json(server.plan),
            "plan_digest": server.plan_digest,
            "name": server.name,
            "state": server.state,
            "search_box": server.search_box,
        }

    def _answer(self, respond: Any) -> None:
        self.study.requests.append(f"{self.command} {self.path}")
        kind = "application/json"
        try:
            status, document = respond()
        except SketchError as error:
            document = problem_document(error)
            status, kind = document["status"], PROBLEM_MEDIA_TYPE
        if isinstance(document, bytes):
            body, kind = document, "application/cbor"
        else:
            body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if status == 304:
            body = b""
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("ETag", self.study.etag)
        self.send_header("Content-Length", str(len(body)))
        if status in (422, 429) and self.study.retry_after:
            self.send_header("Retry-After", self.study.retry_after)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running(plan: SketchPlan) -> Iterator[Server]:
    server = Server(plan)
    server.start()
    try:
        yield server
    finally:
        server.stop()
