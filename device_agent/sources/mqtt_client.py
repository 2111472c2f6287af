"""Broker of MQTT: its settings, and a client that is not connected yet."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from sfumato.device_agent.sources.addresses import address_rule, read_secret
from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.structure import Text, declared, member

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt


@declared
class BrokerSettings:
    """A broker and a persistent session at it."""

    url: Annotated[str, address_rule("mqtt", "mqtts", example="mqtt://localhost:1883")] = member(
        "The address of the broker, `mqtt://` or `mqtts://`."
    )
    client_id: Text = member("The name of the session at the broker. Never share it.")
    username: Text | None = member("The user at the broker.", default=None)
    password_file: Path | None = member("A file with the user's password.", default=None)
    ca_file: Path | None = member(
        "The authorities that the broker's certificate must come from. Default: the system's.",
        default=None,
    )

    @property
    def host(self) -> str:
        """The broker's host."""
        return urlsplit(self.url).hostname or ""

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.url).scheme == "mqtts"

    @property
    def port(self) -> int:
        """The broker's port."""
        return urlsplit(self.url).port or (8883 if self.tls else 1883)


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message as it came, with its time by this machine's clock."""

    payload: bytes
    topic: str
    arrival: float
    is_retained: bool = False


def is_topic(topic: str) -> bool:
    """Return whether a text is a topic filter of MQTT."""
    *before, last = topic.split("/")
    is_wrong = any("#" in level or (len(level) > 1 and "+" in level) for level in before)
    is_wrong |= len(last) > 1 and ("#" in last or "+" in last)
    return not is_wrong and len(topic.encode()) <= _MAX_TOPIC_BYTES and topic.isprintable()


_MAX_TOPIC_BYTES = 65535


def make_client(
    settings: BrokerSettings, *, manual_ack: bool = False, is_persistent: bool = True
) -> mqtt.Client:
    """Return a client, not connected yet.

    Parameters
    ----------
    is_persistent
        Whether the broker keeps the session, and what comes for it meanwhile.
    manual_ack
        Whether a message is acknowledged only by ``Client.ack``.

    Raises
    ------
    ConfigError
        The extra with the library is not installed.
    RecordError
        A file that the settings name cannot be used.
    """
    try:
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion
    except ModuleNotFoundError as error:
        raise ConfigError(
            'needs the extra "mqtt"', fix="install it: pip install 'sfumato[agent,mqtt]'"
        ) from error
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2,
        client_id=settings.client_id,
        clean_session=not is_persistent,
        manual_ack=manual_ack,
    )
    if settings.username is not None:
        path = settings.password_file
        password = None if path is None else read_secret(path, encoding="utf-8")
        client.username_pw_set(settings.username, password)
    if settings.tls:
        client.tls_set_context(_make_context(settings.ca_file))
    return client


def _make_context(path: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # what OpenSSL complains about is one too
        raise RecordError(
            f"cannot be used ({error.strerror or type(error).__name__})",
            field=str(path),
            fix="name a file in PEM with the authority of the broker",
        ) from error
