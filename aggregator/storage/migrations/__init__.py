"""Alembic migrations, run through ``sfumato.aggregator.storage.schema`` alone."""
