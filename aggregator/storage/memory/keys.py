"""API keys, the audit log and totals in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from aggregator.ports import AuditRecord, KeyRecord, PageKey, StoreTotals
from aggregator.storage.memory.tables import Tables


class KeyPart:
    """Keys, audit entries and totals; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add_key(self, record: KeyRecord) -> bool:
        """Store a key."""
        if any(record.key_hash == other.key_hash for other in self._tables.keys.rows.values()):
            return False
        return self._tables.keys.add(record.key_id, record)

    async def get_key(self, key_id: str) -> KeyRecord | None:
        """Return a key."""
        return self._tables.keys.get(key_id)

    async def find_key(self, key_hash: bytes) -> KeyRecord | None:
        """Return the key with a hash."""
        rows = self._tables.keys.rows.values()
        return next((key for key in rows if key.key_hash == key_hash), None)

    async def touch_key(self, key_id: str, *, now: float) -> None:
        """Note when a key was last used."""
        key = self._tables.keys.get(key_id)
        if key is not None and (key.last_used is None or key.last_used < now):
            self._tables.keys.change(key_id, last_used=now)

    async def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys."""
        return sorted(self._tables.keys.rows.values(), key=lambda r: (r.created, r.key_id))

    async def revoke_key(self, key_id: str, *, now: float) -> bool:
        """Revoke a key."""
        key = self._tables.keys.get(key_id)
        if key is None or key.revoked is not None:
            return False
        self._tables.keys.change(key_id, revoked=now)
        return True

    async def add_audit_entry(self, record: AuditRecord) -> bool:
        """Append to the audit log."""
        return self._tables.audit.add(record.entry_id, record)

    async def list_audit_entries(
        self, *, after: PageKey | None, limit: int
    ) -> Sequence[AuditRecord]:
        """Return entries."""
        entries = sorted(self._tables.audit.rows.values(), key=lambda r: (r.time, r.entry_id))
        return [r for r in entries if after is None or (r.time, r.entry_id) > after][:limit]

    async def count_totals(self) -> StoreTotals:
        """Count what metrics show."""
        tables = self._tables
        kept = {s for s, record in tables.studies.rows.items() if record.state != "withdrawn"}
        return StoreTotals(
            n_studies=len(kept),
            n_devices=sum(d.study_id in kept for d in tables.devices.rows.values()),
            decodes=Counter(decode.state for decode in tables.decodes.rows.values()),
        )
