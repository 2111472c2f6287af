"""Records as engines take them: one array, or the columns of a table, without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats
from sfumato.shared.errors import RecordError

_TYPES = (np.dtype(np.float64), np.dtype(np.float32))


@dataclass(frozen=True, eq=False)
class Columns:
    """Records as a table library holds them: d columns of n values each.

    Parameters
    ----------
    columns
        Arrays of shape ``(n,)``, float32 or float64, data units, any strides; one a dimension.
    """

    columns: tuple[NDArray[np.floating], ...]

    def __len__(self) -> int:
        """Return the number of records n."""
        return len(self.columns[0]) if self.columns else 0

    def __getitem__(self, rows: slice) -> Columns:
        """Return some of the records, as views."""
        return Columns(tuple(column[rows] for column in self.columns))

    def to_array(self) -> Floats:
        """Return a copy of shape ``(n, d)``, float64."""
        return np.stack([column.astype(np.float64) for column in self.columns], axis=1)


Records: TypeAlias = "NDArray[np.floating] | Columns"


_PART = 1 << 16


def list_parts(records: Records, n_dimensions: int) -> Iterator[Records]:
    """Yield records in parts, which bounds the memory of copies; raise as ``require_records``."""
    require_records(records, n_dimensions)
    for start in range(0, len(records), _PART):
        yield records[start : start + _PART]


def require_records(records: Records, n_dimensions: int) -> None:
    """Refuse records that no engine can read.

    Raises
    ------
    RecordError
        The records are not d columns of one length, or not of a floating-point type.
    """
    if isinstance(records, Columns):
        types = {column.dtype for column in records.columns}
        shape: tuple[int, ...] = (len(records), len(records.columns))
        if any(column.shape != shape[:1] for column in records.columns):
            raise RecordError(
                "columns differ in length",
                field="records",
                fix="pass one value a record in each column",
            )
    else:
        types, shape = {records.dtype}, records.shape
    if len(shape) != 2 or shape[1] != n_dimensions:
        raise RecordError(
            f"must have shape (n, {n_dimensions}) and has {shape}",
            field="records",
            fix="pass one row a record and one column a dimension of the plan",
        )
    for wrong in sorted(types.difference(_TYPES), key=str):
        raise RecordError(
            f"must be float32 or float64 and is {wrong}",
            field="records",
            fix="convert the array before sketching",
        )
