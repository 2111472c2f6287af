"""Suspects: devices that were in a flagged part each time that parts were compared.

Parts are drawn anew for every window, so an innocent device leaves the suspects after a few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.service.checks import LEAST_PARTS

_MOST = 1000


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A device that was in a flagged part each time, and how often."""

    ordinal: int
    n_windows: int
    device_id: bytes = b""
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """The suspects of a study.

    Parameters
    ----------
    suspects
        Those of most windows first, at most 1000.
    n_suspects
        All of them.
    n_windows
        Windows with a flagged part, among enough parts to compare.
    n_innocent
        Innocent devices that chance alone would leave among the suspects.
    """

    suspects: Sequence[Suspect] = field(default_factory=list)
    n_suspects: int = 0
    n_windows: int = 0
    n_innocent: float = 0.0

    def identify(self, known: Mapping[int, tuple[bytes, str | None]]) -> Suspicion:
        """Return the same with the identities and names of devices."""
        pairs = [(each, *known.get(each.ordinal, (b"", None))) for each in self.suspects]
        named = [replace(each, device_id=device, name=name) for each, device, name in pairs]
        return replace(self, suspects=named)


def find_suspects(batches: Sequence[BatchRecord]) -> Suspicion:
    """Intersect the flagged parts of all windows of each device.

    Parameters
    ----------
    batches
        All acknowledged ones of a study.
    """
    windows: dict[tuple[int, str, int], list[BatchRecord]] = defaultdict(list)
    for batch in batches:
        windows[batch.slot, str(sorted(batch.labels.items())), batch.number].append(batch)
    compared = [
        parts
        for parts in windows.values()
        if len(parts) >= LEAST_PARTS and any(part.flags for part in parts)
    ]
    if not compared:
        return Suspicion()
    size = 8 * max(len(part.devices) for parts in compared for part in parts)
    seen, bad = (np.zeros(size, dtype=np.int64) for _ in range(2))
    chance = np.ones(size)
    for parts in compared:
        flagged = _count(size, [part for part in parts if part.flags])
        everybody = _count(size, parts)
        seen += everybody > 0
        bad += flagged > 0
        share = float(np.count_nonzero(flagged)) / max(1.0, float(np.count_nonzero(everybody)))
        chance[everybody > 0] *= share
    is_suspect = (seen > 0) & (bad == seen)
    ordinals = np.flatnonzero(is_suspect)
    order = ordinals[np.argsort(-bad[ordinals], kind="stable")]
    return Suspicion(
        suspects=[
            Suspect(ordinal=int(ordinal), n_windows=int(bad[ordinal])) for ordinal in order[:_MOST]
        ],
        n_suspects=int(ordinals.size),
        n_windows=len(compared),
        n_innocent=float(np.sum(chance[seen > 0])),
    )


def _count(size: int, parts: Sequence[BatchRecord]) -> NDArray[np.int64]:
    """Count in how many parts each device is: shape ``(size,)``."""
    total = np.zeros(size, dtype=np.int64)
    for part in parts:
        bits = np.unpackbits(np.frombuffer(part.devices, dtype=np.uint8), bitorder="little")
        total[: bits.size] += bits
    return total
