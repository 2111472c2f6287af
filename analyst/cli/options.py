"""Common parts of the commands: options, requests to a server, and output."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from sfumato.analyst.client import Client
from sfumato.shared.command import list_examples
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.limits import DEFAULT_EPSILON

T = TypeVar("T")
UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PERIOD = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([mhdw])")
DEFAULT_URL = "http://127.0.0.1:8750"
Url = Annotated[str, typer.Option(envvar="SFUMATO_URL", help="Address of the aggregator.")]
Key = Annotated[str, typer.Option(envvar="SFUMATO_KEY", help="An API key (`sfumato key create`).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Study = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="Name, id, or 6 or more first digits of the id."),
]


def identified(kind: str) -> Any:
    """Return the argument that names an object by its id or first digits, or a device's name."""
    name = "name, its id" if kind == "device" else "id"
    text = f"Its {name}, or 6 or more first digits of it (`sfumato {kind} list`)."
    return typer.Argument(metavar=kind.upper(), help=text)


Anyway = Annotated[
    bool, typer.Option("--anyway", help="Go on where the prediction says: do not run this.")
]
PLAN_HELP = "A plan (JSON) or a specification (TOML)."
Ledger = Annotated[
    Path | None,
    typer.Option(
        help="The owner's ledger, which counts the release (default: of SFUMATO_LEDGER, otherwise "
        "of this user)."
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        help="Limit of epsilon for each record, over all releases in the ledger (default: "
        f"{DEFAULT_EPSILON} with --ledger, and otherwise none)."
    ),
]
Neighbouring = Annotated[
    Literal["replace-one", "add-remove-one"],
    typer.Option(help="replace-one hides the values of a record; add-remove-one presence too."),
]
MaxUnreadable = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="Share of a column that may be unreadable; more spends nothing."
    ),
]

Read = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="KEY=VALUE",
        help="How the file is written, by the keys of an agent's source: delimiter=;, decimal=,, "
        "skip_lines=2, missing_values=-999, where.sensor=kitchen. Repeatable.",
    ),
]


Answer = Iterator[Any]
"""The document that ``--json`` prints, then the parts that are printed without it."""


class DefaultGroup(TyperGroup):
    """A group with one hidden command, which runs if the first word names no other command."""

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


def command(
    app: typer.Typer, name: str | None, *examples: str, hidden: bool = False
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Register a command that calls a server, with the options ``--key``, ``--url`` and ``--json``.

    The decorated function takes a client and its own options. It yields the document for
    ``--json``, then strings and tables, which are computed only if they are printed.
    """

    def register(run: Callable[..., Answer]) -> Callable[..., Answer]:
        def call(*, key: str, url: str, as_json: bool, **options: Any) -> None:
            with Client(url, key=key) as client:
                answer = run(client, **options)
                document = next(answer)
                if as_json:
                    print(json.dumps(document, default=_to_json))
                    return
                for part in answer:
                    show(part)

        own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
        common = [
            inspect.Parameter("key", inspect.Parameter.KEYWORD_ONLY, annotation=Key),
            *(
                inspect.Parameter(
                    field, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default
                )
                for field, kind, default in (("url", Url, DEFAULT_URL), ("as_json", Json, False))
            ),
        ]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + common
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__doc__ = run.__doc__
        app.command(name, epilog=list_examples(*examples), hidden=hidden)(call)
        return run

    return register


def _to_json(value: object) -> dict[str, Any]:
    """Return a declared body as its JSON object."""
    assert is_dataclass(value), type(value)
    assert not isinstance(value, type)
    return asdict(value)


def list_items(
    items: Iterable[T],
    *columns: str,
    identity: str,
    row: Callable[[T], Iterable[str]],
) -> Answer:
    """Yield a list as a document, then its lines.

    Identities are copied, so they are never cut: if the terminal is too narrow for one more
    column, they stand on lines of their own.

    Parameters
    ----------
    columns, identity
        Headings; that of the identities is the last.
    row
        Cells of an item; the identity is the last.
    """
    found = list(items)
    yield found
    rows = [(*columns, identity), *(tuple(row(item)) for item in found)]
    widths = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    is_narrow = sum(widths) + 2 * len(columns) > create_console().width
    for *cells, last in rows:
        padded = (
            cell + " " * (width - cell_len(cell))
            for cell, width in zip(cells, widths[:-1], strict=True)
        )
        line = "  ".join(padded)
        yield f"{line.rstrip()}\n  {last}" if is_narrow else f"{line}  {last}"


def tabulate(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and descriptions, which are wrapped."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def make_table(
    *words: str,
    figures: Iterable[str | Text] = (),
    title: str | None = None,
    has_box: bool = False,
) -> Table:
    """Return a table with columns of words, then of figures, which are aligned to the right."""
    look: dict[str, Any] = {} if has_box else {"box": None, "padding": (0, 2, 0, 0)}
    table = Table(*words, title=title, title_justify="left", **look)
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def show_time(time: str | None) -> str:
    """Write a time of the server for people, to the second."""
    return "never" if time is None else f"{time[:10]} {time[11:19]} UTC"


def show(part: object) -> None:
    """Print a part of an answer: lines are left whole, so that they can be copied."""
    if isinstance(part, str):
        print(part)
    else:
        create_console().print(part)


def print_answer(document: Any, parts: Iterable[object], *, as_json: bool) -> None:
    """Print an answer: its document, or the parts for people, which are computed only then."""
    if as_json:
        print(json.dumps(document, ensure_ascii=False))
        return
    for part in parts:
        show(part)


@contextmanager
def following(words: str) -> Iterator[dict[str, Any]]:
    """Show a bar on a terminal's standard error; yield what ``wait`` of a job calls."""
    console = create_console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(words, total=1.0)
        yield {
            "progress": lambda share: progress.update(task, completed=share),
            "note": lambda note: progress.console.print(f"note: {note}", markup=False),
        }


def create_console(*, stderr: bool = False) -> Console:
    """Return a console on which names and units of others are text, never markup or emoji codes."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def read_period(text: str, field: str) -> float:
    """Read a period such as 90m, 6h, 1d or 2w as seconds.

    Raises
    ------
    ConfigError
        It is malformed.
    """
    found = _PERIOD.fullmatch(text.strip())
    if found is None or not float(found.group(1)):
        raise ConfigError("must be a number and m, h, d or w", field=field, fix="write a day as 1d")
    return float(found.group(1)) * UNITS[found.group(2)]
