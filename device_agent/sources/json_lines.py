"""Lines of JSON into arrays: one object a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from device_agent.sources.fields import NAN
from device_agent.sources.intact import SCAN_ERRORS, find_intact
from device_agent.sources.interface import ReadingReport
from device_agent.sources.mapping import RecordMapping, RecordTable
from device_agent.sources.parsers import MAX_LINE_BYTES, Block
from device_agent.sources.settings import TextSettings
from shared.errors import RecordError

_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
_SPACE = " \t\r\n"


class _BrokenRecord(dict[str, Any]):
    """Public fields of a record that is no object; it has no values."""


class JsonLinesParser:
    """The records of lines of JSON; see ``LineParser``.

    A field is a key, or keys of nested objects with dots between. Numbers may be text; what is
    neither cannot be sketched.
    """

    needs_header = False

    def __init__(self, settings: TextSettings, mapping: RecordMapping) -> None:
        self._mapping = mapping
        self._encoding = settings.encoding
        # What a line spells more than once, or with escapes, may name a public field twice.
        keys = {key for name in mapping.public for key in (name, *name.split("."))}
        self._spellings = [f'"{key}"'.encode(settings.encoding, "replace") for key in sorted(keys)]

    @property
    def caveats(self) -> list[str]:
        """See ``LineParser``."""
        return [
            f"the member {name!r} is read from the front of each object: let the program that "
            "writes the records put it first, for what breaks an object before it leaves it "
            "unreadable"
            for name in self._mapping.public
        ]

    def read_header(self, line: bytes, where: str) -> None:
        """Refuse: there is none."""
        raise RecordError("JSON lines have no header", field=where)

    def parse(self, block: Block, report: ReadingReport) -> RecordTable:
        """See ``LineParser``."""
        return self._parse(block.lines(), block.data, report, block.places)

    def parse_records(
        self, records: Sequence[bytes], report: ReadingReport, places: Sequence[int]
    ) -> RecordTable:
        """Return as many records as are given, each the bytes of one object or of anything."""
        return self._parse(records, b"\n".join(records), report, places)

    def _parse(
        self,
        records: Sequence[bytes],
        data: bytes,
        report: ReadingReport,
        places: Sequence[int],
    ) -> RecordTable:
        items = [self._read_item(record) for record in records]
        # Where every record has each public field, and all of them together no more of it than
        # there are records, none has one twice.
        table = self._map_plain(items) if self._is_plain(data, len(records)) else None
        if table is None:
            items = [
                self._take_public(item, record) for item, record in zip(items, records, strict=True)
            ]
            table = self._map_plain(items) or self._map_rows(items)
        broken = [i for i, item in enumerate(items) if type(item) is _BrokenRecord]
        table.values[broken] = NAN
        self._mapping.note(table, report, places)
        return table

    def _map_rows(self, items: list[dict[str, Any]]) -> RecordTable:
        names = self._mapping.fields
        paths = [name.split(".") for name in names]
        return self._mapping.map_rows(
            [
                [_find(item, name, path) for name, path in zip(names, paths, strict=True)]
                for item in items
            ]
        )

    def _map_plain(self, items: list[dict[str, Any]]) -> RecordTable | None:
        """Map items in which every field is a number at the top; else None."""
        mapping, columns = self._mapping, []
        if mapping.timestamp is not None and mapping.unix_scale is None:
            plain, d = mapping.names, len(mapping.names)
        else:
            plain, d = mapping.fields, len(mapping.names)
        try:
            for name in plain:
                column = [item[name] for item in items]
                # Truth values are of another type, and no numbers.
                if not {float, int}.issuperset(map(type, column)):
                    return None
                columns.append(np.array(column, dtype=np.float64))
            times = np.full(len(items), np.nan)
            if mapping.timestamp is not None and mapping.unix_scale is None:
                texts = [item[mapping.timestamp] for item in items]
                if not {str}.issuperset(map(type, texts)) or mapping.identity is not None:
                    return None
                times = np.fromiter(map(mapping.read_time, texts), np.float64, len(texts))
        except (KeyError, OverflowError):
            return None
        raw = np.column_stack(columns[:d])
        if not np.isfinite(raw).all():
            return None
        if mapping.timestamp is not None and mapping.unix_scale is not None:
            times = mapping.read_unix(columns[d])
        ids = columns[-1] if mapping.identity is not None else np.full(len(items), np.nan)
        return RecordTable(values=mapping.convert(raw), timestamps=times, ids=ids)

    def _read_item(self, record: bytes) -> dict[str, Any]:
        """Return the object of a record; an empty one that is marked if it is none."""
        if len(record) <= MAX_LINE_BYTES:
            try:
                text = record.decode(self._encoding).strip(_SPACE)
                item, end = _scan(text, 0)
                if end == len(text) and type(item) is dict:
                    return item
            except SCAN_ERRORS:
                pass
        return _BrokenRecord()

    def _take_public(self, item: dict[str, Any], record: bytes) -> dict[str, Any]:
        """Return an item with the public fields as they stand at the front of its record."""
        if type(item) is not _BrokenRecord and self._is_plain(record, 1):
            return item
        text = record[:MAX_LINE_BYTES].decode(self._encoding, "replace")
        item.update({name: find_intact(text, name) for name in self._mapping.public})
        return item

    def _is_plain(self, data: bytes, n_records: int) -> bool:
        """Return whether each public field is spelled at most once a record, on the average."""
        if any("." in name for name in self._mapping.public):
            # Nested fields have two spellings, so that counting each tells nothing.
            return False
        return b"\\" not in data and all(data.count(key) <= n_records for key in self._spellings)


def _find(item: dict[str, Any], name: str, path: list[str]) -> object:
    if name in item:
        return item[name]
    found: object = item
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found
