"""``sfumato decode``: at once and waiting, or step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import Progress
from rich.table import Table

from analyst.cli.options import (
    DEFAULT_URL,
    DefaultGroup,
    Json,
    Key,
    Study,
    Url,
    create_console,
)
from analyst.client import Client, Decode
from analyst.results import DecodeResult
from shared.command import SETTINGS, list_examples

app = typer.Typer(
    cls=DefaultGroup,
    help="Recover the centroids of a study, at once, or start, watch and cancel a decode.",
    **SETTINGS,
)
Clusters = Annotated[int, typer.Option("-k", help="Number of clusters.")]
Seed = Annotated[int, typer.Option(help="Seed of the decoder's random starts.")]
Choose = Annotated[bool, typer.Option("--choose", help="Choose the number of clusters, up to k.")]
AllowUnusable = Annotated[
    bool, typer.Option("--allow-unusable", help='Show a result whose verdict is "do not use".')
]
Identity = Annotated[str, typer.Argument(metavar="DECODE", help="Its identity.")]


@app.command(
    "STUDY",
    hidden=True,
    epilog=list_examples("sfumato decode STUDY -k 5", "sfumato decode STUDY -k 12 --choose"),
)
def _decode_study(
    study: Study,
    n_clusters: Clusters,
    key: Key,
    url: Url = DEFAULT_URL,
    seed: Seed = 0,
    choose: Choose = False,
    allow_unusable: AllowUnusable = False,
    as_json: Json = False,
) -> None:
    """Recover k centroids from all sketches of a study."""
    with Client(url, key=key) as client:
        running = client.decode(study, n_clusters=n_clusters, seed=seed, settings=_settings(choose))
        _follow(running, as_json, allow_unusable=allow_unusable)


@app.command("start", epilog=list_examples("sfumato decode start STUDY -k 5"))
def _start(
    study: Study,
    n_clusters: Clusters,
    key: Key,
    url: Url = DEFAULT_URL,
    seed: Seed = 0,
    choose: Choose = False,
    as_json: Json = False,
) -> None:
    """Start a decode without waiting for it."""
    with Client(url, key=key) as client:
        running = client.decode(study, n_clusters=n_clusters, seed=seed, settings=_settings(choose))
        state = client.decode_state(running.decode_id)
    if as_json:
        print(json.dumps(state))
        return
    print(f"decode {running.decode_id} is {state['state']}")
    print(f"next: sfumato decode watch {running.decode_id}")


@app.command("show", epilog=list_examples("sfumato decode show DECODE"))
def _show(
    decode_id: Identity,
    key: Key,
    url: Url = DEFAULT_URL,
    allow_unusable: AllowUnusable = False,
    as_json: Json = False,
) -> None:
    """Show the state of a decode, and its result if it has one."""
    with Client(url, key=key) as client:
        state = client.decode_state(decode_id)
        if as_json:
            print(json.dumps(state))
        elif state["state"] == "succeeded":
            _print_result(Decode(client, decode_id).wait(allow_unusable=allow_unusable))
        else:
            print(f"decode {decode_id} is {state['state']}, {state['progress']:.0%} done")
            if state["problem"]:
                print(f"  {state['problem'].get('detail', '')}")


@app.command("watch", epilog=list_examples("sfumato decode watch DECODE --json"))
def _watch(
    decode_id: Identity,
    key: Key,
    url: Url = DEFAULT_URL,
    allow_unusable: AllowUnusable = False,
    as_json: Json = False,
) -> None:
    """Follow a decode until it ends, and print its result."""
    with Client(url, key=key) as client:
        _follow(Decode(client, decode_id), as_json, allow_unusable=allow_unusable)


@app.command("cancel", epilog=list_examples("sfumato decode cancel DECODE"))
def _cancel(decode_id: Identity, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Cancel a decode. One that has ended stays as it is."""
    with Client(url, key=key) as client:
        client.cancel(decode_id)
        state = client.decode_state(decode_id)
    print(json.dumps(state) if as_json else f"decode {decode_id} is {state['state']}")


def _settings(choose: bool) -> dict[str, Any] | None:
    return {"choose": True} if choose else None


def _follow(running: Decode, as_json: bool, *, allow_unusable: bool) -> None:
    with Progress(console=create_console(stderr=True)) as progress:
        task = progress.add_task("decoding", total=1.0)
        result = running.wait(
            progress=lambda share: progress.update(task, completed=share),
            allow_unusable=allow_unusable,
        )
    if as_json:
        print(json.dumps(_result_to_json(result)))
        return
    _print_result(result)


def _result_to_json(result: DecodeResult) -> dict[str, Any]:
    return {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in vars(result).items()
    }


def _print_result(result: DecodeResult) -> None:
    table = Table(
        "weight", *(f"{n} ({u})" for n, u in zip(result.names, result.units, strict=True))
    )
    resolved = np.ones(len(result.weights)) if result.resolved is None else result.resolved
    rows = zip(result.weights, result.centroids, resolved, strict=True)
    for weight, centroid, is_resolved in rows:
        table.add_row(
            f"{weight:.1%}",
            *(f"{value:.4g}" for value in centroid),
            style=None if is_resolved else "dim",
        )
    console = create_console()
    console.print(f"{result.verdict}: {result.reason}")
    if result.choice is not None:
        console.print(_tabulate_choice(result.choice), f"{result.choice['statement']}")
    console.print(table)
    if not np.all(resolved):
        n_blurred = int(np.sum(~result.resolved)) if result.resolved is not None else 0
        console.print(f"{n_blurred} of the centroids cannot be told from noise (dim)")
    console.print(f"SNR {result.snr:.3g}; {result.quality}. {result.privacy}")
    for warning in result.warnings:
        console.print(f"warning: {warning}")


def _tabulate_choice(choice: Mapping[str, Any]) -> Table:
    table = Table("clusters", "residual", "noise floor", "")
    rows = zip(choice["residuals"], choice["noise_floors"], strict=True)
    for k, (residual, floor) in enumerate(rows, start=1):
        is_fair = (choice.get("least") or k) <= k <= (choice.get("most") or k)
        mark = "recommended" if k == choice["recommended"] else "fair" if is_fair else ""
        table.add_row(str(k), f"{residual:.3g}", f"{floor:.3g}", mark)
    return table
