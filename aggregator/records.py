"""Records: the frozen values between store, services and interfaces; and the clock.

Identities and digests are bytes, times seconds since 1970. Importable by all of `aggregator` except
settings; imports none of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import numpy as np

from sfumato.aggregator.columns import KEY, DeviceId, Length, Name, Reference, StudyId, Word
from sfumato.learning.estimate.search_box import Stated
from sfumato.learning.estimate.sizes import N_MOMENTS, SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.weighting import Weights
from sfumato.shared.wire import SketchHeader, SketchMessage

KeyScope = Literal["operator", "analyst", "enrol"]
AuditAction = Literal[
    "key.create",
    "key.revoke",
    "study.create",
    "study.open",
    "study.close",
    "study.search",
    "study.withdraw",
    "token.create",
    "token.revoke",
    "generation.renew",
    "identity.rotate",
    "result.publish",
    "change.accept",
    "change.reopen",
    "schedule.create",
    "schedule.change",
    "schedule.remove",
    "alarm.create",
    "alarm.disable",
    "alarm.enable",
    "alarm.remove",
    "device.exclude",
    "device.revoke",
    "batch.open",
    "batch.admit",
    "batch.set-aside",
    "batch.give-up",
]
LOCAL_ACTOR = "local"
"""The actor of a command on the database itself, without a key."""
PageKey = tuple[float, bytes]
"""The end of a page: the time and identity of its last item."""
StudyState = Literal["open", "closed", "withdrawn"]
TokenState = Literal["usable", "used-up", "expired", "revoked"]
MOST_RANGES = 100
"""The largest number of listed gaps of a stream; all are counted."""


@dataclass(frozen=True, kw_only=True)
class KeyRecord:
    """An API key, stored as a SHA-256; ``last_used`` is exact to the minute."""

    key_id: Annotated[str, KEY, Length(32)]
    key_hash: bytes
    name: str
    scope: KeyScope
    created: float
    last_used: float | None = None
    revoked: float | None = None


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """An action of an operator.

    Parameters
    ----------
    entry_id
        16 random bytes.
    actor
        The identity of a key, or ``LOCAL_ACTOR``.
    target
        The identity of the object.
    details
        The request; never a secret.
    """

    entry_id: Annotated[bytes, KEY]
    time: float
    actor: Annotated[str, Length(32)]
    action: Annotated[AuditAction, Length(32)]
    target: Name
    details: Mapping[str, Any]


WORKER_SILENCE_S = 15.0
"""A worker that was silent for so long counts as gone; it shows itself three times as often."""


@dataclass(frozen=True, kw_only=True)
class StoreTotals:
    """Numbers for the metrics; jobs by state, without states that do not occur."""

    n_studies: int
    n_devices: int
    decodes: Mapping[str, int]
    analyses: Mapping[str, int]


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> None:
    """Wait until ``stop`` is set, at most some seconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""
        return time.time()


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """A study; a withdrawn one stays as a tombstone of its identity.

    Parameters
    ----------
    plan, plan_digest
        The plan's encoding, and the SHA-256 of it.
    accept_until
        Until when a closed study accepts late sketches, if it does.
    version
        The number of changes of ``state``, ``accept_until`` and ``search_box``, from 1.
    search_box
        The search box of decodes that state none; empty for the plan's box.
    n_sketches, n_records
        Totals of its sketches; secret numbers of records count 0.
    """

    study_id: Annotated[bytes, KEY]
    name: str
    plan: bytes
    plan_digest: bytes
    created: float
    state: StudyState = "open"
    accept_until: float | None = None
    version: int = 1
    n_sketches: int = 0
    n_records: int = 0
    search_box: Stated = field(default_factory=dict)

    def accepts_sketches(self, now: float) -> bool:
        """Return whether a sketch may be stored now."""
        if self.state == "closed":
            return self.accept_until is not None and now < self.accept_until
        return self.state == "open"


@dataclass(frozen=True, kw_only=True)
class TokenRecord:
    """An enrolment token; ``labels`` are those that its devices must have.

    Its identity is the SHA-256 of the secret, so that a found token can be found in the list.
    """

    token_hash: Annotated[bytes, KEY]
    study_id: StudyId
    max_uses: int
    created: float
    expires: float
    labels: Mapping[str, str] | None = None
    uses: int = 0
    revoked: float | None = None

    def state_at(self, now: float) -> TokenState:
        """Return whether it can enrol another device now, or why not."""
        if self.revoked is not None:
            return "revoked"
        if self.uses >= self.max_uses:
            return "used-up"
        return "expired" if self.expires <= now else "usable"


@dataclass(frozen=True, kw_only=True)
class DeviceRecord:
    """An enrolled key.

    Parameters
    ----------
    ordinal
        Its number in the study: 0, 1, 2, ... in the order of enrolment; given when it is stored.
    last_seen
        The time of its last accepted request.
    public_key
        The present key; the identity comes from the key that it enrolled with.
    excluded, reason
        When an operator excluded it, and why.
    revoked
        When an operator revoked it: its sketches stay, and no more are accepted.
    heartbeat, heartbeat_at
        The latest heartbeat, and when it arrived by the server's clock.
    replaces, begins
        The device whose place it took, and the first slot that is taken of it.
    """

    device_id: Annotated[bytes, KEY]
    study_id: StudyId
    public_key: bytes
    labels: Mapping[str, str]
    enrolled: float
    ordinal: int = -1
    last_seen: float | None = None
    n_sketches: int = 0
    excluded: float | None = None
    reason: str | None = None
    revoked: float | None = None
    heartbeat: Mapping[str, Any] | None = None
    heartbeat_at: float | None = None
    replaces: bytes | None = None
    begins: int = 0


@dataclass(frozen=True, kw_only=True)
class StreamRecord:
    """The progress of a stream of a device.

    Parameters
    ----------
    n_missing
        The number of sequence numbers below the last one without a stored sketch.
    missing
        The lowest ``MOST_RANGES`` gaps, as first and last number, in ascending order.
    """

    stream: str
    last_sequence: int
    last_slot: int | None
    n_missing: int = 0
    missing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class RetiredKeyRecord:
    """A retired key of a device, and the sketches that it still verifies.

    Parameters
    ----------
    key_id
        SHA-256 of the public key.
    successor
        The ``key_id`` of the key that replaced it.
    last_sequences
        The last sketch of each stream that it signed; it verifies no later one.
    revoked
        When an operator revoked it; it then verifies only stored sketches.
    """

    key_id: Annotated[bytes, KEY]
    device_id: DeviceId
    public_key: bytes
    retired: float
    successor: bytes
    last_sequences: Mapping[str, int] = field(default_factory=dict)
    revoked: float | None = None


@dataclass(frozen=True, kw_only=True)
class SketchRecord:
    """A stored sketch without its payload.

    Parameters
    ----------
    first_slot, last_slot
        None for windows by count.
    n_records
        None where the number is secret; its noised value ends the payload.
    block
        The block of features in the payload; 0 where a sketch carries all of them.
    header, signature
        The signed bytes and the device's signature, so that a second party can verify them.
    state, batch_id
        Under a secure sum: a :class:`~sfumato.aggregator.batch_records.ReportState`, and its batch.
        Otherwise ``stored`` or ``excluded``, and None.
    """

    sketch_id: Annotated[bytes, KEY]
    study_id: StudyId
    device_id: DeviceId
    stream: Name
    sequence: int
    first_slot: int | None
    last_slot: int | None
    n_records: int | None
    payload_digest: bytes
    header: bytes
    signature: bytes
    received: float
    block: int = 0
    state: Word = "stored"
    batch_id: Annotated[bytes, Reference("batches.batch_id")] | None = None

    @classmethod
    def of(cls, message: SketchMessage, *, received: float) -> SketchRecord:
        """Return the record of a message."""
        return cls(
            **list_columns(message.header),
            header=message.header_bytes,
            signature=message.signature,
            received=received,
        )


def list_columns(header: SketchHeader) -> dict[str, Any]:
    """Return the members of a :class:`SketchRecord` that its signed header gives."""
    first, last = header.slots or (None, None)
    return {
        "sketch_id": header.sketch_id,
        "study_id": header.study,
        "device_id": header.device,
        "stream": header.stream,
        "sequence": header.sequence,
        "first_slot": first,
        "last_slot": last,
        "n_records": header.n_records,
        "block": header.block or 0,
        "payload_digest": header.payload_digest,
    }


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
        A digest of the set of sketches, see :mod:`sfumato.aggregator.storage.sums.cells`.
    """

    n_devices: int
    members: bytes
    devices: bytes = b""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceSums:
    """The sums of a device.

    Parameters
    ----------
    totals
        Over the sketches whose payloads are kept.
    n_dropped
        Sketches without a payload.
    """

    device: DeviceRecord
    totals: Totals
    n_dropped: int


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


@dataclass(frozen=True, kw_only=True)
class SnapshotRecord:
    """A frozen weighted global sketch, with its inputs.

    Parameters
    ----------
    weight_a, weight_b
        The weight of a sketch of n records is ``a n + b n^2``. Stored, so that it is the same in
        every release and on every machine.
    snr, signal_energy, noise_energy
        Under these weights.
    n_records, n_records_error
        Exact, with an error of 0; or, with secret numbers, an estimate and its standard error.
    n_covered
        Features that some sketch carries.
    moments
        As in :class:`SketchTotals`: the limbs, little-endian.
    sums, size_sums
        As in :class:`SketchTotals`, int64, little-endian.
    devices
        As in :class:`SketchTotals`.
    batches, n_waiting
        Under a secure sum: the identities of its batches, 32 bytes each, and the number of batches
        of the selection that were not counted.
    """

    snapshot_id: Annotated[bytes, KEY]
    study_id: StudyId
    digest: bytes
    selection: Mapping[str, Any]
    weighting: Word
    n_sketches: int
    n_devices: int
    n_records: int
    snr: float
    signal_energy: float
    noise_energy: float
    n_covered: int
    moments: bytes
    weight_a: float
    weight_b: float
    sums: bytes
    size_sums: bytes
    created: float
    n_records_error: float = 0.0
    devices: bytes = b""
    batches: bytes = b""
    n_waiting: int = 0

    @property
    def totals(self) -> Totals:
        """The exact sums, decoded."""
        return Totals(
            sums=np.frombuffer(self.sums, dtype="<i8").astype(np.int64),
            size_sums=np.frombuffer(self.size_sums, dtype="<i8").astype(np.int64).reshape(2, -1),
            moments=SizeMoments(
                limbs=np.frombuffer(self.moments, dtype="<i8")
                .astype(np.int64)
                .reshape(2, N_MOMENTS, -1)
            ),
        )

    @property
    def weights(self) -> Weights:
        """The weights that were chosen when it was made."""
        return Weights(a=self.weight_a, b=self.weight_b)
