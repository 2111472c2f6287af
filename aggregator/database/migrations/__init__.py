"""Alembic migrations, run through ``sfumato.aggregator.database.schema`` alone."""
