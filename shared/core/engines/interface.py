"""The interface of every engine."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared.core.records import Records
from shared.core.statistics.fourier import FourierStatistic


class SketchEngine(Protocol):
    """Adds what statistics ask for to 64-bit sums, as ``docs/explanation/sketch.md`` defines it."""

    @property
    def name(self) -> str:
        """The text to print when a user asks which engine runs."""
        ...

    def add_fourier(
        self,
        records: Records,
        statistic: FourierStatistic,
        *,
        first_record: int,
        sums: NDArray[np.int64],
    ) -> int:
        """Add each record's masked features to ``sums``; otherwise as ``Statistic.add_records``.

        Parameters
        ----------
        statistic
            The definition; no masks means that every record adds to every feature.
        first_record
            The counter of the first record, which decides its mask.
        """
        ...
