"""Messages of an MQTT topic, with QoS 1 and a persistent session in which the broker keeps them.

QoS 1 may deliver a message twice. Without ids, messages that may be repetitions are dropped, and so
are retained ones, which come again at every subscription.
"""

from __future__ import annotations

import json
import random
import time
from typing import Annotated, Any, Literal

import numpy as np

from sfumato.device_agent.sources.addresses import normalise_host
from sfumato.device_agent.sources.growing_ids import GrowingIds
from sfumato.device_agent.sources.interface import Guarantee, RecordBatch, RecordSource
from sfumato.device_agent.sources.mqtt_client import BrokerSettings, Message, is_topic, make_client
from sfumato.device_agent.sources.settings import TextSettings
from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.privacy import Origin
from sfumato.shared.reading import MAX_LINE_BYTES, Block, LineParser
from sfumato.shared.structure import Rule, Text, declared, member

try:
    import paho.mqtt.client as mqtt
except ModuleNotFoundError as error:
    raise ConfigError(
        'needs the extra "mqtt"', fix="install it: pip install 'sfumato[agent,mqtt]'"
    ) from error

BATCH_MESSAGES = 4096
_QUIET_S = 0.2
_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 300.0


@declared
class MqttSettings(TextSettings, BrokerSettings):
    """Settings of the messages of a topic: QoS 1 and a persistent session."""

    format: Literal["json", "csv", "value"] = member(
        "`json`, one object a message; `csv`, one line a message; or `value`, where a message is a "
        "value and nothing else, which is the field `value`. But for CSV a message has two fields "
        "more: its `topic`, and its `arrival` in seconds since 1970-01-01 UTC by this machine's "
        "clock.",
        default="json",
    )
    topic: Annotated[
        Text,
        Rule(
            is_topic,
            "must be a topic of MQTT, where + stands for one level and # for all that follow",
            'write "plant/meter", "plant/+/meter" or "plant/#"',
        ),
    ] = member("The topic or topic filter.")
    id: Text | None = member(
        "A field with a whole number that grows from message to message.", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format == "csv" and not self.header:
            raise ConfigError(
                "is missing: CSV messages have no header line",
                field="header",
                fix='add header = ["time", "x", "y"]',
            )
        if self.id is not None and ("+" in self.topic or "#" in self.topic):
            raise ConfigError(
                "cannot be combined with wildcards in the topic: ids of several publishers do not "
                "grow together",
                field="id",
                fix="remove it, or use one stream for each topic",
            )

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See ``SourceSettings``."""
        # With and without encryption, at its usual port, it is one broker.
        port = "" if self.port in (1883, 8883) else f":{self.port}"
        return (self._origin("mqtt", f"{normalise_host(self.host)}{port} {self.topic}"),)


class MqttSource(RecordSource):
    """The records of a topic; see ``RecordSource``. It connects when it is first read.

    A message is one JSON object, one line of CSV or one value; it counts as one record whatever it
    holds.

    Raises
    ------
    RecordError
        The broker refuses the client or the subscription.
    """

    chooses = True
    settings = MqttSettings
    _settings: MqttSettings
    _parser: LineParser

    def _open(self) -> None:
        settings = self._settings
        self._name = f"{settings.host}:{settings.port}/{settings.topic}"
        self._parser = self._mapping.make_parser(settings)
        # However the broker is spelt: ids that were read before must be known again.
        (origin,) = settings.origins
        source = f"mqtt:{origin.name}"
        place = self._find_place(source, name=self._name)
        self._ids = GrowingIds(source, place, in_use=settings.id is not None)
        self._messages: list[Message] = []
        added = {"topic", "arrival"} & set(self._mapping.fields.names)
        self._is_wrapped = settings.format == "value" or (settings.format == "json" and bool(added))
        self._are_doubtful: list[bool] = []
        self._n_messages = 0
        self._n_doubtful = 0
        self._client: mqtt.Client | None = None
        self._resources.callback(self._disconnect)
        self._subscribed = False
        self._refused: str | None = None
        self._n_failures = 0

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        loses = (
            "what was received since the last checkpoint, at a crash; so let the broker refuse "
            "messages that memory cannot hold"
        )
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
    def is_waiting(self) -> bool:
        """See ``RecordSource``."""
        return self._client is None or not self._subscribed

    def _disconnect(self) -> None:
        # The broker keeps the session and what comes meanwhile.
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
        """Collect messages; return False if there are none."""
        if self._client is None and not self._connect():
            return False
        assert self._client is not None
        deadline = time.monotonic() + (_QUIET_S if self._subscribed else _CONNECT_S)
        while len(self._messages) < BATCH_MESSAGES and time.monotonic() < deadline:
            n_before, was_subscribed = len(self._messages), self._subscribed
            status = self._client.loop(timeout=_QUIET_S / 4)
            if self._refused is not None:
                raise RecordError(
                    f"was refused by the broker: {self._refused}",
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

    def _to_line(self, message: Message) -> bytes:
        line = message.payload.rstrip(b"\r\n")
        if self._is_wrapped:
            line = self._wrap(message, line)
        if b"\n" in line:
            # JSON may be laid out on several lines. In CSV that is no record: only what is public
            # is read of it, from its first line up to a field that is broken for certain.
            line = (
                line.replace(b"\n", b" ")
                if self._settings.format != "csv"
                else line[: line.index(b"\n")] + self._settings.delimiter.encode() + b'"'
            )
        return line + b"\n"

    def _wrap(self, message: Message, payload: bytes) -> bytes:
        """Put topic and arrival in front, where nothing in the payload can change them."""
        public = f'{{"topic": {json.dumps(message.topic)}, "arrival": {message.arrival!r}'.encode()
        if self._settings.format == "value":
            text = payload.decode(self._settings.encoding, "replace")
            return b'%s, "value": %s}' % (public, json.dumps(text).encode())
        rest = payload.lstrip()
        # What is no object has no values; of its own fields, those in front count.
        return b"%s, %s" % (public, rest[1:] if rest[:1] == b"{" else b"-")

    def _connect(self) -> bool:
        settings = self._settings
        client = make_client(settings)
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

    def _fail(self, reason: str = "the connection was lost") -> None:
        self._n_failures += 1
        broker = f"{self._settings.host}:{self._settings.port}"
        self.report.note(f"{broker}: {reason}; the agent tries again")
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
        payload = message.payload[: MAX_LINE_BYTES + 1]
        found = Message(payload=payload, topic=message.topic, arrival=time.time())
        self._messages.append(found)
        self._are_doubtful.append(is_doubtful)
