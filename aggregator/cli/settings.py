"""Settings of the commands."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from sfumato.aggregator.settings import Settings
from sfumato.shared.errors import ConfigError


def read_settings(*, config: Path | None = None, **chosen: Any) -> Settings:
    """Return the settings of file and environment, overridden by the options that were given.

    Raises
    ------
    ConfigError
        One breaks its rule, or the file cannot be read.
    """
    given = {name: value for name, value in chosen.items() if value is not None}
    kind = Settings if config is None else _settings_of(config)
    try:
        return kind(**given)
    except ValidationError as error:
        raise _to_config_error(error) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"is not TOML: {error}", field="config", fix=f"correct {config}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", field="config", fix="name a file with --config"
        ) from error


def list_settings() -> str:
    """Write every setting with its default, as TOML."""
    lines = []
    for name, field in Settings.model_fields.items():
        default: Any = field.default
        unset = "NUMBER" if float in get_args(field.annotation) else '"FILE"'
        lines.append(f"  {name} = {unset if default is None else json.dumps(default)}\n")
    return "".join(lines)


def _settings_of(config: Path) -> type[Settings]:
    if not config.is_file():
        raise ConfigError(f"is not a file: {config}", field="config", fix="correct the path")

    class FileSettings(Settings):
        model_config = SettingsConfigDict(toml_file=config)

    return FileSettings


def _to_config_error(error: ValidationError) -> ConfigError:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(Settings.model_fields)
        return ConfigError("is not a setting", field=name, fix=f"use one of: {known}")
    rule = first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch":
        (example,) = Settings.model_fields[name].examples or ("",)
        rule = f"must be written as in {example}"
    return ConfigError(
        rule[:1].lower() + rule[1:],
        field=name,
        fix=f"correct the option, SFUMATO_{name.upper()}, or {name!r} in the file of settings",
    )
