"""A helper whose connections go through a pooler in transaction mode."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from sfumato.helper.tables import open_database, plans, write
from tests.poolers import pooling


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
def test_connections_of_a_helper_share_those_of_a_pooler(address: str) -> None:
    database = make_url(address)
    with pooling(database) as port:
        pooled = database.set(host="127.0.0.1", port=port)
        engines = [open_database(pooled.render_as_string(hide_password=False)) for _ in range(2)]
        for _ in range(10):
            for engine in engines:
                with write(engine) as connection:
                    assert connection.execute(plans.select()).all() == []
        for engine in engines:
            engine.dispose()
