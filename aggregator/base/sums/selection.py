"""Selections of sketches, and their exact totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato.learning.estimate.totals import Totals


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The sketches of a study with all slots inside a range, of devices with some labels.

    A bound that is None does not restrict. Other labels may have any value.
    """

    first_slot: int | None = None
    last_slot: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Return whether a device with these labels is in the selection."""
        return all(labels.get(name) == value for name, value in self.labels.items())


@dataclass(frozen=True, kw_only=True, eq=False)
class SketchTotals(Totals):
    """The exact sums over a selection, with the identity of the selected sketches.

    Parameters
    ----------
    devices
        Bit i, the lowest of the first byte first, is set for the i-th device of the study.
    members
        A digest of the set of sketches, see :mod:`sfumato.aggregator.base.sums.cells`.
    """

    n_devices: int
    members: bytes
    devices: bytes = b""
