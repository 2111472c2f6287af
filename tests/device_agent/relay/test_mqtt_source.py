"""A relay between a broker and a small server."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.device_agent.daemons import wait_until
from tests.device_agent.relay.sensors import Relay, Sensor, relay_in
from tests.device_agent.serving import Server
from tests.device_agent.sources.test_mqtt_source import HOST, PORT, needs_broker

pytestmark = needs_broker

Answers = SimpleQueue[bytes]


@pytest.fixture
def topic() -> str:
    return f"sfumato-test/{uuid.uuid4().hex}"


@pytest.fixture
def relay(tmp_path: Path, server: Server, topic: str) -> Iterator[Relay]:
    table = "\n".join(
        [
            "[mqtt]",
            f'url = "mqtt://{HOST}:{PORT}"',
            f'client_id = "{topic[-16:]}"',
            f'topic = "{topic}/up"',
            f'answers = "{topic}/down"',
        ]
    )
    with relay_in(tmp_path, server.url, more=table) as relay:
        yield relay


@pytest.fixture
def sensor(server: Server) -> Sensor:
    return Sensor(server)


@pytest.fixture
def answers(topic: str, sensor: Sensor) -> Iterator[tuple[mqtt.Client, Answers]]:
    """A device's session, and the answers that reach it."""
    found: Answers = SimpleQueue()
    listening: SimpleQueue[None] = SimpleQueue()
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _client, _data, message: found.put(bytes(message.payload))
    client.on_subscribe = lambda *_: listening.put(None)
    client.connect(HOST, PORT)
    client.loop_start()
    client.subscribe(f"{topic}/down/{sensor.device.hex()}", qos=1)
    listening.get()
    yield client, found
    client.disconnect()
    client.loop_stop()


def start(relay: Relay) -> None:
    """Start a relay, and wait until the broker keeps messages for it."""
    n_before = relay.log.count(" arrive")
    relay.start()
    wait_until(lambda: relay.log.count(" arrive") > n_before)


def wait_for(answers: Answers, *first_lines: bytes) -> list[bytes]:
    """Return the answers up to those with these first lines, the last of which comes last."""
    found: list[bytes] = []
    while [one.split(b"\r\n")[0] for one in found][-1:] != [first_lines[-1]]:
        found.append(answers.get())
    assert {one.split(b"\r\n")[0] for one in found} <= set(first_lines)
    return found


def test_a_message_comes_by_a_topic_and_the_receipt_goes_to_the_device(
    relay: Relay,
    server: Server,
    sensor: Sensor,
    topic: str,
    answers: tuple[mqtt.Client, Answers],
) -> None:
    client, found = answers
    start(relay)
    signed = sensor.sign(0)
    publish_bytes(client, f"{topic}/up", b"no message")
    publish_bytes(client, f"{topic}/up", signed.data)
    *_, receipt = wait_for(found, b"HTTP/1.1 202 Accepted", b"HTTP/1.1 201 Created")
    assert signed.sketch_id.hex().encode() in receipt
    assert server.received == [(signed.sketch_id, signed.data)]
    publish_bytes(client, f"{topic}/up", sensor.write_request())
    (status,) = wait_for(found, b"HTTP/1.1 200 OK")
    assert b'"last_sequence": 0' in status
    # While the relay is down the broker keeps what is published.
    relay.kill()
    late = sensor.sign(1)
    publish_bytes(client, f"{topic}/up", late.data)
    start(relay)
    wait_for(found, b"HTTP/1.1 202 Accepted", b"HTTP/1.1 201 Created")
    assert server.received[1:] == [(late.sketch_id, late.data)]


def test_what_cannot_be_kept_now_is_not_acknowledged_so_the_broker_keeps_it(
    relay: Relay,
    server: Server,
    sensor: Sensor,
    topic: str,
    answers: tuple[mqtt.Client, Answers],
) -> None:
    client, _ = answers
    full = relay.config.read_text()
    relay.config.write_text("most_megabytes = 0.0001\n" + full)
    start(relay)
    signed = sensor.sign(0)
    publish_bytes(client, f"{topic}/up", signed.data)
    wait_until(lambda: "no message is taken now" in relay.log)
    relay.kill()
    assert server.received == []
    relay.config.write_text(full)
    start(relay)
    wait_until(lambda: server.received == [(signed.sketch_id, signed.data)])


def publish_bytes(client: mqtt.Client, topic: str, payload: bytes) -> None:
    client.publish(topic, payload, qos=1).wait_for_publish()
