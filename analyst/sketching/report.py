"""Output of `sfumato sketch`: what was sketched, what that protects, what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analyst.sketching.release import Summed
from analyst.sketching.sketch_file import SketchFile
from shared.plan import SketchPlan, make_statement

NOT_PRIVATE = (
    "NOT PRIVATE. This is the exact sum, without noise: it tells about single records. It is for "
    "the holder of the records alone; do not pass it on, and do not publish results made from it."
)
UNVERIFIED = "not known without the plan: name it with --plan"


def describe_privacy(sketch: SketchFile, plan: SketchPlan | None) -> str:
    """Describe what a sketch protects."""
    if not sketch.is_private:
        return NOT_PRIVATE
    return UNVERIFIED if plan is None else make_statement(plan).describe()


def sketch_to_json(sketch: SketchFile, plan: SketchPlan | None) -> dict[str, Any]:
    """Return what a sketch holds, but for its coordinates, as JSON values."""
    document: dict[str, Any] = {
        "kind": sketch.kind,
        "is_private": sketch.is_private,
        "plan_digest": sketch.plan_digest.hex(),
        "stream": sketch.stream,
        "n_records": sketch.n_records,
        "n_coordinates": len(sketch.payload) // sketch.width,
        "width": sketch.width,
        "payload_bytes": len(sketch.payload),
        "payload_sha256": sketch.payload_digest.hex(),
        "privacy": describe_privacy(sketch, plan),
    }
    if sketch.n_unsketchable is not None:
        document["for_the_holder_only"] = {"n_unsketchable": sketch.n_unsketchable}
    return document


def describe_spending(sketch: SketchFile, plan: SketchPlan, ledger: str | None) -> str:
    """Describe the cost of a release for each record, and where it is counted.

    Parameters
    ----------
    ledger
        The name of the ledger that counts it; None if none does.
    """
    if not sketch.is_private:
        return "nothing: no noise was drawn"
    release = plan.release
    cost = f"epsilon {release.epsilon}" + (f", delta {release.delta}" if release.delta else "")
    if ledger is not None:
        return f"{cost} for each record, counted in {ledger}"
    return (
        f"{cost} for each record, NOT COUNTED in any ledger: name one with --ledger, or keep count "
        "yourself, with what agents have released of these records"
    )


def made_to_json(
    source: Path,
    output: Path,
    sketch: SketchFile,
    summed: Summed,
    plan: SketchPlan,
    ledger: str | None,
) -> dict[str, Any]:
    """Return what was done as JSON values; ``ledger`` as in :func:`describe_spending`."""
    clipped = zip(plan.dimensions, summed.n_clipped.tolist(), strict=True)
    return {
        "file": str(source),
        "bytes": summed.n_bytes,
        "output": str(output),
        **sketch_to_json(sketch, plan),
        "spent": describe_spending(sketch, plan, ledger),
        "ledger": ledger,
        # Exact counts that depend on the records: never part of a private file.
        "for_the_holder_only": {
            "n_unsketchable": summed.accumulator.n_unsketchable,
            "n_clipped": {dimension.name: count for dimension, count in clipped},
        },
        "seconds": summed.seconds,
        "records_per_second": sketch.n_records / max(summed.seconds, 1e-9),
        "engine": summed.engine,
        "threads": summed.n_threads,
    }


def print_made(
    console: Console,
    source: Path,
    output: Path,
    sketch: SketchFile,
    summed: Summed,
    plan: SketchPlan,
    ledger: str | None,
) -> None:
    """Print what was done; ``ledger`` as in :func:`describe_spending`."""
    n, seconds = sketch.n_records, max(summed.seconds, 1e-9)
    clipped = zip(plan.dimensions, summed.n_clipped.tolist(), strict=True)
    outside = ", ".join(f"{dim.name} {c / n:.2%}" for dim, c in clipped if c) or "none"
    _print_rows(
        console,
        [
            ("sketched", f"{source}: {n:,} records, {summed.n_bytes:,} bytes"),
            ("wrote", f"{output}: {len(sketch.payload):,} bytes of coordinates"),
            ("plan", sketch.plan_digest.hex()),
            ("speed", f"{seconds:.2f} s, {n / seconds:,.0f} records a second"),
            ("engine", f"{summed.engine}, {summed.n_threads} threads"),
            ("unsketchable", f"{summed.accumulator.n_unsketchable:,} records (only you see this)"),
            ("clipped", f"values outside the plan's bounds: {outside} (only you see this)"),
            ("protects", describe_privacy(sketch, plan)),
            ("spent", describe_spending(sketch, plan, ledger)),
            ("next", _describe_next(output, sketch)),
        ],
    )


def print_shown(console: Console, path: Path, sketch: SketchFile, plan: SketchPlan | None) -> None:
    """Print what the file of a sketch holds."""
    n_coordinates = len(sketch.payload) // sketch.width
    rows = [
        ("file", f"{path}: undamaged"),
        ("kind", f"{sketch.kind}, {'with' if sketch.is_private else 'WITHOUT'} noise"),
        ("plan", f"{sketch.plan_digest.hex()}{'' if plan is None else ', the one named'}"),
        ("stream", sketch.stream),
        ("records", f"{sketch.n_records:,}"),
        ("payload", f"{n_coordinates:,} coordinates of {sketch.width} bytes"),
        ("SHA-256", sketch.payload_digest.hex()),
        ("protects", describe_privacy(sketch, plan)),
    ]
    if sketch.n_unsketchable is not None:
        rows.insert(5, ("unsketchable", f"{sketch.n_unsketchable:,} records"))
    _print_rows(console, rows)


def _describe_next(output: Path, sketch: SketchFile) -> str:
    if not sketch.is_private:
        return f"keep {output} where the records are; without --exact the sketch is private"
    return (
        f"hand {output} and the plan to the analyst, who looks at it with `sfumato sketch show`. "
        "Do not sketch these records again: every further sketch of them costs the plan's epsilon "
        "once more"
    )


def _print_rows(console: Console, rows: list[tuple[str, str]]) -> None:
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Names come from plans and paths: they are text, not markup.
    console.print(table, markup=False)
