"""Tables of pandas, whose columns may hold any objects.

Arrow finds a type for such a column by looking at all of its values. Then one record could change
how all others are read, or have them refused. Here each value is read by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from sfumato.shared.reading import Fields
from sfumato.shared.reading.records import read_values, spell_value


def is_pandas(source: object) -> bool:
    """Return whether a source is a data frame of pandas; it is not imported for that."""
    pandas: Any = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def read_pandas(frame: Any, fields: Fields, arrow: Any, where: str) -> Any:
    """Return the columns that are needed as a table of Arrow, without an index.

    A column of any objects becomes numbers where the plan wants numbers, and text where it wants
    levels. A value that is neither is missing, in its own record alone.

    Raises
    ------
    RecordError
        A column is absent, or there more than once.
    """
    places = fields.find([str(name) for name in frame.columns], where)
    arrays: dict[str, Any] = {}
    for place, (name, levels) in zip(places, fields.columns, strict=True):
        if name in arrays:
            continue
        column = frame.iloc[:, place]
        if _is_declared(column.dtype):
            arrays[name] = arrow.array(column.reset_index(drop=True), from_pandas=True)
        else:
            arrays[name] = _read_objects(column.tolist(), arrow, has_levels=bool(levels))
    return arrow.table(arrays)


def _is_declared(kind: Any) -> bool:
    """Return whether the type of a column says what its values are; of categories, theirs does."""
    categories = getattr(kind, "categories", None)
    return str(kind if categories is None else categories.dtype) != "object"


def _read_objects(values: Sequence[Any], arrow: Any, *, has_levels: bool) -> Any:
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if has_levels:
        return arrow.array(map(_spell, values), arrow.string())
    texts = [str(value) if isinstance(value, Decimal) else value for value in values]
    return arrow.array(read_values(texts))


def _spell(value: object) -> str | None:
    text = spell_value(value)
    # What cannot be encoded would be an error of the whole column.
    return None if text is None else text.encode("utf-8", "replace").decode()
