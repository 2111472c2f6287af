"""The tables, derived from the records; with them the first migration, until a release freezes it.

After that release a change here needs a migration beside it in ``migrations/versions``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, SchemaItem
from sqlalchemy.types import TypeDecorator

from sfumato.aggregator.batch_records import BatchRecord
from sfumato.aggregator.columns import KEY, DeviceId, Length, Name, Reference, StudyId
from sfumato.aggregator.job_records import (
    AlarmRecord,
    AnalysisRecord,
    DecodeRecord,
    DeliveryRecord,
    PosteriorRecord,
    PublicationRecord,
    ResultKeyRecord,
    ScheduleRecord,
)
from sfumato.aggregator.records import (
    AuditRecord,
    DeviceRecord,
    KeyRecord,
    RetiredKeyRecord,
    SketchRecord,
    SnapshotRecord,
    StudyRecord,
    TokenRecord,
)


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


METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""All tables, with names of constraints that never change."""
_TYPES: Mapping[Any, Any] = {
    bytes: LargeBinary,
    int: BigInteger,
    float: Double,
    bool: Boolean,
    str: Text,
    Literal: String(16),
    Mapping: CanonicalJson,
    Sequence: CanonicalJson,
    dict: CanonicalJson,
    list: CanonicalJson,
}
TABLES: dict[type[Any], Table] = {}
"""The table of each record."""


def derive_table(
    name: str,
    record: type[Any],
    *more: SchemaItem,
    order: Sequence[str] = (),
    is_newest_first: bool = False,
) -> Table:
    """Make the table of a record from its annotations.

    Parameters
    ----------
    record
        Its members are the columns, see :mod:`sfumato.aggregator.columns`.
    more
        Indexes, constraints, and columns that the record does not show.
    order, is_newest_first
        The two columns by which pages are ordered, a time and an identity, and the direction.
    """
    columns = [
        _derive_column(member, hint)
        for member, hint in get_type_hints(record, include_extras=True).items()
        if get_origin(hint) is not ClassVar
    ]
    table = TABLES[record] = Table(name, METADATA, *columns, *more)
    table.info.update(order=[table.c[each] for each in order], is_newest_first=is_newest_first)
    return table


def _derive_column(name: str, hint: Any) -> Column[Any]:
    marks: list[Any] = []
    is_nullable = False
    while (origin := get_origin(hint)) in (Annotated, Union, UnionType):
        is_nullable = is_nullable or origin is not Annotated
        hint, *rest = get_args(hint)
        marks += rest if origin is Annotated else ()
    lengths = [String(mark.most) for mark in marks if isinstance(mark, Length)]
    return Column(
        name,
        lengths[0] if lengths else _TYPES[origin or hint],
        *(ForeignKey(mark.target) for mark in marks if isinstance(mark, Reference)),
        primary_key=KEY in marks,
        autoincrement=False,
        nullable=is_nullable,
    )


class _Server:
    """The only row about the database itself."""

    row: Annotated[int, KEY]
    generation: bytes


class _PendingSketch:
    """A sketch that is stored, and in no cell yet."""

    sketch_id: Annotated[bytes, Reference("sketches.sketch_id"), KEY]
    study_id: StudyId


class _LeavingDevice:
    """An excluded device with sketches that are still in cells or pending."""

    device_id: Annotated[DeviceId, KEY]
    study_id: StudyId


class _CellRoot:
    """The root of a study's cells, null before the first; writers of cells lock it."""

    study_id: Annotated[StudyId, KEY]
    level: int | None
    first: int | None


class _Cell:
    """The exact sum of a range of slots and a label set, see ``storage/sums/dyadic.py``."""

    study_id: Annotated[StudyId, KEY]
    level: Annotated[int, KEY]
    first: Annotated[int, KEY]
    length: Annotated[int, KEY]
    labels: Annotated[str, KEY]
    n_sketches: int
    moments: bytes
    magnitude: int
    members: bytes
    devices: bytes
    sums: bytes
    size_sums: bytes


class _Refusal:
    """The number of sketches of a study that were refused with one problem."""

    study_id: Annotated[StudyId, KEY]
    problem: Annotated[Name, KEY]
    count: int


class _Worker:
    """The time at which a worker last showed that it is there."""

    worker_id: Annotated[bytes, KEY]
    seen: float


_HELD = text("payload IS NOT NULL")
_IN_BATCH = text("batch_id IS NOT NULL")

SERVER = derive_table("server", _Server)
STUDIES = derive_table(
    "studies",
    StudyRecord,
    Column("n_ordinals", BigInteger, nullable=False, default=0),
    Column("accepted", CanonicalJson, nullable=False, default=list),
    Index(None, "created", "study_id"),
    order=("created", "study_id"),
)
TOKENS = derive_table(
    "tokens",
    TokenRecord,
    Index(None, "study_id", "created", "token_hash"),
    order=("created", "token_hash"),
)
DEVICES = derive_table(
    "devices",
    DeviceRecord,
    Column("n_plan_refusals", BigInteger, nullable=False, default=0),
    Index(None, "study_id", "enrolled", "device_id"),
    Index(None, "enrolled", "device_id"),
    UniqueConstraint("study_id", "ordinal"),
    order=("enrolled", "device_id"),
)
RETIRED_KEYS = derive_table(
    "retired_keys", RetiredKeyRecord, Index(None, "device_id"), order=("retired", "key_id")
)
BATCHES = derive_table(
    "batches",
    BatchRecord,
    UniqueConstraint("study_id", "slot", "labels", "part", "number"),
    Index(None, "study_id", "created", "batch_id"),
    # For the workers, who look for what is due.
    Index(None, "state", "next_at"),
    order=("created", "batch_id"),
    is_newest_first=True,
)
SKETCHES = derive_table(
    "sketches",
    SketchRecord,
    Column("payload", LargeBinary),  # dropped by retention; the rest stays
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
    order=("received", "sketch_id"),
)
PENDING_SKETCHES = derive_table(
    "pending_sketches", _PendingSketch, Index(None, "study_id", "sketch_id")
)
LEAVING_DEVICES = derive_table(
    "leaving_devices", _LeavingDevice, Index(None, "study_id", "device_id")
)
CELL_ROOTS = derive_table("cell_roots", _CellRoot)
CELLS = derive_table("cells", _Cell)
REFUSALS = derive_table("refusals", _Refusal)
SNAPSHOTS = derive_table("snapshots", SnapshotRecord)
DECODES = derive_table(
    "decodes",
    DecodeRecord,
    Index(None, "state", "created"),
    Index(None, "study_id", "created", "decode_id"),
    order=("created", "decode_id"),
    is_newest_first=True,
)
POSTERIORS = derive_table("posteriors", PosteriorRecord, Index(None, "study_id"))
ANALYSES = derive_table(
    "analyses",
    AnalysisRecord,
    Index(None, "state", "created"),
    Index(None, "study_id", "created", "analysis_id"),
    order=("created", "analysis_id"),
    is_newest_first=True,
)
RESULT_KEYS = derive_table("result_keys", ResultKeyRecord, order=("number",))
PUBLICATIONS = derive_table("publications", PublicationRecord, order=("sequence", "decode_id"))
SCHEDULES = derive_table(
    "schedules",
    ScheduleRecord,
    Index(None, "state", "next_at"),
    Index(None, "study_id", "created", "schedule_id"),
    order=("created", "schedule_id"),
)
ALARMS = derive_table(
    "alarms",
    AlarmRecord,
    Index(None, "study_id", "created", "alarm_id"),
    order=("created", "alarm_id"),
)
DELIVERIES = derive_table(
    "deliveries",
    DeliveryRecord,
    UniqueConstraint("alarm_id", "event"),
    Index(None, "state", "next_at"),
    Index(None, "alarm_id", "created", "delivery_id"),
    order=("created", "delivery_id"),
    is_newest_first=True,
)
WORKERS = derive_table("workers", _Worker)
API_KEYS = derive_table(
    "api_keys",
    KeyRecord,
    UniqueConstraint("key_hash"),
    order=("created", "key_id"),
)
AUDIT_ENTRIES = derive_table(
    "audit_entries", AuditRecord, Index(None, "time", "entry_id"), order=("time", "entry_id")
)


_AUDIT_REFUSAL = "the audit log is append-only"
_MORE: tuple[tuple[Table, str, str], ...] = (
    # Written often, and hard to compress: most bits of a noised sum are random.
    *(
        (CELLS, "postgresql", f"ALTER TABLE cells ALTER COLUMN {column} SET STORAGE EXTERNAL")
        for column in ("sums", "size_sums", "members")
    ),
    (
        AUDIT_ENTRIES,
        "postgresql",
        "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_AUDIT_REFUSAL}'; END $$",
    ),
    (
        AUDIT_ENTRIES,
        "postgresql",
        "CREATE TRIGGER audit_entries_append_only "
        "BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()",
    ),
    *(
        (
            AUDIT_ENTRIES,
            "sqlite",
            f"CREATE TRIGGER audit_entries_no_{change.lower()} BEFORE {change} ON audit_entries "
            f"BEGIN SELECT RAISE(ABORT, '{_AUDIT_REFUSAL}'); END",
        )
        for change in ("UPDATE", "DELETE")
    ),
)
"""Statements that a database needs besides: run after the table is created."""


def _run(target: Table, moment: str, dialect: str, statement: str) -> None:
    later: Any = DDL(statement)  # type: ignore[no-untyped-call]
    event.listen(target, moment, later.execute_if(dialect=dialect))


for _table, _dialect, _statement in _MORE:
    _run(_table, "after_create", _dialect, _statement)
_run(AUDIT_ENTRIES, "after_drop", "postgresql", "DROP FUNCTION refuse_audit_change()")


def digest_tables() -> str:
    """Return eight hexadecimal digits of all tables, which change with every column."""
    parts = [statement for _, _, statement in _MORE]
    for table in METADATA.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements: list[Any] = [CreateTable(table), *(CreateIndex(index) for index in indexes)]
        parts += [str(made.compile(dialect=sqlite.dialect())) for made in statements]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
