"""References to studies and other objects: an id, or the name or first digits of a study."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shared.errors import ConfigError, NotFoundError

LEAST_DIGITS = 6
"""Fewest first digits that may stand for an id."""
_IDENTITY = re.compile(r"[0-9a-f]{64}")
_BEGINNING = re.compile(rf"[0-9a-f]{{{LEAST_DIGITS},64}}")
_DIGITS_SHOWN = 12
_MOST_SHOWN = 10


def is_identity(reference: str) -> bool:
    """Return whether a reference is a complete id."""
    return _IDENTITY.fullmatch(reference) is not None


def require_identity(reference: str, field: str, n_digits: int = 64) -> str:
    """Return an id that is complete; ids of API keys have 16 digits.

    Raises
    ------
    ConfigError
        It is malformed.
    """
    if re.fullmatch(f"[0-9a-f]{{{n_digits}}}", reference) is None:
        raise ConfigError(
            f"must be an id, {n_digits} lower-case hexadecimal digits",
            field=field,
            fix="copy it from a list",
        )
    return reference


def choose_study(reference: str, studies: Iterable[tuple[str, str]]) -> str:
    """Return the id of the only study that a reference fits.

    Parameters
    ----------
    reference
        The name of a study, or at least 6 first digits of its id.
    studies
        Id and name of each.

    Raises
    ------
    NotFoundError, ConfigError
        It fits no study, or more than one; the error lists the candidates.
    """
    every = list(studies)
    digits = reference if _BEGINNING.fullmatch(reference) else None
    found = [
        (study_id, name)
        for study_id, name in every
        if name == reference or (digits and study_id.startswith(digits))
    ]
    if len(found) == 1:
        return found[0][0]
    if found:
        raise ConfigError(
            f"{reference!r} fits {len(found)} studies",
            field="study",
            fix=f"write more digits of one: {_describe(found)}",
        )
    raise NotFoundError(
        f"{reference!r} is neither a study's name nor {LEAST_DIGITS} or more first digits of one",
        field="study",
        fix=f"use one of: {_describe(every)}" if every else "publish one: `sfumato study create`",
    )


def _describe(studies: list[tuple[str, str]]) -> str:
    digits, known = _DIGITS_SHOWN, {study_id for study_id, _ in studies}
    while len({study_id[:digits] for study_id in known}) < len(known):
        digits += 1
    shown = [f"{study_id[:digits]} ({name})" for study_id, name in studies]
    more = len(shown) - _MOST_SHOWN
    rest = [f"and {more} more, see `sfumato study list`"] if more > 0 else []
    return ", ".join([*shown[:_MOST_SHOWN], *rest])
