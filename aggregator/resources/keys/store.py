"""API keys, the audit log, and the keys that sign results."""

from __future__ import annotations

from sqlalchemy import Index, UniqueConstraint, delete, or_, update

from sfumato.aggregator.base.tables import add_ddl, derive_table, run_ddl
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.keys.record import (
    AuditRecord,
    IdempotencyRecord,
    KeyRecord,
    ResultKeyRecord,
)

RESULT_KEYS = derive_table("result_keys", ResultKeyRecord, order=("number",))
API_KEYS = derive_table(
    "api_keys",
    KeyRecord,
    UniqueConstraint("key_hash"),
    order=("created", "key_id"),
)
IDEMPOTENCY_KEYS = derive_table("idempotency_keys", IdempotencyRecord, Index(None, "created"))
AUDIT_ENTRIES = derive_table(
    "audit_entries", AuditRecord, Index(None, "time", "entry_id"), order=("time", "entry_id")
)
_REFUSAL = "the audit log is append-only"
add_ddl(
    AUDIT_ENTRIES,
    "postgresql",
    "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$",
    "CREATE TRIGGER audit_entries_append_only "
    "BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries "
    "FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()",
)
run_ddl(AUDIT_ENTRIES, "after_drop", "postgresql", "DROP FUNCTION refuse_audit_change()")
add_ddl(
    AUDIT_ENTRIES,
    "sqlite",
    *(
        f"CREATE TRIGGER audit_entries_no_{change.lower()} BEFORE {change} ON audit_entries "
        f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        for change in ("UPDATE", "DELETE")
    ),
)


async def touch_key(transaction: Transaction, key_id: str, *, now: float) -> None:
    """Set when a key was last used; an earlier time changes nothing."""
    is_later = or_(API_KEYS.c.last_used.is_(None), API_KEYS.c.last_used < now)
    await transaction.run(
        update(API_KEYS).where(API_KEYS.c.key_id == key_id, is_later).values(last_used=now)
    )


async def drop_signed_in(transaction: Transaction, *, before: float) -> None:
    """Drop keys of people who signed in that expired before a time; the audit log has the names."""
    is_over = API_KEYS.c.subject.is_not(None) & (API_KEYS.c.expires < before)
    await transaction.run(delete(API_KEYS).where(is_over))


async def drop_idempotency_keys(transaction: Transaction, *, before: float) -> int:
    """Drop idempotency keys with their answers; return their number."""
    return await transaction.run(
        delete(IDEMPOTENCY_KEYS).where(IDEMPOTENCY_KEYS.c.created < before)
    )
