"""Decide which messages are kept, and which requests are passed on."""

from __future__ import annotations

import email
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from ssl import SSLContext

from sfumato.device_agent.relay.answers import Answer, answer_as_server, answer_kept, answer_problem
from sfumato.device_agent.relay.queue import Queue
from sfumato.device_agent.server.http_connection import HttpConnection
from sfumato.device_agent.settings.relay_settings import RelaySettings
from sfumato.shared.errors import (
    MalformedMessageError,
    NotFoundError,
    SketchError,
    StoreError,
    TooLargeError,
    TransportError,
    UnsupportedVersionError,
)
from sfumato.shared.wire import SketchMessage, decode_message, device_id_of, parse_request_signature

MOST_REQUEST_BYTES = 8192
DEVICE_PATH = "/v1/devices/me"
_UPLOAD = re.compile(r"/v1/studies/([0-9a-f]{64})/sketches/([0-9a-f]{64})")
_PLAN = re.compile(r"/v1/studies/([0-9a-f]{64})/plan")
_PASSED = ("accept", "signature", "signature-input")


class Intake:
    """The way into a relay, the same for all sources.

    A message that can never be right is refused as the server would refuse it. What only this
    relay's settings or state forbid is answered as something that passes, so that the device keeps
    its message.

    Parameters
    ----------
    settings, queue
        Settings and queue of the relay.
    clock
        Seconds since 1970-01-01 UTC.
    context
        Verifies the server's certificate.
    """

    def __init__(
        self,
        settings: RelaySettings,
        queue: Queue,
        *,
        clock: Callable[[], float],
        context: SSLContext,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._clock = clock
        self._context = context
        self._keys = {device_id_of(key): key for key in settings.devices}

    def keep(
        self, data: bytes, *, source: str, path: str | None = None, name: str | None = None
    ) -> bytes:
        """Keep a message and return its digest; it is on the disk when this returns.

        Parameters
        ----------
        path
            The path that it was sent to; None if it came without.
        source, name
            See :meth:`Queue.keep`.

        Raises
        ------
        TooLargeError, MalformedMessageError, SignatureError
            It can never be stored.
        TransportError
            It is none that this relay keeps, or its queue is full; the device must keep it.
        StoreError
            It cannot be written now.
        """
        self.require_small(len(data))
        try:
            message = decode_message(data)
        except UnsupportedVersionError as error:
            raise TransportError(
                f"cannot be judged by this relay: {error.rule}",
                field="message",
                fix="update the relay, and send the same again",
            ) from error
        header = message.header
        if path is not None:
            self._require_path(message, path)
        self._require_study(header.study)
        self._require_device(header.device)
        if key := self._keys.get(header.device):
            message.verify(key)
        return self._queue.keep(header, data, source=source, now=self._clock(), name=name)

    def require_small(self, n_bytes: int) -> None:
        """Refuse a message that is too large by ``TooLargeError``, before it is read."""
        most = self._settings.most_message_bytes
        if n_bytes > most:
            raise TooLargeError(
                f"must have at most {most} bytes",
                field="message",
                fix="check what is sent; the relay's owner can raise most_message_bytes",
            )

    def answer_upload(
        self, data: bytes, *, source: str, path: str | None = None, wait_s: float = 0.0
    ) -> Answer:
        """Keep a message; return the server's answer if it comes soon enough."""
        try:
            digest = self.keep(data, source=source, path=path)
            answer = self._queue.wait_for_answer(digest, wait_s)
        except StoreError as error:
            return answer_problem(TransportError(error.rule, field=error.field, fix=error.fix))
        except SketchError as error:
            return answer_problem(error)
        return answer or answer_kept()

    def pass_on(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Make a device's GET request as it is, and return the server's answer.

        Raises
        ------
        TransportError
            The server did not answer, or this relay does not pass it on.
        NotFoundError
            A relay has no such path.
        """
        found = {name.lower(): value for name, value in headers.items()}
        if path == DEVICE_PATH:
            self._require_device(parse_request_signature(found).device)
        elif match := _PLAN.fullmatch(path):
            self._require_study(bytes.fromhex(match[1]))
        else:
            raise NotFoundError(
                "is not passed on by a relay",
                field=path[:100],
                fix="use PUT of a sketch, GET of /v1/devices/me, or GET of a study's plan",
            )
        passed = {name: value for name, value in found.items() if name in _PASSED}
        connection = HttpConnection(self._settings.server, clock=self._clock, context=self._context)
        with closing(connection):
            return answer_as_server(connection.send("GET", path, headers=passed))

    def answer_request(self, data: bytes) -> Answer:
        """Answer a GET request that is written as in HTTP."""
        path, headers = read_request(data)
        return self.pass_on(path, headers)

    def _require_path(self, message: SketchMessage, path: str) -> None:
        match = _UPLOAD.fullmatch(path)
        header = message.header
        if match is None or match.groups() != (header.study.hex(), header.sketch_id.hex()):
            raise MalformedMessageError(
                "must be that of the study and the sketch in the message",
                field="path",
                fix=f"send it to /v1/studies/{header.study.hex()}/sketches/"
                f"{header.sketch_id.hex()}",
            )

    def _require_study(self, study: bytes) -> None:
        if self._settings.studies and study not in self._settings.studies:
            raise TransportError(
                f"{study.hex()} is none that this relay forwards for",
                field="study",
                fix="add it to studies in the relay's configuration, and send the same again",
            )

    def _require_device(self, device: bytes) -> None:
        if self._keys and device not in self._keys:
            raise TransportError(
                f"{device.hex()} is none that this relay forwards for",
                field="device",
                fix="add its public key to devices in the relay's configuration, and send the "
                "same again",
            )


def read_request(data: bytes) -> tuple[str, Mapping[str, str]]:
    """Read a GET request as HTTP writes it: its path and headers.

    Raises
    ------
    MalformedMessageError
        It is none.
    """
    first, _, rest = data.partition(b"\n")
    words = first.split()
    if len(data) > MOST_REQUEST_BYTES or len(words) != 3 or words[0] != b"GET":
        raise MalformedMessageError(
            f"must be a GET request of at most {MOST_REQUEST_BYTES} bytes",
            field="request",
            fix='write "GET /v1/devices/me HTTP/1.1", and a line for each header',
        )
    headers = email.message_from_bytes(rest)
    return words[1].decode("latin-1"), {name: str(value) for name, value in headers.items()}


def is_request(data: bytes) -> bool:
    """Return whether bytes are meant as a request rather than a message."""
    return data.startswith(b"GET ")
