"""The device's side of the REST interface: every answer becomes a value or an error of ours."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self

import httpx

from sfumato.device_agent.server.http_connection import HttpConnection, NoAnswerError
from sfumato.device_agent.server.messages import (
    ANSWERS,
    DeviceAnswer,
    IdentityAnswer,
    KeyOffer,
    PlanAnswer,
    StudyAnswer,
    UploadOutcome,
    read_device,
    read_identity,
    read_study,
)
from sfumato.shared.errors import SignatureError, SketchError
from sfumato.shared.wire import (
    CLOCK_LEEWAY_S,
    PROBLEM_MEDIA_TYPE,
    SKETCH_MEDIA_TYPE,
    DeviceAction,
    device_id_of,
    error_from_problem,
    problem_type_of,
    read_problem,
    read_retry_after,
    sign_request,
)
from sfumato.shared.wire.objects.devices import (
    ContinuationRequest,
    EnrolmentBody,
    EnrolmentRequest,
    HeartbeatRequest,
    PlanBody,
    RotationBody,
    RotationRequest,
    StoredBody,
)

_DEVICE_PATH = "/v1/devices/me"


class ServerClient:
    """Client of one aggregator.

    Parameters
    ----------
    address
        Address of the server, without a slash at the end.
    device, sign
        The device's identity and Ed25519 signature.
    clock
        Seconds since 1970-01-01 UTC.
    context
        Verifies the server's certificate; httpx's own rules when not given.
    """

    def __init__(
        self,
        address: str,
        *,
        device: bytes,
        sign: Callable[[bytes], bytes],
        clock: Callable[[], float] = time.time,
        context: SSLContext | None = None,
    ) -> None:
        self._device = device
        self._sign = sign
        self._clock = clock
        # Where this machine's clock is wrong, the server's: it takes no signature of another time.
        self._skew_s = 0.0
        self._http = HttpConnection(address, clock=clock, context=context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def signed_by(self, sign: Callable[[bytes], bytes]) -> ServerClient:
        """Return a client of the same connection that signs with another key; not to be closed."""
        other = copy.copy(self)
        other._sign = sign
        return other

    def fetch_plan(self, study: bytes) -> PlanAnswer:
        """Fetch a study's plan; what arrives is not verified yet."""
        path = f"/v1/studies/{study.hex()}/plan"
        exact = self._request("GET", path, headers={"Accept": "application/cbor"})
        answer = self._request("GET", path, headers={"Accept": "application/json"})
        stated = ANSWERS.read(PlanBody, answer.content)
        return PlanAnswer(
            plan_bytes=exact.content,
            plan_digest=stated.plan_digest,
            name=stated.name,
            search_box=stated.search_box,
        )

    def enrol(
        self,
        *,
        token: str,
        study: bytes,
        public_key: bytes,
        labels: Mapping[str, str],
        proof: bytes,
        replaces: bytes | None = None,
        continues: tuple[bytes, bytes] | None = None,
    ) -> str:
        """Enrol and return the device's identity as the server states it, hexadecimal.

        The token is empty where ``continues`` has the device in the phase before of a campaign, and
        the signature of its key there over the proof's input.
        """
        body = EnrolmentRequest(
            token=token or None,
            study_id=study.hex(),
            public_key=public_key.hex(),
            labels=dict(labels),
            proof=proof.hex(),
            replaces=None if replaces is None else replaces.hex(),
            continues=None
            if continues is None
            else ContinuationRequest(device_id=continues[0].hex(), proof=continues[1].hex()),
        )
        answer = self._request("POST", "/v1/enrolments", json=asdict(body))
        return ANSWERS.read(EnrolmentBody, answer.content).device_id

    def fetch_device(self) -> DeviceAnswer:
        """Fetch the server's knowledge of this device.

        A device whose clock is wrong must still learn whether the server is ahead, so a signature
        refused for its time is made once more with the server's.

        Raises
        ------
        TransportError
            There was no answer, or the server cannot answer now.
        SketchError
            The server refused; the class says why.
        """
        return read_device(self._get_signed(_DEVICE_PATH), device=self._device)

    def _get_signed(self, path: str) -> bytes:
        self._skew_s = 0.0
        response = self._send_signed("GET", path)
        date = _read_date(response)
        is_off = date is not None and abs(date - self._clock()) > CLOCK_LEEWAY_S - 1
        if date is not None and is_off and isinstance(_error_of(response), SignatureError):
            self._skew_s = date - self._clock()
            response = self._send_signed("GET", path)
        return _require_success(response).content

    def fetch_published(self, study: bytes) -> bytes:
        """Fetch the study's published result; what arrives is not verified yet.

        Raises
        ------
        NotFoundError
            There is none.
        TransportError
            There was no answer, or the server cannot answer now.
        SketchError
            The server refused; the class says why.
        """
        return self._get_signed(f"/v1/studies/{study.hex()}/published")

    def fetch_identity(self) -> IdentityAnswer:
        """Fetch the server's result keys; raises as :meth:`fetch_study`."""
        return read_identity(self._request("GET", "/v1/identity").content)

    def fetch_study(self, study: bytes, etag: str) -> StudyAnswer | None:
        """Request a study's life cycle; None if it is as it was under ``etag``.

        Raises
        ------
        TransportError
            There was no answer, or the server cannot answer now.
        SketchError
            The server refused; the class says why.
        """
        path = f"/v1/studies/{study.hex()}"
        headers = {"If-None-Match": etag} if etag else {}
        response = self._send_signed("GET", path, headers=headers)
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return None
        content = _require_success(response).content
        return read_study(content, etag=response.headers.get("ETag", ""))

    def change_key(self, offer: KeyOffer) -> None:
        """Give the device another key; repeating is harmless. Raises as :meth:`fetch_study`."""
        body = RotationRequest(
            public_key=offer.public_key.hex(),
            last_sequences=dict(offer.last_sequences),
            proof=offer.proof.hex(),
        )
        response = self._send_body("POST", f"{_DEVICE_PATH}/keys", body)
        answer = ANSWERS.read(RotationBody, response.content)
        # Before the old key is given up it must be an aggregator that says so.
        if answer.key_id != device_id_of(offer.public_key).hex():
            raise ANSWERS.refuse("key_id")
        if answer.device_id != self._device.hex():
            raise ANSWERS.refuse("device_id")

    def put_heartbeat(self, heartbeat: HeartbeatRequest) -> None:
        """Send a heartbeat; raises as :meth:`fetch_study`."""
        self._send_body("PUT", f"{_DEVICE_PATH}/heartbeat", heartbeat)

    def put_sketch(self, *, study: bytes, sketch_id: bytes, message: bytes) -> UploadOutcome:
        """Send one sketch; never raises for what a server or network may do."""
        path = f"/v1/studies/{study.hex()}/sketches/{sketch_id.hex()}"
        headers = {"Content-Type": SKETCH_MEDIA_TYPE}
        try:
            response = self._http.send("PUT", path, headers=headers, content=message)
        except NoAnswerError as error:
            return UploadOutcome(
                action=DeviceAction.RETRY, problem="no-answer", detail=str(error), answered=False
            )
        return read_upload(response, sketch_id=sketch_id, now=self._clock())

    def _send_body(self, method: str, path: str, body: Any) -> httpx.Response:
        data = json.dumps(asdict(body)).encode()
        headers = {"Content-Type": "application/json"}
        return _require_success(self._send_signed(method, path, data, headers=headers))

    def _send_signed(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        signed = sign_request(
            method=method,
            path=path,
            body=body,
            device=self._device,
            created=math.floor(self._clock() + self._skew_s),
            sign=self._sign,
        )
        return self._http.send(method, path, headers={**signed, **(headers or {})}, content=body)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return _require_success(self._http.send(method, path, **options))


def read_upload(response: httpx.Response, *, sketch_id: bytes, now: float) -> UploadOutcome:
    """Read the answer to an upload; never raises for what it may be."""
    try:
        stored = ANSWERS.read(StoredBody, _require_success(response).content)
        # A captive portal answers 200 too.
        if stored.sketch_id != sketch_id.hex():
            raise ANSWERS.refuse("sketch_id")
    except SketchError as error:
        kind = problem_type_of(type(error))
        return UploadOutcome(
            action=kind.action,
            problem=kind.slug,
            detail=str(error),
            retry_after_s=read_retry_after(response.headers.get("Retry-After", ""), now=now) or 0.0,
        )
    return UploadOutcome(action=None)


def _error_of(response: httpx.Response) -> SketchError | None:
    """Return the error that an answer stands for, or None for success."""
    if response.is_success:
        return None
    is_problem = response.headers.get("Content-Type", "").startswith(PROBLEM_MEDIA_TYPE)
    problem = read_problem(response.content) if is_problem else {}
    return error_from_problem(problem, response.status_code)


def _require_success(response: httpx.Response) -> httpx.Response:
    error = _error_of(response)
    if error is not None:
        raise error
    return response


def _read_date(response: httpx.Response) -> float | None:
    try:
        return parsedate_to_datetime(response.headers["Date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
