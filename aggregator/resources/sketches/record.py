"""Records of sketches, their streams and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from sfumato.aggregator.base.columns import KEY, DeviceId, Name, Reference, StudyId, Word
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.learning.estimate.totals import Totals
from sfumato.shared.wire import SketchHeader, SketchMessage, shorten_header

MOST_RANGES = 100
"""The largest number of listed gaps of a stream; all are counted."""


@dataclass(frozen=True, kw_only=True)
class StreamRecord:
    """The progress of a stream of a device.

    Parameters
    ----------
    n_missing
        The number of sequence numbers below the last one without a stored sketch.
    missing
        The lowest ``MOST_RANGES`` gaps, as first and last number, in ascending order.
    """

    stream: str
    last_sequence: int
    last_slot: int | None
    n_missing: int = 0
    missing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class SketchRecord:
    """A stored sketch without its payload.

    Parameters
    ----------
    first_slot, last_slot
        None for windows by count.
    n_records
        None where the number is secret; its noised value ends the payload.
    block
        The block of features in the payload; 0 where a sketch carries all of them.
    header, signature
        The signed header, without the digests that the row and its study hold, and the device's
        signature, so that a second party can verify them.
    state, batch_id
        Under a secure sum: a ``ReportState`` of batches, and its batch. Otherwise ``stored`` or
        ``excluded``, and None.
    """

    # Numbers first: Postgres aligns each to 8 bytes, and a row is short.
    sequence: int
    first_slot: int | None
    last_slot: int | None
    n_records: int | None
    received: float
    block: int = 0
    sketch_id: Annotated[bytes, KEY]
    study_id: StudyId
    device_id: DeviceId
    stream: Name
    payload_digest: bytes
    header: bytes
    signature: bytes
    state: Word = "stored"
    batch_id: Annotated[bytes, Reference("batches.batch_id")] | None = None

    @classmethod
    def of(cls, message: SketchMessage, *, received: float) -> SketchRecord:
        """Return the record of a message."""
        return cls(
            **list_columns(message.header),
            header=shorten_header(message.header),
            signature=message.signature,
            received=received,
        )


def list_columns(header: SketchHeader) -> dict[str, Any]:
    """Return the members of a :class:`SketchRecord` that its signed header gives."""
    first, last = header.slots or (None, None)
    return {
        "sketch_id": header.sketch_id,
        "study_id": header.study,
        "device_id": header.device,
        "stream": header.stream,
        "sequence": header.sequence,
        "first_slot": first,
        "last_slot": last,
        "n_records": header.n_records,
        "block": header.block or 0,
        "payload_digest": header.payload_digest,
    }


@dataclass(frozen=True, kw_only=True)
class RefusalRecord:
    """The number of sketches of a study that were refused with one problem."""

    problem: str
    count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceSums:
    """The sums of a device.

    Parameters
    ----------
    totals
        Over the sketches whose payloads are kept.
    n_dropped
        Sketches without a payload.
    """

    device: DeviceRecord
    totals: Totals
    n_dropped: int


@dataclass(frozen=True, kw_only=True)
class ExcludedSketches:
    """The numbers of sketches of an excluded device.

    Parameters
    ----------
    n_subtracted
        Taken out of all sums.
    n_kept
        Still in sums, because their payloads were dropped before.
    """

    n_subtracted: int
    n_kept: int
