"""A topic behind TLS: a real Mosquitto of one's own, with certificates made for the test."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.certificates import Authority
from tests.device_agent.sources.streams import Reader, make_stream
from tests.ports import hold_port, port_of

HOST = "127.0.0.1"
MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="Mosquitto is not installed")


@contextmanager
def broker(folder: Path, certificate: Path, key: Path) -> Iterator[int]:
    """Run a broker that speaks TLS alone and give its port."""
    held = hold_port()
    port = port_of(held)
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} {HOST}\ncertfile {certificate}\nkeyfile {key}\nallow_anonymous true\n"
        "user root\n"
    )
    with (folder / "mosquitto.log").open("a") as log:
        process = subprocess.Popen([str(MOSQUITTO), "-c", str(config)], stderr=log, stdout=log)
    try:
        while process.poll() is None:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()
        held.close()


def make_reader(port: int, authority: Authority, **options: Any) -> Reader:
    settings: dict[str, Any] = {
        "url": f"mqtts://{HOST}:{port}",
        "topic": "meter/1",
        "client_id": "agent",
    }
    return Reader(
        make_stream(Path("/"), kind="mqtt", ca_file=str(authority.path), **settings, **options)
    )


def publish(port: int, authority: Authority, *payloads: str) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.tls_set(str(authority.path))
    client.connect(HOST, port)
    client.loop_start()
    for payload in payloads:
        client.publish("meter/1", payload, qos=1).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def test_messages_of_a_topic_behind_tls_are_read_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with broker(tmp_path, *authority.issue("broker")) as port:
        reader = make_reader(port, authority)
        source = reader.open()
        found: list[float] = []
        found += reader.poll(source)  # subscribes
        publish(port, authority, '{"x": 1}', '{"x": 2}')
        while len(found) < 2:
            found += reader.poll(source)
        source.close()
        # The session is persistent: the broker keeps them.
        publish(port, authority, '{"x": 3}')
        source = reader.open()
        while len(found) < 3:
            found += reader.poll(source)
        source.close()
    assert found == [1, 2, 3]


# paho leaves the socket of a handshake that failed to be collected.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("another authority", "certificate verify failed"),
        ("expired", "certificate has expired"),
        ("another address", "certificate"),
    ],
)
def test_a_broker_with_a_wrong_certificate_is_not_listened_to_and_tried_again(
    what: str, reason: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    match what:
        case "another authority":
            pair = Authority(tmp_path, "stranger").issue("wrong")
        case "expired":
            pair = authority.issue("wrong", days=(-9, -1))
        case _:
            pair = authority.issue("wrong", address="127.0.0.2")
    with broker(tmp_path, *pair) as port:
        source = make_reader(port, authority).open()
        assert source.read_batch() is None
        assert reason in " ".join(source.report.describe()).lower()
        assert "the agent tries again" in " ".join(source.report.describe())
        source.close()
