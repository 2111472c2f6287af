"""Units by name, each linear in its quantity's base unit: ``base = scale * value + offset``."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.shared.errors import ConfigError

_QUANTITIES: dict[str, dict[str, tuple[float, float]]] = {
    "temperature": {"K": (1, 0), "degC": (1, 273.15), "degF": (5 / 9, 273.15 - 160 / 9)},
    "speed": {
        "m/s": (1, 0),
        "km/h": (1 / 3.6, 0),
        "mph": (0.44704, 0),
        "kn": (1852 / 3600, 0),
        "ft/s": (0.3048, 0),
    },
    "pressure": {
        "Pa": (1, 0),
        "hPa": (100, 0),
        "kPa": (1e3, 0),
        "MPa": (1e6, 0),
        "mbar": (100, 0),
        "bar": (1e5, 0),
        "psi": (6894.757293168361, 0),
        "mmHg": (133.322387415, 0),
        "atm": (101325, 0),
    },
    "length": {
        "m": (1, 0),
        "um": (1e-6, 0),
        "mm": (1e-3, 0),
        "cm": (1e-2, 0),
        "km": (1e3, 0),
        "in": (0.0254, 0),
        "ft": (0.3048, 0),
        "mi": (1609.344, 0),
    },
    "mass": {"kg": (1, 0), "mg": (1e-6, 0), "g": (1e-3, 0), "t": (1e3, 0), "lb": (0.45359237, 0)},
    "time": {"s": (1, 0), "ms": (1e-3, 0), "us": (1e-6, 0), "min": (60, 0), "h": (3600, 0)},
    "power": {"W": (1, 0), "mW": (1e-3, 0), "kW": (1e3, 0), "MW": (1e6, 0), "hp": (745.699872, 0)},
    "energy": {
        "J": (1, 0),
        "kJ": (1e3, 0),
        "MJ": (1e6, 0),
        "Wh": (3600, 0),
        "kWh": (3.6e6, 0),
        "MWh": (3.6e9, 0),
        "kcal": (4184, 0),
    },
    "voltage": {"V": (1, 0), "mV": (1e-3, 0), "kV": (1e3, 0)},
    "current": {"A": (1, 0), "mA": (1e-3, 0)},
    "frequency": {"Hz": (1, 0), "kHz": (1e3, 0), "MHz": (1e6, 0), "rpm": (1 / 60, 0)},
    "volume": {"m3": (1, 0), "L": (1e-3, 0), "mL": (1e-6, 0), "gal": (3.785411784e-3, 0)},
    "angle": {"rad": (1, 0), "deg": (0.017453292519943295, 0)},
    "acceleration": {"m/s2": (1, 0), "gn": (9.80665, 0)},
    "ratio": {"1": (1, 0), "%": (1e-2, 0), "ppm": (1e-6, 0)},
}


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A linear conversion, ``scale * value + offset``."""

    scale: float = 1.0
    offset: float = 0.0


def find_conversion(rule: str, *, field: str) -> Conversion:
    """Return the conversion that a rule such as ``degF -> degC`` names.

    Parameters
    ----------
    rule
        Two units of one quantity with an arrow between them.
    field
        The name of the key, for messages.

    Raises
    ------
    ConfigError
        It is no such rule, a unit is unknown, or the units measure different things.

    Examples
    --------
    >>> find_conversion("km/h -> m/s", field="convert").scale
    0.2777777777777778
    """
    parts = [part.strip() for part in rule.split("->")]
    if len(parts) != 2:
        raise ConfigError("must name two units", field=field, fix='write it as "degF -> degC"')
    (quantity, (scale, offset)), (other, (to_scale, to_offset)) = (
        _find_unit(part, field) for part in parts
    )
    if quantity != other:
        raise ConfigError(
            f"cannot convert a {quantity} into a {other}",
            field=field,
            fix=f"use one of: {', '.join(_QUANTITIES[quantity])}; or state scale and offset",
        )
    return Conversion(scale=scale / to_scale, offset=(offset - to_offset) / to_scale)


def list_units() -> list[str]:
    """List all units that a conversion may name."""
    return [unit for units in _QUANTITIES.values() for unit in units]


def _find_unit(name: str, field: str) -> tuple[str, tuple[float, float]]:
    for quantity, units in _QUANTITIES.items():
        if name in units:
            return quantity, units[name]
    raise ConfigError(
        f"must name known units, and {name!r} is not known",
        field=field,
        fix=f"state scale and offset instead, or use one of: {', '.join(list_units())}",
    )
