"""Small sketches in words and tables: why, which selections they allow, and what they gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from sfumato.analyst.planning.bands import candidate_to_json, show_band, show_snr
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.fleets import FleetForecast
from sfumato.learning.planning.outline import StudyOutline

COUNTS_AS_ONE = (
    "Each sketch counts as one record, whatever the number of records in its window, because all "
    "of them together are protected as one."
)
ALIKE = (
    "All devices are taken to hold the same kinds of records. If they do not, the result is worse "
    "than predicted, because few devices carry each frequency."
)
DIFFER = (
    "Devices may hold different kinds of records. A frequency that few devices carry is then less "
    "exact, which limits how few frequencies a sketch may carry. If all devices hold the same "
    "kinds, pass --devices-alike."
)


def describe_size(unit: str, n_records: int, n_sketches: int) -> str:
    """Describe how many records a study has; where the unit is a device, how many sketches."""
    if unit == "device":
        return f"{n_sketches:,} sketches, each of which counts as one record"
    return f"{n_records:,} records in {n_sketches:,} sketch{'' if n_sketches == 1 else 'es'}"


def describe_split(best: Candidate, n_sketches: int) -> str | None:
    """Describe why a sum carries only some frequencies; None where it carries all."""
    if not best.is_split or best.reports_phases:
        return None
    return (
        f"Each sketch carries {best.frequencies_per_sketch:,} of the {best.n_frequencies:,} "
        f"frequencies, because {n_sketches:,} sketches would otherwise add {n_sketches:,} times "
        "the noise of one."
    )


def describe_selection(shortest: int, *, n_devices: int | None = None, n_windows: int = 1) -> str:
    """Describe the shortest selection that can be decoded.

    Parameters
    ----------
    shortest
        The fewest sketches that carry every frequency.
    n_devices, n_windows
        Devices and windows of the study, where they are known.
    """
    if shortest == 1:
        return "1 sketch: each carries every frequency"
    words = f"{shortest:,} sketches, because fewer cannot carry every frequency"
    ways = [] if n_devices is None else list(_list_ways(shortest, n_devices, n_windows))
    return f"{words}; for instance {', or '.join(ways)}" if ways else words


def _list_ways(shortest: int, n_devices: int, n_windows: int) -> Iterator[str]:
    if n_devices >= shortest:
        yield f"one window of {shortest:,} devices that enrolled one after another"
    elif n_devices > 1:
        yield f"at least {-(-shortest // n_devices):,} windows of all {n_devices:,} devices"
    if n_devices == 1 or n_windows >= shortest:
        yield f"{shortest:,} successive windows of one device"


def describe_devices(outline: StudyOutline, *, is_split: bool) -> Iterator[str]:
    """Describe what is assumed about the devices that send sums, where it matters."""
    if outline.protects_devices:
        yield COUNTS_AS_ONE
    elif outline.is_summed:
        return
    elif outline.devices_differ and outline.n_sketches > 1:
        yield DIFFER
    elif is_split and not outline.devices_differ:
        yield ALIKE


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
