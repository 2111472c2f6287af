"""Interface of the engines."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared.core.records import Records
from shared.core.statistics.fourier import FourierStatistic


class SketchEngine(Protocol):
    """Adds the integers of statistics to 64-bit sums, as ``docs/explanation/sketch.md`` defines."""

    @property
    def name(self) -> str:
        """The name shown to users."""
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
            The definition; without masks every record adds to every feature.
        first_record
            The counter of the first record, which determines its mask.
        """
        ...
