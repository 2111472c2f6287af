"""The ports of the services: a store and a clock, and the records that pass between.

Importable by every other part of `aggregator` but settings; imports none of them.
"""

from aggregator.ports.clock import Clock, SystemClock
from aggregator.ports.devices import MOST_RANGES, DeviceRecord, RetiredKeyRecord, StreamRecord
from aggregator.ports.records import (
    LOCAL_ACTOR,
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
    TokenRecord,
)
from aggregator.ports.store import PreparedMerge, Store, Transaction

__all__ = [
    "LOCAL_ACTOR",
    "MOST_RANGES",
    "AuditRecord",
    "Clock",
    "DecodeRecord",
    "DecodeState",
    "DeviceRecord",
    "ExcludedSketches",
    "KeyRecord",
    "PageKey",
    "PreparedMerge",
    "RefusalRecord",
    "RetiredKeyRecord",
    "Selection",
    "SketchRecord",
    "SketchTotals",
    "SnapshotRecord",
    "Store",
    "StoreTotals",
    "StreamRecord",
    "StudyRecord",
    "SystemClock",
    "TokenRecord",
    "Transaction",
]
