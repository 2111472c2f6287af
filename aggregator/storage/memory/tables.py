"""Tables that can undo what a transaction did."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

from aggregator.ports import (
    AuditRecord,
    DecodeRecord,
    DeviceRecord,
    KeyRecord,
    RetiredKeyRecord,
    SketchRecord,
    SnapshotRecord,
    StudyRecord,
    TokenRecord,
)
from aggregator.storage.cells import Cell
from aggregator.storage.dyadic import Node
from aggregator.storage.merging import CellKey

K = TypeVar("K")
R = TypeVar("R")

Undo = list[Callable[[], object]]


class Table(Generic[K, R]):
    """Frozen records by key.

    Parameters
    ----------
    undo
        Receives, for every write, what takes it back.
    """

    def __init__(self, undo: Undo) -> None:
        self.rows: dict[K, R] = {}
        self._undo = undo

    def get(self, key: K) -> R | None:
        """Return a record."""
        return self.rows.get(key)

    def put(self, key: K, record: R) -> None:
        """Store or replace a record."""
        if key in self.rows:
            before = self.rows[key]
            self._undo.append(lambda: self.rows.__setitem__(key, before))
        else:
            self._undo.append(lambda: self.rows.pop(key))
        self.rows[key] = record

    def add(self, key: K, record: R) -> bool:
        """Store a record under a new key."""
        if key in self.rows:
            return False
        self.put(key, record)
        return True

    def remove(self, key: K) -> None:
        """Take a record out that is there."""
        before = self.rows.pop(key)
        self._undo.append(lambda: self.rows.__setitem__(key, before))

    def change(self, key: K, **values: Any) -> None:
        """Replace fields of a record that is there."""
        self.put(key, cast("R", replace(cast("Any", self.rows[key]), **values)))


class Tables:
    """All tables of a store in memory, with one undo log."""

    def __init__(self) -> None:
        self.undo: Undo = []
        self.generation = secrets.token_bytes(16)
        self.studies: Table[bytes, StudyRecord] = Table(self.undo)
        self.tokens: Table[bytes, TokenRecord] = Table(self.undo)
        self.devices: Table[bytes, DeviceRecord] = Table(self.undo)
        self.retired_keys: Table[bytes, RetiredKeyRecord] = Table(self.undo)
        self.sketches: Table[bytes, SketchRecord] = Table(self.undo)
        self.payloads: Table[bytes, bytes | None] = Table(self.undo)
        self.numbers: Table[bytes, int] = Table(self.undo)
        self.pending: Table[bytes, bytes] = Table(self.undo)
        self.leaving: Table[bytes, bytes] = Table(self.undo)
        self.cells: Table[tuple[bytes, CellKey], Cell] = Table(self.undo)
        self.roots: Table[bytes, Node] = Table(self.undo)
        self.streams: Table[tuple[bytes, str], dict[int, bytes]] = Table(self.undo)
        self.refusals: Table[tuple[bytes, str], int] = Table(self.undo)
        self.snapshots: Table[bytes, SnapshotRecord] = Table(self.undo)
        self.decodes: Table[bytes, DecodeRecord] = Table(self.undo)
        self.keys: Table[str, KeyRecord] = Table(self.undo)
        self.audit: Table[bytes, AuditRecord] = Table(self.undo)

    def roll_back(self) -> None:
        """Take back all writes since the last commit, the latest first."""
        while self.undo:
            self.undo.pop()()
