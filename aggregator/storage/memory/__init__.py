"""The store in memory, for trials and tests of one process; importable as ``storage`` is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggregator.ports import Transaction
from aggregator.storage.memory.decodes import DecodePart
from aggregator.storage.memory.devices import DevicePart
from aggregator.storage.memory.exclusion import ExclusionPart
from aggregator.storage.memory.keys import KeyPart
from aggregator.storage.memory.sketches import SketchPart
from aggregator.storage.memory.studies import StudyPart
from aggregator.storage.memory.tables import Tables
from aggregator.storage.memory.withdrawal import WithdrawalPart

__all__ = ["MemoryStore"]


class MemoryTransaction(
    StudyPart, DevicePart, SketchPart, ExclusionPart, WithdrawalPart, DecodePart, KeyPart
):
    """One transaction on the tables of a store."""


class MemoryStore:
    """A store that forgets everything when the process ends.

    Guarantees
    ----------
    Transactions run one after the other; one that fails leaves no trace.
    """

    def __init__(self) -> None:
        self._tables = Tables()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        """Open a transaction; see the port."""
        async with self._turn:
            try:
                yield MemoryTransaction(self._tables)
            except BaseException:
                self._tables.roll_back()
                raise
            self._tables.undo.clear()

    async def require_ready(self) -> None:
        """Memory always answers."""

    async def close(self) -> None:
        """There is nothing to close."""
