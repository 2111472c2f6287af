"""``sfumato sketch FILE`` and ``sfumato sketch show FILE``: sketches made here."""

from __future__ import annotations

import json
import os
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

from analyst.cli.options import DefaultGroup, Json, create_console
from analyst.planning.files import parse_epsilon, read_plan, require_count
from analyst.sketching.output import require_writable, write_once
from analyst.sketching.reader import RecordReader, choose_fields
from analyst.sketching.release import (
    draw_private,
    keep_exact,
    require_suitable,
    sum_file,
)
from analyst.sketching.report import (
    NOT_PRIVATE,
    made_to_json,
    print_made,
    print_shown,
    sketch_to_json,
)
from analyst.sketching.sketch_file import encode_sketch_file, read_sketch_file
from analyst.sketching.spending import reserve_release
from shared.command import SETTINGS, list_examples
from shared.core.engines import ENGINE_VARIABLE, choose_engine
from shared.errors import ConfigError
from shared.privacy import Budget
from shared.privacy.limits import DEFAULT_DELTA, DEFAULT_EPSILON

app = typer.Typer(
    cls=DefaultGroup,
    help="Sketch a file of records into one private file; take in and list devices' sketches.",
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
    plan_path: Annotated[
        Path, typer.Option("--plan", help="A plan (JSON) or a specification (TOML).")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: FILE.sketch.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="DIMENSION=COLUMN", help="A column of another name. Repeatable."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads; changes no result. Default: every core.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            envvar=ENGINE_VARIABLE, help="numpy, native or native:LEVEL; changes no result."
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Without noise: NOT private, for the holder alone.")
    ] = False,
    stream: Annotated[
        str,
        typer.Option(
            help="Name of the stream, which draws the masks of a plan: another for each file."
        ),
    ] = "main",
    ledger: Annotated[
        Path | None,
        typer.Option(
            envvar="SFUMATO_LEDGER",
            help="The owner's ledger, which counts the release and which agents may share.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help=f"Largest epsilon for a record in the ledger (default: {DEFAULT_EPSILON})."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Sketch a file of records into one small private file.

    Noise is drawn once. To sketch the same records again spends the plan's epsilon again. With
    --ledger that is counted, together with what agents with `[budget] ledger` have spent on the
    same file, and refused above the budget; without it keep count yourself. Columns are found by
    the plan's names of dimensions; an .npy array has them in the plan's order.
    """
    limits = _read_budget(ledger, budget, exact=exact)
    plan = read_plan(plan_path)
    require_suitable(plan, stream)
    fields = choose_fields([d.name for d in plan.dimensions], column or ())
    n_threads = _count_cores() if threads is None else require_count(threads, "--threads")
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
            stream=stream,
            engine=chosen,
            n_threads=n_threads,
            on_open=on_open,
            on_progress=on_progress,
        )
    # Before the noise is drawn: what cannot be counted must not be released.
    spending = None
    if ledger is not None and not exact:
        spending = reserve_release(ledger, path, plan, stream, limits)
    sketch = (keep_exact if exact else draw_private)(summed, plan, stream)
    write_once(output, encode_sketch_file(sketch))
    if spending is not None:
        spending.confirm()
    counted = None if spending is None else str(ledger)
    if as_json:
        document = made_to_json(path, output, sketch, summed, plan, counted)
        print(json.dumps(document, ensure_ascii=False))
        return
    print_made(create_console(), path, output, sketch, summed, plan, counted)


def _read_budget(ledger: Path | None, budget: str | None, *, exact: bool) -> Budget:
    if exact and ledger is not None:
        raise ConfigError(
            "cannot be combined with --exact, which releases nothing",
            field="--ledger",
            fix="leave one of them out",
        )
    if budget is not None and ledger is None:
        raise ConfigError("needs --ledger", field="--budget", fix="name the owner's ledger")
    limit = DEFAULT_EPSILON if budget is None else parse_epsilon(budget, "--budget")
    return Budget(per_record=limit, delta=DEFAULT_DELTA)


@app.command("show", epilog=list_examples("sfumato sketch show records.sketch --plan plan.json"))
def _show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file of a sketch.")],
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
    if as_json:
        print(json.dumps(sketch_to_json(sketch, plan), ensure_ascii=False))
        return
    print_shown(create_console(), path, sketch, plan)


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


def _count_cores() -> int:
    """Count the cores that this process may use, which a container can limit."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
