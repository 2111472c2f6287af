"""Alembic migrations, run through ``aggregator.storage.schema`` alone."""
