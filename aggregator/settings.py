"""What the operator of a server may set: on the command line or as ``SFUMATO_...`` variables.

Nothing here changes a result or a guarantee; what does stands in the plan.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

MEMORY = "memory:"
"""The database address of a store that is gone when the process ends."""

_MIB = 1 << 20


def normalise_database_url(text: str) -> str:
    """Return a database address with its driver; a plain path is a SQLite file."""
    if text == MEMORY:
        return text
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
        Address of the database, the path of a SQLite file, or ``memory:``.
    host, port
        Where to listen; port 0 takes a free one.
    behind_proxy
        A proxy in front ends TLS, so plain HTTP beyond loopback is allowed.
    n_workers
        Decoding processes that `sfumato serve` starts.
    lease_s
        Seconds after which the job of a silent worker is given to another.
    poll_s
        Seconds between looks for a new job.
    token_days
        Days that an enrolment token is valid.
    max_body_bytes
        Largest request body; sketches have the limit of their plan instead.
    log_format
        ``console`` for people, ``json`` for machines.
    """

    model_config = SettingsConfigDict(env_prefix="SFUMATO_", frozen=True)

    database_url: str = "sqlite+aiosqlite:///sfumato.db"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8750
    behind_proxy: bool = False
    n_workers: Annotated[int, Field(ge=0, le=256)] = 1
    lease_s: Annotated[float, Field(gt=0)] = 60.0
    poll_s: Annotated[float, Field(gt=0)] = 0.5
    token_days: Annotated[float, Field(gt=0)] = 7.0
    max_body_bytes: Annotated[int, Field(ge=1024)] = _MIB
    log_format: Literal["console", "json"] = "console"

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, value: str) -> str:
        return normalise_database_url(value)
