"""Settings of a server: options, ``SFUMATO_...`` variables, or a TOML file.

Options override variables, and variables override the file. Operational settings; they never
affect results or guarantees, which follow from the plan.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from sfumato.shared.hosts import HostList
from sfumato.shared.structure import require_plain

_MIB = 1 << 20
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:\d+)?")


def normalise_database_url(text: str) -> str:
    """Return a database URL with its driver; a plain path is a SQLite file."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return f"sqlite+aiosqlite:///{text}"
    drivers = {
        "sqlite": "sqlite+aiosqlite",
        "postgres": "postgresql+psycopg",
        "postgresql": "postgresql+psycopg",
    }
    return f"{drivers.get(scheme, scheme)}://{rest}"


def list_parts(text: str) -> list[str]:
    """Return the parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


class Settings(BaseSettings):
    """Operational settings of one server or worker process.

    Parameters
    ----------
    database_url
        Address of the database, or the path of a SQLite file.
    host, port
        Address to listen on; port 0 takes a free port.
    tls_cert, tls_key, tls_client_ca
        PEM files: the certificate chain and its key, for HTTPS; and the authority that must have
        signed the certificates of clients.
    behind_proxy
        A proxy in front ends TLS: allows plain HTTP beyond loopback.
    proxies
        Addresses or networks of that proxy, separated by commas; only its forwarded headers are
        trusted.
    web_origins
        Origins of the web pages whose devices may use this server, separated by commas, such as
        `https://app.example`; `*` for any page. By default none but those of this server.
    page_url
        Address at which people open this server's page, without a slash at its end, such as
        `https://sketches.example.org`; alarms link to it. Without it their links begin with `/`.
    webhook_hosts
        Hosts that webhooks may have besides public ones, separated by commas: names, `*.suffix` for
        the names below one, addresses and networks, such as `hooks.internal,10.0.0.0/8`.
    n_workers
        Decoding processes that `sfumato serve` starts.
    lease_s
        Seconds after which another worker takes over the job of a silent one.
    poll_s
        Seconds between polls of the queue.
    token_days
        Days that an enrolment token is valid.
    payload_days
        Days after which the payload of a sketch is dropped; by default never. Its part in every sum
        stays, and so do its identity, digest and size. Excluding a device is exact only while its
        payloads are stored.
    max_body_bytes
        Largest request body; the plan limits sketches instead.
    body_timeout_s
        Seconds within which the body of a request must have arrived.
    least_agent
        Least version of agents and relays, such as `0.1.0`; what older ones have waits until they
        are upgraded. By default none.
    most_running, most_waiting
        Requests served at once, and requests that may wait; more are answered with 429.
    device_rate, device_burst
        Requests per second of one device, and the burst allowed above that rate.
    key_rate, key_burst
        The same for one API key, or one person who signed in.
    stop_s
        Seconds that requests in flight have to finish when the server stops.
    helper_url, helper_api_key, helper_ca
        Address of the second server of secure sums, the key that its operator gave, and a PEM file
        with the authority of its certificate where that is not a public one.
    oidc_issuer, oidc_client_id, oidc_client_secret, oidc_ca
        The OpenID provider by which people sign in to the page, as its own document states it; what
        it calls this server; and a PEM file with the authority of its certificate where that is not
        a public one. Register `page_url` with a slash at its end as the redirect URI.
    oidc_scopes
        Scopes to ask for; some providers state groups only with `groups`.
    oidc_groups_claim
        Claim that lists the groups of a person; dots lead into objects, as in `realm_access.roles`.
    oidc_operators, oidc_analysts, oidc_viewers
        Groups whose members get a key of that scope, separated by commas; the first that fits.
    oidc_hours
        Hours after which people have to sign in again.
    oidc_contact
        Whom to ask for a place in a group, such as `it@example.org`; shown to those who have none.
    metrics_key
        Key of at least 16 characters that `/metrics` is read with; without one it takes the key of
        an operator alone, and needs the database for that.
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
    web_origins: str = ""
    page_url: Annotated[
        str, Field(pattern=r"^(https?://[!-~]*[^/])?$", examples=["https://sketches.example.org"])
    ] = ""
    webhook_hosts: str = ""
    n_workers: Annotated[int, Field(ge=0, le=256)] = 1
    lease_s: Annotated[float, Field(gt=0)] = 60.0
    poll_s: Annotated[float, Field(gt=0)] = 0.5
    token_days: Annotated[float, Field(gt=0)] = 7.0
    payload_days: Annotated[float | None, Field(gt=0)] = None
    max_body_bytes: Annotated[int, Field(ge=1024)] = _MIB
    body_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    least_agent: Annotated[
        str, Field(pattern=r"^(\d{1,6}\.\d{1,6}\.\d{1,6})?$", examples=["0.2.0"])
    ] = ""
    most_running: Annotated[int, Field(ge=1, le=1000)] = 15
    most_waiting: Annotated[int, Field(ge=0, le=100_000)] = 1000
    device_rate: Annotated[float, Field(gt=0)] = 20.0
    device_burst: Annotated[int, Field(ge=1)] = 200
    key_rate: Annotated[float, Field(gt=0)] = 200.0
    key_burst: Annotated[int, Field(ge=1)] = 1000
    stop_s: Annotated[int, Field(ge=0, le=3600)] = 5
    helper_url: str | None = None
    helper_api_key: Annotated[str | None, Field(repr=False)] = None
    helper_ca: Path | None = None
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: Annotated[str | None, Field(repr=False)] = None
    oidc_ca: Path | None = None
    oidc_scopes: Annotated[
        str, Field(pattern=r"^openid( [!-~]+)*$", examples=["openid profile email"])
    ] = "openid profile email"
    oidc_groups_claim: Annotated[str, Field(min_length=1)] = "groups"
    oidc_operators: str = ""
    oidc_analysts: str = ""
    oidc_viewers: str = ""
    oidc_hours: Annotated[float, Field(gt=0, le=168)] = 8.0
    oidc_contact: str = "the operator of this server"
    metrics_key: Annotated[str | None, Field(repr=False, min_length=16)] = None
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

    @field_validator("*", mode="before")
    @classmethod
    def _are_plain(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[info.field_name or ""].annotation
        is_number = not {int, float}.isdisjoint((kind, *get_args(kind)))
        return require_plain(value) if is_number and isinstance(value, str) else value

    @field_validator("proxies")
    @classmethod
    def _are_addresses(cls, value: str) -> str:
        for part in value.split(","):
            ip_network(part.strip(), strict=False)
        return value

    @field_validator("web_origins")
    @classmethod
    def _are_origins(cls, value: str) -> str:
        for part in list_parts(value):
            if part != "*" and not _ORIGIN.fullmatch(part):
                raise ValueError(f"must be origins such as https://app.example, and has {part!r}")
        return value

    @field_validator("webhook_hosts")
    @classmethod
    def _are_hosts(cls, value: str) -> str:
        HostList(value)
        return value

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, value: str) -> str:
        return normalise_database_url(value)
