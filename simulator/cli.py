"""``sfumato simulate PLAN --devices N``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from analyst.cli.options import PLAN_HELP, Json, create_console, show, tabulate
from analyst.planning.files import read_plan
from shared.command import SETTINGS, list_examples
from shared.errors import ConfigError
from shared.plan import SketchPlan
from simulator.fleet import run_fleet
from simulator.outcome import Outcome, decode_fleet
from simulator.records import FileRecords, FleetRecords, MixtureRecords

_MOST_DEVICES = 10**8
_MOST_RECORDS = 10**9
_DRAWN = 20_000
"""Records in a picture; more would cover each other."""

simulate = typer.Typer(help="Try a plan with a simulated fleet.", **SETTINGS)


@simulate.command(
    epilog=list_examples(
        "sfumato simulate phones.toml --devices 100000 -k 5",
        "sfumato simulate plan.json --devices 300 --records-per-device 90 --windows 4 --json",
        "sfumato simulate plan.json --devices 300 --file records.csv",
    ),
)
def _simulate(
    plan_path: Annotated[Path, typer.Argument(metavar="PLAN", help=PLAN_HELP)],
    n_devices: Annotated[
        int, typer.Option("--devices", min=1, max=_MOST_DEVICES, help="Devices of the fleet.")
    ],
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters", "-k", min=1, help="Clusters to look for; default: the plan's most."
        ),
    ] = None,
    records_per_device: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST_RECORDS, help="Made-up records of one device; default: 1."),
    ] = None,
    n_windows: Annotated[
        int, typer.Option("--windows", min=1, help="Windows that the records are divided into.")
    ] = 1,
    file: Annotated[
        Path | None,
        typer.Option(help="Deal these records instead: .csv, .jsonl, .parquet or .npy."),
    ] = None,
    clusters_per_device: Annotated[
        int | None,
        typer.Option(min=1, help="Clusters that one device has records of; default: all of them."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of made-up records and decoder.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw centroids and records into this PNG file.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: every core.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let simulated devices sketch, sign and send, and decode what arrives.

    Devices and server run the same code as real ones, without a network. The records are made up,
    as round clusters of the plan's scales, or dealt from a file. Afterwards the centroids are
    compared with k-means on the raw records, which only a simulation can do. Nothing is stored or
    published.
    """
    plan = read_plan(plan_path)
    wanted = _choose_clusters(plan, n_clusters)
    records: FleetRecords
    if file is not None:
        _require_alone(records_per_device, clusters_per_device)
        records = FileRecords.read(file, plan, n_devices=n_devices)
    else:
        records = MixtureRecords.of(
            plan,
            n_clusters=wanted,
            n_records=records_per_device or 1,
            clusters_per_device=clusters_per_device,
            seed=seed,
        )
    _require_windows(n_windows, records)
    start = time.monotonic()
    with _progress(quiet=as_json) as progress:
        task = progress.add_task("devices", total=n_devices)
        tally, totals = run_fleet(
            plan,
            records,
            n_devices=n_devices,
            n_windows=n_windows,
            n_processes=processes,
            on_progress=lambda done: progress.update(task, completed=done),
        )
        if not tally.n_sketches:
            raise ConfigError(
                "gives no sketch that the server accepts",
                field="devices",
                fix=next(iter(tally.refusals), "give a device at least least_records records"),
            )
        decoding = progress.add_task("decoding", total=100)
        outcome = decode_fleet(
            plan,
            records,
            tally,
            totals,
            n_clusters=wanted,
            seed=seed,
            sketch_seconds=time.monotonic() - start,
            progress=lambda share: progress.update(decoding, completed=100 * share),
        )
    if plot is not None:
        _draw(outcome, plot)
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    show(_tabulate_centroids(outcome))
    show(tabulate(outcome.describe()))


def _choose_clusters(plan: SketchPlan, n_clusters: int | None) -> int:
    chosen = n_clusters or plan.most_clusters
    if chosen is None:
        raise ConfigError(
            "is missing, and the plan states no most_clusters",
            field="--clusters",
            fix="give the number of clusters to look for, such as -k 5",
        )
    return chosen


def _require_alone(records_per_device: int | None, clusters_per_device: int | None) -> None:
    """Refuse options about made-up records where a file is given."""
    given = {
        "--records-per-device": records_per_device,
        "--clusters-per-device": clusters_per_device,
    }
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                "cannot be combined with --file, whose records are dealt as they are",
                field=name,
                fix="leave one of them out",
            )


def _require_windows(n_windows: int, records: FleetRecords) -> None:
    if n_windows > records.n_records:
        raise ConfigError(
            f"must be at most the records of a device, {records.n_records}",
            field="--windows",
            fix="give each device a record for every window",
        )


def _tabulate_centroids(outcome: Outcome) -> Table:
    table = Table("weight")
    for dimension in outcome.plan.dimensions:
        table.add_column(f"{dimension.name} ({dimension.unit})", justify="right")
    solution = outcome.solution
    for weight, centroid in zip(solution.weights, solution.centroids, strict=True):
        table.add_row(f"{weight:.1%}", *(f"{value:.4g}" for value in centroid))
    return table


def _draw(outcome: Outcome, path: Path) -> None:
    # Imported here, because matplotlib takes a second to load.
    from analyst.plots import plot_centroids, save_figure

    n_dimensions = outcome.plan.n_dimensions
    pairs = [(i, min(i + 1, n_dimensions - 1)) for i in range(0, min(n_dimensions, 4), 2)]
    figure = plot_centroids(
        outcome.result,
        pairs=pairs,
        title=f"{outcome.tally.n_devices:,} simulated devices, epsilon = "
        f"{outcome.plan.release.epsilon} for each {outcome.plan.release.unit}",
        records=outcome.compared[:_DRAWN],
    )
    save_figure(figure, path)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """Show bars on a terminal's standard error; elsewhere nothing."""
    console = create_console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        yield progress
