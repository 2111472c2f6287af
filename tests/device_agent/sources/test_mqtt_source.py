import socket
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from sfumato.device_agent.sources import RecordSource
from sfumato.shared.errors import RecordError
from tests.device_agent.sources.streams import Reader, make_stream
from tests.ports import hold_port, port_of

HOST, PORT = "127.0.0.1", 1883


def broker_answers() -> bool:
    try:
        with socket.create_connection((HOST, PORT), timeout=1):
            return True
    except OSError:
        return False


needs_broker = pytest.mark.skipif(
    not broker_answers(), reason=f"no MQTT broker answers at {HOST}:{PORT}"
)


@pytest.fixture
def topic() -> str:
    return f"sfumato-test/{uuid.uuid4().hex}"


@pytest.fixture
def publisher() -> Iterator[mqtt.Client]:
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect(HOST, PORT)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


def publish(client: mqtt.Client, topic: str, *payloads: str, retain: bool = False) -> None:
    for payload in payloads:
        client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10)


def make_reader(topic: str, *, port: int = PORT, **options: Any) -> Reader:
    settings = {"url": f"mqtt://{HOST}:{port}", "topic": topic, "client_id": topic[-16:]}
    return Reader(make_stream(Path("/"), kind="mqtt", **{**settings, **options}))


def collect(reader: Reader, source: RecordSource, n_records: int) -> list[float]:
    found: list[float] = []
    deadline = time.monotonic() + 30
    while len(found) < n_records and time.monotonic() < deadline:
        found += reader.poll(source)
    return found


@needs_broker
def test_messages_are_read_once_also_those_sent_while_away(
    topic: str, publisher: mqtt.Client
) -> None:
    reader = make_reader(topic)
    source = reader.open()
    assert source.read_batch() is None
    publish(publisher, topic, '{"x": 1}', "nonsense", '{"x":\n 3}', "")
    found = collect(reader, source, 4)
    assert [str(value) for value in found] == ["1.0", "nan", "3.0", "nan"]
    source.close()
    # The session is persistent: the broker keeps them.
    publish(publisher, topic, '{"x": 5}', '{"x": 6}')
    source = reader.open()
    assert collect(reader, source, 2) == [5, 6]
    assert source.read_batch() is None
    source.close()


@needs_broker
def test_retained_messages_are_not_counted_at_every_subscription(
    topic: str, publisher: mqtt.Client
) -> None:
    publish(publisher, topic, '{"x": 1}', retain=True)
    reader = make_reader(topic)
    source = reader.open()
    assert source.read_batch() is None
    publish(publisher, topic, '{"x": 2}')
    assert collect(reader, source, 1) == [2]
    assert "1 message(s) were dropped: retained" in " ".join(source.report.describe())
    source.close()
    publish(publisher, topic, "", retain=True)


@needs_broker
def test_ids_tell_repetitions(topic: str, publisher: mqtt.Client) -> None:
    reader = make_reader(topic, id="n")
    source = reader.open()
    source.read_batch()
    publish(publisher, topic, *(f'{{"n": {n}, "x": {n}}}' for n in (1, 2, 2, 1, 3)))
    assert collect(reader, source, 3) == [1, 2, 3]
    source.close()
    source = reader.open()
    source.read_batch()
    publish(publisher, topic, '{"n": 3, "x": 9}', '{"n": 4, "x": 4}')
    assert collect(reader, source, 1) == [4]
    source.close()


@needs_broker
@pytest.mark.parametrize("form", ["value", "json"])
def test_values_of_many_topics_are_joined_by_topic_and_arrival(
    form: str, topic: str, publisher: mqtt.Client
) -> None:
    began = time.time()
    since = datetime.fromtimestamp(began - 1, UTC).isoformat()
    reader = make_reader(
        f"{topic}/#",
        format=form,
        timestamp="arrival",
        timestamp_format="unix",
        decimal=",",
        strip=["°C"],
        columns={"x": topic + "/{group}/temperature"},
        join={"key": "topic", "every_s": 3600, "since": since, "groups": ["hall", "room 1"]},
    )
    reader.now = lambda: began
    source = reader.open()
    source.read_batch()
    shown = {"21,5 °C": '{"topic": "x", "arrival": 0, "value": "21,5 °C"}', "9": '{"value": 9}'}
    for name, value in (("hall/temperature", "9"), ("hall/light", "3"), ("room 1/temperature", "")):
        payload = shown.get(value, "[") if form == "json" else value
        publish(publisher, f"{topic}/{name}", payload)
    last = shown["21,5 °C"] if form == "json" else "21,5 °C"
    publish(publisher, f"{topic}/room 1/temperature", last)
    publish(publisher, f"{topic}/hall/temperature", "8" * 70_000)
    for _ in range(20):
        reader.poll(source)
    reader.now = lambda: began + 2 * 3600
    assert collect(reader, source, 2) == [9.0, 21.5]
    source.close()


@needs_broker
def test_messages_may_be_lines_of_csv(topic: str, publisher: mqtt.Client) -> None:
    reader = make_reader(topic, format="csv", header=["y", "x"])
    source = reader.open()
    source.read_batch()
    publish(publisher, topic, "0,1", "0,2\r\n", "0,3\n0,4", "0")
    found = collect(reader, source, 4)
    assert [str(value) for value in found] == ["1.0", "2.0", "nan", "nan"]
    source.close()


def test_a_broker_that_is_gone_is_tried_again_later() -> None:
    with hold_port() as held:
        source = make_reader("topic", port=port_of(held)).open()
        assert source.read_batch() is None
        assert 1 <= source.pause_s <= 4
        for _ in range(9):
            assert source.read_batch() is None
    assert 1 <= source.pause_s <= 300
    assert len({source.pause_s for _ in range(9)}) > 1
    assert "the agent tries again" in source.report.describe()[0]
    assert source.guarantee.consumes
    source.close()


def test_a_password_or_authority_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff98765")
    settings: dict[str, Any] = {"topic": "a", "client_id": "c", "url": f"mqtts://{HOST}:1"}
    wrongs: list[dict[str, Any]] = [
        {"username": "u", "password_file": "file"},
        {"username": "u", "password_file": "absent"},
        {"ca_file": "file"},
        {"ca_file": "absent"},
    ]
    for wrong in wrongs:
        source = Reader(make_stream(tmp_path, kind="mqtt", **settings, **wrong)).open()
        with pytest.raises(RecordError, match="cannot be used") as caught:
            source.read_batch()
        assert "98765" not in str(caught.value)
