"""Adding payloads up, exactly, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aggregator.ports import SketchTotals
from shared.wire import decode_payload

BATCH = 64


class PayloadSum:
    """The running sum of a selection, fed in the ascending order of sketch identities.

    Guarantees
    ----------
    Integer addition: neither order nor batches change a bit. The plan's bound on the number of
    sketches keeps every sum within 64 bits.

    Parameters
    ----------
    width, n_coordinates
        The layout of a payload.
    """

    def __init__(self, *, width: int, n_coordinates: int) -> None:
        self._width = width
        self._sums: NDArray[np.int64] = np.zeros(n_coordinates, dtype=np.int64)
        self._n_records = 0
        self._devices: set[bytes] = set()
        self._ids: list[bytes] = []

    def add(self, rows: Sequence[tuple[bytes, bytes, int, bytes]]) -> None:
        """Add sketches, each its identity, its device's, its number of records and its payload."""
        if not rows:
            return
        ids, devices, counts, payloads = zip(*rows, strict=True)
        together = decode_payload(
            b"".join(payloads), width=self._width, n_coordinates=len(rows) * self._sums.size
        )
        self._sums += together.reshape(len(rows), -1).sum(axis=0)
        self._n_records += sum(counts)
        self._devices.update(devices)
        self._ids.extend(ids)

    def total(self) -> SketchTotals:
        """Return what was added."""
        return SketchTotals(
            sums=self._sums,
            n_records=self._n_records,
            n_devices=len(self._devices),
            sketch_ids=tuple(self._ids),
        )
