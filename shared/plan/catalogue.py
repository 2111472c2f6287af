"""Usual ranges of common sensors: public knowledge of physics and engineering, never read off data.

``ranges.json`` has a line for each quantity: words that its columns are called by, hints that tell
it from its neighbours, and for each unit the columns of :class:`UsualRange`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from sfumato.shared.plan.quantities import list_units

ORIGIN: Final = (
    "Usual ranges are public knowledge of physics and engineering, not read off any data. A "
    "narrower range that you know for sure is better."
)
_MOST_OFFERED = 6
_SYMBOL = re.compile(
    "[pnuµmcdhkMGT]?(m|g|s|A|K|mol|cd|Hz|N|Pa|bar|J|W|Wh|VA|var|Ah|C|V|F|ohm|Ω|S|Wb|T|H|lm|lx|Bq|Gy"
    "|Sv|L|l|B|bit|eV|t)"
)
"""Symbols of the SI and beside it, with a prefix or none."""
_NARROW = 0.1
"""Spread over the distance from zero below which bins of a logarithmic scale tell little apart."""


@dataclass(frozen=True, kw_only=True)
class UsualRange:
    """The usual range of a quantity in a unit.

    Parameters
    ----------
    quantity, unit
        Its name, and the unit of the other figures.
    lower, upper
        Bounds that hardly any value exceeds.
    spread
        Usual standard deviation of all values together, over places and times.
    resolution, octaves
        Where values extend over powers of ten: r of ``log2(1 + |x| / r)``, and the usual standard
        deviation after this transform; otherwise None.
    """

    quantity: str
    unit: str
    lower: float
    upper: float
    spread: float
    resolution: float | None = None
    octaves: float | None = None

    @property
    def suits_logarithm(self) -> bool:
        """True if a logarithm suits the values better than a linear scale."""
        return self.resolution is not None

    def describe(self) -> str:
        """Describe the range in a line."""
        line = f"{self.quantity}: {self.lower:g} to {self.upper:g} {self.unit}, "
        line += f"spread {self.spread:g}"
        if not self.suits_logarithm:
            return line
        return f"{line}; on a log scale {self.octaves:g} doublings"


@dataclass(frozen=True, kw_only=True)
class _Quantity:
    """A quantity: its words, its hints, the parts of its own name, and its ranges by unit."""

    words: frozenset[str]
    hints: frozenset[str]
    parts: frozenset[str]
    ranges: dict[str, UsualRange]


def list_ranges() -> tuple[UsualRange, ...]:
    """List all usual ranges, in the order of the catalogue."""
    return tuple(usual for quantity in _read()[0] for usual in quantity.ranges.values())


def find_ranges(word: str) -> tuple[UsualRange, ...]:
    """Find the ranges of a unit, or of all quantities that have every part of a word as theirs."""
    quantities, _ = _read()
    unit, parts = _find_unit(word), _list_parts(word)
    found = []
    for quantity in quantities:
        known = quantity.words | quantity.hints | quantity.parts
        if unit in quantity.ranges:
            found.append(quantity.ranges[unit])
        elif parts and all(part in known for part in parts):
            found += quantity.ranges.values()
    return tuple(found)


def offer_ranges(name: str, unit: str | None = None) -> tuple[UsualRange, ...]:
    """Offer ranges for a column, the likeliest first; six at most.

    A quantity is offered whose words the name has. Where there is none in this unit, every quantity
    of the unit is.

    Parameters
    ----------
    name
        The name of the column.
    unit
        Its unit; None if it is not known yet.
    """
    quantities, _ = _read()
    parts = _list_words(name)
    named = sorted(
        (quantity for quantity in quantities if parts & quantity.words),
        key=lambda quantity: -len(parts & (quantity.words | quantity.hints)),
    )
    if unit is None:
        return tuple(next(iter(quantity.ranges.values())) for quantity in named)[:_MOST_OFFERED]
    exact = _find_unit(unit)
    found = [quantity.ranges[exact] for quantity in named if exact in quantity.ranges]
    if not found and exact != "1":
        found = [quantity.ranges[exact] for quantity in quantities if exact in quantity.ranges]
    return tuple(found[:_MOST_OFFERED])


def find_narrow_range(name: str, unit: str) -> tuple[float, float] | None:
    """Find bounds for a column whose values usually lie close together and far from zero.

    They are those of the usual ranges that the name and the unit call for, and as much again on
    either side; None where one of these ranges is wide, or begins near zero, or there is none.
    """
    found = _list_called(name, unit)
    usual = find_usual_bounds(name, unit)
    if usual is None or any(each.spread >= _NARROW * each.lower for each in found):
        return None
    lower, upper = usual
    return lower - (upper - lower), upper + (upper - lower)


def find_usual_bounds(name: str, unit: str) -> tuple[float, float] | None:
    """Find the bounds of all usual ranges that a column's name and unit call for, if any."""
    found = _list_called(name, unit)
    if not found:
        return None
    return min(each.lower for each in found), max(each.upper for each in found)


def find_unit_doubt(unit: str) -> str | None:
    """Return why a unit is doubtful, with the known ones that are spelt alike; None if it is known.

    Examples
    --------
    >>> find_unit_doubt("kg/m3"), find_unit_doubt("pmm")
    (None, "the unit 'pmm' is not known: did you mean rpm or ppm or mm?")
    """
    known = _read()[1].keys() | set(list_units())

    def is_known(text: str) -> bool:
        return text in known or text.lower() in known or bool(_SYMBOL.fullmatch(text))

    # A quotient, product or power of known units is known too.
    parts = re.split(r"[/*·\s^()-]+", unit)
    if is_known(unit) or all(is_known(part.rstrip("0123456789")) for part in parts):
        return None
    from difflib import get_close_matches  # noqa: PLC0415  # seldom needed

    close = sorted(get_close_matches(unit, sorted(known)), key=lambda x: abs(len(x) - len(unit)))
    alike = dict.fromkeys(map(_find_unit, close))
    asked = f": did you mean {' or '.join(alike)}?" if alike else ""
    return f"the unit {unit!r} is not known{asked}"


@cache
def _read() -> tuple[tuple[_Quantity, ...], dict[str, str]]:
    """Read the catalogue: its quantities, and the unit of every spelling."""
    text = Path(__file__).with_name("ranges.json").read_text(encoding="utf-8")
    document = json.loads(text)
    columns = document["columns"]
    quantities = tuple(
        _Quantity(
            words=frozenset(row["words"]),
            hints=frozenset(row["hints"]),
            parts=frozenset(_list_parts(row["quantity"])),
            ranges={
                unit: UsualRange(
                    quantity=row["quantity"],
                    unit=unit,
                    # Units have three columns, or five with a logarithm.
                    **dict(zip(columns, map(float, figures), strict=False)),
                )
                for unit, figures in row["ranges"].items()
            },
        )
        for row in document["ranges"]
    )
    units = {unit: unit for quantity in quantities for unit in quantity.ranges}
    spellings = {unit.lower(): unit for unit in units}
    for unit, others in document["units"].items():
        spellings |= dict.fromkeys(others, unit)
    # What is spelt exactly as a unit is this unit: mW is no MW.
    return quantities, spellings | units


def _find_unit(text: str) -> str:
    """Return the catalogue's spelling of a unit, or the text."""
    _, units = _read()
    bare = text.strip()
    return units.get(bare) or units.get(bare.lower()) or bare


def _list_called(name: str, unit: str) -> list[UsualRange]:
    """List the ranges, in a unit, of all quantities that a name has a word of."""
    exact, words = _find_unit(unit), _list_words(name)
    return [
        each.ranges[exact] for each in _read()[0] if words & each.words and exact in each.ranges
    ]


def _list_words(name: str) -> set[str]:
    alone = _list_parts(name)
    # Neighbours join too, so that "heart_rate" is a heart rate and "PM2.5" a PM25.
    return {first + second for first, second in pairwise(alone)}.union(alone)


def _list_parts(name: str) -> list[str]:
    """Cut a name where letters give way to others, or a capital follows a small letter."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.findall(r"[^\W_]+", spaced.lower())
