import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.device_agent.sources.sqlite_source import BATCH_RECORDS
from sfumato.shared.errors import LedgerError, RecordError
from tests.device_agent.sources.streams import Reader, make_stream

QUERY = "SELECT id, x, t FROM r WHERE id > :last ORDER BY id LIMIT :n"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "r.db")) as connection:
        connection.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, x, t)")
        connection.commit()
        yield connection


def make_reader(folder: Path, **options: Any) -> Reader:
    settings = {"path": "r.db", "query": QUERY, "key": "id", **options}
    return Reader(make_stream(folder, kind="sqlite", **settings))


def insert(connection: sqlite3.Connection, *values: object) -> None:
    connection.executemany("INSERT INTO r (x, t) VALUES (?, 0)", [(v,) for v in values])
    connection.commit()


def test_new_rows_are_read_once(database: sqlite3.Connection, tmp_path: Path) -> None:
    reader = make_reader(tmp_path)
    insert(database, 1, 2)
    source = reader.open()
    assert reader.poll(source) == [1, 2]
    assert source.read_batch() is None
    assert source.pause_s == 10
    insert(database, 3)
    assert reader.poll(source) == [3]
    source.close()
    assert reader.once() == []


@settings(deadline=None, max_examples=20)
@given(limits=st.lists(st.integers(0, BATCH_RECORDS + 5), max_size=6))
def test_wherever_reading_stopped_it_goes_on(
    limits: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sqlite")
    n = BATCH_RECORDS + 100
    with closing(sqlite3.connect(folder / "r.db")) as connection:
        connection.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, x, t)")
        insert(connection, *range(n))
    reader = make_reader(folder)
    found = [value for limit in limits for value in reader.once(limit=limit)]
    assert found + reader.once() == list(range(n))


def test_what_is_no_number_keeps_its_place(database: sqlite3.Connection, tmp_path: Path) -> None:
    insert(database, 1, None, "text", b"\0", "4", 2.5)
    reader = make_reader(tmp_path)
    found = reader.once()
    assert [str(value) for value in found] == ["1.0", "nan", "nan", "nan", "4.0", "2.5"]
    assert reader.messages == [
        "3 record(s) have a value that is missing or cannot be read: line 2 (x), line 3 (x), "
        "line 4 (x)"
    ]


def test_keys_of_text_are_read_too(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE s (id TEXT, x)")
    database.executemany("INSERT INTO s VALUES (?, ?)", [("a", 1), ("b", 2)])
    database.commit()
    query = "SELECT id, x FROM s WHERE id > :last ORDER BY id LIMIT :n"
    reader = make_reader(tmp_path, query=query, first="")
    assert reader.once(limit=1) == [1]
    assert reader.once() == [2]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT id, x FROM r WHERE id > :last ORDER BY id DESC LIMIT :n", "id: must be a whole"),
        ("SELECT x FROM r WHERE id > :last LIMIT :n", "id: must be a column"),
        ("SELECT id, t FROM r WHERE id > :last ORDER BY id LIMIT :n", "x: the column is not"),
        ("SELECT nonsense(:last, :n)", "r.db: cannot be read"),
        ("DELETE FROM r WHERE id > :last OR id < :n", "r.db: cannot be read"),
    ],
)
def test_a_query_that_cannot_be_resumed_is_refused(
    query: str, named: str, database: sqlite3.Connection, tmp_path: Path
) -> None:
    insert(database, 987654, 987655)
    with pytest.raises(RecordError) as caught:
        make_reader(tmp_path, query=query).once()
    assert named in str(caught.value)
    assert "98765" not in str(caught.value)
    assert database.execute("SELECT count(*) FROM r").fetchone() == (2,)


def test_a_locked_file_is_tried_again_later(database: sqlite3.Connection, tmp_path: Path) -> None:
    insert(database, 1)
    source = make_reader(tmp_path).open()
    database.execute("BEGIN EXCLUSIVE")
    assert source.read_batch() is None
    assert "is locked by its writer" in source.report.describe()[0]
    with pytest.raises(RecordError, match="Let its writer end"):
        make_reader(tmp_path).open()
    database.rollback()
    assert source.read_batch() is not None
    source.close()


def test_text_that_is_not_utf_8_spoils_its_own_record_alone(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    insert(database, 1)
    database.execute("INSERT INTO r (x, t) VALUES (CAST(x'ff' AS TEXT), 0)")
    insert(database, "2")
    reader = make_reader(tmp_path)
    assert [str(value) for value in reader.once()] == ["1.0", "nan", "2.0"]
    assert "1 record(s) have a value" in reader.messages[0]


def test_a_missing_or_other_file_is_refused(database: sqlite3.Connection, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        make_reader(tmp_path, path="absent.db").open()
    (tmp_path / "text.db").write_text("no database at all, only text" * 100)
    with pytest.raises(RecordError, match="cannot be read"):
        make_reader(tmp_path, path="text.db").open()
    insert(database, 1)
    reader = make_reader(tmp_path)
    reader.once()
    moved = make_reader(tmp_path, path="moved.db")
    moved.known = reader.known
    (tmp_path / "r.db").rename(tmp_path / "moved.db")
    with pytest.raises(LedgerError, match=r"cannot follow .*r\.db"):
        moved.open()


def test_an_expression_that_fails_at_a_value_is_named_with_how_to_guard_it(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, data)")
        rows = [(1, '{"x": 1}'), (2, "987654,"), (3, '{"x": 3}')]
        database.executemany("INSERT INTO r VALUES (?, ?)", rows)
        database.commit()
    bare = "json_extract(data, '$.x')"
    guarded = f"CASE WHEN json_valid(data) THEN {bare} END"
    for expression, is_guarded in ((bare, False), (guarded, True)):
        query = f"SELECT id, {expression} AS x FROM r WHERE id > :last ORDER BY id LIMIT :n"
        reader = Reader(make_stream(tmp_path, kind="sqlite", path="r.db", query=query, key="id"))
        if is_guarded:
            assert [str(x) for x in reader.once()] == ["1.0", "nan", "3.0"]
            continue
        with pytest.raises(RecordError, match="SQLITE_ERROR") as caught:
            reader.once()
        assert "guard it: CASE WHEN json_valid" in str(caught.value.fix)
        assert "987654" not in str(caught.value)
