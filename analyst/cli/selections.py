"""Selections on a command line: periods of time, and labels of devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from sfumato.shared.errors import ConfigError

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="The first day or month of UTC, such as 2013-03-01 or 2013-03, or a time with its "
        "zone, such as 2013-03-01T06:00+01:00. A sketch counts where its slot begins.",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="The last day or month, which is included, or the time before which slots begin.",
    ),
]
Labelled = Annotated[
    list[str] | None,
    typer.Option(
        "--label", metavar="NAME=VALUE", help="Only devices with this label; once for each label."
    ),
]


def read_labels(texts: Iterable[str] | None) -> dict[str, str]:
    """Read the labels that options ``--label`` state.

    Raises
    ------
    ConfigError
        One is malformed, or has two values.
    """
    labels: dict[str, str] = {}
    for text in texts or ():
        name, is_stated, value = text.partition("=")
        if not (is_stated and name and value):
            raise ConfigError(
                f"must be NAME=VALUE, and is {text!r}", field="--label", fix="write site=north"
            )
        if labels.setdefault(name, value) != value:
            raise ConfigError(
                f"gives {name!r} two values", field="--label", fix="choose one: devices have one"
            )
    return labels
