"""What the server should hold, said as simply as it can be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.aggregator.records import Selection
from sfumato.aggregator.services.results.jobs import MAX_ATTEMPTS
from sfumato.aggregator.storage.sums.cells import digest_members, encode_members
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.wire import decode_message, encode_message
from tests.aggregator.fleet import Device
from tests.aggregator.storage.records import contains_slots

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
    signer: bytes

    @property
    def member(self) -> tuple[bytes, bytes]:
        """Its identity and the digest of its payload."""
        payload = decode_message(self.body).payload
        return bytes.fromhex(self.sketch_id), hashlib.sha256(payload).digest()

    def signed_again(self, device: Device) -> Release:
        """Return the same release under another signature of its device."""
        message = decode_message(self.body)
        body = encode_message(message.header, message.payload, device.key.sign)
        return replace(self, body=body, signer=device.public_key)


@dataclass
class RetiredModel:
    """A key that was replaced: by which, and the last sketch of each stream that it signed."""

    successor: bytes
    last: dict[str, int]
    is_revoked: bool = False


@dataclass
class KeysModel:
    """The keys of a device as the server knows them."""

    present: bytes
    retired: dict[bytes, RetiredModel] = field(default_factory=dict)
    is_revoked: bool = False

    def verifies(self, release: Release) -> bool:
        """Tell whether a key of the device signed a release that may have."""
        if release.signer == self.present:
            return True
        old = self.retired.get(release.signer)
        return old is not None and release.sequence <= old.last.get(release.stream, -1)

    def is_good(self, signer: bytes) -> bool:
        """Tell whether a key that verifies may bring anything new."""
        old = self.retired.get(signer) if signer != self.present else None
        return not self.is_revoked and (old is None or not old.is_revoked)

    def rotate(self, signer: bytes, successor: bytes, last: dict[str, int]) -> int:
        """Change the key, and return the status that the request is answered with."""
        old = self.retired.get(signer)
        if signer != self.present and old is None:
            return 422
        if not self.is_good(signer):
            return 401
        if signer == self.present:
            if successor in self.retired:
                return 422
            self.retired[signer] = RetiredModel(successor, dict(last))
            self.present = successor
            return 201
        assert old is not None
        if old.successor != successor:
            return 422
        both = old.last.keys() | last.keys()
        old.last = {name: max(old.last.get(name, 0), last.get(name, 0)) for name in both}
        return 200


@dataclass
class GuestModel:
    """Another study with one sketch, which is withdrawn some time."""

    study: bytes
    name: str
    device: Device
    sketch_id: str
    body: bytes
    received: float
    is_waiting: bool = True
    has_payload: bool = True
    is_withdrawn: bool = False
    is_purged: bool = False


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
        Sketches of excluded devices that are in no total.
    leaving
        Those of them that are in cells still, or wait for one.
    snapshots
        What each answered when it was made.
    """

    is_open: bool = True
    accept_until: float | None = None
    enrolled: set[int] = field(default_factory=set)
    keys: dict[int, KeysModel] = field(
        default_factory=lambda: {i: KeysModel(d.public_key) for i, d in enumerate(DEVICES)}
    )
    excluded: set[int] = field(default_factory=set)
    stored: dict[str, Release] = field(default_factory=dict)
    received: dict[str, float] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    decodes: dict[str, DecodeModel] = field(default_factory=dict)
    guests: list[GuestModel] = field(default_factory=list)

    @property
    def waits_elsewhere(self) -> bool:
        """Whether a sketch of another study is in no cell yet."""
        return any(guest.is_waiting for guest in self.guests)

    @property
    def n_waiting(self) -> int:
        """Count the sketches that are in no cell yet."""
        return len(self.waiting) + sum(guest.is_waiting for guest in self.guests)

    def note_added(self) -> None:
        """Note that all sketches are in cells."""
        self.waiting.clear()
        for guest in self.guests:
            guest.is_waiting = False

    def note_merge(self) -> None:
        """Note that all sketches are in cells that should be, and no other."""
        self.note_added()
        self.leaving.clear()

    def find_old_guests(self, before: float) -> list[GuestModel]:
        """Return the other studies whose payloads should be dropped now."""
        held = [g for g in self.guests if g.has_payload and not g.is_waiting and not g.is_purged]
        return [guest for guest in held if guest.received < before]

    def accepts(self, now: float) -> bool:
        """Tell whether the study takes a sketch now."""
        return self.is_open or (self.accept_until is not None and now < self.accept_until)

    def expect(self, release: Release, now: float) -> int:
        """Return the status that an upload should be answered with now."""
        if release.device not in self.enrolled:
            return 401
        keys = self.keys[release.device]
        if not keys.verifies(release):
            return 422
        present = self.stored.get(release.sketch_id)
        if present is not None:
            return 200 if present.coordinate == release.coordinate else 409
        if release.device in self.excluded or not keys.is_good(release.signer):
            return 401
        if not self.accepts(now):
            return 403
        return 201 if self._is_disjoint(release) else 422

    def expect_request(self, number: int, device: Device) -> int:
        """Return the status that another request of a device should be answered with."""
        if number not in self.enrolled:
            return 401
        if device.public_key != self.keys[number].present:
            return 422
        return 401 if self.keys[number].is_revoked else 200

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
        "moments": SizeMoments.of_sizes(sizes),
        "n_devices": len({release.device for release in listed}),
        "members": encode_members(digest_members(release.member for release in listed)),
    }
