"""What the server should hold, said as simply as it can be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator.ports import Selection
from aggregator.ports.members import digest_members, encode_members
from aggregator.services.jobs import MAX_ATTEMPTS
from shared.privacy.weighting import SizeMoments
from shared.wire import decode_message
from tests.aggregator.fleet import Device

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
    def member(self) -> tuple[bytes, bytes]:
        """Its identity and the digest of its payload."""
        payload = decode_message(self.body).payload
        return bytes.fromhex(self.sketch_id), hashlib.sha256(payload).digest()


@dataclass
class DecodeModel:
    """A decode: its state, and who holds its lease until when."""

    created: float
    state: str = "queued"
    attempts: int = 0
    holder: bytes | None = None
    expires: float = 0.0
    result: Any = None

    def waits(self, now: float) -> bool:
        """Tell whether a worker may take it."""
        return self.state == "queued" or (self.state == "running" and self.expires < now)


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
        Sketches of excluded devices that left the sums.
    snapshots
        What each answered when it was made.
    """

    is_open: bool = True
    enrolled: set[int] = field(default_factory=set)
    excluded: set[int] = field(default_factory=set)
    stored: dict[str, Release] = field(default_factory=dict)
    received: dict[str, float] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    decodes: dict[str, DecodeModel] = field(default_factory=dict)

    def expect(self, release: Release) -> int:
        """Return the status that an upload should be answered with now."""
        if release.device not in self.enrolled:
            return 401
        present = self.stored.get(release.sketch_id)
        if present is not None:
            return 200 if present.body == release.body else 409
        if release.device in self.excluded:
            return 401
        if not self.is_open:
            return 403
        return 201 if self._is_disjoint(release) else 422

    def _is_disjoint(self, release: Release) -> bool:
        same = [
            other
            for other in self.stored.values()
            if (other.device, other.stream) == (release.device, release.stream)
        ]
        below = [o for o in same if o.sequence < release.sequence]
        above = [o for o in same if o.sequence > release.sequence]
        return all(o.slots[1] < release.slots[0] for o in below) and all(
            release.slots[1] < o.slots[0] for o in above
        )

    def store(self, release: Release, now: float) -> None:
        """Note that a sketch is stored."""
        self.stored[release.sketch_id] = release
        self.received[release.sketch_id] = now
        self.waiting.add(release.sketch_id)

    def exclude(self, device: int) -> None:
        """Take out what has a payload still."""
        own = {key for key, release in self.stored.items() if release.device == device}
        if device not in self.excluded:
            self.gone |= own - self.dropped
            self.waiting -= own
            self.excluded.add(device)

    def find_old(self, before: float) -> set[str]:
        """Return the sketches whose payloads should be dropped now."""
        held = set(self.stored) - self.dropped - self.waiting
        return {key for key in held if self.received[key] < before}

    def select(self, selection: Selection) -> list[Release]:
        """Return the sketches that count in a selection."""
        return [
            release
            for key, release in self.stored.items()
            if key not in self.gone
            and selection.contains_slots(*release.slots)
            and selection.matches_labels(DEVICES[release.device].labels)
        ]

    def find_next_decode(self, now: float) -> str | None:
        """Return the decode that the next worker should get."""
        waiting = {
            key: decode
            for key, decode in self.decodes.items()
            if decode.waits(now) and decode.attempts < MAX_ATTEMPTS
        }
        return min(waiting, key=lambda key: waiting[key].created, default=None)

    def take_decode(self, holder: bytes, now: float, expires: float) -> str | None:
        """Note that a worker asked for work."""
        if not any(decode.waits(now) for decode in self.decodes.values()):
            return None
        for decode in self.decodes.values():
            if decode.waits(now) and decode.attempts >= MAX_ATTEMPTS:
                decode.state, decode.holder = "failed", None
        key = self.find_next_decode(now)
        if key is not None:
            decode = self.decodes[key]
            decode.state, decode.holder, decode.expires = "running", holder, expires
            decode.attempts += 1
        return key


def sum_releases(releases: Iterable[Release], n_coordinates: int) -> Mapping[str, Any]:
    """Return what the sums over sketches must be, one by one."""
    listed = list(releases)
    sums, size_sums = [0] * n_coordinates, [0] * n_coordinates
    for release in listed:
        sums[release.coordinate] += 1
        size_sums[release.coordinate] += release.n_records
    sizes = [release.n_records for release in listed]
    return {
        "sums": sums,
        "size_sums": size_sums,
        "moments": SizeMoments(
            n_sketches=len(listed),
            first=sum(sizes),
            second=sum(n**2 for n in sizes),
            third=sum(n**3 for n in sizes),
        ),
        "n_devices": len({release.device for release in listed}),
        "members": encode_members(digest_members(release.member for release in listed)),
    }
