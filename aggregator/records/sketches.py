"""Sketches, selections of them and exact sums, refusals and exclusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from learning.estimate.totals import Totals


@dataclass(frozen=True, kw_only=True)
class SketchRecord:
    """A stored sketch without its payload.

    Parameters
    ----------
    first_slot, last_slot
        None for windows by count.
    n_records
        None where the number is secret; its noised value ends the payload.
    header, signature
        The signed bytes and the device's signature, so that a second party can verify them.
    """

    sketch_id: bytes
    study_id: bytes
    device_id: bytes
    stream: str
    sequence: int
    first_slot: int | None
    last_slot: int | None
    n_records: int | None
    payload_digest: bytes
    header: bytes
    signature: bytes
    received: float
    state: str = "stored"


@dataclass(frozen=True, kw_only=True)
class RefusalRecord:
    """The number of sketches of a study that were refused with one problem."""

    problem: str
    count: int


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
        A digest of the set of sketches, see :mod:`aggregator.storage.sums.cells`.
    """

    n_devices: int
    members: bytes
    devices: bytes = b""


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
