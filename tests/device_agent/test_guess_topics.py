"""A guess at what the topics of a broker bring."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from sfumato.device_agent.agent.guess import Guess, guess_topic
from sfumato.device_agent.cli.sample import show_guess
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.shared.errors import SketchError
from tests.device_agent.sources.test_mqtt_source import (
    HOST,
    needs_broker,
    publish,
    publisher,
    topic,
)
from tests.ports import hold_port, port_of

__all__ = ["publisher", "topic"]

pytestmark = needs_broker
QUIET_S = 0.5


@pytest.fixture
def retained(publisher: mqtt.Client, topic: str) -> Iterator[dict[str, str]]:
    """Messages to retain, by what follows the topic; they are removed in the end."""
    payloads: dict[str, str] = {}
    yield payloads
    for name in payloads:
        publish(publisher, f"{topic}/{name}", "", retain=True)


def look(publisher: mqtt.Client, topic: str, payloads: dict[str, str]) -> Guess:
    for name, payload in payloads.items():
        publish(publisher, f"{topic}/{name}", payload, retain=True)
    return guess_topic(f"mqtt://{HOST}/{topic}/#", listen_s=QUIET_S)


def test_topics_of_one_value_each_are_joined_and_shown_as_the_interval_stands(
    publisher: mqtt.Client, topic: str, retained: dict[str, str], tmp_path: Path
) -> None:
    retained |= {"hall/t": "21.5", "hall/h": "44", "room/t": "19.5 °C", "room/state": "on"}
    found = look(publisher, topic, retained)
    source = found.source
    assert (source["kind"], source["topic"]) == ("mqtt", f"{topic}/#")
    assert (source["format"], source["timestamp"]) == ("value", "arrival")
    assert (source["timestamp_format"], source["strip"]) == ("unix", ["°C"])
    assert (source["join"]["key"], source["join"]["value"]) == ("topic", "value")
    assert found.columns == {
        "hall_t": f"{topic}/hall/t",
        "hall_h": f"{topic}/hall/h",
        "room_t": f"{topic}/room/t",
    }
    (row,) = found.rows
    assert row[1:] == ("21.5", "44", "19.5")
    doubts = "\n".join(found.doubts)
    assert f"no numbers come from {topic}/room/state" in doubts
    assert "4 message(s) of 4 topic(s)" in doubts
    assert "4 the broker had retained" in doubts
    assert "when it comes here" in doubts
    config = tmp_path / "agent.toml"
    printed = show_guess(found, {})
    config.write_text('server = "https://example.org"\nstudy = "' + "00" * 32 + f'"\n{printed}')
    (stream,) = load_settings(config, {}).streams
    assert stream.source.join is not None


@pytest.mark.parametrize("into_it", [0.1, 150.0, 299.9])
def test_the_interval_is_shown_wherever_in_it_messages_come(
    publisher: mqtt.Client,
    topic: str,
    retained: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    into_it: float,
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_796_000_100.0 + into_it)
    retained |= {"a": "1", "b": "2"}
    found = look(publisher, topic, retained)
    (row,) = found.rows
    assert row[1:] == ("1", "2")


def test_objects_with_a_time_of_their_own_are_records(
    publisher: mqtt.Client, topic: str, retained: dict[str, str]
) -> None:
    for i, name in enumerate(("a", "b")):
        seen = f"2026-11-29T10:0{i}:00+01:00"
        retained[name] = json.dumps({"last_seen": seen, "t": 20.5 + i, "link": {"quality": 90}})
    found = look(publisher, topic, retained)
    assert found.source["timestamp"] == "last_seen"
    assert "format" not in found.source
    assert found.columns == {"t": "t", "link_quality": "link.quality"}
    assert sorted(found.rows) == [
        ("2026-11-29 09:00:00+00:00", "20.5", "90"),
        ("2026-11-29 09:01:00+00:00", "21.5", "90"),
    ]
    assert any('where = { topic = "..." }' in doubt for doubt in found.doubts)


def test_a_look_ends_early_with_enough_messages_and_leaves_no_session(
    publisher: mqtt.Client, topic: str, retained: dict[str, str]
) -> None:
    retained |= {f"{i}": json.dumps({"t": i, "uptime": 40_000 + i}) for i in range(500)}
    for name, payload in retained.items():
        publisher.publish(f"{topic}/{name}", payload, qos=1, retain=True)
    publish(publisher, f"{topic}/other", "")
    found = guess_topic(f"mqtt://{HOST}/{topic}/#", listen_s=600.0)
    assert found.source["timestamp"] == "arrival"
    assert "uptime" in found.columns
    # It has a name of its own, under which the broker keeps nothing.
    names = {found.source["client_id"], guess_topic(f"mqtt://{HOST}/{topic}/#").source["client_id"]}
    assert len(names) == 2


def test_what_cannot_be_read_is_refused_with_what_helps(
    publisher: mqtt.Client, topic: str, retained: dict[str, str]
) -> None:
    with pytest.raises(SketchError, match=r"brought no message in 0\.1 s"):
        guess_topic(f"mqtt://{HOST}/{topic}/#", listen_s=0.1)
    retained["words"] = "on; off"
    with pytest.raises(SketchError, match=r"neither JSON objects nor single numbers.*words"):
        look(publisher, topic, retained)
    retained["words"] = json.dumps({"feeds": [{"t": 1}, {"t": 2}]})
    with pytest.raises(SketchError, match="list of records in one message"):
        look(publisher, topic, retained)
    with pytest.raises(SketchError, match="must name a topic"):
        guess_topic(f"mqtt://{HOST}/a#b")
    with hold_port() as held, pytest.raises(SketchError, match="does not answer"):
        guess_topic(f"mqtt://{HOST}:{port_of(held)}/#")
