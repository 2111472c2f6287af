"""Withdrawing a study, in memory."""

from __future__ import annotations

from typing import Any

from aggregator.storage.memory.tables import Table, Tables


class WithdrawalPart:
    """Withdrawn studies; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def withdraw_study(self, study_id: bytes) -> bool:
        """Mark a study as withdrawn."""
        tables, study = self._tables, self._tables.studies.get(study_id)
        if study is None or study.state == "withdrawn":
            return False
        tables.studies.change(
            study_id, state="withdrawn", accept_until=None, version=study.version + 1
        )
        for table in (tables.pending, tables.leaving):
            for key in [key for key, of_study in table.rows.items() if of_study == study_id]:
                table.remove(key)
        return True

    async def purge_withdrawn(self, *, most: int) -> int:
        """Remove rows of withdrawn studies, table by table."""
        held = self._list_held()[:most]
        for table, key in held:
            table.remove(key)
        return len(held) or self._forget_devices()

    def _list_held(self) -> list[tuple[Table[Any, Any], Any]]:
        tables, gone = self._tables, self._withdrawn()
        devices = {d for d, record in tables.devices.rows.items() if record.study_id in gone}
        sketches = {s for s, record in tables.sketches.rows.items() if record.study_id in gone}
        held: list[tuple[Table[Any, Any], Any]] = []
        of_study: tuple[Table[Any, Any], ...] = (tables.decodes, tables.snapshots, tables.tokens)
        for table in of_study:
            held += [(table, key) for key, r in table.rows.items() if r.study_id in gone]
        by_first: tuple[tuple[Table[Any, Any], set[bytes]], ...] = (
            (tables.streams, devices),
            (tables.cells, gone),
            (tables.refusals, gone),
        )
        for table, firsts in by_first:
            held += [(table, key) for key in table.rows if key[0] in firsts]
        by_key: tuple[tuple[Table[Any, Any], set[bytes]], ...] = (
            (tables.payloads, sketches),
            (tables.sketches, sketches),
            (tables.roots, gone),
        )
        for table, keys in by_key:
            held += [(table, key) for key in keys & table.rows.keys()]
        return held

    def _forget_devices(self) -> int:
        tables, gone = self._tables, self._withdrawn()
        telling = [
            device_id
            for device_id, d in tables.devices.rows.items()
            if d.study_id in gone and (d.labels or d.heartbeat or d.n_sketches)
        ]
        for device_id in telling:
            tables.devices.change(
                device_id, labels={}, heartbeat=None, heartbeat_at=None, n_sketches=0
            )
        for study_id in gone:
            tables.studies.change(study_id, n_sketches=0, n_records=0)
        return len(telling)

    def _withdrawn(self) -> set[bytes]:
        rows = self._tables.studies.rows
        return {study_id for study_id, record in rows.items() if record.state == "withdrawn"}
