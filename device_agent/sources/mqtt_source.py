"""Messages of an MQTT topic: QoS 1 and a persistent session, so that the broker keeps them for us.

QoS 1 alone may deliver a message twice. Without ids a message that the broker marks as possibly a
repetition is dropped, and so is a retained one, which comes again at every subscription.
"""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from device_agent.settings.agent_settings import StreamSettings
from device_agent.settings.source_settings import MqttSettings
from device_agent.sources.growing_ids import GrowingIds
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    ReadingReport,
    RecordBatch,
    RecordSource,
    require_same_source,
)
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.secrets import read_secret
from shared.errors import ConfigError, RecordError
from shared.reading import MAX_LINE_BYTES, Block

try:
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion
except ModuleNotFoundError as error:
    raise ConfigError(
        'needs the extra "mqtt"',
        field="streams.source.kind",
        fix="pip install 'sfumato[agent,mqtt]'",
    ) from error

BATCH_MESSAGES = 4096
_QUIET_S = 0.2
_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 300.0


class MqttSource(RecordSource):
    """The records of a topic; see ``RecordSource``. It connects when it is first read.

    A message is one JSON object, or one line of CSV; it counts as one record whatever it holds.

    Raises
    ------
    RecordError
        The broker refuses the client or the subscription.
    """

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[str],
        known: Sequence[KnownPosition],
        digest_key: bytes,
    ) -> None:
        assert isinstance(stream.source, MqttSettings)
        self.report = ReadingReport()
        self._settings = stream.source
        self._name = f"{stream.source.host}:{stream.source.port}/{stream.source.topic}"
        self._mapping = RecordMapping(stream, dimensions, stream.source.id)
        self._parser = self._mapping.make_parser(stream.source)
        in_use = stream.source.id is not None
        # However the broker is spelt: ids that were read before must be known again.
        (origin,) = stream.source.origins
        source = f"mqtt:{origin.name}"
        require_same_source(source, stream.name, known, kind="mqtt", name=self._name)
        self._ids = GrowingIds(source, stream.name, known, in_use=in_use)
        self._messages: list[bytes] = []
        self._are_doubtful: list[bool] = []
        self._n_messages = 0
        self._n_doubtful = 0
        self._client: mqtt.Client | None = None
        self._subscribed = False
        self._refused: str | None = None
        self._n_failures = 0

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        loses = "what was received since the last checkpoint, at a crash"
        if self._settings.id is None:
            loses += "; after a lost connection, messages that may be repetitions"
        return Guarantee(delivery="at most once", loses=loses, consumes=True)

    @property
    def pause_s(self) -> float:
        """See ``RecordSource``; short enough to keep the connection alive."""
        if not self._n_failures:
            return 1.0
        # Full jitter: all clients of a broker lose it at the same moment.
        return random.uniform(1.0, min(float(2 << min(self._n_failures, 10)), _LONGEST_PAUSE_S))

    @property
    def caveats(self) -> list[str]:
        """See ``RecordSource``."""
        return self._parser.caveats

    def close(self) -> None:
        """See ``RecordSource``; the broker keeps the session and what comes meanwhile."""
        if self._client is not None:
            self._client.disconnect()
            self._client = None

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``; waits until the topic is quiet for a moment."""
        while True:
            if not self._messages and not self._receive():
                return None
            batch = self._take()
            if batch is not None:
                return batch

    def _receive(self) -> bool:
        """Collect what comes; False if nothing does."""
        if self._client is None and not self._connect():
            return False
        assert self._client is not None
        deadline = time.monotonic() + (_QUIET_S if self._subscribed else _CONNECT_S)
        while len(self._messages) < BATCH_MESSAGES and time.monotonic() < deadline:
            n_before, was_subscribed = len(self._messages), self._subscribed
            status = self._client.loop(timeout=_QUIET_S / 4)
            if self._refused is not None:
                raise RecordError(
                    f"the broker refused: {self._refused}",
                    field=self._name,
                    fix="correct username, password_file or topic in [streams.source]",
                )
            if status != mqtt.MQTT_ERR_SUCCESS:
                self._fail()
                break
            if len(self._messages) > n_before or self._subscribed > was_subscribed:
                deadline = time.monotonic() + _QUIET_S
        return bool(self._messages)

    def _take(self) -> RecordBatch | None:
        lines = [self._to_line(message) for message in self._messages]
        doubtful = np.array(self._are_doubtful, dtype=bool)
        self._messages, self._are_doubtful = [], []
        block = Block(b"".join(lines), line=self._n_messages + 1)
        self._n_messages += len(lines)
        self.report.bytes_read += len(block.data)
        table = self._mapping.parse(self._parser, block, self.report)
        batch = self._ids.make_batch(table, doubtful)
        self.report.notes[:] = self._ids.describe()
        if self._n_doubtful:
            self.report.notes.append(
                f"{self._n_doubtful} message(s) were dropped: retained, or perhaps repeated"
            )
        return batch

    def _to_line(self, message: bytes) -> bytes:
        line = message.rstrip(b"\r\n")
        if b"\n" in line:
            # JSON may be laid out on several lines. In CSV that is no record: only what is public
            # is read of it, from its first line up to a field that is broken for certain.
            line = (
                line.replace(b"\n", b" ")
                if self._settings.format == "json"
                else line[: line.index(b"\n")] + self._settings.delimiter.encode() + b'"'
            )
        return line + b"\n"

    def _connect(self) -> bool:
        settings = self._settings
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=settings.client_id, clean_session=False
        )
        if settings.username is not None:
            path = settings.password_file
            password = None if path is None else read_secret(path, encoding="utf-8")
            client.username_pw_set(settings.username, password)
        if settings.tls:
            client.tls_set_context(self._make_context())
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        self._subscribed = False
        try:
            client.connect(settings.host, settings.port)
        except (OSError, ValueError) as error:
            # Names that cannot be looked up are no OSError if they cannot be written either.
            self._fail(getattr(error, "strerror", None) or type(error).__name__)
            return False
        self._client = client
        return True

    def _make_context(self) -> ssl.SSLContext:
        path = self._settings.ca_file
        try:
            return ssl.create_default_context(cafile=path)
        except OSError as error:  # what OpenSSL complains about is one too
            raise RecordError(
                f"cannot be used ({error.strerror or type(error).__name__})",
                field=str(path),
                fix="name a file in PEM with the authority of the broker",
            ) from error

    def _fail(self, reason: str = "the connection was lost") -> None:
        self._n_failures += 1
        note = f"{self._settings.host}:{self._settings.port}: {reason}; will be tried again"
        if note not in self.report.notes:
            self.report.notes.append(note)
        self._client = None

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        if reason.is_failure:
            self._refused = str(reason)
            return
        self._n_failures = 0
        client.subscribe(self._settings.topic, qos=1)

    def _on_subscribe(self, _client: Any, _data: Any, _id: Any, reasons: Any, _more: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._refused = str(reasons[0])
        self._subscribed = True

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        is_doubtful = bool(message.dup or message.retain)
        if self._settings.id is None and is_doubtful:
            self._n_doubtful += 1
            return
        # Of a message that is too long to be a record only what its time is read from is kept.
        self._messages.append(message.payload[: MAX_LINE_BYTES + 1])
        self._are_doubtful.append(is_doubtful)
