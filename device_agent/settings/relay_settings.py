"""Configuration of a relay: one TOML file, without a key and without records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from sfumato.device_agent.settings.agent_settings import ServerAddress
from sfumato.device_agent.settings.owner_tables import Digest, LogTable, TlsSettings
from sfumato.device_agent.sources.mqtt_client import BrokerSettings, is_topic
from sfumato.shared.errors import ConfigError
from sfumato.shared.structure import Rule, Seconds, Text, declared, member, read_toml, structure

_MEGABYTE = 1_000_000


def _is_listening_address(text: str) -> bool:
    parts = urlsplit(f"//{text}")
    return bool(parts.hostname) and bool(parts.port) and not parts.path and "@" not in text


def _is_one_topic(text: str) -> bool:
    return is_topic(text) and not {"+", "#"} & {*text}


@declared
class SpoolTable:
    """A folder that other programs bring messages in, and take answers from."""

    folder: Path = member(
        "The folder. Bring a message as `in/NAME.sketch`, or a device's request as "
        "`in/NAME.request`, written under another name first and then renamed; the answer comes as "
        "`out/NAME.answer`."
    )
    poll_s: Seconds = member("Seconds between two looks into the folder.", default=1.0)


@declared
class HttpTable:
    """A plain HTTP address for devices that cannot speak HTTPS."""

    listen: Annotated[
        Text,
        Rule(
            _is_listening_address,
            "must be an address of this machine and a port",
            'write it as "127.0.0.1:8760", or "0.0.0.0:8760" for the local network',
        ),
    ] = member("The address to listen at, `HOST:PORT`.", default="127.0.0.1:8760")
    wait_s: Seconds = member(
        "Seconds that an upload waits for the server's answer before the relay says that it has "
        "kept the message.",
        default=5.0,
    )

    @property
    def host(self) -> str:
        """The host to listen at."""
        return urlsplit(f"//{self.listen}").hostname or ""

    @property
    def port(self) -> int:
        """The port to listen at."""
        return urlsplit(f"//{self.listen}").port or 0


@declared
class MqttTable(BrokerSettings):
    """A topic of MQTT that devices publish to, with QoS 1."""

    topic: Annotated[
        Text, Rule(is_topic, "must be a topic filter of MQTT", 'write "sfumato/up/#"')
    ] = member("The topic or topic filter of messages.", default="sfumato/up/#")
    answers: Annotated[
        Text,
        Rule(
            _is_one_topic,
            "must be a topic of MQTT without wildcards",
            'write "sfumato/down"',
        ),
    ] = member(
        "Answers are published to this topic, `/` and the device's identity.",
        default="sfumato/down",
    )


@declared
class RelaySettings:
    """The whole configuration of a relay.

    Nothing in it affects what is released: a relay holds no key, and forwards finished messages.
    """

    state_dir: Path = member("The folder of the queue; not that of an agent.")
    server: ServerAddress = member("The address of the aggregator.")
    studies: tuple[Digest, ...] = member(
        "The studies whose messages are kept. Default: all.", default=()
    )
    devices: tuple[Digest, ...] = member(
        "The public keys of the devices whose messages are kept, each 64 hexadecimal digits; "
        "signatures are then verified first. Default: any device, unverified.",
        default=(),
    )
    most_megabytes: Annotated[
        float, Rule(None, "must be a number greater than zero", "write megabytes", gt=0)
    ] = member(
        "The size of waiting messages at which no further one is kept until some are sent.",
        default=64.0,
    )
    most_message_bytes: Annotated[
        int, Rule(None, "must be a whole number of at least 1024", "write bytes", ge=1024)
    ] = member("The size of the largest message that is read.", default=1 << 20)
    spool: SpoolTable | None = member("A folder of messages.", default=None)
    http: HttpTable | None = member("An HTTP address.", default=None)
    mqtt: MqttTable | None = member("A topic of MQTT.", default=None)
    log: LogTable = member("The log.", default_factory=LogTable)
    tls: TlsSettings = member("Certificates.", default_factory=TlsSettings)

    def __post_init__(self) -> None:
        if self.spool is None and self.http is None and self.mqtt is None:
            raise ConfigError(
                "is missing, and so are http and mqtt",
                field="spool",
                fix="add a table [spool], [http] or [mqtt]: messages must come from somewhere",
            )

    @property
    def most_bytes(self) -> int:
        """The limit of waiting messages in bytes."""
        return int(self.most_megabytes * _MEGABYTE)


def load_relay_settings(path: Path) -> RelaySettings:
    """Read and check a relay's configuration file; relative paths are relative to its folder.

    Raises
    ------
    ConfigError
        The file cannot be read, or a key is missing, unknown or breaks its rule.
    """
    return structure(RelaySettings, read_toml(path), folder=path.resolve().parent)
