"""Usual ranges of the catalogue as JSON values, and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from sfumato.shared.plan.catalogue import ORIGIN, UsualRange


def ranges_to_json(ranges: Sequence[UsualRange]) -> list[dict[str, Any]]:
    """Return ranges as JSON values; the transform is as in a plan."""
    return [
        {
            "quantity": usual.quantity,
            "unit": usual.unit,
            "lower": usual.lower,
            "upper": usual.upper,
            "spread": usual.spread,
            "transform": (
                {"kind": "log", "resolution": usual.resolution}
                if usual.suits_logarithm
                else "linear"
            ),
            "spread_in_octaves": usual.octaves,
        }
        for usual in ranges
    ]


def describe_ranges(ranges: Sequence[UsualRange]) -> Iterator[Table | str]:
    """Yield a table of ranges, then where they come from."""
    table = Table()
    table.add_column("quantity")
    table.add_column("unit", no_wrap=True)
    for heading in ("lower", "upper", "spread", "log: r", "doublings"):
        table.add_column(heading, justify="right")
    for usual in ranges:
        figures = (usual.lower, usual.upper, usual.spread)
        table.add_row(
            usual.quantity,
            usual.unit,
            *(f"{figure:,.10g}" for figure in figures),
            *("" if x is None else f"{x:g}" for x in (usual.resolution, usual.octaves)),
        )
    yield table
    yield ORIGIN
    yield (
        "The spread is the standard deviation of all values together. Where r is stated, values "
        "extend over powers of ten, and log2(1 + |x| / r) suits them better; doublings are the "
        "spread of that."
    )
