"""The demo's tables, which fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table

from deploy.demo.weather_words import read_weather
from sfumato.analyst import DecodeResult


def tabulate_weather(result: DecodeResult, title: str) -> Table:
    """Tabulate centroids and their shares, with a reading of each in words."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.show_edge, table.padding = False, (0, 1, 0, 0)
    table.add_column("#", vertical="bottom")
    table.add_column("share", justify="right", vertical="bottom")
    for name, unit in zip(result.names, result.units, strict=True):
        heading = "\n".join((*name.split(), unit))
        table.add_column(heading, justify="right", vertical="bottom")
    table.add_column("in words", vertical="bottom")
    for i, (weight, centroid) in enumerate(zip(result.weights, result.centroids, strict=True)):
        values = [f"{value:.1f}" for value in centroid]
        table.add_row(str(i + 1), f"{weight:.0%}", *values, read_weather(centroid))
    return table


def tabulate_facts(facts: Iterable[tuple[str, str]]) -> Table:
    """Tabulate facts with their names."""
    table = Table(show_header=False, box=None, padding=(0, 1))
    for name, words in facts:
        table.add_row(f"[bold]{name}[/bold]", words)
    return table
