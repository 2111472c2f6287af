"""``sfumato report``: a result as one page that can be sent, printed and checked."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from sfumato.analyst.cli.options import DEFAULT_URL, Url
from sfumato.analyst.cli.results import ResultReference
from sfumato.analyst.cli.sources import MaybeKey
from sfumato.analyst.client import Client
from sfumato.analyst.report import render_report
from sfumato.analyst.results import DecodeResult
from sfumato.analyst.results.files import write_file
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.errors import ConfigError

report = typer.Typer(**SETTINGS)


@report.command(
    epilog=list_examples(
        "sfumato report STUDY -o report.html",
        "sfumato report DECODE -o report.html",
        'sfumato report result.json -o report.html --title "Weather, spring"',
    )
)
def _report(
    reference: ResultReference,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page, a file that ends with .html.")
    ],
    title: Annotated[
        str | None, typer.Option(help="The heading; by default the study's or the file's name.")
    ] = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
) -> None:
    """Write a result as one HTML page, with its pictures, figures, protection and origin.

    The page needs no network and runs no script. It can be printed on A4, and it names the
    snapshot, the decoder and the seed, so that the result can be computed again.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(
            f"must end with .html, not {output.suffix!r}", field="--output", fix="rename it"
        )
    path = Path(reference)
    with nullcontext() if path.is_file() else Client(url, key=key or None) as client:
        if client is None:
            result, name = DecodeResult.load(path), path.stem
        else:
            result = client.find_result(reference)
            name = client.study(result.snapshot.study_id).name if result.snapshot else reference
    write_file(output, render_report(result, title=title or name, origin=_describe_again(result)))
    typer.echo(f"{result.verdict}: {result.reason}")
    typer.echo(f"wrote {output} ({output.stat().st_size / 1000:.0f} kB)")


def _describe_again(result: DecodeResult) -> str:
    """Return the request that gives the result again: a snapshot never changes."""
    if result.snapshot is None or result.seed is None:
        return ""
    choice = result.choice
    asked: dict[str, object] = {
        "snapshot_id": result.snapshot_id,
        "n_clusters": result.n_clusters if choice is None else len(choice.residuals),
        "decoder": result.decoder,
        **({} if choice is None else {"settings": {"choose": True}}),
        "seed": result.seed,
        "search_box": result.search_box,
    }
    words = ", ".join(f"{name}={value!r}" for name, value in asked.items())
    return f"client.decode({result.snapshot.study_id!r}, {words})"
