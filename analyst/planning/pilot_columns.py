"""Columns of a pilot from their names: a logarithmic scale where no bounds are given."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Dimension, LogTransform
from sfumato.shared.plan.catalogue import find_narrow_range

OCTAVES = 40
"""Bounds of a number: its resolution times 2^40 on both sides of zero."""
_RESOLUTION, _COUNT_RESOLUTION = 1e-6, 1.0
_HOW = (
    "write NAME:UNIT, NAME:UNIT:count, NAME:UNIT:LOWER..UPPER or NAME:levels=A|B|C, such as "
    '"load:kW,steps:1:count,taken:s:1.5e9..2e9"'
)


def parse_columns(texts: Sequence[str]) -> tuple[Dimension, ...]:
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
    found = [_parse_column(text.strip()) for part in texts for text in part.split(",")]
    names = [dimension.name for dimension in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"names {name!r} twice", field="--dimensions", fix=_HOW)
    return tuple(found)


def _parse_column(text: str) -> Dimension:
    name, *parts = (part.strip() for part in text.split(":"))
    if parts == ["count"]:
        parts = ["1", "count"]
    is_category = bool(parts) and parts[0].startswith("levels=")
    if not name or len(parts) > (1 if is_category else 2):
        raise ConfigError(f"cannot be read: {text!r}", field="--dimensions", fix=_HOW)
    if is_category:
        levels = tuple(level.strip() for level in parts[0].removeprefix("levels=").split("|"))
        return Dimension(name=name, unit="1", levels=levels)
    unit = (parts and parts[0]) or "1"
    if parts[1:] not in ([], ["count"]):
        lower, upper = _parse_bounds(parts[1], text)
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
    )


def _parse_bounds(bounds: str, text: str) -> tuple[float, float]:
    try:
        lower, upper = map(float, bounds.split(".."))
    except ValueError:
        raise ConfigError(f"cannot be read: {text!r}", field="--dimensions", fix=_HOW) from None
    return lower, upper
