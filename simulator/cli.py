"""``sfumato simulate PLAN --devices N``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.analyst.cli.options import (
    PLAN_HELP,
    Json,
    create_console,
    make_table,
    print_answer,
    show,
    tabulate,
)
from sfumato.analyst.levels import parse_epsilon
from sfumato.analyst.planning.files import read_draft
from sfumato.learning.planning.plans import AXES
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan
from sfumato.simulator.batches import make_local_twin
from sfumato.simulator.fleet import Tally, require_sketches, run_fleet
from sfumato.simulator.marginals import HistogramOutcome, answer_fleet
from sfumato.simulator.outcome import Outcome, decode_fleet
from sfumato.simulator.records import FileRecords, FleetRecords, MixtureRecords
from sfumato.simulator.report import describe_sweep, plot_sweep, sweep_to_json
from sfumato.simulator.sweep import FACTORS, Sweep, run_sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REPEATS, _MINUTES = 3, 10.0
_CLUSTERS = 3
"""Clusters of the made-up records of a histogram."""
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
        "sfumato simulate pilot.toml --devices 100000",
        "sfumato simulate plan.json --file records.csv --sweep bounds,scale --plot sweep.png",
    ),
)
def _simulate(
    plan_path: Annotated[Path, typer.Argument(metavar="PLAN", help=PLAN_HELP)],
    n_devices: Annotated[
        int, typer.Option("--devices", min=1, max=_MOST_DEVICES, help="Devices of the fleet.")
    ] = 1,
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
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIMENSION=COLUMN", help="Name of a dimension's column in --file. Repeatable."
        ),
    ] = None,
    clusters_per_device: Annotated[
        int | None,
        typer.Option(min=1, help="Clusters that one device has records of; default: all of them."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="Seed of made-up records and decoder; with --sweep of the noise too."
        ),
    ] = 0,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            help=f"Simulate wrong plans too: some of {','.join(AXES)}, or all; each multiplied by "
            "each factor, with everything else as it is.",
        ),
    ] = None,
    factors: Annotated[
        str | None,
        typer.Option(
            help=f"Factors of --sweep; default: {','.join(map(str, FACTORS))}.",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="Simulations of each plan of --sweep; default: 3."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Time limit of --sweep; default: 10.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw centroids and records, or the sweep, into this PNG file."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: every core.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let simulated devices sketch, sign and send, and decode what arrives.

    Devices and server run the same code as real ones, without a network. The records are made up,
    as round clusters of the plan's scales, or dealt from a file. Afterwards the centroids are
    compared with k-means on the raw records, which only a simulation can do. Of a histogram the
    marginals are compared with those of the records. A secure sum is compared with the same plan
    with noise by each device; the simulation stands for both its servers, so drafts can be tried
    too. Nothing is stored or published. With --sweep a table shows what wrong bounds, scales, m or
    epsilon would cost.
    """
    if sweep is None:
        given = {"--factors": factors, "--repeats": repeats, "--minutes": minutes}
        _refuse(given, "needs --sweep", "add --sweep all, or leave it out")
    axes = () if sweep is None else _parse_axes(sweep)
    multipliers = _parse_factors(factors)
    plan = read_draft(plan_path)
    is_histogram = plan.kind == "histogram"
    if is_histogram:
        _refuse(
            {"--clusters": n_clusters, "--sweep": sweep, "--plot": plot},
            "must be left out with a histogram, which has no centroids",
            "leave it out, or simulate a plan with Fourier features",
        )
        wanted = _CLUSTERS
    else:
        # Before anything else: only features have centroids to compare.
        _ = plan.fourier
        wanted = _choose_clusters(plan, n_clusters)
    records: FleetRecords
    if file is not None:
        _refuse(
            {
                "--records-per-device": records_per_device,
                "--clusters-per-device": clusters_per_device,
            },
            "cannot be combined with --file, whose records are dealt as they are",
            "leave one of them out",
        )
        records = FileRecords.read(file, plan, n_devices=n_devices, columns=column or ())
    else:
        if column:
            raise ConfigError("needs --file", field="--column", fix="name the file of the records")
        records = MixtureRecords.of(
            plan,
            n_clusters=wanted,
            n_records=records_per_device or 1,
            clusters_per_device=clusters_per_device,
            seed=seed,
        )
    _require_windows(n_windows, plan, records)
    start, limit = time.monotonic(), _MINUTES if minutes is None else minutes
    if axes:
        swept = _sweep(
            plan,
            records,
            axes=axes,
            factors=multipliers,
            n_devices=n_devices,
            n_windows=n_windows,
            n_clusters=wanted,
            n_repeats=repeats or _REPEATS,
            seed=seed,
            n_processes=processes,
            is_over=lambda: time.monotonic() - start > 60 * limit,
            quiet=as_json,
        )
        if plot is not None:
            _save(plot_sweep(swept), plot)
        if as_json:
            document = sweep_to_json(swept, seed=seed, seconds=time.monotonic() - start)
            print(json.dumps(document))
            return
        for part in describe_sweep(swept):
            show(part)
        return
    with _progress(quiet=as_json) as progress:

        def run(simulated: SketchPlan) -> tuple[Tally, SketchTotals, float]:
            begun, task = time.monotonic(), progress.add_task("devices", total=n_devices)
            tally, totals = run_fleet(
                simulated,
                records,
                n_devices=n_devices,
                n_windows=n_windows,
                n_processes=processes,
                on_progress=lambda done: progress.update(task, completed=done),
            )
            require_sketches(tally)
            return tally, totals, time.monotonic() - begun

        def decode(simulated: SketchPlan) -> Outcome:
            tally, totals, seconds = run(simulated)
            decoding = progress.add_task("decoding", total=100)
            return decode_fleet(
                simulated,
                records,
                tally,
                totals,
                n_clusters=wanted,
                seed=seed,
                sketch_seconds=seconds,
                progress=lambda share: progress.update(decoding, completed=100 * share),
            )

        if is_histogram:
            tally, totals, seconds = run(plan)
            answer = answer_fleet(plan, records, tally, totals, seed=seed, sketch_seconds=seconds)
            _show_answer(answer, as_json=as_json)
            return
        outcome = decode(plan)
        beside = None if plan.sum_release is None else decode(make_local_twin(plan))
    if plot is not None:
        _draw(outcome, plot)
    if as_json:
        document = outcome.to_json()
        if beside is not None:
            document["with_noise_by_each_device"] = beside.to_json()
        print(json.dumps(document))
        return
    show(_tabulate_centroids(outcome))
    show(tabulate(outcome.describe()))
    if beside is not None:
        show(_tabulate_ways(outcome, beside))


def _tabulate_ways(summed: Outcome, local: Outcome) -> Table:
    """Tabulate a secure sum beside the same plan with noise by each device."""
    table = make_table(
        "",
        figures=("draws of noise", "SNR", "relative SSE", "bytes a message", "verdict"),
        title=f"The same devices and m, epsilon = {summed.plan.release.epsilon}",
        has_box=True,
    )
    for name, each in (("secure sum (sum.v1)", summed), ("each device (local.v1)", local)):
        tally, verdict = each.tally, each.solution.verdict
        draws = each.plan.n_noises * (tally.n_batches or tally.n_sketches)
        table.add_row(
            name,
            f"{draws:,}",
            f"{each.utility.snr:.3g}",
            f"{each.relative_sse:.3f}",
            f"{tally.message_bytes / max(1, tally.n_sketches):,.0f}",
            "" if verdict is None else verdict.word,
        )
    return table


def _refuse(given: Mapping[str, object], rule: str, fix: str) -> None:
    """Refuse options that are given."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(rule, field=name, fix=fix)


def _show_answer(answer: HistogramOutcome, *, as_json: bool) -> None:
    parts = [answer.tabulate(), tabulate(answer.describe())]
    print_answer(answer.to_json(), parts, as_json=as_json)


def _parse_axes(text: str) -> tuple[str, ...]:
    if text.strip() == "all":
        return AXES
    axes = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for axis in axes:
        if axis not in AXES:
            raise ConfigError(
                f"must be some of {', '.join(AXES)}, or all, and is {axis!r}",
                field="--sweep",
                fix="separate them by commas, such as bounds,scale",
            )
    return axes


def _parse_factors(text: str | None) -> tuple[Fraction, ...]:
    if text is None:
        return FACTORS
    return tuple(parse_epsilon(part, "--factors") for part in text.split(","))


def _choose_clusters(plan: SketchPlan, n_clusters: int | None) -> int:
    chosen = n_clusters or plan.most_clusters
    if chosen is None:
        raise ConfigError(
            "is missing, and the plan states no most_clusters",
            field="--clusters",
            fix="give the number of clusters to look for, such as -k 5",
        )
    return chosen


def _require_windows(n_windows: int, plan: SketchPlan, records: FleetRecords) -> None:
    n_slots = plan.window.n_slots
    if n_slots is not None and n_windows > n_slots:
        raise ConfigError(
            f"must be at most the slots of the plan, {n_slots}: it has an end",
            field="--windows",
            fix="give fewer",
        )
    if n_windows > records.n_records:
        raise ConfigError(
            f"must be at most the records of a device, {records.n_records}",
            field="--windows",
            fix="give each device a record for every window",
        )


def _sweep(plan: SketchPlan, records: FleetRecords, *, quiet: bool, **options: Any) -> Sweep:
    with _progress(quiet=quiet) as progress:
        task = progress.add_task("simulations", total=None)
        return run_sweep(
            plan,
            records,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
            **options,
        )


def _tabulate_centroids(outcome: Outcome) -> Table:
    axes = [f"{axis.name} ({axis.unit})" for axis in outcome.plan.axes]
    table = make_table("weight", figures=axes, has_box=True)
    solution = outcome.solution
    for weight, centroid in zip(solution.weights, outcome.centroids, strict=True):
        table.add_row(f"{weight:.1%}", *(f"{value:.4g}" for value in centroid))
    return table


def _draw(outcome: Outcome, path: Path) -> None:
    # Imported here, because matplotlib takes a second to load.
    from sfumato.analyst.plots import plot_centroids

    n_dimensions = outcome.plan.n_axes
    pairs = [(i, min(i + 1, n_dimensions - 1)) for i in range(0, min(n_dimensions, 4), 2)]
    figure = plot_centroids(
        outcome.result,
        pairs=pairs,
        title=f"{outcome.tally.n_devices:,} simulated devices, epsilon = "
        f"{outcome.plan.release.epsilon} for each {outcome.plan.release.unit}",
        records=outcome.compared[:_DRAWN],
    )
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    from sfumato.analyst.plots import save_figure

    try:
        save_figure(figure, path)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", field="--plot") from error


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
