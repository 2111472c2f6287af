"""``sfumato histogram`` and ``sfumato moments``: answers that need no decoding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sfumato.analyst.cli.options import DEFAULT_URL, Json, Url, make_table, print_answer
from sfumato.analyst.cli.sources import (
    MaybeKey,
    Picture,
    PlanOfFile,
    Reference,
    draw,
    find_resolutions,
    open_sources,
)
from sfumato.learning.answers.histograms import find_histogram_doubts
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.wire.objects.answers import DimensionBody
from sfumato.shared.wire.objects.statistics import (
    BarBody,
    ComponentBody,
    HistogramBody,
    LevelBody,
    MarginalBody,
    MomentsAnswerBody,
    QuantileBody,
)

histogram = typer.Typer(**SETTINGS)
moments = typer.Typer(**SETTINGS)

_BARS = 20
_LENGTH = 24
_TWICE = 2.0


@histogram.command(
    epilog=list_examples(
        "sfumato histogram pilot",
        "sfumato histogram pilot@0:3 --bars 40 -o pilot.png",
        "sfumato histogram pilot.sketch --plan pilot.toml --json",
    )
)
def _histogram(
    source: Reference,
    plan: PlanOfFile = None,
    bars: Annotated[int, typer.Option(min=1, max=4096, help="Most bars of a dimension.")] = _BARS,
    output: Picture = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the marginals of a histogram: bars, quantiles, levels and missing values.

    Doubts come first. Bars are joined until each stands out from its noise. The bounds of all
    quantiles of a dimension hold together with probability 0.95 over the noise.
    """
    with open_sources([source], plan, key=key, url=url) as (opened,):
        answer = opened.histogram(bars=bars)
        resolutions = find_resolutions(opened.plan)
    doubts = find_histogram_doubts(answer)

    def make() -> Any:
        from sfumato.analyst.statistic_plots import plot_histogram

        return plot_histogram(answer, resolutions=resolutions, title=_describe_size(answer))

    draw(output, make)
    parts = _describe_answer(doubts, _tabulate_marginals(answer), answer)
    print_answer({"doubts": doubts, **asdict(answer)}, parts, as_json=as_json)


@moments.command(
    epilog=list_examples(
        "sfumato moments pumps",
        "sfumato moments pumps@10:19 -o pumps.svg",
        "sfumato moments pumps.sketch --plan pumps.toml --json",
    )
)
def _moments(
    source: Reference,
    plan: PlanOfFile = None,
    directions: Annotated[int, typer.Option(min=1, help="Most directions to show.")] = 5,
    output: Picture = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show means, correlations and principal directions.

    Doubts come first. Correlations that noise may have made, and directions that it does not tell
    apart, are dim. With --json all directions are printed.
    """
    with open_sources([source], plan, key=key, url=url) as (opened,):
        answer = opened.moments()

    def make() -> Any:
        from sfumato.analyst.plots import plot_moments

        return plot_moments(answer, title=_describe_size(answer), n_directions=min(3, directions))

    draw(output, make)
    parts = _describe_answer(answer.warnings, _tabulate_moments(answer, directions), answer)
    print_answer(asdict(answer), parts, as_json=as_json)


def _describe_answer(
    doubts: list[str], parts: Iterator[object], answer: HistogramBody | MomentsAnswerBody
) -> Iterator[object]:
    yield from (Text(f"Doubt: {doubt}.") for doubt in doubts)
    yield _describe_size(answer)
    yield from parts
    yield Text(answer.privacy.statement)


def _describe_size(answer: HistogramBody | MomentsAnswerBody) -> str:
    sketches = "one sketch" if answer.n_sketches == 1 else f"{answer.n_sketches:,} sketches"
    return f"{answer.n_records:,} records in {sketches}"


def _tabulate_marginals(answer: HistogramBody) -> Iterator[object]:
    for marginal in answer.marginals:
        yield Text(f"\n{marginal.name}{_in(marginal.unit)}: {_describe(marginal)}")
        rows: list[tuple[str, str, BarBody | LevelBody]] = [
            *((f"{bar.lower:.4g}", f"{bar.upper:.4g}", bar) for bar in marginal.bars),
            *((each.level, "", each) for each in marginal.levels),
        ]
        largest = max((each.share for *_, each in rows), default=0.0)
        first, *rest = ("level",) if marginal.levels else ("from", "to")
        table = make_table(first, figures=(*rest, "share", "+-"))
        table.add_column("")
        for low, high, each in rows:
            length = round(_LENGTH * max(0.0, each.share) / largest) if largest > 0.0 else 0
            names = (low,) if marginal.levels else (low, high)
            table.add_row(*names, f"{each.share:.1%}", f"{_TWICE * each.error:.1%}", "█" * length)
        yield table


def _describe(marginal: MarginalBody) -> str:
    error = f" +- {_TWICE * marginal.error:.1%}"
    beside = [
        f"{share:.1%}{error} {words}"
        for share, words in (
            (marginal.below, "below the bounds"),
            (marginal.above, "above the bounds"),
            (marginal.missing, "without a value"),
        )
        # The noise of an empty bin is no news.
        if share > _TWICE * marginal.error
    ]
    found = [f"{each.share:.0%} at {_describe_quantile(each)}" for each in marginal.quantiles]
    return "; ".join([*([", ".join(found)] if found else []), *beside]) or "levels"


def _describe_quantile(quantile: QuantileBody) -> str:
    low, high = (
        "beyond the bounds" if each is None else f"{each:.4g}"
        for each in (quantile.low, quantile.high)
    )
    return f"{low} to {high}"


def _tabulate_moments(answer: MomentsAnswerBody, n_directions: int) -> Iterator[object]:
    means = make_table("axis", figures=("mean", "+-"))
    for axis, mean, error in zip(answer.axes, answer.mean, answer.mean_error, strict=True):
        means.add_row(_name(axis), f"{mean:.4g}", f"{_TWICE * error:.2g}")
    yield means
    yield ""
    table = make_table("correlation", figures=[Text(axis.name) for axis in answer.axes])
    bands = zip(
        answer.axes,
        answer.correlation,
        answer.correlation_low,
        answer.correlation_high,
        strict=True,
    )
    for axis, row, lows, highs in bands:
        cells = zip(row, lows, highs, strict=True)
        table.add_row(Text(axis.name), *(_cell(*each) for each in cells))
    yield table
    yield ""
    yield _tabulate_directions(answer, n_directions)
    yield "below each direction: how far one standard deviation along it moves each axis"


def _cell(value: float, low: float, high: float) -> Text:
    return Text(f"{value:+.2f}", style="dim" if low <= 0.0 <= high else "")


def _tabulate_directions(answer: MomentsAnswerBody, n_directions: int) -> Table:
    """Return a column for each direction; what noise does not tell apart is dim."""
    shown = answer.components[:n_directions]
    table = make_table("direction")
    for i, each in enumerate(shown, start=1):
        table.add_column(str(i), justify="right", style="" if each.is_told_apart else "dim")
    table.add_row("share of variance", *(f"{each.share:.1%}" for each in shown))
    bands = (f"{each.share_low:.0%} to {each.share_high:.0%}" for each in shown)
    table.add_row("95 % band", *bands)
    table.add_row("turned by noise", *map(_describe_turn, shown))
    for i, axis in enumerate(answer.axes):
        table.add_row(Text(_name(axis)), *(f"{each.loadings[i]:+.3g}" for each in shown))
    return table


def _describe_turn(component: ComponentBody) -> str:
    if not component.is_told_apart:
        return "any way"
    degrees = math.degrees(math.asin(math.sqrt(component.expected_sin_squared)))
    return f"{degrees:.2g}°"


def _name(axis: DimensionBody) -> str:
    return f"{axis.name}{_in(axis.unit)}"


def _in(unit: str) -> str:
    return "" if unit == "1" else f" ({unit})"
