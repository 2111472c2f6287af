"""A look at what the topics of an MQTT broker bring, in a session that leaves nothing there."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sfumato.device_agent.agent.guess.look import guess_file
from sfumato.device_agent.agent.guess.tables import MOSTLY, Guess
from sfumato.device_agent.agent.guess.texts import NUMBERS, UNIT, find_number
from sfumato.device_agent.sources.mqtt_client import BrokerSettings, Message, is_topic, make_client
from sfumato.device_agent.sources.settings import ARRIVAL
from sfumato.shared.errors import ConfigError, RecordError

LISTEN_S: Final = 20.0
"""Sensors that send more rarely than this are seen by what the broker retains."""
_MOST_MESSAGES = 500
_LOOP_S = 0.1
_SHOWN = 3


def guess_topic(url: str, *, listen_s: float = LISTEN_S) -> Guess:
    """Guess how the messages of a topic are read.

    Parameters
    ----------
    url
        ``mqtt://HOST/TOPIC``, or ``mqtts://``; all topics where it names none.
    listen_s
        Seconds to wait for messages, of which some hundred are enough.

    Raises
    ------
    ConfigError
        The address is wrong, or messages are neither JSON objects nor single values.
    RecordError
        The broker does not answer or refuses, or no message came.
    """
    scheme, _, rest = url.partition("://")
    host, _, topic = rest.partition("/")
    topic = topic or "#"
    if not is_topic(topic):
        raise ConfigError(
            "must name a topic of MQTT", field=url, fix='write "mqtt://localhost/house/#"'
        )
    settings = BrokerSettings(
        url=f"{scheme}://{host}", client_id=f"sfumato-look-{secrets.token_hex(4)}"
    )
    messages = _listen(settings, topic, listen_s)
    if not messages:
        raise RecordError(
            f"brought no message in {listen_s:g} s",
            field=url,
            fix="look when something is sent, or name another topic; # stands for all that follow",
        )
    found = _guess_messages(messages, url)
    if found.source.get("timestamp") != ARRIVAL:
        _leave_out(ARRIVAL, found)
    del found.source["path"]
    found.source = {
        "kind": "mqtt",
        "url": settings.url,
        "topic": topic,
        "client_id": f"sfumato-{secrets.token_hex(4)}",
    } | {**found.source, "kind": "mqtt"}
    _doubt_messages(messages, topic, found)
    return found


def _listen(settings: BrokerSettings, topic: str, listen_s: float) -> list[Message]:
    messages: list[Message] = []
    reasons: list[str] = []
    client = make_client(settings, is_persistent=False)

    def on_connect(client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        if reason.is_failure:
            reasons.append(str(reason))
        else:
            client.subscribe(topic, qos=0)

    def on_subscribe(_client: Any, _data: Any, _id: Any, answers: Any, _more: Any) -> None:
        reasons.extend(str(answer) for answer in answers if answer.is_failure)

    def on_message(_client: Any, _data: Any, message: Any) -> None:
        messages.append(
            Message(
                topic=message.topic,
                payload=message.payload,
                arrival=time.time(),
                is_retained=bool(message.retain),
            )
        )

    client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
    try:
        client.connect(settings.host, settings.port)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise RecordError(
            f"does not answer ({reason})", field=settings.url, fix="check the address and the port"
        ) from error
    end = time.monotonic() + listen_s
    # Ctrl-C ends the wait: what came until then is looked at.
    with suppress(KeyboardInterrupt):
        while time.monotonic() < end and len(messages) < _MOST_MESSAGES and not reasons:
            if client.loop(_LOOP_S) != 0:
                reasons.append("it closed the connection")
    client.disconnect()
    if reasons:
        raise RecordError(
            f"was refused by the broker: {reasons[0]}",
            field=settings.url,
            fix="where it asks for a password, let `mosquitto_sub -F %j` write its messages to a "
            "file and guess that; the configuration takes username and password_file",
        )
    return messages


def _guess_messages(messages: Sequence[Message], url: str) -> Guess:
    """Guess how messages are read, from a file of lines like those that the source makes of them.

    Raises
    ------
    ConfigError
        They are neither JSON objects nor single values.
    """
    objects = [(each, item) for each in messages if (item := _read_object(each)) is not None]
    if len(objects) >= MOSTLY * len(messages):
        # Times of its own are found first.
        found = _guess_lines(
            [item | {"topic": each.topic, ARRIVAL: each.arrival} for each, item in objects]
        )
    else:
        values = _keep_numbers(messages)
        if not values:
            kinds = sorted({each.topic for each in messages})[:_SHOWN]
            raise ConfigError(
                "brings messages that are neither JSON objects nor single numbers, as from "
                + ", ".join(kinds),
                field=url,
                fix="name a topic whose messages are one of both",
            )
        found = _guess_lines(
            [
                {"topic": each.topic, ARRIVAL: each.arrival, "value": _to_text(each)}
                for each in values
            ]
        )
        found.source["format"] = "value"
        left = sorted({each.topic for each in messages} - {each.topic for each in values})
        if left:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            found.doubts.append(f"no numbers come from {', '.join(left[:_SHOWN])}{more}")
    return found


def _guess_lines(lines: Sequence[dict[str, Any]]) -> Guess:
    """Guess how lines are read. Raises ConfigError where one of them is a document of many."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        found = guess_file(path)
    if "records" in found.source:
        raise ConfigError(
            "brings a list of records in one message",
            field=found.source["records"],
            fix="let the program that sends it send each record by itself",
        )
    return found


def _read_object(message: Message) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        item = json.loads(message.payload)
        return item if isinstance(item, dict) else None
    return None


def _to_text(message: Message) -> str:
    return message.payload.decode("utf-8", "replace").strip()


def _keep_numbers(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of topics that mostly bring numbers, with a unit or not."""
    there: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for each in messages:
        text = _to_text(each)
        is_plain = any(find_number(text, spelling) is not None for spelling in NUMBERS)
        there[each.topic] += 1
        numbers[each.topic] += is_plain or bool(UNIT.fullmatch(text))
    kept = {topic for topic, n in there.items() if numbers[topic] >= MOSTLY * n}
    return [each for each in messages if each.topic in kept]


def _leave_out(column: str, found: Guess) -> None:
    """Leave out a column that was found to hold numbers."""
    names = list(found.columns.values())
    if column in names:
        i = names.index(column)
        found.columns = {name: each for name, each in found.columns.items() if each != column}
        # A row begins with its time.
        found.rows = [(*row[: i + 1], *row[i + 2 :]) for row in found.rows]


def _doubt_messages(messages: Sequence[Message], topic: str, found: Guess) -> None:
    n_retained = sum(each.is_retained for each in messages)
    n_topics = len({each.topic for each in messages})
    text = f"{len(messages)} message(s) of {n_topics} topic(s) were looked at"
    if n_retained:
        text += (
            f", of which {n_retained} the broker had retained: the agent reads no such ones, "
            "which come again at each connection"
        )
    found.doubts.append(text)
    if found.source.get("timestamp") == ARRIVAL:
        found.doubts.append(
            "a message's time is when it comes here: what the broker keeps while the agent is "
            "away counts when it is back"
        )
    if n_topics > 1 and "join" not in found.source:
        found.doubts.append(
            f"messages of every topic below {topic} are records alike: choose some by "
            'where = { topic = "..." }'
        )
