"""Random Fourier features in integers: the statistic behind centroids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.shared.arrays import Integers
from sfumato.shared.core.encoder import RecordEncoder, encode_parts
from sfumato.shared.core.features import AMPLITUDE
from sfumato.shared.core.frequencies import FrequencyMatrix
from sfumato.shared.core.masks import MaskSchedule
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.core.records import Records

if TYPE_CHECKING:
    from sfumato.shared.core.engines import SketchEngine


@dataclass(frozen=True, kw_only=True, eq=False)
class FourierStatistic:
    """Integer features ``b_j (c_j + i s_j)`` of a record: real parts, then imaginary parts.

    Parameters
    ----------
    quantiser
        Quantiser of the coordinates of a record.
    frequencies
        The matrix W.
    masks
        None if every record adds to every feature (r = m).
    encoder
        Columns to coordinates; None if they are the same.
    """

    quantiser: Quantiser
    frequencies: FrequencyMatrix
    masks: MaskSchedule | None = None
    encoder: RecordEncoder | None = None

    @property
    def n_coordinates(self) -> int:
        """Integers in a sum, 2 m."""
        return 2 * self.frequencies.n_frequencies

    @property
    def identity(self) -> bytes:
        """SHA-256 of the frequency matrix; masks do not change what is summed."""
        return self.frequencies.digest

    @property
    def lowest(self) -> int:
        """The least value of a feature, -A."""
        return -AMPLITUDE

    @property
    def highest(self) -> int:
        """The largest value of a feature, A."""
        return AMPLITUDE

    def add_records(
        self, records: Records, *, first_record: int, sums: Integers, engine: SketchEngine
    ) -> int:
        """Add each record's masked features to ``sums`` in place; see ``Statistic``."""
        return sum(
            engine.add_fourier(part, self, first_record=counter, sums=sums)
            for counter, part in encode_parts(self.encoder, records, first_record)
        )
