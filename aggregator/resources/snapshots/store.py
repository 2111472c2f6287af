"""Snapshots."""

from __future__ import annotations

from sfumato.aggregator.base.tables import derive_table
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord

SNAPSHOTS = derive_table("snapshots", SnapshotRecord)
