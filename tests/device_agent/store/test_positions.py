from contextlib import closing
from pathlib import Path

from device_agent.store.database import create_database, transaction
from device_agent.store.positions import (
    StoredPosition,
    load_positions,
    note_source_changes,
    write_positions,
)


def make(source: str, offset: int) -> StoredPosition:
    return StoredPosition(stream="meter", source=source, place={"offset": offset})


def test_what_was_seen_moves_no_position_back_and_what_is_gone_goes(tmp_path: Path) -> None:
    with closing(create_database(tmp_path)) as connection:
        with transaction(connection):
            write_positions(connection, [make("a", 7), make("b", 7), make("c", 7)])
        with transaction(connection):
            gone = [("meter", "c"), ("meter", "d"), ("other", "a")]
            note_source_changes(connection, gone, [make("a", 0), make("b", 9), make("e", 0)])
        found = {p.source: p.place["offset"] for p in load_positions(connection)}
    assert found == {"a": 7, "b": 9, "e": 0}
