"""What the commands share: parsing, settings, and errors as one line with an exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from aggregator.settings import Settings
from shared.errors import ConfigError, SketchError

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
    """Add the option that names the database."""
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
        return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED
    except KeyboardInterrupt:
        return 130


def read_settings(**chosen: Any) -> Settings:
    """Return the settings of the environment, overridden by the options that were given.

    Raises
    ------
    ConfigError
        One breaks its rule.
    """
    try:
        return Settings(**{name: value for name, value in chosen.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            first["msg"].lower(), field=name, fix=f"correct the option or SFUMATO_{name.upper()}"
        ) from error
