"""Search boxes on a command line, and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from sfumato.shared.errors import ConfigError
from sfumato.shared.structure import declared, member, read_toml, require_plain, structure
from sfumato.shared.wire.objects.declaration import SearchBox

PLANS_OWN = "plan"
Within = Annotated[
    list[str] | None,
    typer.Option(
        "--within",
        metavar="NAME=LOWER:UPPER",
        help="Where to search for clusters, in the dimension's unit; once for each dimension. Or a "
        'TOML file with a table [search_box] of NAME = [LOWER, UPPER]; or "plan" for the plan\'s '
        "bounds.",
    ),
]


@declared
class SearchBoxFile:
    """A file with a search box."""

    search_box: SearchBox = member("Lower and upper bound by dimension, in its unit.")


def read_search_box(within: Iterable[str] | None) -> dict[str, list[float]] | None:
    """Read the search box that options ``--within`` state, or None without any.

    Raises
    ------
    ConfigError
        An option or a file is malformed.
    """
    if not within:
        return None
    box: dict[str, list[float]] = {}
    for text in within:
        if text == PLANS_OWN:
            box = {}
        elif text.endswith(".toml"):
            box |= structure(SearchBoxFile, read_toml(Path(text))).search_box
        else:
            box |= _read_bounds(text)
    return box


def _read_bounds(text: str) -> dict[str, list[float]]:
    name, is_stated, bounds = text.rpartition("=")
    lower, is_range, upper = bounds.partition(":")
    try:
        if is_stated and is_range:
            return {name.strip(): [float(require_plain(end)) for end in (lower, upper)]}
    except ValueError:
        pass
    raise ConfigError(
        f"must be NAME=LOWER:UPPER, a .toml file or {PLANS_OWN!r}, not {text!r}",
        field="--within",
        fix='write for instance --within "temperature=-10:40"',
    )


def describe_search_box(box: Mapping[str, Sequence[float]]) -> str:
    """Describe a search box in words."""
    if not box:
        return "the plan's bounds"
    return ", ".join(f"{name} {lower:.6g} to {upper:.6g}" for name, (lower, upper) in box.items())
