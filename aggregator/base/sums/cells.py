"""Cells: exact sums over sets of sketches, which can be added and subtracted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.learning.estimate.limbs import LIMB_BITS, add_limbs, subtract_limbs
from sfumato.learning.estimate.sizes import N_MOMENTS, SizeMoments
from sfumato.shared.errors import StoreError
from sfumato.shared.wire import decode_payload, encode_payload

MOST = (1 << 63) - 1
_LANES = 1024
_LANE = np.dtype("<u2")


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """Sums over sketches.

    Parameters
    ----------
    sums, size_sums, moments
        As in :class:`sfumato.aggregator.base.sums.selection.SketchTotals`.
    magnitude
        The sum over sketches of the largest ``|S_j|``: while it is below 2^63, no order of adding
        leaves 64 bits.
    members
        The digest of the set, see :func:`digest_members`.
    devices
        Bit i is set where the i-th device of the study has a sketch in it.
    """

    sums: NDArray[np.int64]
    size_sums: NDArray[np.int64]
    moments: SizeMoments
    magnitude: int
    members: NDArray[np.uint16]
    devices: int

    def __eq__(self, other: object) -> bool:
        """Return whether every number is the same."""
        return (
            isinstance(other, Cell)
            and self.moments == other.moments
            and (self.magnitude, self.devices) == (other.magnitude, other.devices)
            and np.array_equal(self.members, other.members)
            and np.array_equal(self.sums, other.sums)
            and np.array_equal(self.size_sums, other.size_sums)
        )

    __hash__ = None  # type: ignore[assignment]

    def to_totals(self) -> SketchTotals:
        """Return the totals that a selection shows."""
        return SketchTotals(
            sums=self.sums,
            size_sums=self.size_sums,
            moments=self.moments,
            n_devices=self.devices.bit_count(),
            devices=encode_devices(self.devices),
            members=encode_members(self.members),
        )


def to_bits(devices: Iterable[int]) -> int:
    """Return numbers of devices as bits."""
    return reduce(or_, (1 << number for number in devices), 0)


def encode_devices(devices: int) -> bytes:
    """Return the bits of devices as bytes, the lowest first."""
    return devices.to_bytes(-(-devices.bit_length() // 8), "little")


def has_device(devices: bytes, number: int) -> bool:
    """Return whether the bit of a device is set."""
    return number // 8 < len(devices) and bool(devices[number // 8] >> number % 8 & 1)


def encode_array(values: NDArray[np.int64]) -> bytes:
    """Encode integers with the width that the largest needs, after a byte for the width.

    Most sums need four or five of eight bytes, and cells are written and read often.
    """
    high, low = int(values.max(initial=0)), int(values.min(initial=0))
    width = max(high, ~low).bit_length() // 8 + 1
    return bytes([width]) + encode_payload(values, width)


def decode_array(data: bytes) -> NDArray[np.int64]:
    """Decode an array."""
    width = data[0]
    return decode_payload(data[1:], width=width, n_coordinates=(len(data) - 1) // width)


def encode_limbs(limbs: NDArray[np.int64]) -> bytes:
    """Encode limbs: as one array if all fit 64 bits; as limbs, after a zero byte, if not."""
    high, low = limbs
    if not ((high == 0) | (high == -1)).all():
        return b"\0" + limbs.astype("<i8").tobytes()
    return encode_array(low + (high << np.int64(LIMB_BITS)))


def decode_limbs(data: bytes) -> NDArray[np.int64]:
    """Decode limbs."""
    if data[0] == 0:
        return np.frombuffer(data, dtype="<i8", offset=1).astype(np.int64).reshape(2, -1)
    whole = decode_array(data)
    return np.array([whole >> np.int64(LIMB_BITS), whole & np.int64(MOST)])


def encode_moments(moments: SizeMoments) -> bytes:
    """Encode moments."""
    return encode_limbs(moments.limbs.reshape(2, -1))


def decode_moments(data: bytes) -> SizeMoments:
    """Decode moments."""
    return SizeMoments(limbs=decode_limbs(data).reshape(2, N_MOMENTS, -1))


def empty_cell(layout: Layout) -> Cell:
    """Return the sums over no sketch."""
    return Cell(
        sums=np.zeros(layout.n_totals, dtype=np.int64),
        size_sums=np.zeros((2, layout.n_totals), dtype=np.int64),
        moments=SizeMoments.empty(layout.n_blocks),
        magnitude=0,
        members=empty_members(),
        devices=0,
    )


def add_cells(cells: Iterable[Cell], layout: Layout) -> Cell:
    """Add cells without a common sketch.

    Raises
    ------
    StoreError
        A sum could leave 64 bits.
    """
    total = empty_cell(layout)
    for cell in cells:
        total = _add(total, cell)
    return total


def _add(one: Cell, other: Cell) -> Cell:
    if one.magnitude + other.magnitude > MOST:
        raise too_large()
    return Cell(
        sums=one.sums + other.sums,
        size_sums=add_limbs(one.size_sums, other.size_sums),
        moments=one.moments + other.moments,
        magnitude=one.magnitude + other.magnitude,
        members=one.members + other.members,
        devices=one.devices | other.devices,
    )


def subtract_cell(whole: Cell, part: Cell, *, keep: int = 0) -> Cell:
    """Subtract sketches from a cell.

    Parameters
    ----------
    keep
        The devices of the part, as bits, with other sketches in the cell.
    """
    return Cell(
        sums=whole.sums - part.sums,
        size_sums=subtract_limbs(whole.size_sums, part.size_sums),
        moments=whole.moments - part.moments,
        magnitude=whole.magnitude - part.magnitude,
        members=whole.members - part.members,
        devices=whole.devices & (~part.devices | keep),
    )


def too_large() -> StoreError:
    """Return the error for a sum that could leave 64 bits."""
    return StoreError(
        "could have a sum beyond 64 bits", field="selection", fix="select fewer sketches"
    )


def empty_members() -> NDArray[np.uint16]:
    """Return the digest of the empty set: shape ``(1024,)``, uint16."""
    return np.zeros(_LANES, dtype=np.uint16)


def digest_members(members: Iterable[tuple[bytes, bytes]]) -> NDArray[np.uint16]:
    """Digest a set of sketches, given by identity and payload digest.

    The sum modulo 2^16, lane by lane, of ``SHAKE128(identity || payload digest)``. The digest of a
    union of disjoint sets is the sum of their digests, and its size is fixed.

    Guarantees
    ----------
    Two different sets with one digest are as hard to find as short vectors in a lattice: LtHash16
    of Bellare and Micciancio (1997), more than 128 bits.
    """
    total = empty_members()
    for identity, payload_digest in members:
        expanded = hashlib.shake_128(identity + payload_digest).digest(_LANES * _LANE.itemsize)
        # Unsigned, so it wraps by definition.
        total += np.frombuffer(expanded, dtype=_LANE).astype(np.uint16)
    return total


def encode_members(members: NDArray[np.uint16]) -> bytes:
    """Encode a digest as 2048 bytes."""
    return members.astype(_LANE).tobytes()


def decode_members(data: bytes) -> NDArray[np.uint16]:
    """Decode a digest."""
    return np.frombuffer(data, dtype=_LANE).astype(np.uint16)
