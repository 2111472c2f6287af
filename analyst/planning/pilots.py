"""Pilots in words and as text: their columns, cost and reach, and their specification."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from sfumato.analyst.planning.spec import (
    format_dimension,
    format_value,
    format_window,
    quote,
)
from sfumato.learning.calibration.strength import CLEAR_STRENGTH, round_up_level
from sfumato.learning.planning.outline import round_up
from sfumato.learning.planning.pilots import Pilot, PilotOutline, describe_overlap
from sfumato.shared.errors import ConfigError, PlanError
from sfumato.shared.plan import Dimension, LogTransform, describe_times
from sfumato.shared.plan.catalogue import find_narrow_range
from sfumato.shared.plan.people import describe_person, find_person_doubt
from sfumato.shared.plan.spec import MOST_SKETCHES
from sfumato.shared.plan.statement import show_exact

OCTAVES = 40
"""Bounds of a number: its resolution times 2^40 on both sides of zero."""
_RESOLUTION, _COUNT_RESOLUTION = 1e-6, 1.0
_WHOLE_COSTS = "all records of a device in a window together cost"
_HOW = (
    "write NAME:UNIT, NAME:UNIT:count, NAME:UNIT:LOWER..UPPER or NAME:levels=A|B|C, such as "
    '"load:kW,steps:1:count,taken:s:1.5e9..2e9"'
)


def parse_columns(texts: Sequence[str], field: str = "--dimensions") -> tuple[Dimension, ...]:
    """Read columns, with commas between them.

    Numbers are ``NAME:UNIT``, ``NAME:UNIT:count`` and ``NAME:UNIT:LOWER..UPPER``, which counts
    equal steps between public bounds; categories are ``NAME:levels=A|B``. A sensor that the
    catalogue knows to lie close together and far from zero, such as air pressure, gets bounds
    around its usual range: bins of a logarithmic scale would be wider than its spread.

    Raises
    ------
    ConfigError
        A column has another form, or a name occurs twice.
    """
    found = [_parse_column(text.strip(), field) for part in texts for text in part.split(",")]
    names = [dimension.name for dimension in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"names {name!r} twice", field=field, fix=_HOW)
    return tuple(found)


def _parse_column(text: str, field: str) -> Dimension:
    name, *parts = (part.strip() for part in text.split(":"))
    if parts == ["count"]:
        parts = ["1", "count"]
    is_category = bool(parts) and parts[0].startswith("levels=")
    if not name or len(parts) > (1 if is_category else 2):
        raise ConfigError(f"cannot be read: {text!r}", field=field, fix=_HOW)
    if is_category:
        levels = tuple(level.strip() for level in parts[0].removeprefix("levels=").split("|"))
        return Dimension(name=name, unit="1", levels=levels)
    unit = (parts and parts[0]) or "1"
    if parts[1:] not in ([], ["count"]):
        lower, upper = _parse_bounds(parts[1], text, field)
        return Dimension(name=name, unit=unit, lower=lower, upper=upper)
    usual = None if parts[1:] else find_narrow_range(name, unit)
    if usual is not None:
        return Dimension(name=name, unit=unit, lower=usual[0], upper=usual[1])
    resolution = _COUNT_RESOLUTION if parts[1:] else _RESOLUTION
    reach = resolution * 2.0**OCTAVES
    return Dimension(
        name=name,
        unit=unit,
        lower=-reach,
        upper=reach,
        transform=LogTransform(resolution=resolution),
        step=1.0 if parts[1:] else None,
    )


def _parse_bounds(bounds: str, text: str, field: str) -> tuple[float, float]:
    try:
        lower, upper = map(float, bounds.split(".."))
    except ValueError:
        raise ConfigError(f"cannot be read: {text!r}", field=field, fix=_HOW) from None
    return lower, upper


def require_strength(pilot: Pilot, *, anyway: bool) -> None:
    """Refuse a pilot that is too weak to calibrate from, before it spends anything.

    Raises
    ------
    PlanError
        It is too weak.
    """
    refusal, outline = pilot.refusal, pilot.outline
    if refusal is None or anyway:
        return
    counted, number = "records", outline.n_records
    if pilot.plan.protects_devices:
        counted, number = "devices", outline.n_sketches // outline.n_windows
    needed = f"{round_up(math.ceil(number * refusal.factor)):,} {counted}"
    ways = f"This would do: {needed}"
    if math.isfinite(refusal.epsilon_factor):
        epsilon = round_up_level(float(outline.epsilon) * refusal.epsilon_factor)
        ways = f"Either of these would do: {needed}, or epsilon {epsilon:g}"
    raise PlanError(
        "Do not run this: the noise would hide the records of a dimension (strength "
        f"{pilot.strength:.3g}, below {pilot.least_strength:g}). {ways}",
        fix=f"plan with more {counted}, or add --anyway to go on all the same",
    )


def describe_pilot(pilot: Pilot) -> Iterator[str]:
    """Yield what it costs and shows, a sentence each."""
    spec, outline = pilot.spec, pilot.outline
    if pilot.are_reports:
        yield from _describe_reports(pilot)
        return
    carried = _or(spec.dimensions_per_sketch, len(spec.dimensions))
    yield (
        f"strength {pilot.strength:,.0f} (at least {pilot.least_strength:g} is needed): "
        f"{pilot.plan.payload_bytes:,} bytes a sketch, {spec.mechanism} noise"
    )
    if carried < len(spec.dimensions):
        yield (
            f"a sketch carries {carried} of {len(spec.dimensions)} dimensions, because "
            f"{outline.n_sketches:,} sketches would otherwise add as much noise each"
        )
    has_log = any(each.transform is not None for each in spec.dimensions)
    if has_log and pilot.least_strength <= pilot.strength < CLEAR_STRENGTH:
        needed = round_up(math.ceil(outline.n_records * CLEAR_STRENGTH / pilot.strength))
        yield (
            f"values far from the others may hide in its noise: from strength "
            f"{CLEAR_STRENGTH:,.0f} on they show, for which {needed:,} records would do"
        )
    yield from _describe_reach(pilot)
    if outline.delta and not spec.delta:
        yield f"{spec.mechanism} noise is better here without the delta: it is left out"
    cost = "each record costs"
    if pilot.plan.protects_devices:
        yield from _describe_counted(outline)
        cost = _WHOLE_COSTS
    yield from _describe_cost(pilot, f"{cost} epsilon {show_exact(spec.epsilon)}")


def _describe_reports(pilot: Pilot) -> Iterator[str]:
    spec, outline = pilot.spec, pilot.outline
    d = len(spec.dimensions)
    share = "its only dimension" if d == 1 else f"one of {d} dimensions"
    yield (
        f"strength {pilot.strength:,.0f} (at least {pilot.least_strength:g} is needed): each "
        f"device reports a noisy bin of {share} of its first record in a window, in "
        f"{pilot.plan.payload_bytes} bytes, because counts that it noises itself would say less"
    )
    yield from _describe_counted(outline)
    yield from _describe_reach(pilot)
    if outline.delta:
        yield "reports need no delta: it is left out"
    yield from _describe_cost(pilot, f"{_WHOLE_COSTS} epsilon {show_exact(spec.epsilon)}")


def _describe_counted(outline: PilotOutline) -> Iterator[str]:
    if outline.n_records > outline.n_sketches:
        yield f"so {outline.n_sketches:,} of the {outline.n_records:,} records count"


def _describe_reach(pilot: Pilot) -> Iterator[str]:
    """Yield how far it sees: what lies beyond is lost, and an offset such as a date too."""
    reach: dict[float, list[str]] = {}
    for each in pilot.spec.dimensions:
        if each.transform is not None and each.upper is not None:
            reach.setdefault(each.upper, []).append(each.name)
    for upper, names in reach.items():
        yield f"sees values up to {upper:.3g} on both sides of zero: {', '.join(names)}"
    for each in pilot.spec.dimensions:
        usual = None if each.is_categorical else find_narrow_range(each.name, each.unit)
        if usual is not None and each.transform is None and each.bounds == usual:
            yield (
                f"sees {each.name} from {usual[0]:g} to {usual[1]:g}, around the usual range "
                f"of such a sensor: for another, write {each.name}:{each.unit}:LOWER..UPPER"
            )
    if reach:
        yield (
            f"where whole numbers are larger, write NAME:UNIT:count, which sees up to "
            f"{2.0**OCTAVES:.2g}; where numbers are large and close together such as times, "
            "give bounds: NAME:UNIT:LOWER..UPPER"
        )


def _describe_cost(pilot: Pilot, cost: str) -> Iterator[str]:
    outline = pilot.outline
    if find_person_doubt(pilot.plan) is None:
        yield describe_person(pilot.plan)
    if outline.shares_records:
        rest = show_exact(outline.epsilon - pilot.spec.epsilon)
        yield f"{cost} in the pilot, which leaves {rest} to the main study of the same records"
    elif times := describe_times(pilot.plan):
        yield f"{cost} in the pilot; a main study that begins at its end may have as much"
        yield times
    else:
        yield (
            f"{cost} in the pilot, and one that the main study reads too costs the sum of "
            "both; devices cannot tell the two apart, because "
            f"{describe_overlap(pilot.spec.window)}, so the owner's ledger counts the sum for all"
        )


def format_pilot(pilot: Pilot) -> str:
    """Write a pilot's specification as TOML."""
    spec, outline = pilot.spec, pilot.outline
    lines = [
        "# Made by `sfumato plan pilot` from the names of columns alone: a logarithmic scale needs",
        "# no bounds. Its answer calibrates another plan: `sfumato plan refine`.",
        "",
        'statistic = "histogram"',
        f"bins_log2 = {spec.bins_log2}  # by its strength, {pilot.strength:,.0f}",
    ]
    if pilot.are_reports:
        lines.append('release = "phase.v1"  # a noisy bin of the first record of each window')
    if spec.dimensions_per_sketch is not None:
        lines.append(f"dimensions_per_sketch = {spec.dimensions_per_sketch}")
    protects_devices = pilot.plan.protects_devices
    beside = "for all records of a device in a window" if protects_devices else "for each record"
    if outline.shares_records:
        beside += f"; {show_exact(outline.epsilon - spec.epsilon)} is left for the main study"
    epsilon = f"epsilon = {quote(str(spec.epsilon))}  # {beside}"
    late_rule = f"late_rule = {quote(spec.late_rule)}"
    if pilot.are_reports:
        per_device = f"most_sketches_per_device = {spec.most_sketches_per_device}"
        lines += [epsilon, late_rule, per_device]
    else:
        lines += [
            f"mechanism = {quote(str(spec.mechanism))}",
            epsilon,
            f"delta = {quote(str(spec.delta))}",
            f"neighbouring = {quote(spec.neighbouring)}",
            late_rule,
        ]
        if spec.least_records is not None:
            lines.append(f"least_records = {spec.least_records}")
        person = format_value(spec.max_records_per_person or "unknown")
        whose = 'unit = "device"' if protects_devices else f"max_records_per_person = {person}"
        lines += [whose, f"most_records = {spec.most_records}"]
    if spec.labels:
        lines.append(f"labels = {format_value([asdict(each) for each in spec.labels])}")
    if spec.most_sketches > MOST_SKETCHES:
        lines.append(f"most_sketches = {spec.most_sketches}")
    lines += ["", "[window]", *format_window(spec.window)]
    for dimension in spec.dimensions:
        lines += ["", "[[dimensions]]", *format_dimension(dimension)]
    return "\n".join(lines) + "\n"


def _or(chosen: int | None, default: int) -> int:
    return default if chosen is None else chosen
