"""Spelling of numbers in texts: the decimal mark, and units behind the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.shared.errors import ConfigError

DECIMALS = (".", ",")
_COMMA = str.maketrans({",": ".", ".": "_"})


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """The spelling of numbers in the texts of a source, where a program would write another.

    Parameters
    ----------
    decimal
        The decimal mark. With a comma, a text that has a point is no number: it may separate
        thousands.
    strip
        Texts that may stand behind a number, such as units.

    Raises
    ------
    ConfigError
        The mark is no decimal mark, or a text to strip is empty or may be part of a number.
    """

    decimal: str = "."
    strip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would change numbers."""
        if self.decimal not in DECIMALS:
            raise ConfigError("must be a point or a comma", field="decimal", fix='write ","')
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
        for end in self.strip:
            if text.endswith(end):
                text = text[: -len(end)].rstrip()
                break
        return text.translate(_COMMA) if self.decimal == "," else text


PLAIN = Spelling()
