"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    _create_server()
    _create_studies()
    _create_devices()
    _create_sketches()
    _create_cells()
    _create_snapshots()
    _create_decodes()
    _create_keys()
    _create_audit()


def downgrade() -> None:
    """Drop all tables, those first that refer to others."""
    for table in (
        "audit_entries",
        "api_keys",
        "decodes",
        "snapshots",
        "refusals",
        "cells",
        "cell_roots",
        "leaving_devices",
        "pending_sketches",
        "sketches",
        "retired_keys",
        "devices",
        "tokens",
        "studies",
        "server",
    ):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_audit_change()")


def _binary(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def _integer(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _real(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _word(name: str, size: int = 16) -> sa.Column[str]:
    return sa.Column(name, sa.String(size), nullable=False)


def _primary(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def _foreign(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.{column}"], name=f"fk_{table}_{column}")


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def _create_server() -> None:
    row = sa.Column("row", sa.BigInteger(), autoincrement=False, nullable=False)
    op.create_table("server", row, _binary("generation"), _primary("server", "row"))


def _create_studies() -> None:
    op.create_table(
        "studies",
        _binary("study_id"),
        _text("name"),
        _binary("plan"),
        _binary("plan_digest"),
        _real("created"),
        _word("state"),
        _real("accept_until", nullable=True),
        _integer("version"),
        _integer("n_sketches"),
        _integer("n_records"),
        _integer("n_numbers"),
        _primary("studies", "study_id"),
    )
    _index("studies", "created", "study_id")
    op.create_table(
        "tokens",
        _binary("token_hash"),
        _binary("study_id"),
        _integer("max_uses"),
        _real("created"),
        _real("expires"),
        _text("labels", nullable=True),
        _integer("uses"),
        _real("revoked", nullable=True),
        _primary("tokens", "token_hash"),
        _foreign("tokens", "study_id", "studies"),
    )
    _index("tokens", "study_id", "created", "token_hash")


def _create_devices() -> None:
    op.create_table(
        "devices",
        _binary("device_id"),
        _binary("study_id"),
        _integer("number"),
        _binary("public_key"),
        _text("labels"),
        _real("enrolled"),
        _real("last_seen", nullable=True),
        _integer("n_sketches"),
        _real("excluded", nullable=True),
        _text("reason", nullable=True),
        _real("revoked", nullable=True),
        _text("heartbeat", nullable=True),
        _real("heartbeat_at", nullable=True),
        _integer("n_plan_refusals"),
        _primary("devices", "device_id"),
        _foreign("devices", "study_id", "studies"),
        sa.UniqueConstraint("study_id", "number", name="uq_devices_study_id_number"),
    )
    _index("devices", "study_id", "enrolled", "device_id")
    _index("devices", "enrolled", "device_id")
    op.create_table(
        "retired_keys",
        _binary("key_id"),
        _binary("device_id"),
        _binary("public_key"),
        _real("retired"),
        _binary("successor"),
        _text("last_sequences"),
        _real("revoked", nullable=True),
        _primary("retired_keys", "key_id"),
        _foreign("retired_keys", "device_id", "devices"),
    )
    _index("retired_keys", "device_id")


def _create_sketches() -> None:
    op.create_table(
        "sketches",
        _binary("sketch_id"),
        _binary("study_id"),
        _binary("device_id"),
        _word("stream", 64),
        _integer("sequence"),
        _integer("first_slot", nullable=True),
        _integer("last_slot", nullable=True),
        _integer("n_records", nullable=True),
        _binary("payload_digest"),
        _binary("header"),
        _binary("signature"),
        _real("received"),
        _word("state"),
        _binary("payload", nullable=True),
        _primary("sketches", "sketch_id"),
        _foreign("sketches", "study_id", "studies"),
        _foreign("sketches", "device_id", "devices"),
        sa.UniqueConstraint(
            "device_id", "stream", "sequence", name="uq_sketches_device_id_stream_sequence"
        ),
    )
    _index("sketches", "study_id", "received", "sketch_id")
    held = sa.text("payload IS NOT NULL")
    for name, columns in (
        ("ix_sketches_held", ["received"]),
        ("ix_sketches_held_of_device", ["device_id", "state", "n_records"]),
    ):
        op.create_index(name, "sketches", columns, sqlite_where=held, postgresql_where=held)
    op.create_table(
        "refusals",
        _binary("study_id"),
        _word("problem", 64),
        _integer("count"),
        _primary("refusals", "study_id", "problem"),
        _foreign("refusals", "study_id", "studies"),
    )


def _create_cells() -> None:
    op.create_table(
        "pending_sketches",
        _binary("sketch_id"),
        _binary("study_id"),
        _primary("pending_sketches", "sketch_id"),
        _foreign("pending_sketches", "sketch_id", "sketches"),
        _foreign("pending_sketches", "study_id", "studies"),
    )
    _index("pending_sketches", "study_id", "sketch_id")
    op.create_table(
        "leaving_devices",
        _binary("device_id"),
        _binary("study_id"),
        _primary("leaving_devices", "device_id"),
        _foreign("leaving_devices", "device_id", "devices"),
        _foreign("leaving_devices", "study_id", "studies"),
    )
    _index("leaving_devices", "study_id", "device_id")
    op.create_table(
        "cell_roots",
        _binary("study_id"),
        _integer("level", nullable=True),
        _integer("first", nullable=True),
        _primary("cell_roots", "study_id"),
        _foreign("cell_roots", "study_id", "studies"),
    )
    op.create_table(
        "cells",
        _binary("study_id"),
        sa.Column("level", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("length", sa.BigInteger(), autoincrement=False, nullable=False),
        _text("labels"),
        _integer("n_sketches"),
        _text("n_records"),
        _text("second_moment"),
        _text("third_moment"),
        _integer("magnitude"),
        _binary("members"),
        _binary("devices"),
        _binary("sums"),
        _binary("size_sums"),
        _primary("cells", "study_id", "level", "first", "length", "labels"),
        _foreign("cells", "study_id", "studies"),
    )
    if op.get_bind().dialect.name == "postgresql":
        # Written often, and compressed hardly: sums under noise are random in most of their bits.
        for column in ("sums", "size_sums", "members"):
            op.execute(f"ALTER TABLE cells ALTER COLUMN {column} SET STORAGE EXTERNAL")


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        _binary("snapshot_id"),
        _binary("study_id"),
        _binary("digest"),
        _text("selection"),
        _word("weighting"),
        _integer("n_sketches"),
        _integer("n_devices"),
        _integer("n_records"),
        _real("n_records_error"),
        _real("snr"),
        _real("signal_energy"),
        _real("noise_energy"),
        _text("second_moment"),
        _text("third_moment"),
        _real("weight_a"),
        _real("weight_b"),
        _binary("sums"),
        _binary("size_sums"),
        _binary("devices"),
        _real("created"),
        _primary("snapshots", "snapshot_id"),
        _foreign("snapshots", "study_id", "studies"),
    )


def _create_decodes() -> None:
    op.create_table(
        "decodes",
        _binary("decode_id"),
        _binary("study_id"),
        _binary("snapshot_id"),
        _integer("n_clusters"),
        _word("decoder", 64),
        _word("solver", 64),
        _text("settings"),
        _integer("seed"),
        _real("created"),
        _word("state"),
        _real("progress"),
        _real("started", nullable=True),
        _real("finished", nullable=True),
        _text("result", nullable=True),
        _text("problem", nullable=True),
        _binary("lease_token", nullable=True),
        _real("lease_expires", nullable=True),
        _integer("attempts"),
        _primary("decodes", "decode_id"),
        _foreign("decodes", "study_id", "studies"),
        _foreign("decodes", "snapshot_id", "snapshots"),
    )
    _index("decodes", "state", "created")


def _create_keys() -> None:
    op.create_table(
        "api_keys",
        _word("key_id", 32),
        _binary("key_hash"),
        _text("name"),
        _word("scope"),
        _real("created"),
        _real("last_used", nullable=True),
        _real("revoked", nullable=True),
        _primary("api_keys", "key_id"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
    )


def _create_audit() -> None:
    op.create_table(
        "audit_entries",
        _binary("entry_id"),
        _real("time"),
        _word("actor", 32),
        _word("action", 32),
        _word("target", 64),
        _text("details"),
        _primary("audit_entries", "entry_id"),
    )
    _index("audit_entries", "time", "entry_id")
    _make_append_only()


def _make_append_only() -> None:
    """Let the database itself refuse to change or remove an entry."""
    refusal = "the audit log is append-only"
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{refusal}'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_entries_append_only "
            "BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
        )
        return
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_entries_no_{change.lower()} BEFORE {change} ON audit_entries "
            f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
        )
