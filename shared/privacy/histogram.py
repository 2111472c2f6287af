"""Noisy histograms: counts of cells of which a record is in exactly one, or at most one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.shared.arrays import Integers
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import PrivacyGuarantee
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.samplers import RandomSource


@dataclass(frozen=True, kw_only=True)
class NoisyHistogram:
    """Counts of M cells with discrete Laplace noise, on empty cells too.

    Guarantees
    ----------
    One release is ``(epsilon, 0)`` differentially private if every record is in at most one cell,
    and which one it is depends on that record and on public or released numbers only.

    Parameters
    ----------
    n_cells
        M.
    mechanism
        Noise of one count.
    """

    n_cells: int
    mechanism: DiscreteLaplace

    @classmethod
    def calibrate(cls, *, n_cells: int, epsilon: Fraction, neighbouring: str) -> NoisyHistogram:
        """Find the least noise that guarantees epsilon.

        Raises
        ------
        PrivacyError
            There is no cell, or epsilon cannot be guaranteed.
        """
        if n_cells < 1:
            raise PrivacyError("must be at least 1", field="n_cells", fix="count the cells")
        return cls(
            n_cells=n_cells,
            mechanism=DiscreteLaplace.calibrate(
                sensitivity_l1=count_records_moved(neighbouring),
                epsilon=epsilon,
                neighbouring=neighbouring,
            ),
        )

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        return self.mechanism.guarantee

    @property
    def threshold(self) -> float:
        """The count that noise alone reaches in half a cell of all M, in the mean.

        ``b ln M`` for noise of scale b: (2 / epsilon) ln M under replace-one, (1 / epsilon) ln M
        under add-remove-one.
        """
        return float(self.mechanism.scale) * math.log(self.n_cells)

    def add_noise(self, counts: Integers, source: RandomSource) -> Integers:
        """Return the counts with fresh noise: shape ``(M,)``; a second call is a second release.

        Raises
        ------
        PrivacyError
            There are not M counts; nothing was drawn.
        """
        if counts.shape != (self.n_cells,):
            raise PrivacyError(
                f"must have shape ({self.n_cells},), not {counts.shape}",
                field="counts",
                fix="count all cells, the empty ones too",
            )
        return self.mechanism.add_noise(counts, source)
