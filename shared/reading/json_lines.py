"""Parse lines of JSON: one object a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sfumato.shared.core import Records
from sfumato.shared.errors import RecordError
from sfumato.shared.reading.intact import SCAN_ERRORS, find_intact
from sfumato.shared.reading.lines import MAX_LINE_BYTES, Block
from sfumato.shared.reading.records import NAN, Fields, RecordTable

_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
_SPACE = " \t\r\n"
_PLACES = tuple(map(str, range(1000)))
"""Keys that name elements of a list, from 0 on."""


class BrokenRecord(dict[str, Any]):
    """Public fields of a record that is no object; it has no values."""


class JsonLinesParser:
    """The records of lines of JSON; see ``LineParser``.

    A field is a key, or keys of nested objects and places in lists, from 0 on, with dots between.
    Numbers may be text; any other value cannot be sketched.
    """

    needs_header = False

    def __init__(self, fields: Fields, *, encoding: str = "utf-8") -> None:
        self._fields = fields
        self._encoding = encoding
        # What a line spells more than once, or with escapes, may name a public field twice.
        for name in fields.public:
            if any(key in _PLACES for key in name.split(".")):
                raise RecordError(
                    "cannot be an element of a list: damage before it would hide it",
                    field=name,
                    fix="let the program that writes the records put it into a member of its own",
                )
        keys = {key for name in fields.public for key in (name, *name.split("."))}
        self._spellings = [f'"{key}"' for key in sorted(keys)]

    @property
    def caveats(self) -> list[str]:
        """See ``LineParser``."""
        return [
            f"the member {name!r} is read from the front of each object: let the program that "
            "writes the records put it first, because damage before it leaves it unreadable"
            for name in self._fields.public
        ]

    def read_header(self, line: bytes, where: str) -> None:
        """Refuse: there is none."""
        raise RecordError("JSON lines have no header", field=where)

    def parse_values(self, block: Block) -> Records:
        """See ``LineParser``."""
        return self.parse(block).wanted

    def parse(self, block: Block) -> RecordTable:
        """See ``LineParser``."""
        return self.parse_records(block.lines())

    def parse_records(self, records: Sequence[bytes]) -> RecordTable:
        """Return as many records as are given, each the bytes of one object or of anything."""
        # Bytes that are no text matter to their own member alone.
        texts = [record[:MAX_LINE_BYTES].decode(self._encoding, "replace") for record in records]
        items = [
            BrokenRecord() if len(record) > MAX_LINE_BYTES else self._read(text)
            for record, text in zip(records, texts, strict=True)
        ]
        public = self._fields.public
        # Where every record has each public field, and all of them together no more of it than
        # there are records, none has one twice.
        if not self._is_plain("\n".join(texts), len(texts)) or not all(
            name in item for name in public for item in items
        ):
            for item, text in zip(items, texts, strict=True):
                if type(item) is BrokenRecord or not self._is_plain(text, 1):
                    item.update({name: self._find_public(text, name) for name in public})
        damaged = {i: "line" for i, item in enumerate(items) if type(item) is BrokenRecord}
        columns = [_take_column(items, name) for name in self._fields.names]
        for column in columns[: len(self._fields.values)]:
            for i in damaged:
                column[i] = NAN
        return self._fields.make_table(columns, damaged)

    def read_texts(self, line: bytes) -> list[str] | None:
        """See ``LineParser``; a member that is absent is empty."""
        item = self._read(line[:MAX_LINE_BYTES].decode(self._encoding, "replace"))
        if type(item) is BrokenRecord:
            return None
        found = [_find(item, name, name.split(".")) for name in self._fields.names]
        return [_show(value) for value in found]

    def _read(self, text: str) -> dict[str, Any]:
        """Return the object that a text is; an empty one that is marked if it is none."""
        text = text.strip(_SPACE)
        try:
            item, end = _scan(text, 0)
        except SCAN_ERRORS:
            return BrokenRecord()
        return item if end == len(text) and type(item) is dict else BrokenRecord()

    def _find_public(self, text: str, name: str) -> object:
        """Return a public field of a record that is broken, from its front."""
        return find_intact(text, name)

    def _is_plain(self, text: str, n_records: int) -> bool:
        """Return whether each public field is spelled at most once a record, on the average."""
        if any("." in name for name in self._fields.public):
            # Nested fields have two spellings, so that counting each tells nothing.
            return False
        return not self._spellings or (
            "\\" not in text and all(text.count(key) <= n_records for key in self._spellings)
        )


def _show(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _take_column(items: Sequence[dict[str, Any]], name: str) -> list[Any]:
    try:
        return [item[name] for item in items]
    except KeyError:
        path = name.split(".")
        return [_find(item, name, path) for item in items]


def _find(item: dict[str, Any], name: str, path: list[str]) -> object:
    if name in item:
        return item[name]
    found: object = item
    for key in path:
        if isinstance(found, list):
            found = found[int(key)] if key in _PLACES[: len(found)] else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found
