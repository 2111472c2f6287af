"""Totals of batches: each enters the cells of its slot and labels as one sketch."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.addition import CellKey, Entry, encode_labels, roll_up
from sfumato.aggregator.base.sums.cells import Cell, encode_devices, subtract_cell
from sfumato.aggregator.base.sums.dyadic import Node, homes, label_sets
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import Row
from sfumato.aggregator.resources.batches.record import BatchRecord


def to_batch_entry(batch: BatchRecord) -> Entry:
    """Return a batch as one sketch: its identity, and the digest and integers of its total."""
    sums = batch.sums or b""
    return Entry(
        row=Row(
            batch.batch_id,
            hashlib.sha256(sums).digest(),
            int.from_bytes(batch.devices, "little"),
            batch.n_records,
            0,
            sums,
        ),
        labels=encode_labels(batch.labels),
        first_slot=batch.slot,
        last_slot=batch.slot,
    )


def encode_ordinals(ordinals: NDArray[np.int64]) -> bytes:
    """Return numbers of devices as bits in bytes, the lowest first."""
    if not ordinals.size:
        return b""
    bits = np.zeros(int(ordinals.max()) + 1, dtype=np.uint8)
    bits[ordinals] = 1
    packed = np.packbits(bits, bitorder="little").tobytes()
    return encode_devices(int.from_bytes(packed, "little"))


def take_out(
    batch: BatchRecord,
    others: Iterable[BatchRecord],
    root: Node | None,
    layout: Layout,
    present: Mapping[CellKey, Cell],
) -> dict[CellKey, Cell]:
    """Subtract a batch from its cells.

    Parameters
    ----------
    others
        The other batches in the cells: a cell still names their devices.
    present
        The cells as they are.
    """
    stay: dict[CellKey, int] = defaultdict(int)
    parts = roll_up([to_batch_entry(batch)], root, layout)
    for other in others:
        devices = int.from_bytes(other.devices, "little")
        for node in homes(other.slot, other.slot, root):
            for label_set in label_sets(encode_labels(other.labels)):
                if (node, label_set) in parts:
                    stay[node, label_set] |= devices
    return {key: subtract_cell(present[key], part, keep=stay[key]) for key, part in parts.items()}
