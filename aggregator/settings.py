"""Settings of a server: options, ``SFUMATO_...`` variables, or a TOML file.

An option outweighs a variable, and a variable the file. Nothing here changes a result or a
guarantee; what does stands in the plan.
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

_MIB = 1 << 20


def normalise_database_url(text: str) -> str:
    """Return a database address with its driver; a plain path is a SQLite file."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return f"sqlite+aiosqlite:///{text}"
    drivers = {
        "sqlite": "sqlite+aiosqlite",
        "postgres": "postgresql+psycopg",
        "postgresql": "postgresql+psycopg",
    }
    return f"{drivers.get(scheme, scheme)}://{rest}"


class Settings(BaseSettings):
    """Operational settings of one server or worker process.

    Parameters
    ----------
    database_url
        Address of the database, or the path of a SQLite file.
    host, port
        Where to listen; port 0 takes a free one.
    tls_cert, tls_key, tls_client_ca
        PEM files: the certificate chain and its key, with which the server speaks HTTPS; and the
        authority whose certificates clients must then show.
    behind_proxy
        A proxy in front ends TLS, so plain HTTP beyond loopback is allowed.
    proxies
        Addresses or networks of that proxy, by commas: whose forwarded headers are believed.
    n_workers
        Decoding processes that `sfumato serve` starts.
    lease_s
        Seconds after which the job of a silent worker is given to another.
    poll_s
        Seconds between looks for a new job.
    token_days
        Days that an enrolment token is valid.
    payload_days
        Days after which the payload of a sketch is dropped; its part in every sum stays, and so do
        its identity, digest and size. Unset, none is. A device can be excluded exactly only while
        its payloads are there.
    max_body_bytes
        Largest request body; sketches have the limit of their plan instead.
    body_timeout_s
        Seconds within which the body of a request must have arrived.
    most_running, most_waiting
        Requests that are worked on at once, and that may wait for it; more are answered with 429.
    device_rate, device_burst
        Requests a second of one device, and how many may come at once before that counts.
    key_rate, key_burst
        The same for one API key.
    stop_s
        Seconds that requests in flight have to finish when the server is told to stop.
    log_format
        ``console`` for people, ``json`` for machines.
    """

    model_config = SettingsConfigDict(env_prefix="SFUMATO_", frozen=True)

    database_url: str = "sqlite+aiosqlite:///sfumato.db"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8750
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    behind_proxy: bool = False
    proxies: str = "127.0.0.1,::1"
    n_workers: Annotated[int, Field(ge=0, le=256)] = 1
    lease_s: Annotated[float, Field(gt=0)] = 60.0
    poll_s: Annotated[float, Field(gt=0)] = 0.5
    token_days: Annotated[float, Field(gt=0)] = 7.0
    payload_days: Annotated[float | None, Field(gt=0)] = None
    max_body_bytes: Annotated[int, Field(ge=1024)] = _MIB
    body_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    most_running: Annotated[int, Field(ge=1, le=1000)] = 15
    most_waiting: Annotated[int, Field(ge=0, le=100_000)] = 1000
    device_rate: Annotated[float, Field(gt=0)] = 20.0
    device_burst: Annotated[int, Field(ge=1)] = 200
    key_rate: Annotated[float, Field(gt=0)] = 200.0
    key_burst: Annotated[int, Field(ge=1)] = 1000
    stop_s: Annotated[int, Field(ge=0, le=3600)] = 5
    log_format: Literal["console", "json"] = "console"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings, the strongest first."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @field_validator("proxies")
    @classmethod
    def _are_addresses(cls, value: str) -> str:
        for part in value.split(","):
            ip_network(part.strip(), strict=False)
        return value

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, value: str) -> str:
        return normalise_database_url(value)
