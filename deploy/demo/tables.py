"""The demo's table of typical weather."""

from __future__ import annotations

from rich.table import Table

from deploy.demo.weather_words import read_weather
from sfumato.analyst import DecodeResult


def tabulate_weather(result: DecodeResult, title: str) -> Table:
    """Tabulate centroids and their shares, with a reading of each in words."""
    table = Table(title=title, title_justify="left")
    table.add_column("#")
    table.add_column("share", justify="right")
    for name, unit in zip(result.names, result.units, strict=True):
        table.add_column(f"{name}\n({unit})", justify="right")
    table.add_column("in words")
    for i, (weight, centroid) in enumerate(zip(result.weights, result.centroids, strict=True)):
        values = [f"{value:.1f}" for value in centroid]
        table.add_row(str(i + 1), f"{weight:.0%}", *values, read_weather(centroid))
    return table
