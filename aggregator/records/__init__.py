"""Records: the frozen values between store, services and interfaces; and the clock.

Identities and digests are bytes, times seconds since 1970. Importable by all of `aggregator` except
settings; imports none of it.
"""

from aggregator.records.decodes import DecodeRecord, DecodeState, SnapshotRecord
from aggregator.records.devices import MOST_RANGES, DeviceRecord, RetiredKeyRecord, StreamRecord
from aggregator.records.server import (
    LOCAL_ACTOR,
    AuditAction,
    AuditRecord,
    Clock,
    KeyRecord,
    KeyScope,
    PageKey,
    StoreTotals,
    SystemClock,
)
from aggregator.records.sketches import (
    ExcludedSketches,
    RefusalRecord,
    Selection,
    SketchRecord,
    SketchTotals,
)
from aggregator.records.studies import StudyRecord, StudyState, TokenRecord, TokenState

__all__ = [
    "LOCAL_ACTOR",
    "MOST_RANGES",
    "AuditAction",
    "AuditRecord",
    "Clock",
    "DecodeRecord",
    "DecodeState",
    "DeviceRecord",
    "ExcludedSketches",
    "KeyRecord",
    "KeyScope",
    "PageKey",
    "RefusalRecord",
    "RetiredKeyRecord",
    "Selection",
    "SketchRecord",
    "SketchTotals",
    "SnapshotRecord",
    "StoreTotals",
    "StreamRecord",
    "StudyRecord",
    "StudyState",
    "SystemClock",
    "TokenRecord",
    "TokenState",
]
