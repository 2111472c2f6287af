"""Alembic's entry: it migrates on the connection, and in the transaction, that it is handed."""

from alembic import context

from sfumato.aggregator.database.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    # SQLite changes a table by copying it.
    render_as_batch=True,
)
context.run_migrations()
