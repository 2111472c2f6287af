"""``sfumato sketch FILE`` and ``sfumato sketch show FILE``: sketches of local files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from sfumato.analyst.cli.options import (
    PLAN_HELP,
    DefaultGroup,
    Json,
    Ledger,
    Limit,
    MaxUnreadable,
    Read,
    create_console,
    print_answer,
    tabulate,
)
from sfumato.analyst.levels import parse_epsilon
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.results.promises import NOT_PRIVATE
from sfumato.analyst.sketching.output import require_writable
from sfumato.analyst.sketching.reader import RecordReader, choose_fields, read_settings
from sfumato.analyst.sketching.release import release_sketch, require_suitable, sum_file
from sfumato.analyst.sketching.report import Report, describe_sketch, sketch_to_json
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.core.engines import ENGINE_VARIABLE, choose_engine
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import Budget
from sfumato.shared.privacy.limits import DEFAULT_DELTA, DEFAULT_EPSILON
from sfumato.shared.reading.unreadable import MOST_UNREADABLE
from sfumato.shared.spending import Account, find_ledger
from sfumato.shared.system import count_cores

app = typer.Typer(
    cls=DefaultGroup,
    help="Sketch a file of records; import and list sketches of devices.",
    **SETTINGS,
)


@app.command(
    "FILE",
    hidden=True,
    epilog=list_examples(
        "sfumato sketch records.csv --plan plan.json -o records.sketch --ledger owner.ledger"
    ),
)
def _sketch(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="Records: .csv, .jsonl, .parquet or .npy.")
    ],
    plan_path: Annotated[Path, typer.Option("--plan", help=PLAN_HELP)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: FILE.sketch.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="DIMENSION=COLUMN", help="Name of a dimension's column. Repeatable."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads; default: every core.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            envvar=ENGINE_VARIABLE, help="numpy, native or native:LEVEL; all give the same sums."
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Add no noise: NOT private, for the holder alone.")
    ] = False,
    stream: Annotated[
        str,
        typer.Option(
            help="Name of the stream; another for each file. It determines the masks of a plan."
        ),
    ] = "main",
    ledger: Ledger = None,
    budget: Limit = None,
    max_unreadable: MaxUnreadable = MOST_UNREADABLE,
    read: Read = None,
    as_json: Json = False,
) -> None:
    """Sketch a file of records into one small private file.

    Noise is drawn once. Each further sketch of the same records costs the plan's epsilon again. A
    ledger counts these costs, and refuses a sketch above the budget; agents with `[budget] ledger`
    can share it. Columns have the names of the plan's dimensions; in an .npy array they are in the
    plan's order.
    """
    limits = _read_budget(ledger, budget, exact=exact)
    plan = read_plan(plan_path)
    require_suitable(plan, stream)
    settings = read_settings(read or ())
    fields = choose_fields(plan.dimensions, column or (), settings)
    n_threads = threads or count_cores()
    chosen = choose_engine(engine)
    output = output or path.with_name(f"{path.name}{'.exact' if exact else ''}.sketch")
    require_writable(output)
    if exact:
        print(NOT_PRIVATE, file=sys.stderr)
    with _progress(path.name, quiet=as_json) as (on_open, on_progress):
        summed = sum_file(
            path,
            plan,
            fields,
            layout=settings,
            stream=stream,
            engine=chosen,
            n_threads=n_threads,
            most_unreadable=max_unreadable,
            on_open=on_open,
            on_progress=on_progress,
        )
    account = None
    if not exact:
        account = Account(
            ledger=ledger or find_ledger(),
            records=path,
            budget=limits,
            budget_name="--budget",
            delta_name="--plan",
        )
    sketch, spent = release_sketch(
        summed.accumulator, plan, stream, exact=exact, account=account, output=output
    )
    report = Report(
        source=path,
        output=output,
        sketch=sketch,
        summed=summed,
        plan=plan,
        ledger=None if account is None else str(account.ledger),
        counted=spent,
    )
    print_answer(report.to_json(), [tabulate(report.describe())], as_json=as_json)


def _read_budget(ledger: Path | None, budget: str | None, *, exact: bool) -> Budget:
    if exact and ledger is not None:
        raise ConfigError(
            "cannot be combined with --exact, which releases nothing",
            field="--ledger",
            fix="leave one of them out",
        )
    limit = None if ledger is None else DEFAULT_EPSILON
    if budget is not None:
        limit = parse_epsilon(budget, "--budget")
    return Budget(per_record=limit, delta=DEFAULT_DELTA)


@app.command("show", epilog=list_examples("sfumato sketch show records.sketch --plan plan.json"))
def _show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A sketch file.")],
    plan_path: Annotated[
        Path | None, typer.Option("--plan", help="Check that it belongs to this plan.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a sketch file and print its contents."""
    sketch = read_sketch_file(path)
    plan = None if plan_path is None else read_plan(plan_path)
    if plan is not None:
        sketch.require_plan(plan)
    described = [tabulate(describe_sketch(path, sketch, plan))]
    print_answer(sketch_to_json(sketch, plan), described, as_json=as_json)


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[tuple[Any, Any]]:
    """Show a bar on a terminal's standard error; elsewhere nothing."""
    console = create_console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[records]:,} records"),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(name, total=None, records=0)

        def on_open(reader: RecordReader, n_bytes: int) -> None:
            progress.update(task, total=n_bytes)

        def on_progress(n_records: int, reader: RecordReader) -> None:
            progress.update(task, completed=reader.bytes_read, records=n_records)

        yield on_open, on_progress
