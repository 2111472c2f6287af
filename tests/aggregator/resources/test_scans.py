from pathlib import Path

import pytest
from sqlalchemy import text

from tests.aggregator.databases import open_kind

pytestmark = pytest.mark.anyio


async def test_a_statement_that_reads_a_large_table_fails_and_one_that_follows_an_index_does_not(
    tmp_path: Path,
) -> None:
    async with open_kind("sqlite", tmp_path) as store:
        async with store.begin() as transaction:
            await transaction.connection.execute(
                text("SELECT reason FROM devices WHERE device_id = x'00'")
            )
        with pytest.raises(AssertionError, match="reads all of devices"):
            async with store.begin() as transaction:
                await transaction.connection.execute(
                    text("SELECT reason FROM devices WHERE reason = 'x'")
                )
