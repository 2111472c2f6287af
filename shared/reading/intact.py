"""Read the part of a line before its first damage, from the left.

Time and id of a record are public, and decide where it belongs; its other fields are not, and must
not. So both are read from the front of a line up to the first place that breaks the format, and
what stands behind them changes nothing: of two members of one name the first counts.
"""

from __future__ import annotations

import json
from typing import Any

_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
_scan_string: Any = json.decoder.scanstring  # type: ignore[attr-defined]
_SPACE = " \t\r\n"
_BEHIND_VALUE = frozenset(" \t\r\n,}")
_ABSENT = object()
# Numbers of more digits than Python converts, and nesting deeper than it follows.
SCAN_ERRORS = (ValueError, StopIteration, RecursionError)


def split_intact(text: str, delimiter: str, *, is_cut: bool) -> list[str]:
    """Split a line of CSV at its delimiters, up to the first field that is damaged.

    Parameters
    ----------
    text
        The line, without its end.
    delimiter
        One character.
    is_cut
        Whether the line goes on behind the text, so that the last field may not be whole.

    Returns
    -------
    list of str
        Where nothing is damaged or cut, the fields that ``sfumato.shared.core.text.split_line``
        gives.
    """
    fields: list[str] = []
    start = 0
    while True:
        if text.startswith('"', start):
            field, end = _take_quoted(text, start)
            if field is None or (end < len(text) and text[end] != delimiter):
                return fields
        else:
            end = text.find(delimiter, start)
            end = len(text) if end < 0 else end
            field = text[start:end]
        if end == len(text):
            return fields if is_cut else [*fields, field]
        fields.append(field)
        start = end + 1


def _take_quoted(text: str, start: int) -> tuple[str | None, int]:
    """Return a quoted field and where it ends; None if it never does."""
    end = start
    while True:
        end = text.find('"', end + 1)
        if end < 0:
            return None, len(text)
        if not text.startswith('"', end + 1):
            return text[start + 1 : end].replace('""', '"'), end + 1
        end += 1


def find_intact(text: str, name: str) -> object:
    """Return the first member of a JSON object of some name, if nothing is damaged before its end.

    Parameters
    ----------
    text
        The object, perhaps damaged or cut.
    name
        A key, or keys of nested objects with dots between.

    Returns
    -------
    object
        Its value; None if there is none.
    """
    try:
        found = _find(text, _skip_space(text, 0), name, name.split("."))
    except SCAN_ERRORS:
        return None
    return None if found is _ABSENT else found


def _find(text: str, start: int, name: str | None, path: list[str]) -> object:
    if not text.startswith("{", start):
        return _ABSENT
    end = start
    while True:
        at = _skip_space(text, end + 1)
        if not text.startswith('"', at):
            return _ABSENT
        key, at = _scan_string(text, at + 1)
        at = _skip_space(text, at)
        if not text.startswith(":", at):
            return _ABSENT
        at = _skip_space(text, at + 1)
        is_wanted = key == (path[0] if len(path) == 1 else name)
        if key == path[0] and not is_wanted:
            # Looked into before it is read as a whole, for what it holds may be damaged.
            found = _find(text, at, None, path[1:])
            if found is not _ABSENT:
                return found
        value, end = _scan(text, at)
        if is_wanted:
            # A number that is not followed by anything may have lost digits.
            return value if text[end : end + 1] in _BEHIND_VALUE else None
        end = _skip_space(text, end)
        if not text.startswith(",", end):
            return _ABSENT


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
