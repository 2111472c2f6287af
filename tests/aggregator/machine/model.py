"""What the server should hold, said as simply as it can be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.aggregator.base.sums.cells import digest_members, encode_members
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.wire import decode_message
from tests.aggregator.fleet import Device
from tests.aggregator.records import contains_slots

N_DEVICES = 5
DEVICES = [Device(i, {"site": "south" if i % 2 else "north"}) for i in range(N_DEVICES)]


@dataclass(frozen=True)
class Release:
    """A sketch as a device released it: 1 at a coordinate of its own, and 0 elsewhere."""

    device: int
    stream: str
    sequence: int
    slots: tuple[int, int]
    n_records: int
    coordinate: int
    sketch_id: str
    body: bytes

    @property
    def payload_digest(self) -> bytes:
        return hashlib.sha256(decode_message(self.body).payload).digest()


@dataclass
class Model:
    """The database.

    Parameters
    ----------
    received
        When each stored sketch arrived.
    waiting
        Sketches that are in no cell yet.
    dropped
        Sketches without payload.
    gone
        Sketches of excluded devices that are in no total.
    leaving
        Those of them that are in cells still, or wait for one.
    snapshots
        What each answered when it was made.
    """

    is_open: bool = True
    accept_until: float | None = None
    enrolled: set[int] = field(default_factory=set)
    excluded: set[int] = field(default_factory=set)
    stored: dict[str, Release] = field(default_factory=dict)
    received: dict[str, float] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)

    def expect(self, release: Release, now: float) -> int:
        """Return the status that an upload should be answered with now."""
        if release.device not in self.enrolled:
            return 401
        present = self.stored.get(release.sketch_id)
        if present is not None:
            return 200 if present.coordinate == release.coordinate else 409
        if release.device in self.excluded:
            return 401
        if not self.is_open and (self.accept_until is None or now >= self.accept_until):
            return 403
        return 201 if self._is_disjoint(release) else 422

    def _is_disjoint(self, release: Release) -> bool:
        return all(
            other.slots[1] < release.slots[0]
            if other.sequence < release.sequence
            else release.slots[1] < other.slots[0]
            for other in self.stored.values()
            if (other.device, other.stream) == (release.device, release.stream)
        )

    def store(self, release: Release, now: float) -> None:
        """Note that a sketch is stored."""
        self.stored[release.sketch_id] = release
        self.received[release.sketch_id] = now
        self.waiting.add(release.sketch_id)

    def note_merge(self) -> None:
        """Note that all sketches are in cells that should be, and no other."""
        self.waiting.clear()
        self.leaving.clear()

    def exclude(self, device: int) -> None:
        """Take out what has a payload still."""
        own = {key for key, release in self.stored.items() if release.device == device}
        if device not in self.excluded:
            self.gone |= own - self.dropped
            self.leaving |= own - self.dropped
            self.excluded.add(device)

    def find_old(self, before: float) -> set[str]:
        """Return the sketches whose payloads should be dropped now."""
        held = set(self.stored) - self.dropped - self.waiting - self.leaving
        return {key for key in held if self.received[key] < before}

    def select(self, selection: Selection) -> list[Release]:
        """Return the sketches that count in a selection."""
        return [
            release
            for key, release in self.stored.items()
            if key not in self.gone
            and contains_slots(selection, *release.slots)
            and selection.matches_labels(DEVICES[release.device].labels)
        ]


def sum_releases(releases: Iterable[Release], n_coordinates: int) -> Mapping[str, Any]:
    """Return what the sums over sketches must be, one by one."""
    listed = list(releases)
    sums, size_sums = [0] * n_coordinates, [0] * n_coordinates
    for release in listed:
        sums[release.coordinate] += 1
        size_sums[release.coordinate] += release.n_records
    members = [(bytes.fromhex(each.sketch_id), each.payload_digest) for each in listed]
    return {
        "sums": sums,
        "size_sums": size_sums,
        "moments": SizeMoments.of_sizes(release.n_records for release in listed),
        "n_devices": len({release.device for release in listed}),
        "members": encode_members(digest_members(members)),
    }
