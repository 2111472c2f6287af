"""The port of the store, as services use it.

Methods named ``add_`` return false, and change nothing, where the identity is already taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from aggregator.ports.devices import DeviceRecord, RetiredKeyRecord, StreamRecord
from aggregator.ports.records import (
    AuditRecord,
    DecodeRecord,
    DecodeState,
    ExcludedSketches,
    KeyRecord,
    PageKey,
    RefusalRecord,
    Selection,
    SketchRecord,
    SketchTotals,
    SnapshotRecord,
    StoreTotals,
    StudyRecord,
    StudyState,
    TokenRecord,
)


class PreparedMerge(Protocol):
    """A merge that one transaction prepared for another of the same store."""


class Transaction(Protocol):
    """Reads and writes that happen together or not at all."""

    async def get_generation(self) -> bytes:
        """Return 16 bytes that change when the database is restored from a backup."""
        ...

    async def renew_generation(self) -> bytes:
        """Draw and store a new generation."""
        ...

    # Studies and their tokens

    async def add_study(self, record: StudyRecord) -> bool:
        """Store a study."""
        ...

    async def get_study(self, study_id: bytes) -> StudyRecord | None:
        """Return a study."""
        ...

    async def find_studies_of_plan(self, plan_digest: bytes) -> Sequence[StudyRecord]:
        """Return the studies of a plan that were not withdrawn, the oldest first."""
        ...

    async def list_studies(self, *, after: PageKey | None, limit: int) -> Sequence[StudyRecord]:
        """Return studies that are not withdrawn in the order of creation."""
        ...

    async def set_study_state(
        self,
        study_id: bytes,
        state: StudyState,
        *,
        accept_until: float | None = None,
        expected_version: int,
    ) -> bool:
        """Change the state and count the version up; false if the version is another."""
        ...

    async def withdraw_study(self, study_id: bytes) -> bool:
        """Mark a study as withdrawn, at once and for good; false if it is so or there is none.

        None of its sketches waits to be merged any more.
        """
        ...

    async def purge_withdrawn(self, *, most: int) -> int:
        """Remove up to ``most`` rows of what withdrawn studies held; return how many.

        Their devices stay, without labels and heartbeats, so that they can be told.
        """
        ...

    async def count_devices(self, study_id: bytes) -> int:
        """Count the enrolled devices of a study."""
        ...

    async def add_token(self, record: TokenRecord) -> bool:
        """Store an enrolment token."""
        ...

    async def get_token(self, token_hash: bytes, *, lock: bool = False) -> TokenRecord | None:
        """Return an enrolment token; with ``lock`` no other enrols by it before this ends."""
        ...

    async def use_token(self, token_hash: bytes, *, now: float) -> bool:
        """Count one use; false if it is used up, expired or revoked."""
        ...

    async def list_tokens(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[TokenRecord]:
        """Return the tokens of a study in the order of creation."""
        ...

    async def revoke_token(self, token_hash: bytes, *, now: float) -> bool:
        """Let a token enrol nobody more; false if there is none or it is revoked already."""
        ...

    # Devices

    async def add_device(self, record: DeviceRecord) -> bool:
        """Store a device."""
        ...

    async def get_device(self, device_id: bytes, *, lock: bool = False) -> DeviceRecord | None:
        """Return a device; with ``lock`` no other transaction uploads for it before this ends."""
        ...

    async def get_devices(
        self, device_ids: Collection[bytes], *, lock: bool = False
    ) -> Mapping[bytes, DeviceRecord]:
        """Return those of some devices that there are; ``lock`` as in :meth:`get_device`."""
        ...

    async def touch_devices(
        self, device_ids: Collection[bytes], *, now: float, n_sketches: int = 0
    ) -> None:
        """Note when devices were last seen, and that each has ``n_sketches`` more."""
        ...

    async def note_heartbeat(
        self, device_id: bytes, heartbeat: Mapping[str, Any], *, now: float
    ) -> None:
        """Keep what a device says of itself, in the place of what it said before."""
        ...

    async def count_plan_refusals(self, study_id: bytes) -> Mapping[str, int]:
        """Count, by rule, the devices whose last heartbeat says that they refuse the plan."""
        ...

    async def list_devices(
        self, study_id: bytes | None, *, after: PageKey | None, limit: int
    ) -> Sequence[DeviceRecord]:
        """Return devices in the order of enrolment, of one study or of all that are there."""
        ...

    async def rotate_key(self, retired: RetiredKeyRecord, *, public_key: bytes) -> bool:
        """Give a device another key and keep the old one; false if that was retired before."""
        ...

    async def list_retired_keys(self, device_id: bytes) -> Sequence[RetiredKeyRecord]:
        """Return the keys that a device has replaced, the latest last."""
        ...

    async def change_retired_key(self, record: RetiredKeyRecord) -> None:
        """Store anew how far a retired key went, and whether it is revoked."""
        ...

    async def revoke_device(self, device_id: bytes, *, now: float) -> bool:
        """Take nothing more from a device; false if it is so already."""
        ...

    async def exclude_device(
        self, device_id: bytes, *, now: float, reason: str
    ) -> ExcludedSketches | None:
        """Let the sketches of a device count no more; None if that was done before.

        From then on they are in no total and in no count of their study; those whose payloads were
        dropped stay. What running sums hold of them is taken out by :meth:`apply_removal`. The
        device's row must be locked.
        """
        ...

    async def count_excluded(self, device_id: bytes) -> ExcludedSketches:
        """Return what became of the sketches of an excluded device."""
        ...

    async def find_excluded(self, study_id: bytes, devices: bytes) -> Sequence[bytes]:
        """Return the identities of excluded devices among those of a snapshot."""
        ...

    async def list_streams(self, device_id: bytes) -> Sequence[StreamRecord]:
        """Return the streams of a device by name."""
        ...

    async def count_streams(self, device_id: bytes) -> int:
        """Count the streams of a device, in a time that does not grow with its sketches."""
        ...

    async def list_streams_of(
        self, device_ids: Sequence[bytes]
    ) -> Mapping[bytes, Sequence[StreamRecord]]:
        """Return the streams of several devices; those that have none are left out."""
        ...

    # Sketches

    async def get_sketch(self, sketch_id: bytes) -> SketchRecord | None:
        """Return a sketch without its payload."""
        ...

    async def get_sketches(self, sketch_ids: Collection[bytes]) -> Mapping[bytes, SketchRecord]:
        """Return those of some sketches that there are, without their payloads."""
        ...

    async def add_sketch(self, record: SketchRecord, payload: bytes) -> bool:
        """Store a sketch."""
        ...

    async def add_sketches(self, sketches: Sequence[tuple[SketchRecord, bytes]]) -> None:
        """Store sketches with their payloads.

        Raises
        ------
        StoreError
            The identity, or the place in the stream, of one is taken.
        """
        ...

    async def count_sketch(
        self,
        study_id: bytes,
        *,
        n_records: int,
        most_sketches: int,
        now: float,
        n_sketches: int = 1,
    ) -> bool:
        """Add sketches to a study's counts; false if they do not fit or it accepts none now."""
        ...

    async def find_neighbours(
        self, device_id: bytes, stream: str, sequence: int
    ) -> tuple[SketchRecord | None, SketchRecord | None]:
        """Return the nearest stored sketches below and above in the same stream."""
        ...

    async def list_neighbours(
        self, places: Sequence[tuple[bytes, str, int]]
    ) -> Sequence[tuple[SketchRecord | None, SketchRecord | None]]:
        """Return the neighbours of each place, given by device, stream and sequence."""
        ...

    async def list_sketches(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[SketchRecord]:
        """Return sketches in the order of arrival."""
        ...

    async def find_last_arrival(self, study_id: bytes) -> float | None:
        """Return when the latest sketch of a study was received; None where there is none."""
        ...

    async def sum_sketches(
        self, study_id: bytes, selection: Selection, *, width: int, n_coordinates: int
    ) -> SketchTotals:
        """Add up the sketches of a selection, exactly, as they were at one moment.

        The work is in the logarithm of the selection's length, and in what was not merged yet.

        Raises
        ------
        StoreError
            A sum could leave 64 bits.
        """
        ...

    async def list_unmerged(self) -> Sequence[bytes]:
        """Return the studies with sketches that are in no running sum yet."""
        ...

    async def merge_sketches(
        self, study_id: bytes, *, width: int, n_coordinates: int, most: int
    ) -> int:
        """Add up to ``most`` waiting sketches to the running sums; return how many were.

        None, while another does the same. It changes no total.

        Raises
        ------
        StoreError
            A sum could leave 64 bits.
        """
        ...

    async def prepare_merge(
        self, study_id: bytes, *, width: int, n_coordinates: int, most: int
    ) -> PreparedMerge | None:
        """Sum up to ``most`` waiting sketches, and change nothing; None if there is none.

        With :meth:`apply_merge` the same as :meth:`merge_sketches`, in two transactions: the first
        takes long and reads, the second is short and writes.
        """
        ...

    async def apply_merge(self, prepared: PreparedMerge) -> int:
        """Add what was prepared to the running sums; return how many sketches were.

        None, where something changed since, or another does the same.
        """
        ...

    async def list_leaving(self) -> Sequence[bytes]:
        """Return the studies whose running sums hold, or will, sketches of excluded devices."""
        ...

    async def prepare_removal(
        self, study_id: bytes, *, width: int, n_coordinates: int, most: int
    ) -> PreparedMerge | None:
        """Sum up to ``most`` sketches that are to leave, and change nothing; None if there is none.

        Those that wait still are merged first. As with merging, this takes long and reads.

        Raises
        ------
        StoreError
            A sum could leave 64 bits.
        """
        ...

    async def apply_removal(self, prepared: PreparedMerge) -> int:
        """Take what was prepared out of the running sums; return how many sketches were.

        None, where something changed since, or another does the same. It changes no total.

        Raises
        ------
        StoreError
            A running sum that should be there is not.
        """
        ...

    async def drop_payloads(self, *, received_before: float, most: int) -> int:
        """Drop up to ``most`` payloads of old sketches; return how many.

        Of those alone that are in running sums to stay, or out of them for good. All else of a
        sketch stays, so a replay is still known.
        """
        ...

    async def check_sums(self, study_id: bytes, *, width: int, n_coordinates: int) -> Sequence[str]:
        """Sum every stored sketch anew; name the running sums that are not what they should be.

        In a study where payloads were dropped, the sizes and the digests of members are compared.
        """
        ...

    async def count_refusal(self, study_id: bytes, problem: str, *, count: int = 1) -> None:
        """Count refusals."""
        ...

    async def list_refusals(self, study_id: bytes) -> Sequence[RefusalRecord]:
        """Return the refusals of a study, most frequent first."""
        ...

    # Snapshots and decodes

    async def add_snapshot(self, record: SnapshotRecord) -> bool:
        """Store a snapshot."""
        ...

    async def get_snapshot(self, snapshot_id: bytes) -> SnapshotRecord | None:
        """Return a snapshot."""
        ...

    async def add_decode(self, record: DecodeRecord) -> bool:
        """Queue a decode."""
        ...

    async def get_decode(self, decode_id: bytes) -> DecodeRecord | None:
        """Return a decode."""
        ...

    async def requeue_decode(self, decode_id: bytes) -> bool:
        """Queue a failed or cancelled decode anew; false if it is in another state."""
        ...

    async def cancel_decode(self, decode_id: bytes, *, now: float) -> bool:
        """Cancel a decode; false if it has ended."""
        ...

    async def has_leasable_decode(self, *, now: float) -> bool:
        """Return whether a decode waits for a worker."""
        ...

    async def lease_decode(
        self, *, token: bytes, now: float, expires: float, max_attempts: int
    ) -> DecodeRecord | None:
        """Take the oldest decode that is queued or whose lease has expired."""
        ...

    async def renew_lease(
        self, decode_id: bytes, token: bytes, *, expires: float, progress: float
    ) -> bool:
        """Prolong a lease; false if it is lost or the decode was cancelled."""
        ...

    async def release_lease(self, decode_id: bytes, token: bytes) -> bool:
        """Give a decode back unfinished; the attempt does not count."""
        ...

    async def finish_decode(
        self,
        decode_id: bytes,
        token: bytes,
        *,
        state: DecodeState,
        now: float,
        result: Mapping[str, Any] | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> bool:
        """Store how a decode ended; false if the lease is lost or it was cancelled."""
        ...

    async def fail_exhausted(
        self, *, now: float, max_attempts: int, problem: Mapping[str, Any]
    ) -> int:
        """Fail decodes whose last allowed attempt has expired; return how many."""
        ...

    # Keys, the audit log, and totals

    async def add_key(self, record: KeyRecord) -> bool:
        """Store an API key."""
        ...

    async def get_key(self, key_id: str) -> KeyRecord | None:
        """Return an API key, revoked or not."""
        ...

    async def find_key(self, key_hash: bytes) -> KeyRecord | None:
        """Return the API key with a hash, revoked or not."""
        ...

    async def touch_key(self, key_id: str, *, now: float) -> None:
        """Note when a key was last used; a time before the noted one changes nothing."""
        ...

    async def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys in the order of creation."""
        ...

    async def revoke_key(self, key_id: str, *, now: float) -> bool:
        """Revoke a key; false if there is none or it is revoked already."""
        ...

    async def add_audit_entry(self, record: AuditRecord) -> bool:
        """Append to the audit log; there is no way to change or remove an entry."""
        ...

    async def list_audit_entries(
        self, *, after: PageKey | None, limit: int
    ) -> Sequence[AuditRecord]:
        """Return entries, the oldest first."""
        ...

    async def count_totals(self) -> StoreTotals:
        """Count what metrics show."""
        ...


class Store(Protocol):
    """A place that keeps what the server knows."""

    @property
    def has_one_writer(self) -> bool:
        """True if transactions that write wait for each other, whatever they write."""
        ...

    def begin(self, *, write: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction: it commits at the end of the block, and not at all on an error.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        ...

    async def require_ready(self) -> None:
        """Check that the database answers and has the schema of this release.

        Raises
        ------
        TransportError
            It does not answer.
        UnpreparedError
            It has no tables yet.
        ConfigError
            Its schema is of another version.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
