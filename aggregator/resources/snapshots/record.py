"""Records of snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sfumato.aggregator.base.columns import KEY, StudyId, Word
from sfumato.learning.estimate.sizes import N_MOMENTS, SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.weights import Weights


@dataclass(frozen=True, kw_only=True)
class SnapshotRecord:
    """A frozen weighted global sketch, with its inputs.

    Parameters
    ----------
    weight_a, weight_b
        The weight of a sketch of n records is ``a n + b n^2``. Stored, so that it is the same in
        every release and on every machine.
    snr, signal_energy, noise_energy
        Under these weights.
    n_records, n_records_error
        Exact, with an error of 0; or, with secret numbers, an estimate and its standard error.
    n_covered
        Features that some sketch carries.
    moments
        As in :class:`SketchTotals`: the limbs, little-endian.
    sums, size_sums
        As in :class:`SketchTotals`, int64, little-endian.
    devices
        As in :class:`SketchTotals`.
    batches, n_waiting
        Under a secure sum: the identities of its batches, 32 bytes each, and the number of batches
        of the selection that were not counted.
    """

    snapshot_id: Annotated[bytes, KEY]
    study_id: StudyId
    digest: bytes
    selection: Mapping[str, Any]
    weighting: Word
    n_sketches: int
    n_devices: int
    n_records: int
    snr: float
    signal_energy: float
    noise_energy: float
    n_covered: int
    moments: bytes
    weight_a: float
    weight_b: float
    sums: bytes
    size_sums: bytes
    created: float
    n_records_error: float = 0.0
    devices: bytes = b""
    batches: bytes = b""
    n_waiting: int = 0

    @property
    def totals(self) -> Totals:
        """The exact sums, decoded."""
        return Totals(
            sums=np.frombuffer(self.sums, dtype="<i8").astype(np.int64),
            size_sums=np.frombuffer(self.size_sums, dtype="<i8").astype(np.int64).reshape(2, -1),
            moments=SizeMoments(
                limbs=np.frombuffer(self.moments, dtype="<i8")
                .astype(np.int64)
                .reshape(2, N_MOMENTS, -1)
            ),
        )

    @property
    def weights(self) -> Weights:
        """The weights that were chosen when it was made."""
        return Weights(a=self.weight_a, b=self.weight_b)
