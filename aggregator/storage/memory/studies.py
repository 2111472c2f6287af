"""Studies and their tokens in memory."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from aggregator.ports import (
    PageKey,
    StudyRecord,
    TokenRecord,
)
from aggregator.ports.records import StudyState
from aggregator.storage.memory.tables import Tables


class StudyPart:
    """Studies and tokens; see the port for the methods' meaning."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get_generation(self) -> bytes:
        """Return the generation."""
        return self._tables.generation

    async def renew_generation(self) -> bytes:
        """Draw a new generation."""
        tables, before = self._tables, self._tables.generation
        tables.undo.append(lambda: setattr(tables, "generation", before))
        tables.generation = secrets.token_bytes(16)
        return tables.generation

    async def add_study(self, record: StudyRecord) -> bool:
        """Store a study."""
        return self._tables.studies.add(record.study_id, record)

    async def get_study(self, study_id: bytes) -> StudyRecord | None:
        """Return a study."""
        return self._tables.studies.get(study_id)

    async def find_studies_of_plan(self, plan_digest: bytes) -> Sequence[StudyRecord]:
        """Return the studies of a plan."""
        rows = self._tables.studies.rows.values()
        same = [s for s in rows if s.plan_digest == plan_digest and s.state != "withdrawn"]
        return sorted(same, key=lambda s: (s.created, s.study_id))

    async def list_studies(self, *, after: PageKey | None, limit: int) -> Sequence[StudyRecord]:
        """Return studies in the order of creation."""
        records = [r for r in self._tables.studies.rows.values() if r.state != "withdrawn"]
        records.sort(key=lambda r: (r.created, r.study_id))
        return [r for r in records if after is None or (r.created, r.study_id) > after][:limit]

    async def set_study_state(
        self,
        study_id: bytes,
        state: StudyState,
        *,
        accept_until: float | None = None,
        expected_version: int,
    ) -> bool:
        """Change the state if the version is the expected one."""
        study = self._tables.studies.get(study_id)
        if study is None or study.version != expected_version:
            return False
        self._tables.studies.change(
            study_id, state=state, accept_until=accept_until, version=study.version + 1
        )
        return True

    async def count_devices(self, study_id: bytes) -> int:
        """Count the devices of a study."""
        return sum(r.study_id == study_id for r in self._tables.devices.rows.values())

    async def add_token(self, record: TokenRecord) -> bool:
        """Store a token."""
        return self._tables.tokens.add(record.token_hash, record)

    async def get_token(self, token_hash: bytes, *, lock: bool = False) -> TokenRecord | None:
        """Return a token."""
        return self._tables.tokens.get(token_hash)

    async def use_token(self, token_hash: bytes, *, now: float) -> bool:
        """Count one use, where one is left."""
        token = self._tables.tokens.get(token_hash)
        if token is None or token.state_at(now) != "usable":
            return False
        self._tables.tokens.change(token_hash, uses=token.uses + 1)
        return True

    async def list_tokens(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[TokenRecord]:
        """Return the tokens of a study."""
        records = [r for r in self._tables.tokens.rows.values() if r.study_id == study_id]
        records.sort(key=lambda r: (r.created, r.token_hash))
        return [r for r in records if after is None or (r.created, r.token_hash) > after][:limit]

    async def revoke_token(self, token_hash: bytes, *, now: float) -> bool:
        """Revoke a token."""
        token = self._tables.tokens.get(token_hash)
        if token is None or token.revoked is not None:
            return False
        self._tables.tokens.change(token_hash, revoked=now)
        return True
