"""References to objects: an id, its first digits, or the name of a study or device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sfumato.shared.errors import ConfigError, NotFoundError

LEAST_DIGITS = 6
"""Fewest first digits that may stand for an id."""
_IDENTITY = re.compile(r"[0-9a-f]{64}")
_BEGINNING = re.compile(rf"[0-9a-f]{{{LEAST_DIGITS},64}}")
_DIGITS_SHOWN = 12
_MOST_SHOWN = 10


def is_identity(reference: str) -> bool:
    """Return whether a reference is a complete id."""
    return _IDENTITY.fullmatch(reference) is not None


def is_beginning(reference: str) -> bool:
    """Return whether a reference may be the first digits of an id."""
    return _BEGINNING.fullmatch(reference) is not None


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
        is_shared = all(name == reference for _, name in found)
        raise ConfigError(
            f"{reference!r} {'is the name of' if is_shared else 'fits'} {_count(found)} studies",
            field="study",
            fix=f"{'use the id' if is_shared else 'write more digits'} of one: "
            f"{_describe(found, 'sfumato study list')}",
        )
    raise NotFoundError(
        f"{reference!r} is neither a study's name nor {LEAST_DIGITS} or more first digits of one",
        field="study",
        fix=f"use one of: {_describe(every, 'sfumato study list')}"
        if every
        else "publish one: `sfumato study create`",
    )


def require_beginning(reference: str, kind: str, n_digits: int = 64) -> str:
    """Return the first digits of an id, or all of it.

    Raises
    ------
    ConfigError
        They are malformed, or too few.
    """
    if re.fullmatch(f"[0-9a-f]{{{LEAST_DIGITS},{n_digits}}}", reference) is None:
        raise ConfigError(
            f"must be an id, {n_digits} lower-case hexadecimal digits, or its first "
            f"{LEAST_DIGITS} or more",
            field=kind,
            fix="copy it from a list",
        )
    return reference


def choose_identity(reference: str, kind: str, known: Iterable[tuple[str, str]]) -> str:
    """Return the only id that begins with some digits.

    Parameters
    ----------
    kind
        Its kind, such as ``device``.
    known
        Ids of this kind, each with a few words.

    Raises
    ------
    NotFoundError, ConfigError
        None begins so, or more than one; the error lists the candidates.
    """
    return choose_among(reference, kind, {i: w for i, w in known if i.startswith(reference)})


def choose_among(reference: str, kind: str, candidates: Mapping[str, str]) -> str:
    """Return the only id that a reference fits.

    Parameters
    ----------
    candidates
        By the ids that it fits, a few words on each.

    Raises
    ------
    NotFoundError, ConfigError
        It fits none, or more than one; the error lists the candidates.
    """
    found = list(candidates.items())
    if len(found) == 1:
        return found[0][0]
    if found:
        raise ConfigError(
            f"{reference!r} fits {_count(found)} {kind}s",
            field=kind,
            fix=f"{'write more digits' if is_beginning(reference) else 'use the id'} of one: "
            f"{_describe(found, None)}",
        )
    raise NotFoundError(
        f"no {kind} has {'a name or' if kind == 'device' else 'an'} id that begins with "
        f"{reference!r}",
        field=kind,
        fix="copy it from a list",
    )


def _count(found: list[tuple[str, str]]) -> str:
    return str(len(found)) if len(found) <= _MOST_SHOWN else f"more than {_MOST_SHOWN}"


def _describe(known: list[tuple[str, str]], command: str | None) -> str:
    digits, identities = _DIGITS_SHOWN, {each for each, _ in known}
    while len({each[:digits] for each in identities}) < len(identities):
        digits += 1
    shown = [f"{each[:digits]} ({words})" for each, words in known]
    where = f", see `{command}`" if command else ""
    # Whoever looks candidates up stops at one more than are shown.
    rest = [f"and more{where}"] if len(shown) > _MOST_SHOWN else []
    return ", ".join([*shown[:_MOST_SHOWN], *rest])
