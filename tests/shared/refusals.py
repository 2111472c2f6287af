"""Refusals by name, walked over: every change that is not refused as it should be is reported."""

from collections.abc import Callable, Iterable
from typing import Any

from sfumato.shared.errors import SketchError


def list_wrong_refusals(
    make: Callable[..., object], cases: Iterable[tuple[dict[str, Any], str]]
) -> list[Any]:
    """Return the changes that are not refused by the name of their field, with a rule."""
    wrong: list[Any] = []
    for change, field in cases:
        try:
            make(**change)
        except SketchError as error:
            if error.field != field or not error.rule:
                wrong.append((change, field, error))
        else:
            wrong.append((change, field, "is taken"))
    return wrong
