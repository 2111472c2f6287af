"""Common parts of the commands: options, and errors in the words of the rest of the project."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shared.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8750"
Url = Annotated[str, typer.Option(envvar="SFUMATO_URL", help="Where the aggregator listens.")]
Key = Annotated[str, typer.Option(envvar="SFUMATO_KEY", help="An API key (`sfumato key create`).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Study = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="Its name, its id, or 6 or more first digits of the id."),
]
EXIT_STOPPED = 1
EXIT_USAGE = 2
# Of the parser inside typer, which has no public name for it: the base of all wrong command lines.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


def run_app(app: typer.Typer, name: str, argv: list[str]) -> int:
    """Run an application and return its exit status."""
    try:
        status = app(args=argv, prog_name=name, standalone_mode=False)
    except typer.Abort:  # Ctrl-C
        print("stopped", file=sys.stderr)
        return EXIT_STOPPED
    except _UsageError as error:
        if not argv:  # the message is the help text
            print(error, file=sys.stderr)
            return EXIT_USAGE
        raise _to_config_error(error, name) from error
    return int(status or 0)


def _to_config_error(error: Exception, name: str) -> ConfigError:
    """Turn a fault of a command line into an error in the words of the rest of the project."""
    parameter = getattr(error, "param", None)
    field = getattr(error, "option_name", None) or (parameter and max(parameter.opts, key=len))
    context = getattr(error, "ctx", None)
    command = context.command_path if context else name
    message = str(getattr(error, "message", "")).rstrip(".")
    if not message:
        message = "is missing"
    elif message.startswith("No such option"):
        message = f"is not an option of `{command}`"
    return ConfigError(message, field=field, fix=f"`{command} --help` lists what there is")


def make_table(*names: str, identity: str) -> Table:
    """Return a table with identities in its last column: they are copied, so none may be cut."""
    table = Table(*names)
    table.add_column(identity, overflow="fold", min_width=64)
    return table


def show(*parts: object) -> None:
    """Print to the terminal; names come from others, so they are text and never markup."""
    Console(markup=False, emoji=False, highlight=False).print(*parts, sep="\n")
