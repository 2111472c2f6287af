"""Random Fourier features in integers: the statistic behind centroids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shared.core.frequencies import FrequencyMatrix
from shared.core.masks import MaskSchedule
from shared.core.quantise import Quantiser
from shared.core.records import Records

if TYPE_CHECKING:
    from shared.core.engines import SketchEngine


@dataclass(frozen=True, kw_only=True, eq=False)
class FourierStatistic:
    """Integer features ``b_j (c_j + i s_j)`` of a record: real parts, then imaginary parts.

    ``masks`` is None if every record adds to every feature (r = m).
    """

    quantiser: Quantiser
    frequencies: FrequencyMatrix
    masks: MaskSchedule | None = None

    @property
    def n_coordinates(self) -> int:
        """Integers in a sum, 2 m."""
        return 2 * self.frequencies.n_frequencies

    @property
    def identity(self) -> bytes:
        """SHA-256 of the frequency matrix; masks do not change what is summed."""
        return self.frequencies.digest

    def add_records(
        self,
        records: Records,
        *,
        first_record: int,
        sums: NDArray[np.int64],
        engine: SketchEngine,
    ) -> int:
        """Add each record's masked features to ``sums`` in place; see ``Statistic``."""
        return engine.add_fourier(records, self, first_record=first_record, sums=sums)
