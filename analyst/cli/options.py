"""Common parts of the commands: options, groups and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

DEFAULT_URL = "http://127.0.0.1:8750"
Url = Annotated[str, typer.Option(envvar="SFUMATO_URL", help="Where the aggregator listens.")]
Key = Annotated[str, typer.Option(envvar="SFUMATO_KEY", help="An API key (`sfumato key create`).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Study = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="Its name, its id, or 6 or more first digits of the id."),
]


class DefaultGroup(TyperGroup):
    """A group with one hidden command, which is run where the first word names no other."""

    @property
    def _default(self) -> TyperCommand:
        (hidden,) = (command for command in self.commands.values() if command.hidden)
        assert isinstance(hidden, TyperCommand)
        return hidden

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the default command in front of its arguments."""
        if args and args[0] not in (*self.commands, "--help"):
            args = [str(self._default.name), *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the default command, then the others."""
        self._default.format_help(ctx, formatter)
        self.format_commands(ctx, formatter)


def print_items(
    items: Iterable[dict[str, Any]],
    *columns: str,
    identity: str,
    row: Callable[[dict[str, Any]], Iterable[str]],
    as_json: bool,
    min_width: int = 64,
) -> None:
    """Print a list as JSON, or as a table with a row for each item.

    Identities stand in the last column: they are copied, so none may be cut.
    """
    found = list(items)
    if as_json:
        print(json.dumps(found))
        return
    table = Table(*columns)
    table.add_column(identity, overflow="fold", min_width=min_width)
    for item in found:
        table.add_row(*row(item))
    show(table)


def show(*parts: object) -> None:
    """Print to the terminal."""
    create_console().print(*parts, sep="\n")


def create_console(*, stderr: bool = False) -> Console:
    """Return a console on which names and units of others are text, never markup or emoji codes."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
