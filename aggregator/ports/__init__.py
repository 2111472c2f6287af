"""What services ask of the outside: a store and a clock, and the records that pass between.

Importable by every other part of `aggregator` but settings; imports none of them.
"""

from aggregator.ports.clock import Clock, SystemClock
from aggregator.ports.devices import DeviceRecord, RetiredKeyRecord, StreamRecord
from aggregator.ports.limbs import join_limbs, split_limbs
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
from aggregator.ports.store import Store, Transaction

__all__ = [
    "LOCAL_ACTOR",
    "AuditRecord",
    "Clock",
    "DecodeRecord",
    "DecodeState",
    "DeviceRecord",
    "ExcludedSketches",
    "KeyRecord",
    "PageKey",
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
    "join_limbs",
    "split_limbs",
]
