"""``sfumato decode``: at once and waiting, or step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from analyst.cli.options import DEFAULT_URL, SETTINGS, Json, Key, Url
from analyst.client import Client, Decode, DecodeResult

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
commands = typer.Typer(help="Decodes, step by step.", **SETTINGS)
COMMANDS = ("start", "show", "cancel", "watch")
"""First arguments that are commands, not studies."""
Identity = Annotated[str, typer.Argument(metavar="DECODE", help="Its identity.")]


@app.command(no_args_is_help=True)
def _decode_study(
    study_id: Annotated[str, typer.Argument(help="The study.")],
    k: Annotated[int, typer.Option("-k", help="Number of clusters.")],
    key: Key,
    url: Url = DEFAULT_URL,
    seed: Annotated[int, typer.Option(help="Seed of the decoder's random starts.")] = 0,
    choose: Annotated[
        bool, typer.Option("--choose", help="Find out how many clusters there are, up to k.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Recover k centroids from everything that a study holds now.

    Examples: sfumato decode STUDY -k 5; sfumato decode STUDY -k 12 --choose
    """
    with Client(url, key=key) as client:
        running = client.decode(study_id, n_clusters=k, seed=seed, settings=_settings(choose))
        _follow(running, as_json)


@commands.command("start")
def _start(
    study_id: Annotated[str, typer.Argument(metavar="STUDY", help="The study.")],
    k: Annotated[int, typer.Option("-k", help="Number of clusters.")],
    key: Key,
    url: Url = DEFAULT_URL,
    seed: Annotated[int, typer.Option(help="Seed of the decoder's random starts.")] = 0,
    choose: Annotated[
        bool, typer.Option("--choose", help="Find out how many clusters there are, up to k.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Ask for centroids and do not wait.

    Example: sfumato decode start STUDY -k 5
    """
    with Client(url, key=key) as client:
        running = client.decode(study_id, n_clusters=k, seed=seed, settings=_settings(choose))
        state = client.decode_state(running.decode_id)
    if as_json:
        print(json.dumps(state))
        return
    print(f"decode {running.decode_id} is {state['state']}")
    print(f"next: sfumato decode watch {running.decode_id}")


@commands.command("show")
def _show(decode_id: Identity, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show how a decode stands, and its result if it has ended.

    Example: sfumato decode show DECODE
    """
    with Client(url, key=key) as client:
        state = client.decode_state(decode_id)
        if as_json:
            print(json.dumps(state))
        elif state["state"] == "succeeded":
            _print_result(Decode(client, decode_id).wait())
        else:
            print(f"decode {decode_id} is {state['state']}, {state['progress']:.0%} done")
            if state["problem"]:
                print(f"  {state['problem'].get('detail', '')}")


@commands.command("watch")
def _watch(decode_id: Identity, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Follow a decode until it ends, and print its result.

    Example: sfumato decode watch DECODE --json
    """
    with Client(url, key=key) as client:
        _follow(Decode(client, decode_id), as_json)


@commands.command("cancel")
def _cancel(decode_id: Identity, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Cancel a decode; one that has ended stays as it is.

    Example: sfumato decode cancel DECODE
    """
    with Client(url, key=key) as client:
        client.cancel(decode_id)
        state = client.decode_state(decode_id)
    print(json.dumps(state) if as_json else f"decode {decode_id} is {state['state']}")


def _settings(choose: bool) -> dict[str, Any] | None:
    return {"choose": True} if choose else None


def _follow(running: Decode, as_json: bool) -> None:
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("decoding", total=1.0)
        result = running.wait(progress=lambda share: progress.update(task, completed=share))
    if as_json:
        print(json.dumps(_result_to_json(result)))
        return
    _print_result(result)


def _result_to_json(result: DecodeResult) -> dict[str, Any]:
    document = {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in vars(result).items()
    }
    return document


def _print_result(result: DecodeResult) -> None:
    table = Table(
        "weight", *(f"{n} ({u})" for n, u in zip(result.names, result.units, strict=True))
    )
    for weight, centroid in zip(result.weights, result.centroids, strict=True):
        table.add_row(f"{weight:.1%}", *(f"{value:.4g}" for value in centroid))
    console = Console()
    if result.choice is not None:
        console.print(_tabulate_choice(result.choice), f"{result.choice['statement']}")
    console.print(table)
    console.print(f"SNR {result.snr:.3g}; {result.quality}. {result.privacy}")
    for warning in result.warnings:
        console.print(f"warning: {warning}")


def _tabulate_choice(choice: Mapping[str, Any]) -> Table:
    table = Table("clusters", "residual", "noise floor", "")
    rows = zip(choice["residuals"], choice["noise_floors"], strict=True)
    for k, (residual, floor) in enumerate(rows, start=1):
        mark = "recommended" if k == choice["recommended"] else ""
        table.add_row(str(k), f"{residual:.3g}", f"{floor:.3g}", mark)
    return table
