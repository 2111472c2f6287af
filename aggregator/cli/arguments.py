"""Common parts of the commands: parsing, settings, and errors as one line with exit status."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from aggregator.logs import describe_cause
from aggregator.settings import Settings
from shared.errors import ConfigError, SketchError, TransportError, UnpreparedError

EXIT_FAILED = 1
EXIT_USAGE = 2


def create_parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Return the parser of a sub-command, with the option that all have."""
    return argparse.ArgumentParser(
        prog=f"sfumato {name}",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the database and the file of settings."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file of settings; options and SFUMATO_... variables outweigh it",
    )
    parser.add_argument(
        "--database",
        dest="database_url",
        metavar="PATH_OR_URL",
        help="SQLite file, or postgresql://user@host/name (SFUMATO_DATABASE_URL; sfumato.db)",
    )


def run(
    parser: argparse.ArgumentParser, argv: list[str], body: Callable[[argparse.Namespace], int]
) -> int:
    """Parse and run; errors of this project become one line on standard error."""
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong, or helped
        return int(stop.code or 0)
    try:
        return body(arguments)
    except SketchError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        if isinstance(error, TransportError | UnpreparedError) and error.__cause__:
            print(f"  {describe_cause(error)}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED
    except KeyboardInterrupt:
        return 130


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
    return ConfigError(
        rule[:1].lower() + rule[1:],
        field=name,
        fix=f"correct the option, SFUMATO_{name.upper()}, or {name!r} in the file of settings",
    )
