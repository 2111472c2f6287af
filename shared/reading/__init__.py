"""Read records from files: CSV, JSON lines, ``.npy`` and Parquet.

The agent and ``sfumato sketch`` both read through this package, so that the same bytes are the same
records to both. Lines of text are cut into blocks, which resume at a byte offset and can be parsed
in parallel; files of rows resume at a row.

Guarantees
----------
Every line behind the header, and every row, is one record. What a record becomes depends on its own
bytes, the header and the schema, never on another record. A record that cannot be used keeps its
place, with NaN for each value that cannot be read.
"""

from sfumato.shared.reading.files import WatchedFile, naming, open_regular
from sfumato.shared.reading.interface import LineParser, RowFile, make_parser, open_rows
from sfumato.shared.reading.layout import FileLayout, Layout
from sfumato.shared.reading.lines import BOM, MAX_LINE_BYTES, Block, LineCutter
from sfumato.shared.reading.records import Fields, RecordTable, TimeField, join_tables
from sfumato.shared.reading.text_files import TextFile

__all__ = [
    "BOM",
    "MAX_LINE_BYTES",
    "Block",
    "Fields",
    "FileLayout",
    "Layout",
    "LineCutter",
    "LineParser",
    "RecordTable",
    "RowFile",
    "TextFile",
    "TimeField",
    "WatchedFile",
    "join_tables",
    "make_parser",
    "naming",
    "open_regular",
    "open_rows",
]
