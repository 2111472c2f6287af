"""A sweep as a table, as JSON and as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from sfumato.analyst.cli.options import make_table
from sfumato.shared.plan.statement import show_exact
from sfumato.simulator.sweep import Quality, Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL: Final = (
    "A simulation: its noise comes from a seed and protects nothing, and nothing is released. A "
    "plan that is chosen by it tells about the records, so use records that are public or made up."
)
_LOWEST, _HIGHEST = 0.005, 99.0
"""Where pictures end, as relative SSE less 1."""


def sweep_to_json(sweep: Sweep, *, seed: int, seconds: float) -> dict[str, Any]:
    """Return a sweep as JSON values; factors are exact text."""
    return {
        "label": LABEL,
        "clusters": sweep.n_clusters,
        "records": sweep.n_records,
        "records_compared": sweep.n_compared,
        "n_frequencies": sweep.plan.n_frequencies,
        "epsilon": str(sweep.plan.release.epsilon),
        "seed": seed,
        "is_complete": sweep.is_complete,
        "plan": _quality_to_json(sweep.base),
        "varied": [_quality_to_json(quality) for quality in sweep.varied],
        "seconds": seconds,
    }


def _quality_to_json(quality: Quality) -> dict[str, Any]:
    found = quality.relative_sse
    return {
        "axis": quality.axis,
        "factor": str(quality.factor),
        "value": quality.value,
        "relative_sse": quality.median if found else None,
        "worst": quality.worst if found else None,
        "runs": list(found),
        "refused": quality.refusal,
    }


def describe_sweep(sweep: Sweep) -> Iterator[Table | str]:
    """Yield the label, a table of factors and axes, and what is best."""
    yield LABEL
    axes = list(dict.fromkeys(quality.axis for quality in sweep.varied))
    cells = {(quality.axis, quality.factor): quality for quality in sweep.varied}
    several = ": median (worst)" if len(sweep.base.relative_sse) > 1 else ""
    title = f"SSE relative to k-means on the raw records{several}"
    table = make_table(figures=("factor", *axes), title=title, has_box=True)
    for factor in sorted({quality.factor for quality in sweep.varied} | {Fraction(1)}):
        row = (_show_quality(sweep.base if factor == 1 else cells[axis, factor]) for axis in axes)
        table.add_row(f"x {factor}", *row)
    yield table
    for quality in sweep.varied:
        if quality.refusal is not None:
            yield f"{quality.axis} x {quality.factor}: {quality.refusal}"
    yield _describe_best(sweep)
    if not sweep.is_complete:
        yield "Time was up before every simulation was run: raise --minutes."


def _show_quality(quality: Quality) -> str:
    if quality.refusal is not None:
        return "refused"
    if not quality.relative_sse:
        return "not run"
    value = "" if quality.value is None else f"{_shorten(quality.value)}: "
    worst = f" ({_show(quality.worst)})" if len(quality.relative_sse) > 1 else ""
    return f"{value}{_show(quality.median)}{worst}"


def _show(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.3g}"


def _shorten(value: str) -> str:
    return show_exact(Fraction(value))


def _describe_best(sweep: Sweep) -> str:
    base, runs = sweep.base, len(sweep.base.relative_sse)
    size = (
        f"{sweep.n_records:,} records, {sweep.n_clusters} clusters, m = "
        f"{sweep.plan.n_frequencies:,}, epsilon {show_exact(sweep.plan.release.epsilon)}, "
        f"{runs} repeat{'' if runs == 1 else 's'}"
    )
    words = f"The plan as it is ({size}): {_show(base.median)}"
    # More epsilon is always better, and is no choice of the plan's shape.
    others = [
        quality for quality in sweep.varied if quality.relative_sse and quality.axis != "epsilon"
    ]
    best = min(others, key=lambda quality: quality.median, default=None)
    if best is None or best.median >= base.median:
        return f"{words}."
    return f"{words}. Best of the others at its epsilon: {best.axis} x {best.factor}, " + (
        f"{_show(best.median)}."
    )


def plot_sweep(sweep: Sweep) -> Figure:
    """Draw relative SSE over the factor: a line for the median of each axis, thin for the worst."""
    # matplotlib takes a second to import; only pictures need it.
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415

    from sfumato.analyst.plots import COLOURS  # noqa: PLC0415

    figure = Figure(figsize=(7.6, 4.8), layout="constrained", facecolor="white")
    panel = figure.subplots()
    axes = list(dict.fromkeys(quality.axis for quality in sweep.varied))
    for number, axis in enumerate(axes):
        found = [q for q in (sweep.base, *sweep.varied) if q.axis in ("plan", axis)]
        found = sorted((q for q in found if q.relative_sse), key=lambda q: q.factor)
        x = [float(q.factor) for q in found]
        colour, marker = COLOURS[number], "osD^"[number]
        panel.plot(x, [_clip(q.median) for q in found], color=colour, marker=marker, label=axis)
        panel.plot(x, [_clip(q.worst) for q in found], color=colour, linewidth=0.8)
    panel.set_xscale("log")
    panel.set_yscale("log")
    highest = max(_clip(q.worst) for q in (sweep.base, *sweep.varied))
    panel.set_ylim(_LOWEST, 1.3 * max(1.0, highest))
    panel.yaxis.set_major_locator(
        FixedLocator([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 9.0, 29.0])
    )
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{1.0 + value:g}"))
    factors = sorted({q.factor for q in (sweep.base, *sweep.varied)})
    panel.xaxis.set_major_locator(FixedLocator([float(factor) for factor in factors]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("factor, with everything else as in the plan")
    panel.set_ylabel("SSE relative to k-means on raw records\n(thick: median, thin: worst)")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=max(1, len(axes)), frameon=False)
    figure.suptitle(
        f"Simulated: {sweep.n_records:,} records, k = {sweep.n_clusters}",
        fontsize=13,
        fontweight="bold",
        x=0.01,
        ha="left",
    )
    return figure


def _clip(relative_sse: float) -> float:
    """Return relative SSE less 1, within the picture."""
    if math.isnan(relative_sse):
        return _LOWEST
    return min(max(relative_sse - 1.0, _LOWEST), _HIGHEST)
