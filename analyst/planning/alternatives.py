"""Alternatives to a plan in words: ways of noise, other numbers of sketches, grids, methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from rich.table import Table

from sfumato.analyst.planning.candidates import candidate_to_json, show_band, show_snr
from sfumato.learning.planning.alternatives import (
    FEW_SKETCHES,
    LEAST_REPORTS,
    FleetForecast,
    Ways,
)
from sfumato.learning.planning.grids import HALF_WIDTH_IN_SPREADS, GridCandidate
from sfumato.learning.planning.methods import SKETCH, MethodChoice
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.plan.statement import show_exact

_TRUST: Final = {
    "local": "nobody",
    "sum": "that two servers do not work together; encryption",
    "curator": "the curator, who sees every sum",
}
_NAMES: Final = {"local": "each device", "sum": "two servers", "curator": "one curator"}


def describe_ways(ways: Ways) -> Iterator[str]:
    """Describe which way to prefer, and why."""
    yield _describe_preferred(ways)
    mean, least = ways.fleet.count_reports(ways.outline), LEAST_REPORTS
    if mean < 2 * least:
        chosen = ways.fleet.choose_least_reports(ways.outline)
        yield (
            f"A batch has about {mean:,} reports, and by default fewer than {least} are never "
            f"opened: state least_reports = {chosen}. No promise of privacy rests on it."
        )


def _describe_preferred(ways: Ways) -> str:
    local, summed = ways.candidates["local"], ways.candidates["sum"]
    curator = ways.candidates["curator"]
    if curator is None or curator.band.is_hopeless:
        return (
            "Even one curator, who has all records and adds one noise, would have no usable "
            "answer: no way of adding noise helps here. More records or more epsilon would."
        )
    if ways.preferred is None:
        return (
            "One curator, whom everybody would have to trust, would have an answer; neither "
            "each device nor two servers would: the second noise, or the batches, cost too "
            "much. Fewer parts or label sets help, or more records."
        )
    if ways.preferred == "sum":
        return (
            f"Prefer sum.v1: {ways.fleet.n_noises:,} draws of noise stand in the place of "
            f"{ways.outline.n_sketches:,}. It asks every owner to trust that the two servers "
            "do not work together; if they do, both can read every sum exactly."
        )
    if local is not None and local.band.reaches(ways.target_sse):
        return f"Prefer {local.release}: it reaches the target, and nobody has to trust anybody."
    if summed is None:
        return "Prefer local.v1: the noise of a secure sum cannot be calibrated."
    if ways.sketches_per_group < FEW_SKETCHES:
        return (
            f"Prefer local.v1: with {ways.sketches_per_group:,} sketches in a slot and label "
            f"set, below {FEW_SKETCHES}, a secure sum wins little, and it asks owners to trust "
            "that two servers do not work together."
        )
    return "Prefer local.v1: a secure sum would be no better."


def tabulate_ways(ways: Ways) -> Table:
    """Tabulate the ways."""
    table = Table(
        "",
        "noise by",
        "trust in",
        title="Ways of adding noise, at the same epsilon",
        title_justify="left",
    )
    for heading in ("draws", "m", "SNR", "relative SSE", "bytes"):
        table.add_column(heading, justify="right")
    for way, candidate in ways.candidates.items():
        row = ["", "", "none can be calibrated", ""]
        if candidate is not None:
            row = [
                str(candidate.n_frequencies),
                show_snr(candidate.snr),
                show_band(candidate.band),
                "" if way == "curator" else f"{candidate.sketch_bytes:,}",
            ]
        table.add_row(
            "->" if way == ways.preferred else "",
            _name(ways, way),
            _TRUST[way],
            f"{_count_draws(ways, way):,}",
            *row,
        )
    return table


def _name(ways: Ways, way: str) -> str:
    candidate = ways.candidates[way]
    if way == "curator" or candidate is None:
        return _NAMES[way]
    return f"{_NAMES[way]} ({candidate.release})"


def _count_draws(ways: Ways, way: str) -> int:
    return {"local": ways.outline.n_sketches, "sum": ways.fleet.n_noises, "curator": 1}[way]


def ways_to_json(ways: Ways) -> dict[str, Any]:
    """Return JSON values."""
    return {
        "preferred": ways.preferred,
        "statement": " ".join(describe_ways(ways)),
        "batches": ways.fleet.n_batches,
        "reports_per_batch": ways.fleet.count_reports(ways.outline),
        "ways": [
            {
                "noise_by": _NAMES[way],
                "trust": _TRUST[way],
                "draws": _count_draws(ways, way),
                "candidate": None if candidate is None else candidate_to_json(candidate),
            }
            for way, candidate in ways.candidates.items()
        ],
    }


def tabulate_fleets(outline: StudyOutline, fleets: Sequence[FleetForecast]) -> Table:
    """Tabulate the expected quality by number of sketches."""
    table = Table(
        title=f"The same {outline.n_records:,} records in other numbers of sketches",
        title_justify="left",
    )
    for heading in ("sketches", "mechanism", "m", "r", "SNR", "relative SSE", "with r = m"):
        table.add_column(heading, justify="left" if heading == "mechanism" else "right")
    for fleet in fleets:
        chosen = fleet.chosen
        table.add_row(
            f"{fleet.n_sketches:,}",
            chosen.mechanism,
            str(chosen.n_frequencies),
            str(chosen.frequencies_per_sketch),
            show_snr(chosen.snr),
            show_band(chosen.band),
            "none" if fleet.whole is None else show_band(fleet.whole.band),
        )
    return table


def fleets_to_json(fleets: Sequence[FleetForecast]) -> list[dict[str, Any]]:
    """Return the expected quality by number of sketches as JSON values."""
    return [
        {
            "sketches": fleet.n_sketches,
            "recommended": candidate_to_json(fleet.chosen),
            "without_splitting": None if fleet.whole is None else candidate_to_json(fleet.whole),
        }
        for fleet in fleets
    ]


def describe_grid(grid: GridCandidate, epsilon: Fraction) -> str:
    """Describe the grid and how to plan it."""
    cells, band = ", ".join(map(str, grid.cells)), grid.band.describe()
    return (
        "A grid is expected to be better here, because one noised sum of few dimensions needs "
        f'no frequencies: statistic = "grid" with cells = [{cells}] at epsilon '
        f"{show_exact(epsilon)}, {grid.sketch_bytes:,} bytes. "
        f"{band[0].upper()}{band[1:]}, if the bounds are about "
        f"{HALF_WIDTH_IN_SPREADS:g} standard deviations of a column on both sides: a grid, "
        "unlike Fourier features, suffers from bounds that are too wide."
    )


def grid_to_json(grid: GridCandidate, epsilon: Fraction) -> dict[str, Any]:
    """Return JSON values."""
    return {
        "cells": list(grid.cells),
        "sketch_bytes": grid.sketch_bytes,
        "statement": describe_grid(grid, epsilon),
    }


def describe_method(choice: MethodChoice, outline: StudyOutline) -> str:
    """Describe the method for records in one place, and how to run it."""
    if choice.name == SKETCH:
        return f"Method: the sketch. {_capital(choice.reason)}."
    return (
        f"Method: {choice.name}, if the records may be read in one place by "
        f"`sfumato cluster FILE --method {choice.name} -k {outline.n_clusters}`, which sends "
        f"nothing. {_capital(choice.reason)}."
    )


def method_to_json(choice: MethodChoice) -> dict[str, Any]:
    """Return a choice as JSON values."""
    return {
        "name": choice.name,
        "expected_relative_sse": dict(choice.expected),
        "reason": choice.reason,
    }


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
