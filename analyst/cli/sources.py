"""Sources of answers on a command line, and where their pictures go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.analyst.cli.options import PLAN_HELP
from sfumato.analyst.client import Client
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.results.promises import NOT_PRIVATE
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.analyst.sketching.sources import Source, find_snapshot
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCES = (
    "A study, STUDY@FIRST:LAST for some of its slots, or the id of a snapshot; or with --plan a "
    "sketch file."
)
Reference = Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCES)]
PlanOfFile = Annotated[
    Path | None, typer.Option("--plan", help=f"That of the sketch file. {PLAN_HELP}")
]
MaybeKey = Annotated[
    str, typer.Option(envvar="SFUMATO_KEY", help="An API key; a sketch file needs none.")
]
Picture = Annotated[
    Path | None, typer.Option("--output", "-o", help="Draw into this file, .png or .svg.")
]


@contextmanager
def open_sources(
    references: Sequence[str], plan_path: Path | None, *, key: str, url: str
) -> Iterator[list[Source]]:
    """Open studies, snapshots, or with a plan sketch files; the server is there until the end.

    Raises
    ------
    SketchError
        One cannot be read, or is a file and no plan is given.
    """
    if plan_path is not None:
        plan = read_plan(plan_path)
        files = [
            LocalSketches(sketches=[read_sketch_file(Path(each))], plan=plan) for each in references
        ]
        if not all(each.is_private for each in files):
            print(NOT_PRIVATE, file=sys.stderr)
        yield [*files]
        return
    for each in references:
        if Path(each).is_file():
            raise ConfigError(
                f"is missing, and {each} is a file", field="--plan", fix="name the file's plan"
            )
    with Client(url, key=key or None) as client:
        yield [find_snapshot(client, each) for each in references]


def find_resolutions(plan: SketchPlan) -> dict[str, float | None]:
    """Return the resolution of each dimension's logarithmic scale; None for a linear one."""
    return {
        each.name: None if each.transform is None else each.transform.resolution
        for each in plan.dimensions
    }


def draw(path: Path | None, make: Callable[[], Figure], *, option: str = "--output") -> None:
    """Draw a picture if a file for it is named.

    Raises
    ------
    ConfigError
        The file cannot be written, or its name ends otherwise than a picture's.
    """
    if path is None:
        return
    # matplotlib takes a second to import; only pictures need it.
    from sfumato.analyst.plots import require_picture, save_figure

    require_picture(path, option)
    try:
        save_figure(make(), path)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", field=option) from error
    print(f"wrote {path}", file=sys.stderr)
