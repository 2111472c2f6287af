"""Snapshots, and the decodes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from learning.estimate.weighting import SizeMoments, Weights

DecodeState = Literal["queued", "running", "succeeded", "failed", "cancelled"]


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
    second_moment, third_moment
        Sums over sketches of n^2 and n^3; either may need more than 64 bits.
    sums, size_sums
        As in :class:`SketchTotals`, int64, little-endian.
    devices
        As in :class:`SketchTotals`.
    """

    snapshot_id: bytes
    study_id: bytes
    digest: bytes
    selection: Mapping[str, Any]
    weighting: str
    n_sketches: int
    n_devices: int
    n_records: int
    snr: float
    signal_energy: float
    noise_energy: float
    second_moment: int
    third_moment: int
    weight_a: float
    weight_b: float
    sums: bytes
    size_sums: bytes
    created: float
    n_records_error: float = 0.0
    devices: bytes = b""

    @property
    def moments(self) -> SizeMoments:
        """The moments of the numbers of records."""
        return SizeMoments(
            n_sketches=self.n_sketches,
            first=self.n_records,
            second=self.second_moment,
            third=self.third_moment,
        )

    @property
    def weights(self) -> Weights:
        """The weights that were chosen when it was made."""
        return Weights(a=self.weight_a, b=self.weight_b)


@dataclass(frozen=True, kw_only=True)
class DecodeRecord:
    """A decode and its lease.

    Parameters
    ----------
    decoder, solver, settings
        The decoder's name, the name with its version, and all its settings.
    lease_token, lease_expires, attempts
        The token is random and new for each attempt: only its holder may write. After the expiry
        any worker may take the decode.
    """

    decode_id: bytes
    study_id: bytes
    snapshot_id: bytes
    n_clusters: int
    decoder: str
    solver: str
    settings: Mapping[str, Any]
    seed: int
    created: float
    state: DecodeState = "queued"
    progress: float = 0.0
    started: float | None = None
    finished: float | None = None
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None
    lease_token: bytes | None = None
    lease_expires: float | None = None
    attempts: int = 0
