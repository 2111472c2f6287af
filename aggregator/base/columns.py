"""Markers by which records say what a database must know of them; free of any framework.

:mod:`sfumato.aggregator.base.tables` derives tables. A type says the rest: ``| None`` is
nullable, a mapping or sequence is JSON, and a Literal is a short text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

KEY: Final = "key"
"""Marks a column of the primary key."""


@dataclass(frozen=True)
class Reference:
    """A foreign key: ``table.column``."""

    target: str


@dataclass(frozen=True)
class Length:
    """The largest number of characters of a text."""

    most: int


StudyId = Annotated[bytes, Reference("studies.study_id")]
DeviceId = Annotated[bytes, Reference("devices.device_id")]
DecodeId = Annotated[bytes, Reference("decodes.decode_id")]
Word = Annotated[str, Length(16)]
Name = Annotated[str, Length(64)]
