"""The generation of the database, the only fact that is about the database itself."""

from __future__ import annotations

import secrets
from typing import Annotated

from sqlalchemy import select, update

from sfumato.aggregator.base.columns import KEY
from sfumato.aggregator.base.tables import derive_table
from sfumato.aggregator.base.transaction import Transaction


class _Server:
    """The only row about the database itself."""

    row: Annotated[int, KEY]
    generation: bytes


SERVER = derive_table("server", _Server)
GENERATION_BYTES = 16


async def get_generation(transaction: Transaction) -> bytes:
    """Return the generation: 16 bytes that change when a backup is restored."""
    return bytes(await transaction.scalar(select(SERVER.c.generation)))


async def renew_generation(transaction: Transaction) -> bytes:
    """Draw and store a new generation."""
    generation = secrets.token_bytes(GENERATION_BYTES)
    await transaction.connection.execute(update(SERVER).values(generation=generation))
    return generation
