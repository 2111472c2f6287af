"""Parts by labels: each record's part is looked up by its own label, which no other can change."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError, DecodingError, TableError

MOST_PARTS: Final = 1000


def read_parts(given: Any) -> list[Any]:
    """Return the values that labels can have, as Python's own types.

    Raises
    ------
    ConfigError
        There are none or too many, or two are alike.
    """
    listed = list(given) if isinstance(given, Iterable) else []
    parts = [part.item() if isinstance(part, np.generic) else part for part in listed]
    are_labels = all(isinstance(part, Hashable) for part in parts)
    # True and 1 are one label, and in the design 1 and "1" are.
    n_different = min(len(set(parts)), len(set(map(str, parts)))) if are_labels else 0
    if not 1 <= len(parts) <= MOST_PARTS or n_different < len(parts):
        raise ConfigError(
            f"must be 1 to {MOST_PARTS} different values",
            field="parts",
            fix="list what y can have, such as parts=range(10)",
        )
    return parts


def place_labels(y: Any, parts: Sequence[Any], n_records: int) -> NDArray[np.intp]:
    """Return the place of each record's part, -1 where it is none of them."""
    if y is None:
        if len(parts) > 1:
            raise TableError("is missing", field="y", fix="pass the part of each record")
        return np.zeros(n_records, dtype=np.intp)
    given = _list_labels(y)
    if len(given) != n_records:
        raise TableError(
            f"must have {n_records} values, one for each record, and has {len(given)}",
            field="y",
            fix="pass the part of each record",
        )
    places = {part: i for i, part in enumerate(parts)}
    return np.array([_find(places, each) for each in given], dtype=np.intp)


def place_wanted(wanted: Any, parts: Sequence[Any], n: int) -> NDArray[np.intp] | None:
    """Return the places of parts that records are asked for; None where none are asked for.

    Raises
    ------
    ConfigError
        One is unknown.
    """
    if wanted is None:
        return None
    places = place_labels(wanted, parts, n)
    if (places < 0).any():
        raise ConfigError(
            f"must be among {', '.join(map(str, parts))}",
            field="parts",
            fix="leave it out to draw parts by their sizes",
        )
    return places


def require_visible(sizes: Floats, wanted: NDArray[np.intp] | None) -> None:
    """Refuse to draw from parts that noise hides: whose size is 0.

    Raises
    ------
    DecodingError
        All parts are hidden, or one that is asked for.
    """
    is_hidden = sizes == 0.0
    if is_hidden.all() or (wanted is not None and is_hidden[wanted].any()):
        raise DecodingError(
            "has no part that its noise does not hide"
            if is_hidden.all()
            else "has a part that its noise hides",
            field="epsilon",
            fix="use a larger epsilon, fewer parts, or more records, and columns of numbers "
            "alone: a text is a missing value",
        )


def _list_labels(y: Any) -> list[Any]:
    """Return labels; without a declared type each by itself, for NumPy would choose one for all.

    Then a text among numbers would turn the labels of all other records into texts.
    """
    if hasattr(y, "dtype") or hasattr(y, "dtypes"):
        labels: list[Any] = np.asarray(y).ravel().tolist()
        return labels
    given = list(y) if isinstance(y, Iterable) else [y]
    return [each[0] if isinstance(each, list) and len(each) == 1 else each for each in given]


def _find(places: Mapping[Any, int], label: Any) -> int:
    try:
        return places.get(label, -1)
    except TypeError:
        # A list is no part, and no reason for an error that tells of its record.
        return -1


def make_array(parts: Sequence[Any]) -> NDArray[Any]:
    """Return parts as an array: of objects, where NumPy would change them."""
    objects = np.empty(len(parts), dtype=object)
    objects[:] = parts
    is_plain = len({type(part) for part in parts}) == 1 and isinstance(parts[0], str | int | float)
    return np.array(parts) if is_plain else objects
