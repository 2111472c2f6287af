"""``sfumato timeline``, ``groups``, ``device health`` and ``analysis``: answers as jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from sfumato.analyst.cli.options import (
    Answer,
    Study,
    command,
    following,
    identified,
    list_items,
    make_table,
    show_time,
)
from sfumato.analyst.cli.selections import From, Labelled, To, read_labels
from sfumato.analyst.cli.sources import draw
from sfumato.analyst.client import Analysis, Client
from sfumato.analyst.results.analyses import (
    KINDS,
    AnalysisResult,
    Comparison,
    DeviceHealth,
    Groups,
    Timeline,
)
from sfumato.shared.command import SETTINGS
from sfumato.shared.wire.objects.analyses import (
    AcceptedChangeBody,
    AnalysisEntryBody,
    ChangeBody,
    ComparisonBody,
    DeviceHealthBody,
    WindowBody,
)

_LEAST_P = 1e-4

timeline = typer.Typer(**SETTINGS)
change = typer.Typer(
    help="Accept changes, so that later windows are compared with what came then.", **SETTINGS
)
groups = typer.Typer(**SETTINGS)
app = typer.Typer(
    help="List comparisons, timelines, groups and reports on devices; follow or cancel one.",
    **SETTINGS,
)
Clusters = Annotated[int, typer.Option("-k", min=1, help="Clusters whose changes are estimated.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the fit and the draws.")]
Timeout = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="Stop waiting then; the analysis goes on."),
]
Shift = Annotated[
    float, typer.Option(min=0.0, help="Smallest size of an alarm, in the plan's scales.")
]
SomeShift = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Smallest size of an alarm, in the plan's scales; by default 0.1, or the usual change "
        "from window to window if that is larger.",
    ),
]
Against = Annotated[
    Literal["last-change", "last-accepted", "all-before"],
    typer.Option("--reference", help="How far back each window is compared."),
]
LookStudy = Annotated[
    str | None,
    typer.Option("--look", help="The study of a second look: shares that it measured are used."),
]
Plot = Annotated[Path | None, typer.Option(help="Draw the answer, .png or .svg.")]
Begin = Annotated[
    str,
    typer.Argument(
        metavar="TIME",
        help="Begin of the first window after the change: a day, a month, or a time with its zone.",
    ),
]
Identity = Annotated[str, identified("analysis")]


@command(
    timeline,
    None,
    "sfumato timeline STUDY -k 5",
    "sfumato timeline STUDY -k 5 --from 2013-01 --to 2013-12 --slots-per-window 7",
    "sfumato timeline STUDY -k 5 --reference last-accepted --plot year.png",
)
def _timeline(
    client: Client,
    study: Study,
    n_clusters: Clusters,
    start: From = None,
    end: To = None,
    label: Labelled = None,
    slots_per_window: Annotated[int, typer.Option(min=1, help="Slots that make a window.")] = 1,
    false_alarms: Annotated[
        float, typer.Option(help="False alarms to accept in a year without a change.")
    ] = 1.0,
    smallest_shift: SomeShift = None,
    reference: Against = "last-change",
    look: LookStudy = None,
    seed: Seed = 0,
    timeout: Timeout = None,
    plot: Plot = None,
) -> Answer:
    """Follow a study window by window: when its records changed, how surely, and in what.

    A change is a window from which on the records differ from those before. Each window is
    compared with all before it from the last change on; `sfumato change accept` says which changes
    are known, and --reference how far back to compare. A star marks an alarm.
    """
    running = client.timeline(
        study,
        n_clusters=n_clusters,
        start=start,
        end=end,
        labels=read_labels(label),
        slots_per_window=slots_per_window,
        false_alarms_per_year=false_alarms,
        smallest_shift=smallest_shift,
        reference=reference,
        look=look,
        seed=seed,
    )
    return follow(running, timeout, plot)


@command(
    groups,
    None,
    "sfumato groups STUDY airport -k 5",
    "sfumato groups STUDY site -k 5 --from 2013-06 --to 2013-08 --json",
)
def _groups(
    client: Client,
    study: Study,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="A label of the plan.")],
    n_clusters: Clusters,
    start: From = None,
    end: To = None,
    seed: Seed = 0,
    timeout: Timeout = None,
    plot: Plot = None,
) -> Answer:
    """Compare all pairs of the values of a label: which are alike, and how the others differ."""
    running = client.groups(study, label, n_clusters=n_clusters, start=start, end=end, seed=seed)
    return follow(running, timeout, plot)


def show_health(
    client: Client,
    study: Study,
    n_clusters: Clusters,
    start: From = None,
    end: To = None,
    seed: Seed = 0,
    timeout: Timeout = None,
    plot: Plot = None,
) -> Answer:
    """Compare each device with the rest, the most unlike first; needs an operator's key.

    A lamp is a reason to look, and no proof: honest devices hold different records. Exclude none
    because of a lamp alone.
    """
    running = client.device_health(study, n_clusters=n_clusters, start=start, end=end, seed=seed)
    return follow(running, timeout, plot)


@command(app, "list", "sfumato analysis list STUDY", "sfumato analysis list STUDY --json")
def _list(client: Client, study: Study) -> Answer:
    """List the analyses of a study, the newest first."""
    columns = ("created", "kind", "state", "clusters")
    return list_items(client.analyses(study), *columns, identity="analysis", row=_list_fields)


def _list_fields(entry: AnalysisEntryBody) -> tuple[str, ...]:
    return (
        show_time(entry.created),
        entry.kind,
        entry.state,
        str(entry.request.n_clusters),
        entry.analysis_id,
    )


@command(
    app, "show", "sfumato analysis show ANALYSIS", "sfumato analysis show ANALYSIS --plot year.svg"
)
def _show(client: Client, analysis_id: Identity, plot: Plot = None) -> Answer:
    """Show the state of an analysis, and its result if it has one."""
    found = client.analysis_state(analysis_id)
    if found.state == "succeeded":
        result = Analysis(client, found.analysis_id, KINDS[found.kind]).wait()
        draw(plot, result.plot, option="--plot")
        yield found
        yield from describe(result)
        return
    yield found
    yield f"{found.kind} {found.analysis_id}: {found.state}, {found.progress:.0%} done"
    if found.n_workers == 0:
        yield "  no worker is there: start one with `sfumato worker`"
    if found.problem:
        yield f"  {found.problem.detail}"


@command(app, "watch", "sfumato analysis watch ANALYSIS --json")
def _watch(client: Client, analysis_id: Identity, timeout: Timeout = None) -> Answer:
    """Follow an analysis until it ends, and print its result."""
    found = client.analysis_state(analysis_id)
    return follow(Analysis(client, found.analysis_id, KINDS[found.kind]), timeout)


@command(app, "cancel", "sfumato analysis cancel ANALYSIS")
def _cancel(client: Client, analysis_id: Identity) -> Answer:
    """Cancel an analysis. One that has ended stays as it is."""
    found = client.cancel_analysis(analysis_id)
    yield found
    yield f"{found.kind} {found.analysis_id}: {found.state}"


@command(
    change,
    "accept",
    "sfumato change accept STUDY 2013-06-18 --note summer",
    "sfumato change accept STUDY 2013-06-18T06:00Z",
)
def _accept(
    client: Client,
    study: Study,
    start: Begin,
    note: Annotated[str, typer.Option(help="Why, for the list and the audit log.")] = "",
) -> Answer:
    """Accept a change: from then on it is no alarm, and later windows are compared with it."""
    found = client.accept_change(study, start, note=note)
    yield found
    yield f"accepted: the change at {_describe_accepted(found)}"
    yield "next: sfumato timeline STUDY -k K compares later windows with those from it on"


@command(change, "list", "sfumato change list STUDY", "sfumato change list STUDY --json")
def _list_accepted(client: Client, study: Study) -> Answer:
    """List the accepted changes of a study, in order."""
    return list_items(
        client.accepted_changes(study),
        *("begins", "accepted", "note"),
        identity="key",
        row=lambda each: (
            show_time(each.start),
            show_time(each.accepted),
            each.note,
            each.actor,
        ),
    )


@command(change, "reopen", "sfumato change reopen STUDY 2013-06-18")
def _reopen(client: Client, study: Study, start: Begin) -> Answer:
    """Accept a change no longer."""
    found = client.reopen_change(study, start)
    yield found
    yield f"no longer accepted: the change at {_describe_accepted(found)}"


def _describe_accepted(found: AcceptedChangeBody) -> str:
    note = f", {found.note}" if found.note else ""
    return f"{show_time(found.start)} (slot {found.first_slot}{note})"


def follow(running: Analysis[Any], timeout: float | None, plot: Path | None = None) -> Answer:
    """Wait for an analysis, and yield its document and its parts; draw it to a file."""
    if plot is not None:
        # Before it waits: matplotlib takes a second to import.
        from sfumato.analyst.plots import require_picture

        require_picture(plot, "--plot")
    result = wait(running, timeout)
    draw(plot, result.plot, option="--plot")
    yield result.to_json()
    yield from describe(result)


def wait(running: Analysis[Any], timeout: float | None) -> AnalysisResult[Any]:
    """Wait for an analysis with a bar on a terminal."""
    with following("computing") as told:
        result: AnalysisResult[Any] = running.wait(timeout=timeout, **told)
    return result


def describe(result: AnalysisResult[Any]) -> Answer:
    """Yield the words of a result, and its table."""
    yield from (Text(sentence) for sentence in result.words)
    if isinstance(result, Comparison):
        yield from tabulate_comparison(result.body)
    elif isinstance(result, Timeline):
        yield _tabulate_windows(result)
    elif isinstance(result, Groups):
        yield _tabulate_groups(result)
    elif isinstance(result, DeviceHealth):
        yield from _list_devices(result.body.devices)
    yield from (Text(sentence, style="dim") for sentence in result.assumptions)


def tabulate_comparison(body: ComparisonBody) -> Iterator[object]:
    """Show the clusters that the changes speak of, and what is estimated of each."""
    table = Table("cluster", box=None, padding=(0, 2, 0, 0))
    for heading in ("share", *(f"{each.name} ({each.unit})" for each in body.dimensions)):
        table.add_column(Text(heading), justify="right", overflow="fold")
    for number, cluster in enumerate(body.clusters):
        found = {
            (change.quantity, change.dimension): change
            for change in body.changes
            if change.cluster == number
        }
        moves = [found["centre", each.name] for each in body.dimensions]
        cells = [
            _mark(f"{cluster.weight:.1%}", found["weight", None], " ln"),
            *(
                _mark(f"{centre:.4g}", move, " sd")
                for centre, move in zip(cluster.centre, moves, strict=True)
            ),
        ]
        table.add_row(str(number + 1), *cells)
    yield table
    yield "Below each figure its estimated change; what noise may have made is dim."


def _mark(figure: str, change: ChangeBody, unit: str) -> Text:
    style = "" if change.is_named else "dim"
    return Text(f"{figure}\n({change.estimate:+.2f}{unit})", style=style)


def _tabulate_windows(result: Timeline) -> Table:
    changed = {point.window for point in result.body.change_points}
    figures = ("records", "SNR", "p", "size")
    table = make_table("", "begins (UTC)", "slots", figures=figures)
    table.add_column("its clusters")
    for number, window in enumerate(result.body.windows):
        marks = (
            "*" if window.is_alarm else "",
            "accepted" if window.is_accepted else "change" if number in changed else "",
        )
        table.add_row(
            " ".join(filter(None, marks)),
            f"{window.start[:10]} {window.start[11:16]}",
            _show_slots(window),
            *([Text(window.doubt, style="dim")] if window.doubt else _list_figures(window)),
        )
    return table


def _show_slots(window: WindowBody) -> str:
    if window.first_slot == window.last_slot:
        return str(window.first_slot)
    return f"{window.first_slot} to {window.last_slot}"


def _list_figures(window: WindowBody) -> list[str]:
    return [
        f"{window.n_records:,}",
        _format(window.snr, ".3g"),
        _show_p(window.p),
        _show_size(window.size, window.size_error),
        "none" if window.verdict is None else window.verdict.word,
    ]


def _show_p(p: float | None) -> str:
    # Smaller ones are extrapolated too far to be figures.
    return "< 1e-4" if p is not None and p < _LEAST_P else _format(p, ".2g")


def _format(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _show_size(size: float | None, error: float | None) -> str:
    # Never without its error: a size of 0.37 may be noise, and one of 0.00 may hide a difference.
    return "" if size is None or error is None else f"{size:.2f} +- {error:.2f}"


def _tabulate_groups(result: Groups) -> Table:
    values = result.body.values
    table = make_table("first", "second", figures=("size", "p"))
    for pair in result.body.pairs:
        table.add_row(
            Text(values[pair.first]),
            Text(values[pair.second]),
            _show_size(pair.size, pair.size_error),
            _show_p(pair.p),
        )
    return table


def _list_devices(devices: list[DeviceHealthBody]) -> Iterator[object]:
    columns = ("name", "lamps", "p", "size", "SNR", "sketches", "share", "labels")
    lines = list_items(devices, *columns, identity="device", row=_list_health)
    next(lines)
    yield from lines


def _list_health(device: DeviceHealthBody) -> tuple[str, ...]:
    lamps = [name for name, is_lit in vars(device.lamps).items() if is_lit]
    return (
        device.name or "",
        ", ".join(lamps) or "-",
        _show_p(device.p_content),
        _show_size(device.size, device.size_error),
        _format(device.snr, ".2g"),
        str(device.n_sketches),
        f"{device.share:.1%}",
        ", ".join(device.labels.values()),
        device.device_id,
    )
