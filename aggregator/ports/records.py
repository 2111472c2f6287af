"""Stored records, as frozen values; identities and digests are bytes, times seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from learning.estimate.totals import Totals
from learning.estimate.weighting import SizeMoments, Weights

StudyState = Literal["open", "closed", "withdrawn"]
TokenState = Literal["usable", "used-up", "expired", "revoked"]
DecodeState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
KeyScope = Literal["operator", "analyst", "enrol"]
AuditAction = Literal[
    "key.create",
    "key.revoke",
    "study.create",
    "study.open",
    "study.close",
    "study.withdraw",
    "token.create",
    "token.revoke",
    "generation.renew",
    "device.exclude",
    "device.revoke",
]
LOCAL_ACTOR = "local"
"""The actor of a command on the database itself, without a key."""
PageKey = tuple[float, bytes]
"""Where a page ends: the time and identity of its last item."""


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """A study; one that is withdrawn is there so that its identity is never used again.

    Parameters
    ----------
    plan, plan_digest
        The plan's encoding, and the SHA-256 of it.
    accept_until
        Until when a closed study takes sketches that were on their way; None for not at all.
    version
        Counts the changes of ``state`` and ``accept_until``, from 1.
    n_sketches, n_records
        What it holds; secret numbers of records add nothing.
    """

    study_id: bytes
    name: str
    plan: bytes
    plan_digest: bytes
    created: float
    state: StudyState = "open"
    accept_until: float | None = None
    version: int = 1
    n_sketches: int = 0
    n_records: int = 0

    def accepts_sketches(self, now: float) -> bool:
        """Return whether a sketch may be stored now."""
        if self.state == "closed":
            return self.accept_until is not None and now < self.accept_until
        return self.state == "open"


@dataclass(frozen=True, kw_only=True)
class TokenRecord:
    """An enrolment token; ``labels`` are those that it forces, None if any declared ones do.

    Its identity is the SHA-256 of the secret, so that who finds a token finds it in the list.
    """

    token_hash: bytes
    study_id: bytes
    max_uses: int
    created: float
    expires: float
    labels: Mapping[str, str] | None = None
    uses: int = 0
    revoked: float | None = None

    def state_at(self, now: float) -> TokenState:
        """Return whether it enrols another device now, and if not, why."""
        if self.revoked is not None:
            return "revoked"
        if self.uses >= self.max_uses:
            return "used-up"
        return "expired" if self.expires <= now else "usable"


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
    """Which sketches of a study: those with all slots inside, of devices with these labels.

    A bound that is None does not restrict. Labels that are not named may have any value.
    """

    first_slot: int | None = None
    last_slot: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Return whether a device with these labels is in the selection."""
        return all(labels.get(name) == value for name, value in self.labels.items())

    def contains_slots(self, first: int | None, last: int | None) -> bool:
        """Return whether all slots of a sketch are in the selection."""
        if self.first_slot is not None and (first is None or first < self.first_slot):
            return False
        return self.last_slot is None or (last is not None and last <= self.last_slot)


@dataclass(frozen=True, kw_only=True, eq=False)
class SketchTotals(Totals):
    """The exact sums over a selection, and which sketches they are of.

    Parameters
    ----------
    devices
        Bit i, the lowest of the first byte first, is set for the i-th device of the study.
    members
        A digest of which sketches they are, see :mod:`aggregator.ports.members`.
    """

    n_devices: int
    members: bytes
    devices: bytes = b""


@dataclass(frozen=True, kw_only=True)
class ExcludedSketches:
    """The outcome of an exclusion for the sketches of a device.

    Parameters
    ----------
    n_subtracted
        In no sum any more.
    n_kept
        Still in sums, for their payloads were dropped before.
    """

    n_subtracted: int
    n_kept: int


@dataclass(frozen=True, kw_only=True)
class SnapshotRecord:
    """A frozen weighted global sketch, with all that forms it anew.

    Parameters
    ----------
    weight_a, weight_b
        A sketch of n records counts ``a n + b n^2``. Stored, so that no later release and no other
        machine weighs it otherwise.
    snr, signal_energy, noise_energy
        Under these weights.
    n_records, n_records_error
        Exact with an error of 0; or where numbers are secret an estimate and its standard error.
    second_moment, third_moment
        Sums over sketches of n^2 and n^3; either may need more than 64 bits.
    sums, size_sums
        As in :class:`SketchTotals`, int64, little-endian.
    devices
        As in :class:`SketchTotals`: whose sketches are in it.
    """

    snapshot_id: bytes
    study_id: bytes
    digest: bytes
    selection: Mapping[str, Any]
    weighting: str
    n_sketches: int
    n_devices: int
    n_records: int
    snr: float
    signal_energy: float
    noise_energy: float
    second_moment: int
    third_moment: int
    weight_a: float
    weight_b: float
    sums: bytes
    size_sums: bytes
    created: float
    n_records_error: float = 0.0
    devices: bytes = b""

    @property
    def moments(self) -> SizeMoments:
        """The moments of the numbers of records."""
        return SizeMoments(
            n_sketches=self.n_sketches,
            first=self.n_records,
            second=self.second_moment,
            third=self.third_moment,
        )

    @property
    def weights(self) -> Weights:
        """The weights that were chosen when it was made."""
        return Weights(a=self.weight_a, b=self.weight_b)


@dataclass(frozen=True, kw_only=True)
class DecodeRecord:
    """A decode and the lease of whoever works on it.

    Parameters
    ----------
    decoder, solver, settings
        The decoder's name, the same with its version, and all its settings.
    lease_token, lease_expires, attempts
        Random and new with each attempt: only its holder may write. Past the expiry anyone may
        take the job.
    """

    decode_id: bytes
    study_id: bytes
    snapshot_id: bytes
    n_clusters: int
    decoder: str
    solver: str
    settings: Mapping[str, Any]
    seed: int
    created: float
    state: DecodeState = "queued"
    progress: float = 0.0
    started: float | None = None
    finished: float | None = None
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None
    lease_token: bytes | None = None
    lease_expires: float | None = None
    attempts: int = 0


@dataclass(frozen=True, kw_only=True)
class KeyRecord:
    """An API key, known by its SHA-256 alone; ``last_used`` is right to the minute."""

    key_id: str
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
        The identity of what was acted on.
    details
        What was asked for; never a secret.
    """

    entry_id: bytes
    time: float
    actor: str
    action: AuditAction
    target: str
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoreTotals:
    """The amounts that a store holds; decodes by state, those states alone that occur."""

    n_studies: int
    n_devices: int
    decodes: Mapping[str, int]
