"""Exact sums of payloads, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.cells import MOST, Cell, digest_members, empty_members, too_large
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.learning.estimate.limbs import LIMB_BITS, split_limbs
from sfumato.learning.estimate.sizes import N_MOMENTS, N_POWERS, SizeMoments

BATCH = 64
Rest = Callable[[], None]
"""Called between pieces of long work."""

_LARGEST = 1 << (2 * LIMB_BITS)
_DIGIT_BITS = 24
_HALF_BITS = 32
_DIGIT = (1 << _DIGIT_BITS) - 1
_HALF = (1 << _HALF_BITS) - 1


class Row(NamedTuple):
    """A sketch: identity, payload digest, its devices as bits, size, block, payload."""

    sketch_id: bytes
    payload_digest: bytes
    devices: int
    n_records: int | None
    block: int
    payload: bytes


class PayloadSum:
    """The running sums over sketches.

    Guarantees
    ----------
    Integer arithmetic: neither order nor batches change a bit. A sum that could leave 64 bits is
    refused before it is formed; the bounds of a plan keep every study far from that.

    Parameters
    ----------
    layout
        The layout of a payload.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._sums: NDArray[np.int64] = np.zeros(layout.n_totals, dtype=np.int64)
        self._size_sums = _SizeWeightedSum(layout.n_totals)
        self._largest = 0
        self._moments = [[0] * layout.n_blocks for _ in range(N_MOMENTS)]
        self._devices = 0
        self._members = empty_members()

    def add(self, rows: Sequence[Row], rest: Rest = lambda: None) -> None:
        """Add sketches.

        Raises
        ------
        StoreError
            A sum could leave its range; nothing more may be added.
        """
        for start in range(0, len(rows), BATCH):
            self._add_batch(rows[start : start + BATCH])
            rest()

    def _add_batch(self, rows: Sequence[Row]) -> None:
        sizes = [row.n_records or 0 for row in rows]
        payloads = b"".join(row.payload for row in rows)
        together = self._layout.form.decode(payloads, n_payloads=len(rows))
        self._require_room(sizes, together)
        self._add_energies(rows, together)
        together = self._layout.spread(np.array([row.block for row in rows]), together)
        self._sums += together.sum(axis=0)
        self._size_sums.add(sizes, together)
        for row, n in zip(rows, sizes, strict=True):
            for power in range(N_POWERS):
                self._moments[power][row.block] += n**power
            if self._moments[N_POWERS - 1][row.block] >= _LARGEST:
                raise too_large()
            self._devices |= row.devices
        self._members += digest_members((row.sketch_id, row.payload_digest) for row in rows)

    def _add_energies(self, rows: Sequence[Row], together: NDArray[np.int64]) -> None:
        if self._layout.n_blocks == 1:
            return
        energies = self._moments[-1]
        for row, sums in zip(rows, together[:, : self._layout.n_features].tolist(), strict=True):
            energies[row.block] += sum(s * s for s in sums)
            if energies[row.block] >= _LARGEST:
                raise too_large()

    def _require_room(self, sizes: Sequence[int], together: NDArray[np.int64]) -> None:
        """Check that the sum of magnitudes and every size stay below 2^63."""
        # Python's integers: the magnitude of the least 64-bit integer has 64 bits.
        highest, lowest = together.max(axis=1).tolist(), together.min(axis=1).tolist()
        self._largest += sum(max(high, -low) for high, low in zip(highest, lowest, strict=True))
        if self._largest > MOST or min(sizes) < 0 or max(sizes) > MOST:
            raise too_large()

    def total(self) -> Cell:
        """Return the sums so far."""
        return Cell(
            sums=self._sums,
            size_sums=self._size_sums.total(),
            moments=SizeMoments.of_rows(self._moments),
            magnitude=self._largest,
            members=self._members,
            devices=self._devices,
        )


class _SizeWeightedSum:
    """The running ``sum n S``, which may need 126 bits.

    Guarantees
    ----------
    Exact while sizes and each coordinate's sum of ``|S|`` stay below 2^63 and batches hold at most
    64 sketches. Sizes are taken in digits of 24 bits, sums in halves of 32: a product has 56 bits
    and a batch of them 62. Each digit keeps ``high 2^32 + low`` with ``0 <= low < 2^32``, so
    ``|high|`` stays below ``2^24 2^63 / 2^32``.
    """

    def __init__(self, n_coordinates: int) -> None:
        self._n_coordinates = n_coordinates
        self._by_digit: list[NDArray[np.int64]] = []

    def add(self, sizes: Sequence[int], sums: NDArray[np.int64]) -> None:
        """Add a batch: sizes, and sums of shape ``(len(sizes), 2 m)``."""
        # The shift rounds down, so the low half is never negative.
        high, low = sums >> _HALF_BITS, sums & _HALF
        for position, digits in enumerate(_digits_of(sizes)):
            if position == len(self._by_digit):
                self._by_digit.append(np.zeros((2, self._n_coordinates), dtype=np.int64))
            running = self._by_digit[position]
            carried = running[1] + digits @ low
            running[0] += digits @ high + (carried >> _HALF_BITS)
            running[1] = carried & _HALF

    def total(self) -> NDArray[np.int64]:
        """Return the sums of all coordinates as limbs, see :func:`split_limbs`."""
        if len(self._by_digit) < 2:
            return self._total_of_one_digit()
        totals = [0] * self._n_coordinates
        for position, (high, low) in enumerate(self._by_digit):
            shift = position * _DIGIT_BITS
            for j, (h, part) in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
                totals[j] += ((h << _HALF_BITS) + part) << shift
        return split_limbs(totals)

    def _total_of_one_digit(self) -> NDArray[np.int64]:
        """Return the same, faster, for sketches below 2^24 records.

        ``high 2^32 + low`` is ``(high >> 31) 2^63 + (high mod 2^31) 2^32 + low``.
        """
        if not self._by_digit:
            return np.zeros((2, self._n_coordinates), dtype=np.int64)
        high, low = self._by_digit[0]
        kept = LIMB_BITS - _HALF_BITS
        return np.array([high >> kept, ((high & ((1 << kept) - 1)) << _HALF_BITS) | low])


def _digits_of(sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return the digits of sizes, lowest first; most sizes have one."""
    n_digits = -(-max(sizes).bit_length() // _DIGIT_BITS)
    return [
        np.array([(n >> (d * _DIGIT_BITS)) & _DIGIT for n in sizes], dtype=np.int64)
        for d in range(n_digits)
    ]
