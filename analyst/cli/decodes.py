"""``sfumato decode``: at once and waiting, or step by step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from sfumato.analyst.cli.centroids import tabulate_centroids
from sfumato.analyst.cli.looks import describe_looks
from sfumato.analyst.cli.options import (
    PLAN_HELP,
    Answer,
    DefaultGroup,
    Json,
    Study,
    command,
    following,
    identified,
    list_items,
    print_answer,
    show_time,
)
from sfumato.analyst.cli.results import ResultReference, write_result
from sfumato.analyst.cli.search_boxes import Within, describe_search_box, read_search_box
from sfumato.analyst.cli.selections import From, Labelled, To, read_labels
from sfumato.analyst.client import Client, Decode, ServedResult
from sfumato.analyst.planning.candidates import show_snr
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.results import DecodeResult, require_usable
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.objects.results import ChoiceBody, DecodeBody, ResultBody

app = typer.Typer(cls=DefaultGroup, help="Recover the centroids of a study.", **SETTINGS)
Clusters = Annotated[int, typer.Option("-k", min=1, help="Number of clusters.")]
Seed = Annotated[int, typer.Option(help="Seed of the decoder's random starts.")]
Choose = Annotated[bool, typer.Option("--choose", help="Choose the number of clusters, up to k.")]
AllowUnusable = Annotated[
    bool, typer.Option("--allow-unusable", help='Show a result whose verdict is "do not use".')
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="Stop waiting then; the decode goes on."),
]
Looks = Annotated[
    list[str] | None,
    typer.Option(
        "--look",
        metavar="LOOK",
        help="A second look at an earlier result, a study or the id of a snapshot: what it "
        "measured is taken over. Repeatable, in the order of the looks.",
    ),
]
Identity = Annotated[str, identified("decode")]


@command(
    app,
    "STUDY",
    "sfumato decode STUDY -k 5",
    "sfumato decode STUDY -k 12 --choose",
    "sfumato decode STUDY -k 5 --from 2013-03 --to 2013-05 --label airport=JFK",
    'sfumato decode STUDY -k 5 --within "temperature=-10:40"',
    "sfumato decode STUDY -k 5 --look STUDY-look",
    hidden=True,
)
def _decode_study(
    client: Client,
    study: Study,
    n_clusters: Clusters,
    start: From = None,
    end: To = None,
    label: Labelled = None,
    seed: Seed = 0,
    choose: Choose = False,
    within: Within = None,
    looks: Looks = None,
    allow_unusable: AllowUnusable = False,
    timeout: Timeout = None,
) -> Answer:
    """Recover k centroids from the sketches of a study, or of a period or some devices."""
    running = _request(client, study, n_clusters, (start, end, label), seed, choose, within, looks)
    return _follow(running, allow_unusable, timeout)


@app.command(
    "file",
    epilog=list_examples(
        "sfumato decode file main.sketch --plan main.toml -k 5 --within main.box.toml",
        "sfumato decode file north.sketch south.sketch --plan main.toml -k 5 -o result.json",
        "sfumato decode file main.sketch --plan main.toml -k 5 --look look.sketch \\",
        "    --look-plan look.toml",
    ),
)
def _decode_file(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Sketch files, of different records.")
    ],
    plan: Annotated[Path, typer.Option("--plan", help=PLAN_HELP)],
    n_clusters: Clusters,
    seed: Seed = 0,
    choose: Choose = False,
    within: Within = None,
    looks: Annotated[
        list[Path] | None,
        typer.Option(
            "--look",
            metavar="FILE",
            help="The sketch file of a second look, whose measurements are taken over. Repeatable.",
        ),
    ] = None,
    look_plans: Annotated[
        list[Path] | None,
        typer.Option("--look-plan", metavar="FILE", help="The plan of each --look, in order."),
    ] = None,
    allow_unusable: AllowUnusable = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the result here: .json, .csv or .parquet."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recover k centroids from sketch files of one plan, without a server.

    `sfumato report` reads the .json file that -o writes.
    """
    if len(looks or []) != len(look_plans or []):
        raise ConfigError(
            "must be given as often as --look",
            field="--look-plan",
            fix="name a plan for each look",
        )
    local = _open(paths, plan)
    pairs = zip(looks or [], look_plans or [], strict=True)
    result = require_usable(
        local.decode(
            n_clusters=n_clusters,
            seed=seed,
            settings={"choose": True} if choose else {},
            search_box=read_search_box(within),
            looks=[_open([path], its_plan) for path, its_plan in pairs],
        ),
        allow_unusable=allow_unusable,
    )
    if output is not None:
        write_result(result, output)
        print(f"wrote {output}", file=sys.stderr)
    print_answer(result.to_json(), describe_decoded(result), as_json=as_json)


def _open(paths: Sequence[Path], plan: Path) -> LocalSketches:
    return LocalSketches(sketches=[read_sketch_file(path) for path in paths], plan=read_plan(plan))


@command(app, "start", "sfumato decode start STUDY -k 5")
def _start(
    client: Client,
    study: Study,
    n_clusters: Clusters,
    start: From = None,
    end: To = None,
    label: Labelled = None,
    seed: Seed = 0,
    choose: Choose = False,
    within: Within = None,
    looks: Looks = None,
) -> Answer:
    """Start a decode without waiting for it."""
    running = _request(client, study, n_clusters, (start, end, label), seed, choose, within, looks)
    decode_id = running.decode_id
    state = client.decode_state(decode_id)
    yield state
    yield f"decode {decode_id}: {state.state}"
    yield f"next: sfumato decode watch {decode_id}"


@command(app, "list", "sfumato decode list STUDY", "sfumato decode list STUDY --json")
def _list(client: Client, study: Study) -> Answer:
    """List the decodes of a study, the newest first."""
    columns = ("created", "state", "clusters", "verdict", "seed")
    return list_items(client.decodes(study), *columns, identity="decode", row=_list_fields)


def _list_fields(decode: DecodeBody) -> tuple[str, ...]:
    verdict = decode.result and decode.result.verdict
    return (
        show_time(decode.created),
        decode.state,
        str(decode.n_clusters),
        verdict.word if verdict else "",
        str(decode.seed),
        decode.decode_id,
    )


@command(
    app,
    "export",
    "sfumato decode export DECODE -o result.json",
    "sfumato decode export STUDY -o centroids.csv",
)
def _export(
    client: Client,
    reference: ResultReference,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A file that ends with .json, .csv or .parquet."),
    ],
    allow_unusable: AllowUnusable = False,
) -> Answer:
    """Write a result into a file: all of it, or a table of its clusters.

    A .json file has the figures, the statements, the plan and where they come from, and a digest
    of all. `DecodeResult.load` and `sfumato report` read it. A .csv or .parquet file has a row for
    each cluster.
    """
    result = require_usable(client.find_result(reference), allow_unusable=allow_unusable)
    write_result(result, output)
    yield {"file": str(output), "decode_id": result.decode_id, "verdict": result.verdict}
    yield Text(f"{result.verdict}: {result.reason}")
    yield f"wrote {output}"


@command(app, "show", "sfumato decode show DECODE")
def _show(client: Client, decode_id: Identity, allow_unusable: AllowUnusable = False) -> Answer:
    """Show the state of a decode, and its result if it has one."""
    decode_id = client.find_decode(decode_id)
    state = client.decode_state(decode_id)
    yield state
    if state.state == "succeeded":
        yield from describe_decoded(Decode(client, decode_id).wait(allow_unusable=allow_unusable))
        return
    yield f"decode {decode_id}: {state.state}, {state.progress:.0%} done"
    if state.n_workers == 0:
        yield "  no worker is there: start one with `sfumato worker`"
    if state.problem:
        yield f"  {state.problem.detail}"


@command(app, "watch", "sfumato decode watch DECODE --json")
def _watch(
    client: Client,
    decode_id: Identity,
    allow_unusable: AllowUnusable = False,
    timeout: Timeout = None,
) -> Answer:
    """Follow a decode until it ends, and print its result."""
    return _follow(Decode(client, client.find_decode(decode_id)), allow_unusable, timeout)


@command(
    app,
    "publish",
    "sfumato decode publish DECODE --name winter",
    "sfumato decode publish DECODE --json",
)
def _publish(
    client: Client,
    decode_id: Identity,
    name: Annotated[str, typer.Option(help="A name for people.")] = "",
    allow_unusable: Annotated[
        bool, typer.Option("--allow-unusable", help='Publish even "do not use".')
    ] = False,
) -> Answer:
    """Sign a result for the study's devices, which then find the cluster of their own records.

    Records stay where they are: a device pulls the result and applies it by itself.
    """
    made = client.publish(decode_id, name=name, allow_unusable=allow_unusable)
    yield asdict(made)
    yield f"published as number {made.sequence}, verdict: {made.verdict or 'none'}"
    yield "next, on a device: sfumato-agent pull, then sfumato-agent cluster --csv FILE"


@command(
    app, "published", "sfumato decode published STUDY", "sfumato decode published STUDY --json"
)
def _published(client: Client, study: Study) -> Answer:
    """List the published results of a study, oldest first."""
    return list_items(
        client.publications(study),
        *("published", "number", "verdict", "name"),
        identity="decode",
        row=lambda made: (
            show_time(made.created),
            str(made.sequence),
            made.verdict or "none",
            made.name,
            made.decode_id,
        ),
    )


@command(app, "cancel", "sfumato decode cancel DECODE")
def _cancel(client: Client, decode_id: Identity) -> Answer:
    """Cancel a decode. One that has ended stays as it is."""
    state = client.cancel(decode_id)
    yield state
    yield f"decode {state.decode_id}: {state.state}"


def _request(
    client: Client,
    study: str,
    n_clusters: int,
    selection: tuple[str | None, str | None, list[str] | None],
    seed: int,
    choose: bool,
    within: list[str] | None,
    looks: list[str] | None,
) -> Decode:
    start, end, labels = selection
    return client.decode(
        study,
        n_clusters=n_clusters,
        start=start,
        end=end,
        labels=read_labels(labels),
        seed=seed,
        settings={"choose": True} if choose else None,
        search_box=read_search_box(within),
        looks=looks or (),
    )


def follow(running: Decode, *, allow_unusable: bool, timeout: float | None) -> ServedResult:
    """Wait for a decode, with a progress bar on a terminal, and return its result.

    Raises
    ------
    DecodingError
        The decode failed or was cancelled, or the verdict on its result is "do not use".
    TransportError
        It has not ended in time.
    """
    with following("decoding") as told:
        return running.wait(allow_unusable=allow_unusable, timeout=timeout, **told)


def _follow(running: Decode, allow_unusable: bool, timeout: float | None) -> Answer:
    result = follow(running, allow_unusable=allow_unusable, timeout=timeout)
    yield result.to_json()
    yield from describe_decoded(result)


def describe_decoded(result: DecodeResult) -> Answer:
    """Yield a result for people: doubts first, then the verdict, the clusters and their cost."""
    if result.outdated:
        yield Text(f"Doubt: {result.outdated}.")
    measured = [] if result.looks is None else result.looks.looks
    yield from (Text(f"Doubt: {doubt}.") for doubt in (measured[-1].doubts if measured else ()))
    yield Text(f"{result.verdict}: {result.reason}")
    if result.choice is not None:
        yield _tabulate_choice(result.choice, result.body)
        yield Text(result.choice.statement)
        if result.body.stability:
            yield (
                "SSE is relative to one cluster; stability is how far two halves of the possible "
                "densities agree (1: fully). Neither chooses."
            )
    resolved = np.ones(len(result.weights), bool) if result.resolved is None else result.resolved
    if words := result.selection:
        yield Text(f"selected {words}")
    yield tabulate_centroids(
        result.names,
        result.units,
        result.weights,
        result.centroids,
        resolved=resolved,
        errors=result.centroid_errors,
        weight_errors=result.weight_errors,
    )
    yield Text(result.bars.sentence)
    if result.looks is not None:
        yield from describe_looks(result.looks)
    if n_blurred := int(np.sum(resolved == 0)):
        yield f"{n_blurred} of the centroids cannot be told from noise (dim)"
    if result.search_box:
        yield Text(f"searched within {describe_search_box(result.search_box)}")
    # A grid has no SNR, and some answers no prediction.
    snr = f"SNR {show_snr(result.snr)}" if result.snr else ""
    if words := "; ".join(filter(None, (snr, result.quality))):
        yield Text(f"{words}.")
    yield Text(result.privacy)
    yield from (Text(f"warning: {warning}") for warning in result.body.warnings)


def _tabulate_choice(choice: ChoiceBody, body: ResultBody) -> Table:
    sses = {each.n_clusters: each.sse for each in body.sse_curve or ()}
    agreements = {each.n_clusters: each.agreement for each in body.stability or ()}
    table = Table("clusters", "residual", "noise floor", "SSE", "stability", "")
    rows = zip(choice.residuals, choice.noise_floors, strict=True)
    for k, (residual, floor) in enumerate(rows, start=1):
        is_fair = (choice.least or k) <= k <= (choice.most or k)
        mark = "recommended" if k == choice.recommended else "fair" if is_fair else ""
        sse = f"{sses[k]:.3f}" if k in sses else ""
        agreement = f"{agreements[k]:.2f}" if k in agreements else ""
        table.add_row(str(k), f"{residual:.3g}", f"{floor:.3g}", sse, agreement, mark)
    return table
