"""Spelling of numbers in texts, and marks of missing values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.errors import ConfigError
from sfumato.shared.structure import Text, declared, member

DECIMALS = (".", ",")
THOUSANDS = (".", ",", "'", "\u2019", " ", "\u00a0", "\u202f")
_NO_NUMBER = "_"
"""A text that no number is read from."""


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """The spelling of numbers in the texts of a source, where a program would write another.

    Parameters
    ----------
    decimal
        The decimal mark. With a comma, a text that has a point is no number, unless points separate
        thousands.
    thousands
        The mark between groups of three digits; empty where there is none. Any other use of it
        makes a text no number, so that a wrong mark never gives another number.
    strip
        Texts that may stand behind a number, such as units.
    missing
        Numbers and texts that stand for a missing value, such as ``-999``. A number is compared by
        its value, whatever way it is spelled.

    Raises
    ------
    ConfigError
        The marks are none, or the same; or a text to strip is empty or may be part of a number.
    """

    decimal: str = "."
    thousands: str = ""
    strip: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would change numbers."""
        if self.decimal not in DECIMALS:
            raise ConfigError("must be a point or a comma", field="decimal", fix='write ","')
        if self.thousands and self.thousands not in THOUSANDS:
            raise ConfigError(
                "must be a point, a comma, an apostrophe or a space",
                field="thousands",
                fix='write ".", or leave it out',
            )
        if self.thousands == self.decimal:
            raise ConfigError(
                "must not be the decimal mark", field="thousands", fix="leave one of them out"
            )
        for text in self.strip:
            if not text.strip() or set(text) & set("0123456789"):
                raise ConfigError(
                    "must be texts without digits, such as units",
                    field="strip",
                    fix='write what stands behind the number, such as "°C"',
                )

    def read_all(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return ``read`` of each value."""
        return values if self == PLAIN else list(map(self.read, values))

    def read(self, value: object) -> object:
        """Return a value whose text, if it is one, spells a number as programs do."""
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text in self.missing:
            return _NO_NUMBER
        for end in self.strip:
            if text.endswith(end):
                text = text[: -len(end)].rstrip()
                break
        if self.thousands and self.thousands in text:
            text = text.replace(self.thousands, "") if self._grouped.match(text) else _NO_NUMBER
        if self.decimal == ",":
            text = _NO_NUMBER if "." in text else text.replace(",", ".")
        return text

    def clear(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return numbers with NaN for each that stands for a missing value."""
        if not self._marks or numbers.dtype.kind != "f":
            return numbers
        # Compared in the type of the column: -999.9 of 32 bits is another number of 64 bits.
        is_missing = np.isin(numbers, np.array(self._marks, dtype=numbers.dtype))
        return np.where(is_missing, numbers.dtype.type(np.nan), numbers)

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        mark, decimal = re.escape(self.thousands), re.escape(self.decimal)
        return re.compile(rf"[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{decimal}[0-9]*)?\Z")

    @cached_property
    def _marks(self) -> tuple[float, ...]:
        found = []
        for text in self.missing:
            try:
                found.append(float(text))
            except ValueError:
                continue
        return tuple(found)


PLAIN = Spelling()


@declared
class ValueSettings:
    """Which records are read, and how their values are spelled."""

    where: Mapping[Text, str] = member(
        "Fields, and the text that each has in the records that are read; others are passed over. "
        "They are public, as a time is: the name of a sensor, a place, a unit.",
        default_factory=dict,
    )
    decimal: str = member(
        "The decimal mark of numbers that are texts: a point, or a comma.", default="."
    )
    thousands: str = member("The mark between groups of three digits; none by default.", default="")
    strip: tuple[Text, ...] = member(
        "Texts that may stand behind a number, such as units.", default=()
    )
    missing_values: tuple[Text, ...] = member(
        'Numbers and texts that stand for a missing value, such as `"-999"`.', default=()
    )

    def __post_init__(self) -> None:
        """Refuse what would change numbers."""
        _ = self.spelling

    @property
    def spelling(self) -> Spelling:
        """How numbers are spelled, and what stands for a missing one."""
        return Spelling(
            decimal=self.decimal,
            thousands=self.thousands,
            strip=self.strip,
            missing=self.missing_values,
        )
