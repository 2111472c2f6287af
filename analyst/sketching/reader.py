"""The records of one file, in order, in memory that does not grow with the file."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.shared.core import Records
from sfumato.shared.core.parallel import map_in_order
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Dimension
from sfumato.shared.reading import (
    BOM,
    MAX_LINE_BYTES,
    Block,
    Fields,
    FileLayout,
    LineCutter,
    RowFile,
    WatchedFile,
    make_parser,
    open_rows,
)
from sfumato.shared.reading.layout import PLAIN_TEXT
from sfumato.shared.reading.spelling import ValueSettings
from sfumato.shared.reading.text_files import PACKED, make_lines
from sfumato.shared.structure import declared, structure

BLOCK_BYTES = 1 << 22


LINE_FORMATS = (".csv", ".jsonl", ".json")
ROW_FORMATS = (".npy", ".parquet")
_LISTS = ("header", "strip", "missing_values")


@declared
class ReadSettings(ValueSettings, FileLayout):
    """How a file is read: keys of an agent's sources."""

    def __post_init__(self) -> None:
        """Refuse what no file could be read by."""
        ValueSettings.__post_init__(self)
        FileLayout.__post_init__(self)


PLAIN_FILE = ReadSettings()


def read_settings(options: Sequence[str]) -> ReadSettings:
    """Return what ``KEY=VALUE`` options state: a list by its key again, a table as ``KEY.NAME``.

    Raises
    ------
    ConfigError
        An option has another form, its key is unknown or stated twice, or breaks its rule.
    """
    document: dict[str, Any] = {}
    for option in options:
        key, equals, value = option.partition("=")
        name, _, inner = key.partition(".")
        if not equals or (not inner and name in document and name not in _LISTS):
            raise ConfigError(
                f"must be KEY=VALUE, and a key once, and is {option!r}",
                field="--read",
                fix=f"the keys are {', '.join(each.name for each in fields(ReadSettings))}",
            )
        if name in _LISTS:
            document.setdefault(name, []).append(value)
        elif inner:
            document.setdefault(name, {})[inner] = value
        else:
            document[name] = int(value) if value.isascii() and value.isdigit() else value
    return structure(ReadSettings, document, "--read")


class RecordReader:
    """The records of one file, in order, once; the name of the file says its format.

    Attributes
    ----------
    n_records
        Records in the file; None where that is not known before they are read.
    bytes_read
        Bytes of the file that were read so far; an estimate for files of rows.

    Raises
    ------
    ConfigError, RecordError
        The format is unknown, or the file is not of it; or a column is missing.
    """

    def __init__(self, file: WatchedFile, fields: Fields, layout: FileLayout = PLAIN_TEXT) -> None:
        self._file = file
        self.bytes_read = self._n_lines = 0
        self._rows: RowFile | None = None
        self.n_records: int | None = None
        suffix, layout = _find_format(file.path, layout)
        if suffix in LINE_FORMATS:
            file.replace(lambda raw: make_lines(raw, layout, file.path))
            self.parser = make_parser(suffix[1:], fields, layout, use_arrow=True)
            while self.parser.needs_header:
                name, end, _ = file.read(MAX_LINE_BYTES + 1, self.bytes_read).partition(b"\n")
                self.parser.read_header((name + end).removeprefix(BOM), str(file.path))
                self.bytes_read += len(name + end)
                self._n_lines += 1
        elif suffix in ROW_FORMATS:
            self._rows = open_rows(suffix[1:], file, fields)
            self.n_records = None if fields.keys else self._rows.n_records
        else:
            raise ConfigError(
                f"ends with none of {', '.join(LINE_FORMATS + ROW_FORMATS)}",
                field=str(file.path),
                fix="name the file by its format, or convert it",
            )

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """Yield all records, in order; ``n_threads`` help to read them.

        Raises
        ------
        RecordError
            The file is damaged, or shrinks meanwhile.
        """
        if self._rows is None:
            parsed = map_in_order(self.parser.parse_values, self.cut(), n_threads=n_threads)
            with closing(parsed) as found:
                yield from found
            return
        n_read = 0
        for table in self._rows.tables(n_threads=n_threads):
            n_read += len(table.values)
            self.bytes_read = self._file.size * n_read // self._rows.n_records
            yield table.wanted

    def cut(self) -> Iterator[Block]:
        """Yield whole lines, each once."""
        cutter = LineCutter(offset=self.bytes_read, n_lines=self._n_lines)
        for chunk in self._file.chunks(BLOCK_BYTES, self.bytes_read):
            block = cutter.feed(chunk)
            self.bytes_read += len(chunk)
            if block is not None:
                yield block
        last = cutter.finish()
        if last is not None:
            yield last


def _find_format(path: Path, layout: FileLayout) -> tuple[str, FileLayout]:
    """Return how the name of a file ends, apart from how it is packed, and its whole layout."""
    suffix = path.suffix.lower()
    if suffix in PACKED:
        layout, suffix = replace(layout, packed=PACKED[suffix]), Path(path.stem).suffix.lower()
    if suffix == ".json" and not layout.records:
        raise ConfigError(
            "must be the way to the list in the document",
            field="--read records",
            fix="write it, such as --read records=data.items, or --read records=. for the document "
            "itself; lines of objects are a .jsonl file",
        )
    return suffix, layout


def spell_unreadable(
    path: Path, fields: Fields, column: int, layout: FileLayout = PLAIN_TEXT
) -> str | None:
    """Return what a file spells for the first value of a column that cannot be read.

    None if it has no text, or none at its beginning.
    """
    if _find_format(path, layout)[0] not in LINE_FORMATS:
        return None
    with WatchedFile(path) as file:
        reader = RecordReader(file, fields, layout)
        for block in reader.cut():
            table = reader.parser.parse(block)
            is_bad = ~np.isfinite(table.to_matrix()[:, column])
            if table.chosen is not None:
                is_bad &= table.chosen
            for i in np.flatnonzero(is_bad)[:1].tolist():
                texts = reader.parser.read_texts(block.part(i, i + 1).data)
                return None if texts is None else texts[column]
            break
    return None


def choose_fields(
    dimensions: Sequence[Dimension],
    options: Sequence[str] = (),
    settings: ReadSettings = PLAIN_FILE,
) -> Fields:
    """Return the fields that ``dimension=column`` options name; the plan names all others.

    Raises
    ------
    ConfigError
        An option has another form, or names no dimension, or one that has a column already.
    """
    names = [dimension.name for dimension in dimensions]
    given: dict[str, str] = {}
    for option in options:
        dimension, equals, column = option.partition("=")
        if not equals or not column or dimension not in names or dimension in given:
            raise ConfigError(
                f"must be DIMENSION=COLUMN, once a dimension, and is {option!r}",
                field="--column",
                fix=f"the plan's dimensions are {', '.join(names)}",
            )
        given[dimension] = column
    return Fields(
        values=tuple(given.get(name, name) for name in names),
        levels=tuple(dimension.levels for dimension in dimensions),
        keys=tuple(settings.where),
        kinds={tuple(settings.where.values()): 0},
        spelling=settings.spelling,
        are_chosen=bool(given),
        advice="name the column with --column DIMENSION=COLUMN, or correct the header; state how "
        "the file is written with --read, such as --read 'delimiter=;', --read skip_lines=2 "
        "or --read encoding=cp1252",
        shows_header=True,
    )
