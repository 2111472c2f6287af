"""Plans of Postgres as if its tables had the rows of 10^7 sketches.

A database of 2000 sketches is analysed, and its numbers of rows are multiplied afterwards. Postgres
plans by these, by the share of distinct values and by the histograms, which stay true. Only the
number of pages cannot be changed: reading many rows by an index costs less here than it would.
So a plan that scans a table here also scans it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, create_engine, event

from tests.aggregator.databases import address_of, connect, create_postgres, drop_postgres

_PLANS = "sfumato_plans"
_N_TIMES = 5000
_LOAD = """\
CREATE FUNCTION pg_temp.id(text) RETURNS bytea LANGUAGE sql AS 'SELECT sha256($1::bytea)';
SET session_replication_role = replica;
INSERT INTO studies (study_id, name, plan, plan_digest, created, state, version, n_sketches,
    n_records, search_box, n_ordinals, accepted)
SELECT pg_temp.id('study' || i), 'study', '', pg_temp.id('plan' || i), i,
    CASE i % 10 WHEN 9 THEN 'withdrawn' ELSE 'open' END, 1, 100, 100, '{{}}', 10, '[]'
FROM generate_series(0, 19) AS i;
INSERT INTO devices (device_id, study_id, public_key, labels, enrolled, ordinal, last_seen,
    n_sketches, name, begins, n_plan_refusals)
SELECT pg_temp.id('device' || i), pg_temp.id('study' || i % 20), pg_temp.id('key' || i),
    '{{"site":"' || i % 4 || '"}}', i, i / 20, 1000, 10, 'gateway ' || i, 0, 0
FROM generate_series(0, 199) AS i;
INSERT INTO retired_keys (key_id, device_id, public_key, retired, successor, last_sequences)
SELECT pg_temp.id('old' || i), pg_temp.id('device' || i), pg_temp.id('old key' || i), i,
    pg_temp.id('key' || i), '{{}}'
FROM generate_series(0, 199) AS i;
INSERT INTO batches (batch_id, study_id, slot, labels, part, number, created, closes, expires,
    least_reports, most_reports, state, n_reports, is_asked, devices, flags, standing, next_at,
    attempts)
SELECT pg_temp.id('batch' || i), pg_temp.id('study' || i % 20), i / 80,
    '{{"site":"' || i / 20 % 4 || '"}}', 0, 0, i, i, i, 20, 100,
    CASE WHEN i < 195 THEN 'acknowledged' ELSE 'open' END, 20, false, '', '[]',
    CASE WHEN i < 195 THEN 'counted' END, i, 0
FROM generate_series(0, 199) AS i;
INSERT INTO sketches (sketch_id, study_id, device_id, stream, sequence, first_slot, last_slot,
    n_records, payload_digest, header, signature, received, block, state, batch_id, payload)
SELECT pg_temp.id('sketch' || i), pg_temp.id('study' || i % 20), pg_temp.id('device' || i % 200),
    'main', i / 200, i / 200, i / 200, 200, pg_temp.id('digest' || i), '', '', i, 0,
    CASE WHEN i % 20 > 1 THEN 'stored' WHEN i < 1960 THEN 'opened' ELSE 'waiting' END,
    CASE WHEN i % 20 < 2 THEN pg_temp.id('batch' || i % 200) END,
    CASE WHEN i >= 1960 THEN ''::bytea END
FROM generate_series(0, 1999) AS i;
INSERT INTO cells (study_id, level, first, length, labels, n_sketches, moments, magnitude, members,
    devices, sums, size_sums)
SELECT pg_temp.id('study' || i % 20), i / 20 % 8, i / 160, 0, '{{}}', 10, '', 10, '', '', '', ''
FROM generate_series(0, 999) AS i;
INSERT INTO audit_entries (entry_id, time, actor, action, target, details)
SELECT pg_temp.id('entry' || i), i, 'local', 'key.create', '', '{{}}'
FROM generate_series(0, 199) AS i;
ANALYZE;
-- A value that is not in the load, as all are, shall have as many rows as one that is.
UPDATE pg_statistic SET stakind1 = 0, stanumbers1 = NULL, stavalues1 = NULL FROM pg_attribute
WHERE attrelid = starelid AND attnum = staattnum AND atttypid = 'bytea'::regtype AND stakind1 = 1;
UPDATE pg_class SET reltuples = reltuples * {n_times} WHERE reltuples > 0 AND (
    relname = ANY('{{{tables}}}') OR oid IN (
        SELECT indexrelid FROM pg_index WHERE indrelid::regclass::text = ANY('{{{tables}}}')));
"""


class _Planned(Exception):  # noqa: N818 - ends the execution of a statement, which was no mistake
    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan


class Planner:
    """The planner of Postgres, with the statistics of large tables."""

    def __init__(self, name: str) -> None:
        self._engine = create_engine(address_of(name), isolation_level="AUTOCOMMIT")
        self._engine.update_execution_options(**{_PLANS: True})
        event.listen(self._engine, "before_cursor_execute", _explain)

    def plan(self, statement: Any, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a statement."""
        try:
            with self._engine.connect() as connection:
                connection.execute(statement, parameters)
        except _Planned as planned:
            return planned.plan
        raise AssertionError(f"was not planned: {statement}")

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def is_planner(connection: Connection) -> bool:
    """Return whether a connection is of a planner."""
    return _PLANS in connection.get_execution_options()


def _explain(_: Connection, cursor: Any, statement: str, parameters: Any, *more: Any) -> None:
    if statement.lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE")):
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        raise _Planned(cursor.fetchone()[0][0]["Plan"])


def list_scanned(plan: dict[str, Any], tables: frozenset[str], *, ends: bool = False) -> list[str]:
    """Return the tables that a plan reads from end to end, directly or in an index.

    Parameters
    ----------
    ends
        Whether a limit above ends the reading of an index.
    """
    name, kind = plan.get("Relation Name"), plan["Node Type"]
    ends = (ends or kind == "Limit") and kind not in ("Sort", "Aggregate", "Hash")
    is_whole = kind == "Seq Scan" or (kind.startswith("Index") and "Index Cond" not in plan)
    found = [str(name)] if name in tables and is_whole and not (ends and kind != "Seq Scan") else []
    for part in plan.get("Plans", ()):
        found += list_scanned(part, tables, ends=ends)
    return found


@contextmanager
def open_planner(tables: frozenset[str]) -> Iterator[Planner | None]:
    """Open a planner of some tables; None where no Postgres lets its statistics be changed."""
    try:
        with connect() as connection:
            found = connection.execute("SELECT current_setting('is_superuser')").fetchone()
    except psycopg.OperationalError:
        found = None
    if found != ("on",):
        yield None
        return
    name = asyncio.run(create_postgres())
    try:
        with connect(name) as connection:
            load = _LOAD.format(n_times=_N_TIMES, tables=",".join(sorted(tables)))
            connection.execute(load.encode())
        planner = Planner(name)
        yield planner
        planner.close()
    finally:
        drop_postgres(name)
