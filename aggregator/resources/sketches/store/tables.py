"""The tables of sketches and of the running sums over them."""

from __future__ import annotations

from typing import Annotated

from sqlalchemy import Column, Index, LargeBinary, UniqueConstraint, text

from sfumato.aggregator.base.columns import KEY, DeviceId, Name, Reference, StudyId
from sfumato.aggregator.base.tables import add_ddl, derive_table
from sfumato.aggregator.resources.sketches.record import SketchRecord


class _PendingSketch:
    """A sketch that is stored, and in no cell yet."""

    sketch_id: Annotated[bytes, Reference("sketches.sketch_id"), KEY]
    study_id: StudyId


class _LeavingDevice:
    """An excluded device with sketches that are still in cells or pending."""

    device_id: Annotated[DeviceId, KEY]
    study_id: StudyId


class _Cell:
    """The exact sum of a range of slots and a label set, see ``base/sums/dyadic.py``."""

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


_HELD = text("payload IS NOT NULL")
_IN_BATCH = text("batch_id IS NOT NULL")
SKETCHES = derive_table(
    "sketches",
    SketchRecord,
    Column("payload", LargeBinary),  # dropped by retention; the rest stays
    UniqueConstraint("device_id", "stream", "sequence"),
    # Without the identity, which few of one moment need: the index is half as long.
    Index(None, "study_id", "received"),
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
CELLS = derive_table("cells", _Cell)
# Written often, and hard to compress: most bits of a noised sum are random.
add_ddl(
    CELLS,
    "postgresql",
    *(
        f"ALTER TABLE cells ALTER COLUMN {column} SET STORAGE EXTERNAL"
        for column in ("sums", "size_sums", "members")
    ),
)
REFUSALS = derive_table("refusals", _Refusal)
