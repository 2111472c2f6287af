"""A topic of MQTT that devices publish messages to, and topics that bring them their answers.

The broker is told that a message was received only when it is on the disk. A payload is a message,
or a device's signed GET request as HTTP writes it. The answer, as HTTP writes it, goes to the topic
of the device; it may get lost, and the device sends the same again.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from sfumato.device_agent.agent.monitoring import report_event
from sfumato.device_agent.relay.answers import Answer, answer_kept, answer_problem
from sfumato.device_agent.relay.intake import Intake, is_request, read_request
from sfumato.device_agent.relay.queue import Queue
from sfumato.device_agent.settings.relay_settings import MqttTable
from sfumato.device_agent.sources.mqtt_client import make_client
from sfumato.shared.errors import OverloadedError, RecordError, SketchError, StoreError
from sfumato.shared.wire import decode_message, parse_request_signature

SOURCE = "mqtt"
_QUIET_S = 0.1
_PAUSE_S = 5.0


class MqttSource:
    """One session at a broker; ``run`` is the body of its thread.

    Raises
    ------
    ConfigError, RecordError
        The library is not installed, or a file that the settings name cannot be used.
    """

    def __init__(self, settings: MqttTable, intake: Intake, queue: Queue) -> None:
        self._settings = settings
        self._intake = intake
        self._queue = queue
        self._client = make_client(settings, manual_ack=True)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._answers: SimpleQueue[tuple[bytes, Answer]] = SimpleQueue()
        self._is_away = self._is_full = False
        self._refusal = ""

    def run(self, stopping: threading.Event) -> None:
        """Receive messages until the relay stops.

        Raises
        ------
        RecordError
            The broker refuses this client.
        """
        while not stopping.is_set():
            try:
                self._client.connect(self._settings.host, self._settings.port)
            except (OSError, ValueError) as error:
                self._note_away(getattr(error, "strerror", None) or type(error).__name__)
            else:
                self._serve(stopping)
            stopping.wait(_PAUSE_S)

    def publish(self, device: bytes, answer: Answer) -> None:
        """Publish an answer to a device's topic, in the thread of the session; it may get lost."""
        self._answers.put((device, answer))

    def _serve(self, stopping: threading.Event) -> None:
        self._is_full = False
        while not stopping.is_set() and not self._is_full:
            if self._client.loop(_QUIET_S) != 0:
                self._note_away("the connection was lost")
                return
            if self._refusal:
                raise RecordError(
                    f"was refused by the broker: {self._refusal}",
                    field="mqtt",
                    fix="correct username, password_file, client_id or topic in [mqtt]",
                )
            self._publish_answers()
        # What was not acknowledged is delivered again after the next connection.
        self._client.disconnect()

    def _publish_answers(self) -> None:
        with suppress(Empty):
            while True:
                device, answer = self._answers.get_nowait()
                topic = f"{self._settings.answers}/{device.hex()}"
                self._client.publish(topic, answer.to_http(), qos=1)

    def _note_away(self, reason: str) -> None:
        if not self._is_away:
            self._report(logging.WARNING, f"{reason}; the relay tries again")
        self._is_away = True

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
            return
        self._is_away = False
        client.subscribe(self._settings.topic, qos=1)

    def _on_subscribe(self, _client: Any, _data: Any, _id: Any, reasons: Any, _more: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._refusal = str(reasons[0])
            return
        # What is published before a first subscription reaches nobody.
        self._report(logging.INFO, f"messages to {self._settings.topic} arrive")

    def _report(self, level: int, message: str) -> None:
        report_event(level, f"mqtt: {self._settings.host}:{self._settings.port}: {message}")

    def _on_message(self, client: Any, _data: Any, message: Any) -> None:
        data = bytes(message.payload)
        try:
            self._answer_request(data) if is_request(data) else self._keep(data)
        except (StoreError, OverloadedError) as error:
            # Not acknowledged, so the broker keeps it.
            if not self._is_full:
                report_event(logging.WARNING, f"mqtt: no message is taken now: {error}")
            self._is_full = True
            return
        except SketchError as error:
            report_event(logging.WARNING, f"mqtt: a message was refused: {error}")
        client.ack(message.mid, message.qos)

    def _answer_request(self, data: bytes) -> None:
        _, headers = read_request(data)
        found = {name.lower(): value for name, value in headers.items()}
        device = parse_request_signature(found).device
        try:
            answer = self._intake.answer_request(data)
        except SketchError as error:
            answer = answer_problem(error)
        self.publish(device, answer)

    def _keep(self, data: bytes) -> None:
        try:
            digest = self._intake.keep(data, source=SOURCE)
            answer = self._queue.find_answer(digest) or answer_kept()
        except (StoreError, OverloadedError):
            raise
        except SketchError as error:
            answer = answer_problem(error)
        # Of what is no message nobody knows whose it is.
        self.publish(decode_message(data).header.device, answer)
