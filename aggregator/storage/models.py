"""The tables, and with them the first migration, until the first release freezes it.

After that release a change here needs a migration beside it in ``migrations/versions``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Dialect,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeDecorator


class CanonicalJson(TypeDecorator[Any]):
    """JSON as text with sorted keys, so that equal values are equal text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode a value; None stays NULL."""
        if value is None:
            return None
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Decode a value."""
        return None if value is None else json.loads(value)


class Base(DeclarativeBase):
    """Common to all tables: types by annotation, and names of constraints that never change."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - read by SQLAlchemy when the class is made
        bytes: LargeBinary,
        int: BigInteger,
        float: Double,
        str: Text,
        dict[str, Any]: CanonicalJson,
        list[dict[str, Any]]: CanonicalJson,
        list[str]: CanonicalJson,
    }


class Server(Base):
    """One row about the database itself."""

    __tablename__ = "server"

    row: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    generation: Mapped[bytes]


class Study(Base):
    """Studies."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "created", "study_id"),)

    study_id: Mapped[bytes] = mapped_column(primary_key=True)
    name: Mapped[str]
    plan: Mapped[bytes]
    plan_digest: Mapped[bytes]
    created: Mapped[float]
    state: Mapped[str] = mapped_column(String(16))
    accept_until: Mapped[float | None]
    version: Mapped[int]
    n_sketches: Mapped[int]
    n_records: Mapped[int]
    search_box: Mapped[dict[str, Any]]
    n_ordinals: Mapped[int] = mapped_column(default=0)
    accepted: Mapped[list[dict[str, Any]]] = mapped_column(default=list)


class Token(Base):
    """Enrolment tokens, hashed."""

    __tablename__ = "tokens"
    __table_args__ = (Index(None, "study_id", "created", "token_hash"),)

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    max_uses: Mapped[int]
    created: Mapped[float]
    expires: Mapped[float]
    labels: Mapped[dict[str, Any] | None]
    uses: Mapped[int]
    revoked: Mapped[float | None]


class Device(Base):
    """Enrolled devices."""

    __tablename__ = "devices"
    __table_args__ = (
        Index(None, "study_id", "enrolled", "device_id"),
        Index(None, "enrolled", "device_id"),
        UniqueConstraint("study_id", "ordinal"),
    )

    device_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    ordinal: Mapped[int]
    public_key: Mapped[bytes]
    labels: Mapped[dict[str, Any]]
    enrolled: Mapped[float]
    last_seen: Mapped[float | None]
    n_sketches: Mapped[int]
    excluded: Mapped[float | None]
    reason: Mapped[str | None]
    revoked: Mapped[float | None]
    heartbeat: Mapped[dict[str, Any] | None]
    heartbeat_at: Mapped[float | None]
    n_plan_refusals: Mapped[int] = mapped_column(default=0)
    replaces: Mapped[bytes | None]
    begins: Mapped[int] = mapped_column(default=0)


class RetiredKey(Base):
    """Keys that devices have replaced."""

    __tablename__ = "retired_keys"
    __table_args__ = (Index(None, "device_id"),)

    key_id: Mapped[bytes] = mapped_column(primary_key=True)
    device_id: Mapped[bytes] = mapped_column(ForeignKey("devices.device_id"))
    public_key: Mapped[bytes]
    retired: Mapped[float]
    successor: Mapped[bytes]
    last_sequences: Mapped[dict[str, Any]]
    revoked: Mapped[float | None]


class Batch(Base):
    """Batches of masked sums: reports of one slot, label set and part; ``sums`` is their total."""

    __tablename__ = "batches"
    __table_args__ = (
        UniqueConstraint("study_id", "slot", "labels", "part", "number"),
        Index(None, "study_id", "created", "batch_id"),
        # For the workers, who look for what is due.
        Index(None, "state", "next_at"),
    )

    batch_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    slot: Mapped[int]
    labels: Mapped[dict[str, Any]]
    part: Mapped[int]
    number: Mapped[int]
    created: Mapped[float]
    closes: Mapped[float]
    expires: Mapped[float]
    least_reports: Mapped[int]
    most_reports: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    n_reports: Mapped[int]
    is_asked: Mapped[bool]
    members: Mapped[bytes | None]
    n_records: Mapped[int | None]
    answer: Mapped[bytes | None]
    sums: Mapped[bytes | None]
    devices: Mapped[bytes]
    flags: Mapped[list[str]]
    standing: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None]
    opened: Mapped[float | None]
    next_at: Mapped[float]
    attempts: Mapped[int]
    problem: Mapped[dict[str, Any] | None]
    lease_token: Mapped[bytes | None]
    lease_expires: Mapped[float | None]


_HELD = text("payload IS NOT NULL")
_IN_BATCH = text("batch_id IS NOT NULL")


class Sketch(Base):
    """Sketches; retention drops the payload, and the rest stays."""

    __tablename__ = "sketches"
    __table_args__ = (
        UniqueConstraint("device_id", "stream", "sequence"),
        Index(None, "study_id", "received", "sketch_id"),
        # For retention, which looks for old payloads each minute.
        Index("ix_sketches_held", "received", sqlite_where=_HELD, postgresql_where=_HELD),
        # For exclusion, which counts the leaving sketches while uploads wait.
        Index(
            "ix_sketches_held_of_device",
            "device_id",
            "state",
            "n_records",
            sqlite_where=_HELD,
            postgresql_where=_HELD,
        ),
        # Most sketches are in no batch.
        Index(
            "ix_sketches_of_batch",
            "batch_id",
            "state",
            sqlite_where=_IN_BATCH,
            postgresql_where=_IN_BATCH,
        ),
    )

    sketch_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    device_id: Mapped[bytes] = mapped_column(ForeignKey("devices.device_id"))
    stream: Mapped[str] = mapped_column(String(64))
    sequence: Mapped[int]
    first_slot: Mapped[int | None]
    last_slot: Mapped[int | None]
    n_records: Mapped[int | None]
    block: Mapped[int]
    payload_digest: Mapped[bytes]
    header: Mapped[bytes]
    signature: Mapped[bytes]
    received: Mapped[float]
    state: Mapped[str] = mapped_column(String(16))
    payload: Mapped[bytes | None]
    batch_id: Mapped[bytes | None] = mapped_column(ForeignKey("batches.batch_id"))


class PendingSketch(Base):
    """Pending sketches: stored, and in no cell yet."""

    __tablename__ = "pending_sketches"
    __table_args__ = (Index(None, "study_id", "sketch_id"),)

    sketch_id: Mapped[bytes] = mapped_column(ForeignKey("sketches.sketch_id"), primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))


class LeavingDevice(Base):
    """Leaving devices: excluded, with sketches that are still in cells or pending."""

    __tablename__ = "leaving_devices"
    __table_args__ = (Index(None, "study_id", "device_id"),)

    device_id: Mapped[bytes] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))


class CellRoot(Base):
    """The root of a study's cells, null before the first; writers of cells lock it."""

    __tablename__ = "cell_roots"

    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"), primary_key=True)
    level: Mapped[int | None]
    first: Mapped[int | None]


class CellSum(Base):
    """Exact sums by range of slots and label set, see ``aggregator/storage/sums/dyadic.py``."""

    __tablename__ = "cells"

    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"), primary_key=True)
    level: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    first: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    length: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    labels: Mapped[str] = mapped_column(primary_key=True)
    n_sketches: Mapped[int]
    moments: Mapped[bytes]
    magnitude: Mapped[int]
    members: Mapped[bytes]
    devices: Mapped[bytes]
    sums: Mapped[bytes]
    size_sums: Mapped[bytes]


class Refusal(Base):
    """Refused sketches of a study, counted by problem."""

    __tablename__ = "refusals"

    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"), primary_key=True)
    problem: Mapped[str] = mapped_column(String(64), primary_key=True)
    count: Mapped[int]


class Snapshot(Base):
    """Frozen global sketches."""

    __tablename__ = "snapshots"

    snapshot_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    digest: Mapped[bytes]
    selection: Mapped[dict[str, Any]]
    weighting: Mapped[str] = mapped_column(String(16))
    n_sketches: Mapped[int]
    n_devices: Mapped[int]
    n_records: Mapped[int]
    n_records_error: Mapped[float]
    snr: Mapped[float]
    signal_energy: Mapped[float]
    noise_energy: Mapped[float]
    n_covered: Mapped[int]
    moments: Mapped[bytes]
    weight_a: Mapped[float]
    weight_b: Mapped[float]
    sums: Mapped[bytes]
    size_sums: Mapped[bytes]
    devices: Mapped[bytes]
    batches: Mapped[bytes]
    n_waiting: Mapped[int]
    created: Mapped[float]


class Job:
    """Columns of a job: its state, its answer, and the lease of a worker."""

    created: Mapped[float]
    state: Mapped[str] = mapped_column(String(16))
    progress: Mapped[float]
    started: Mapped[float | None]
    finished: Mapped[float | None]
    result: Mapped[dict[str, Any] | None]
    problem: Mapped[dict[str, Any] | None]
    lease_token: Mapped[bytes | None]
    lease_expires: Mapped[float | None]
    attempts: Mapped[int]


class Decode(Job, Base):
    """Decodes, which are a queue of jobs too."""

    __tablename__ = "decodes"
    __table_args__ = (
        Index(None, "state", "created"),
        Index(None, "study_id", "created", "decode_id"),
    )

    decode_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    snapshot_id: Mapped[bytes] = mapped_column(ForeignKey("snapshots.snapshot_id"))
    n_clusters: Mapped[int]
    decoder: Mapped[str] = mapped_column(String(64))
    solver: Mapped[str] = mapped_column(String(64))
    settings: Mapped[dict[str, Any]]
    search_box: Mapped[dict[str, Any]]
    seed: Mapped[int]


class Posterior(Base):
    """Densities behind decodes, which answer questions; see ``learning/answers/packing.py``."""

    __tablename__ = "posteriors"
    __table_args__ = (Index(None, "study_id"),)

    decode_id: Mapped[bytes] = mapped_column(ForeignKey("decodes.decode_id"), primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    n_records: Mapped[int]
    content: Mapped[bytes]


class Analysis(Job, Base):
    """Analyses, which are a queue of jobs too."""

    __tablename__ = "analyses"
    __table_args__ = (
        Index(None, "state", "created"),
        Index(None, "study_id", "created", "analysis_id"),
    )

    analysis_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    kind: Mapped[str] = mapped_column(String(16))
    version: Mapped[int]
    request: Mapped[dict[str, Any]]
    inputs: Mapped[list[dict[str, Any]]]


class ResultKey(Base):
    """Keys that sign published results; the one of the highest number signs."""

    __tablename__ = "result_keys"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    public_key: Mapped[bytes]
    private_key: Mapped[bytes]
    created: Mapped[float]
    endorsement: Mapped[bytes | None]


class Publication(Base):
    """Published results, as they were signed."""

    __tablename__ = "publications"

    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    decode_id: Mapped[bytes] = mapped_column(ForeignKey("decodes.decode_id"))
    name: Mapped[str]
    verdict: Mapped[str | None] = mapped_column(String(16))
    created: Mapped[float]
    key_id: Mapped[bytes]
    document: Mapped[bytes]


class Schedule(Base):
    """Schedules of decodes and analyses, and their leases."""

    __tablename__ = "schedules"
    __table_args__ = (
        Index(None, "state", "next_at"),
        Index(None, "study_id", "created", "schedule_id"),
    )

    schedule_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    kind: Mapped[str] = mapped_column(String(16))
    request: Mapped[dict[str, Any]]
    every_s: Mapped[float]
    last_s: Mapped[float | None]
    created: Mapped[float]
    state: Mapped[str] = mapped_column(String(16))
    next_at: Mapped[float]
    job_id: Mapped[bytes | None]
    begun: Mapped[float | None]
    ended: Mapped[float | None]
    last_job_id: Mapped[bytes | None]
    last_verdict: Mapped[str | None] = mapped_column(String(16))
    problem: Mapped[dict[str, Any] | None]
    known: Mapped[dict[str, Any]]
    n_runs: Mapped[int]
    lease_token: Mapped[bytes | None]
    lease_expires: Mapped[float | None]


class Alarm(Base):
    """Webhooks that alarms of a study are sent to; the secret is needed to sign."""

    __tablename__ = "alarms"
    __table_args__ = (Index(None, "study_id", "created", "alarm_id"),)

    alarm_id: Mapped[bytes] = mapped_column(primary_key=True)
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    url: Mapped[str]
    secret: Mapped[bytes]
    created: Mapped[float]
    state: Mapped[str] = mapped_column(String(16))
    n_failures: Mapped[int]
    problem: Mapped[str | None]


class Delivery(Base):
    """Messages to webhooks: an outbox, and afterwards a log."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("alarm_id", "event"),
        Index(None, "state", "next_at"),
        Index(None, "alarm_id", "created", "delivery_id"),
    )

    delivery_id: Mapped[bytes] = mapped_column(primary_key=True)
    alarm_id: Mapped[bytes] = mapped_column(ForeignKey("alarms.alarm_id"))
    study_id: Mapped[bytes] = mapped_column(ForeignKey("studies.study_id"))
    event: Mapped[str]
    kind: Mapped[str] = mapped_column(String(32))
    body: Mapped[str]
    created: Mapped[float]
    state: Mapped[str] = mapped_column(String(16))
    next_at: Mapped[float]
    attempts: Mapped[int]
    status: Mapped[int | None]
    problem: Mapped[str | None]
    ended: Mapped[float | None]
    lease_token: Mapped[bytes | None]
    lease_expires: Mapped[float | None]


class WorkerPresence(Base):
    """When each worker last showed that it is there."""

    __tablename__ = "workers"

    worker_id: Mapped[bytes] = mapped_column(primary_key=True)
    seen: Mapped[float]


class Key(Base):
    """API keys, hashed."""

    __tablename__ = "api_keys"
    __table_args__ = (UniqueConstraint("key_hash"),)

    key_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    key_hash: Mapped[bytes]
    name: Mapped[str]
    scope: Mapped[str] = mapped_column(String(16))
    created: Mapped[float]
    last_used: Mapped[float | None]
    revoked: Mapped[float | None]


class AuditEntry(Base):
    """Actions of operators; triggers refuse to change or remove one."""

    __tablename__ = "audit_entries"
    __table_args__ = (Index(None, "time", "entry_id"),)

    entry_id: Mapped[bytes] = mapped_column(primary_key=True)
    time: Mapped[float]
    actor: Mapped[str] = mapped_column(String(32))
    action: Mapped[str] = mapped_column(String(32))
    target: Mapped[str] = mapped_column(String(64))
    details: Mapped[dict[str, Any]]


_AUDIT_REFUSAL = "the audit log is append-only"
_MORE: tuple[tuple[type[Base], str, str], ...] = (
    # Written often, and hard to compress: most bits of a noised sum are random.
    *(
        (CellSum, "postgresql", f"ALTER TABLE cells ALTER COLUMN {column} SET STORAGE EXTERNAL")
        for column in ("sums", "size_sums", "members")
    ),
    (
        AuditEntry,
        "postgresql",
        "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_AUDIT_REFUSAL}'; END $$",
    ),
    (
        AuditEntry,
        "postgresql",
        "CREATE TRIGGER audit_entries_append_only "
        "BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()",
    ),
    *(
        (
            AuditEntry,
            "sqlite",
            f"CREATE TRIGGER audit_entries_no_{change.lower()} BEFORE {change} ON audit_entries "
            f"BEGIN SELECT RAISE(ABORT, '{_AUDIT_REFUSAL}'); END",
        )
        for change in ("UPDATE", "DELETE")
    ),
)
"""Statements that a database needs besides: run after the table is created."""


def _run(target: type[Base], moment: str, dialect: str, statement: str) -> None:
    later: Any = DDL(statement)  # type: ignore[no-untyped-call]
    event.listen(target.__table__, moment, later.execute_if(dialect=dialect))


for _model, _dialect, _statement in _MORE:
    _run(_model, "after_create", _dialect, _statement)
_run(AuditEntry, "after_drop", "postgresql", "DROP FUNCTION refuse_audit_change()")


def digest_tables() -> str:
    """Return eight hexadecimal digits of all tables, which change with every column."""
    parts = [statement for _, _, statement in _MORE]
    for table in Base.metadata.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements: list[Any] = [CreateTable(table), *(CreateIndex(index) for index in indexes)]
        parts += [str(made.compile(dialect=sqlite.dialect())) for made in statements]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
