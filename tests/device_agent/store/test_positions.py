from contextlib import closing
from pathlib import Path

from sfumato.device_agent.sources import Position, SourceChanges
from sfumato.device_agent.store.database import create_database, transaction
from sfumato.device_agent.store.positions import (
    load_positions,
    note_source_changes,
    write_positions,
)


def make(source: str, offset: int) -> Position:
    return Position(source=source, place={"offset": offset})


def test_what_was_seen_moves_no_position_back_and_what_is_gone_goes(tmp_path: Path) -> None:
    with closing(create_database(tmp_path)) as connection:
        with transaction(connection):
            write_positions(connection, "meter", [make("a", 7), make("b", 7), make("c", 7)])
        with transaction(connection):
            seen = (make("a", 0), make("b", 9), make("e", 0))
            note_source_changes(connection, "meter", SourceChanges(gone=("c", "d"), seen=seen))
            note_source_changes(connection, "other", SourceChanges(gone=("a",)))
        known = load_positions(connection)
        found = {k.position.source: k.position.place["offset"] for k in known}
    assert found == {"a": 7, "b": 9, "e": 0}
