"""All tables, and with them the first migration, until a release freezes it.

After that release a change of a table needs a migration beside it in ``migrations/versions``.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from sfumato.aggregator.base import generation
from sfumato.aggregator.base.tables import METADATA
from sfumato.aggregator.resources.alarms import store as alarms
from sfumato.aggregator.resources.batches.store import batches
from sfumato.aggregator.resources.campaigns import store as campaigns
from sfumato.aggregator.resources.devices import store as devices
from sfumato.aggregator.resources.jobs import store as jobs
from sfumato.aggregator.resources.keys import store as keys
from sfumato.aggregator.resources.sketches.store import tables as sketches
from sfumato.aggregator.resources.snapshots import store as snapshots
from sfumato.aggregator.resources.studies import store as studies

__all__ = ["METADATA", "digest_tables"]
_RESOURCES = (keys, studies, devices, sketches, batches, snapshots, jobs, campaigns, alarms)
_STORES = (generation, *_RESOURCES)
"""Each adds its tables to ``METADATA`` when it is imported."""


def digest_tables() -> str:
    """Return eight hexadecimal digits of all tables, which change with every column."""
    tables = METADATA.sorted_tables
    parts = [statement for table in reversed(tables) for statement in table.info["ddl"]]
    for table in tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements: list[Any] = [CreateTable(table), *(CreateIndex(index) for index in indexes)]
        parts += [str(made.compile(dialect=sqlite.dialect())) for made in statements]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
