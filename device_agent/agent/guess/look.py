"""A look at a file, and its first records as they would be read."""

from __future__ import annotations

import math
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from sfumato.device_agent.agent.dry_run import without_lock
from sfumato.device_agent.agent.guess.columns import examine_table
from sfumato.device_agent.agent.guess.foreign import refuse_foreign
from sfumato.device_agent.agent.guess.tables import (
    MOSTLY,
    Guess,
    cut_lines,
    list_columns,
    look_into,
    read_lines,
    read_objects,
)
from sfumato.device_agent.sources import open_source
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Dimension
from sfumato.shared.reading.line_protocol import read_point
from sfumato.shared.structure import structure

N_SHOWN: Final = 5
_MAGIC = (
    (b"PAR1", "parquet"),
    (b"\x93NUMPY", "npy"),
    (b"SQLite format 3\0", "sqlite"),
)


def guess_file(path: Path) -> Guess:
    """Guess how a file is read.

    Raises
    ------
    ConfigError
        It is of no kind that a source reads; the fix says how to make one of it.
    RecordError
        It cannot be opened.
    """
    found = Guess(source={"kind": "csv", "path": str(path)})
    data = look_into(path, found)
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return _name_other(kind, path)
    refuse_foreign(data, path)
    lines = cut_lines(data, found)
    if not lines:
        raise ConfigError("holds no line", field=str(path), fix="name a file with some records")
    points = [point for line in lines if (point := read_point(line)) is not None]
    if len(points) >= MOSTLY * len(lines):
        found.source["kind"] = "influx"
        table = list_columns(points)
    elif lines[0].lstrip()[:1] in ("{", "["):
        table = read_objects(lines, path, found)
    else:
        table = read_lines(lines, found)
    examine_table(table, found)
    _show(found)
    return found


def _name_other(kind: str, path: Path) -> Guess:
    found = Guess(source={"kind": kind, "path": str(path)})
    if kind == "sqlite":
        found.source |= {
            "query": "SELECT rowid AS id, * FROM TABLE WHERE rowid > :last ORDER BY rowid LIMIT :n",
            "key": "id",
        }
        found.doubts.append("write the table in the query, and the columns that are read")
    found.doubts.append("name the column of times as timestamp, if it has one")
    return found


def _show(found: Guess) -> None:
    """Read the first records as the agent would."""
    if not found.columns:
        return
    names = list(found.columns)
    dimensions = [Dimension(name=name, unit="1", lower=-1.0, upper=1.0) for name in names]
    document = {"name": "guess", "source": found.source, "columns": found.columns}
    stream = without_lock(structure(StreamSettings, document, "streams[0]"))
    # The interval that is not over yet is shown too, as it stands.
    join = stream.source.join
    ahead_s = 0.0 if join is None else join.every_s + join.grace_s
    with closing(
        open_source(stream, dimensions, (), bytes(32), now=lambda: time.time() + ahead_s)
    ) as source:
        for batch in source.read():
            for moment, values in zip(batch.timestamps, batch.values, strict=True):
                if "join" in found.source and np.isnan(values).all():
                    # Silent intervals are records too, and say nothing of how others are read.
                    continue
                time_text = ""
                if not math.isnan(moment):
                    time_text = datetime.fromtimestamp(moment, UTC).isoformat(sep=" ")
                cells = ("missing" if math.isnan(value) else f"{value:.6g}" for value in values)
                found.rows.append((time_text, *cells))
                if len(found.rows) == N_SHOWN:
                    return
