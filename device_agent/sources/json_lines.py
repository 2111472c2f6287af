"""Lines of JSON into arrays: one object a line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from device_agent.source_settings import TextSettings
from device_agent.sources.interface import ReadingReport
from device_agent.sources.mapping import RecordMapping, RecordTable
from device_agent.sources.parsers import MAX_LINE_BYTES, Block, Parsed
from shared.errors import RecordError

_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
_SPACE = " \t\r\n"


class JsonLinesParser:
    """The records of lines of JSON; see ``LineParser``.

    A field is a key, or keys of nested objects with dots between. Numbers may be text; what is
    neither cannot be sketched.
    """

    needs_header = False

    def __init__(self, settings: TextSettings, mapping: RecordMapping) -> None:
        self._mapping = mapping
        self._encoding = settings.encoding

    def read_header(self, line: bytes, where: str) -> None:
        """Refuse: there is none."""
        raise RecordError("JSON lines have no header", field=where)

    def parse(self, block: Block, report: ReadingReport, where: str) -> Parsed:
        """See ``LineParser``."""
        objects: list[dict[str, Any]] = []
        ends, numbers = [], []
        number = block.line
        for line, end in zip(block.lines(), block.ends.tolist(), strict=True):
            if line.strip():
                objects.append(self._read_object(line))
                ends.append(end)
                numbers.append(number)
            number += 1
        table = self.map_objects(objects, report, numbers)
        return Parsed(table=table, ends=np.array(ends, dtype=np.int64))

    def map_objects(
        self, objects: list[dict[str, Any]], report: ReadingReport, places: list[int]
    ) -> RecordTable:
        """Map objects that were read elsewhere."""
        table = self._map_plain(objects)
        if table is not None:
            self._mapping.note(table, report, places)
            return table
        fields = [name.split(".") for name in self._mapping.fields]
        names = self._mapping.fields
        rows = [
            [_find(item, name, path) for name, path in zip(names, fields, strict=True)]
            for item in objects
        ]
        return self._mapping.map_rows(rows, report, places)

    def _map_plain(self, objects: list[dict[str, Any]]) -> RecordTable | None:
        """Map objects in which every field is a number at the top; else None."""
        mapping, columns = self._mapping, []
        if mapping.timestamp is not None and mapping.unix_scale is None:
            plain, d = mapping.names, len(mapping.names)
        else:
            plain, d = mapping.fields, len(mapping.names)
        try:
            for name in plain:
                column = [item[name] for item in objects]
                # Truth values are of another type, and no numbers.
                if not {float, int}.issuperset(map(type, column)):
                    return None
                columns.append(np.array(column, dtype=np.float64))
            times = np.full(len(objects), np.nan)
            if mapping.timestamp is not None and mapping.unix_scale is None:
                texts = [item[mapping.timestamp] for item in objects]
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
        ids = columns[-1] if mapping.identity is not None else np.full(len(objects), np.nan)
        return RecordTable(values=mapping.convert(raw), timestamps=times, ids=ids)

    def _read_object(self, line: bytes) -> dict[str, Any]:
        """Return the object of a line; an empty one, which lacks every field, if it is none."""
        if len(line) > MAX_LINE_BYTES:
            return {}
        return read_object(line, self._encoding)


def read_object(data: bytes, encoding: str = "utf-8") -> dict[str, Any]:
    """Return the one JSON object of some bytes; an empty one if they are anything else."""
    try:
        text = data.decode(encoding).strip(_SPACE)
        item, end = _scan(text, 0)
    # Numbers of more digits than Python converts, and nesting deeper than it follows.
    except (ValueError, StopIteration, RecursionError):
        return {}
    return item if end == len(text) and type(item) is dict else {}


def _find(item: dict[str, Any], name: str, path: list[str]) -> object:
    if name in item:
        return item[name]
    found: object = item
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found
