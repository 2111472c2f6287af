"""A table as a table library shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Table:
    """The things that estimators see of the tables of a library."""

    def __init__(
        self, values: NDArray[Any], columns: list[str], dtypes: Sequence[Any] | None = None
    ) -> None:
        self.columns, self._values = columns, values
        self.dtypes = [values.dtype] * len(columns) if dtypes is None else dtypes

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self._values, dtype=dtype)
