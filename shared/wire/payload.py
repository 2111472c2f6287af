"""The payload of a sketch: integers of a fixed width, or the phases of a report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core import feature_table
from sfumato.shared.errors import MalformedMessageError, WireError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.mechanisms.bins import BinCircle
from sfumato.shared.privacy.mechanisms.phase import find_phases
from sfumato.shared.sharing.masks import BLIND_BYTES


@dataclass(frozen=True, kw_only=True)
class PayloadForm:
    """The form of a plan's payloads.

    Parameters
    ----------
    width
        Bytes of a coordinate, or of a phase.
    n_coordinates
        D, the integers of a released vector.
    holds_phases
        Whether a payload holds phases, of two bytes each, little-endian; row p of the feature table
        stands for phase p in the released vector.
    circle
        If it is not None, phases are places of bins on this circle, and 1 in a bin stands for one.
    is_masked
        Whether a payload holds a masked sum, which no single server can decode.
    """

    width: int
    n_coordinates: int
    holds_phases: bool = False
    circle: BinCircle | None = None
    is_masked: bool = False

    @classmethod
    def of(cls, plan: SketchPlan) -> PayloadForm:
        """Return the form that a plan gives."""
        return cls(
            width=plan.payload_width,
            n_coordinates=plan.n_coordinates,
            holds_phases=plan.reports_phases,
            circle=plan.bin_circle if plan.reports_phases else None,
            is_masked=plan.sum_release is not None,
        )

    @property
    def length(self) -> int:
        """Bytes of a payload."""
        per_phase = 1
        if self.holds_phases:
            per_phase = 2 if self.circle is None else self.circle.n_bins
        blind = BLIND_BYTES if self.is_masked else 0
        return self.width * (self.n_coordinates // per_phase) + blind

    def encode(self, released: Integers) -> bytes:
        """Encode a released vector, shape ``(D,)``: real parts, imaginary parts, count.

        Raises
        ------
        WireError, PrivacyError
            A coordinate does not fit the width, or a feature is no row of the table, or a
            dimension has not 1 in a single bin.
        """
        self._require_clear()
        if self.circle is not None:
            return self.circle.find_places(released).astype("<u2").tobytes()
        if self.holds_phases:
            return find_phases(released.reshape(2, -1)).astype("<u2").tobytes()
        return encode_payload(released, self.width)

    def decode(self, payloads: bytes, *, n_payloads: int = 1) -> Integers:
        """Decode payloads that follow each other: shape ``(n_payloads, D)``, int64.

        Raises
        ------
        MalformedMessageError
            They have another length, or a place that is none of the circle.
        """
        self._require_clear()
        if not self.holds_phases:
            n = n_payloads * self.n_coordinates
            decoded = decode_payload(payloads, width=self.width, n_coordinates=n)
            return decoded.reshape(n_payloads, -1)
        _require_length(payloads, n_payloads * self.length)
        phases = np.frombuffer(payloads, dtype="<u2").reshape(n_payloads, -1)
        if self.circle is not None:
            if phases.size and int(phases.max()) >= self.circle.n_bins:
                raise MalformedMessageError(
                    f"must have numbers below {self.circle.n_bins} and has {phases.max()}",
                    field="payload",
                    fix="send the places of bins, as the plan's bins_log2 count them",
                )
            return self.circle.make_counts(phases)
        rows = feature_table()[phases].astype(np.int64)
        vectors: Integers = rows.transpose(0, 2, 1).reshape(n_payloads, -1)
        return vectors

    def _require_clear(self) -> None:
        if self.is_masked:
            raise WireError(
                "is masked: no single server can read it",
                field="payload",
                fix="report this: only the total of a batch is opened",
            )


def encode_payload(sums: Integers, width: int) -> bytes:
    """Encode a released sum: real parts, imaginary parts, then the scaled count if it is secret.

    Parameters
    ----------
    sums
        Shape ``(2 m,)`` or ``(2 m + 1,)``, int64.
    width
        Bytes of one coordinate, 1 to 8.

    Raises
    ------
    WireError
        A coordinate does not fit the width.
    """
    limit = 1 << (8 * width - 1)
    if sums.size and (int(sums.min()) < -limit or int(sums.max()) >= limit):
        raise WireError(
            f"has a coordinate that does not fit {width} bytes",
            field="payload",
            fix="report this: the plan's coordinate bound should have prevented it",
        )
    octets = sums.astype("<i8").view(np.uint8).reshape(-1, 8)
    return octets[:, :width].tobytes()


def decode_payload(payload: bytes, *, width: int, n_coordinates: int) -> Integers:
    """Decode a payload: shape ``(n_coordinates,)``, int64.

    Raises
    ------
    MalformedMessageError
        The payload has another length than ``width * n_coordinates``.
    """
    _require_length(payload, width * n_coordinates)
    octets = np.zeros((n_coordinates, 8), dtype=np.uint8)
    octets[:, 8 - width :] = np.frombuffer(payload, dtype=np.uint8).reshape(-1, width)
    # The octets fill the top of the word, so the shift extends the sign.
    shifted: Integers = octets.view("<i8").reshape(-1) >> (8 * (8 - width))
    return shifted.astype(np.int64, copy=False)


def _require_length(payload: bytes, length: int) -> None:
    if len(payload) != length:
        raise MalformedMessageError(
            f"must have {length} bytes and has {len(payload)}",
            field="payload",
            fix="send what the plan's payload_width and frequencies_per_sketch say",
        )
