"""A guess at how a file is packed, what its lines are, and what separates their fields."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from sfumato.device_agent.agent.guess.foreign import find_rows, refuse_columns
from sfumato.device_agent.agent.guess.texts import is_iso, is_value
from sfumato.shared.errors import ConfigError
from sfumato.shared.reading import FileLayout, TextFile, naming, open_regular
from sfumato.shared.reading.csv_lines import split_line
from sfumato.shared.reading.json_document import DOCUMENT
from sfumato.shared.reading.layout import BLANKS

SAMPLE_BYTES: Final = 1 << 18
_MOST_LINES, _MOST_COLUMNS = 2000, 40
MOSTLY = 0.8
_MOST_PREFACE, _MOST_UNITS = 50, 3
_DELIMITERS = (",", ";", "\t", "|")
_PACKED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MOST_DOCUMENT = 1 << 24
"""A larger JSON document is not looked through for its list."""
Table = dict[str, list[Any]]
"""The values of each column, None where there is none."""


@dataclass(kw_only=True)
class Guess:
    """A guess at how a file is read.

    Attributes
    ----------
    source
        Keys of ``[streams.source]``.
    columns
        A name for a dimension of each column of numbers, and the column, or its key.
    doubts
        What the owner must decide.
    rows
        The first records as they will be read: time, then a value a column.
    """

    source: dict[str, Any]
    columns: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    rows: list[tuple[str, ...]] = field(default_factory=list)


def look_into(path: Path, found: Guess, n_bytes: int = SAMPLE_BYTES) -> bytes:
    """Return the first bytes of the lines of a file; find out how it is packed."""
    with naming(path), open_regular(path) as file:
        head = file.read(len(_PACKED[1][0]))
    for magic, packed in _PACKED:
        if head.startswith(magic):
            found.source["packed"] = packed
    data = _read_text(path, found, n_bytes)
    if data.startswith(_MARKS):
        found.source["encoding"] = "utf-16"
        data = _read_text(path, found, n_bytes)
    return data


def _read_text(path: Path, found: Guess, n_bytes: int) -> bytes:
    names = ("packed", "encoding", "records")
    layout = FileLayout(**{name: found.source[name] for name in names if name in found.source})
    with naming(path), closing(TextFile(path, layout)) as text:
        return os.pread(text.fileno(), n_bytes, 0)


def cut_lines(data: bytes, found: Guess) -> list[str]:
    """Return the lines that are whole, up to the last that is not blank."""
    is_cut = len(data) == SAMPLE_BYTES
    try:
        # A character may be cut at the end of the sample.
        text = data.decode("utf-8-sig", "ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
        found.source["encoding"] = "cp1252"
        found.doubts.append("the text is not UTF-8; cp1252 is a guess: look at its letters")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = (lines[:-1] if is_cut else lines)[:_MOST_LINES]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def read_objects(lines: Sequence[str], path: Path, found: Guess) -> Table:
    """Return the columns of lines of JSON, or of a document."""
    found.source["kind"] = "jsonl"
    objects = _parse_objects(lines)
    is_document = 2 * len(objects) <= len(lines)
    if len(lines) == 1 and objects:
        # A document may stand in one line.
        is_document = any(_find_ways(objects[0])) or bool(find_rows(objects[0]))
    if is_document:
        found.source["records"] = _find_document(path, found)
        objects = _parse_objects(cut_lines(_read_text(path, found, SAMPLE_BYTES), found))
    elif len(objects) < len(lines):
        found.doubts.append(
            f"{len(lines) - len(objects)} line(s) are no object of JSON, also blank ones, and are "
            "records that add nothing"
        )
    return list_columns([dict(_flatten(item)) for item in objects])


def _parse_objects(lines: Iterable[str]) -> list[dict[str, Any]]:
    objects = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            item = json.loads(line)
            objects += [item] if isinstance(item, dict) else []
    return objects


def _find_document(path: Path, found: Guess) -> str:
    """Return the way to the list of objects of a JSON document."""
    data = _read_text(path, found, _MOST_DOCUMENT)
    document = None
    if len(data) < _MOST_DOCUMENT:
        with suppress(ValueError, RecursionError):
            document = json.loads(data)
    ways = list(_find_ways(document))
    if not ways:
        raise refuse_columns(document, path)
    if len(ways) > 1:
        found.doubts.append(
            f"the document has {len(ways)} lists, and records names the first; each other needs a "
            f"stream of its own: {', '.join(ways[1:6])}"
        )
    return ways[0]


def _find_ways(document: object) -> Iterator[str]:
    """Yield the way to each list of objects."""
    if isinstance(document, list):
        n_objects = sum(isinstance(item, dict) for item in document)
        if n_objects > 1 and 2 * n_objects > len(document):
            yield DOCUMENT
    for key, value in document.items() if isinstance(document, dict) else ():
        for way in () if "." in key else _find_ways(value):
            yield key if way == DOCUMENT else f"{key}.{way}"


def list_columns(items: Sequence[Mapping[str, Any]]) -> Table:
    """Return the columns of objects."""
    names = list(dict.fromkeys(name for each in items for name in each))[:_MOST_COLUMNS]
    return {name: [each.get(name) for each in items] for name in names}


def _flatten(item: object, path: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(item, dict | list):
        pairs = item.items() if isinstance(item, dict) else enumerate(item)
        for key, value in pairs:
            yield from _flatten(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, item


def read_lines(lines: Sequence[str], found: Guess) -> Table:
    """Return the columns of lines of CSV."""
    delimiter, n_fields = _find_delimiter(lines)
    if delimiter != ",":
        found.source["delimiter"] = delimiter
    rows = [split_line(line, delimiter) for line in lines]
    whole = [i for i, row in enumerate(rows) if row is not None and len(row) == n_fields]
    if not whole:
        raise ConfigError(
            "cannot be split into fields: no line has matching quotes",
            field=found.source["path"],
            fix="name a file of CSV, JSON lines or line protocol",
        )
    first = _find_header(lines, rows, whole)
    before = lines[:first]
    if before and before[0].startswith("sep="):
        before = before[1:]
    if before and all(line.lstrip().startswith("#") for line in before):
        found.source["comment"] = "#"
    elif before:
        found.source["skip_lines"] = first
    names = [name.strip() for name in rows[first] or ()]
    body = [row for row in rows[first + 1 :] if row is not None and len(row) == n_fields]
    is_named = not any(map(is_value, names))
    if not is_named:
        body = [names, *body]
        names = [f"column{i + 1}" for i in range(n_fields)]
        found.source["header"] = names
        if "comment" in found.source:
            found.source["skip_lines"] = first
            del found.source["comment"]
        found.doubts.append("no line names the columns: write their names in header")
    # pandas leaves the column of its index without a name, where times may stand.
    held = [any(is_iso(row[i].strip()) for row in body) for i in range(n_fields)]
    named = [name or "time" if is_time else name for name, is_time in zip(names, held, strict=True)]
    unique = _number_names(named)
    if is_named and unique != names:
        found.source |= {"skip_lines": first + 1, "header": unique}
        found.source.pop("comment", None)
        found.doubts.append(
            "columns have one name or none: header names them, so name them yourself"
        )
        names = unique
    n_units = _count_units(body) if is_named else 0
    if n_units:
        # Only what stands before the header can be skipped, so that it is in the settings.
        found.source |= {"skip_lines": first + 1 + n_units, "header": names}
        found.source.pop("comment", None)
        found.doubts.append(
            f"{n_units} line(s) behind the names state no value, such as "
            f"{next(filter(None, body[0]))!r}, and are skipped"
        )
        body, first = body[n_units:], first + n_units
    n_odd = len(lines) - first - is_named - len(body)
    if n_odd > 0:
        found.doubts.append(
            f"{n_odd} line(s) have another number of fields, and are records that add nothing"
        )
    columns = zip(*body, strict=True) if body else ([] for _ in names)
    return {
        name: [cell.strip() or None for cell in column]
        for name, column in zip(names[:_MOST_COLUMNS], columns, strict=False)
    }


def _find_header(
    lines: Sequence[str], rows: Sequence[Sequence[str] | None], whole: Sequence[int]
) -> int:
    """Return the line that names most columns, of those before the records; or the first."""
    n_named = {
        i: len({cell.strip() for cell in rows[i] or () if cell.strip()})
        for i in whole[:_MOST_PREFACE]
        # Annotations may have as many fields as the header behind them.
        if not lines[i].lstrip().startswith("#") and not any(map(is_value, rows[i] or ()))
    }
    return max(n_named, key=lambda i: n_named[i], default=whole[0])


def _count_units(body: Sequence[Sequence[str]]) -> int:
    """Return how many lines behind the names say of columns of values what these are in."""
    columns = list(zip(*body[_MOST_UNITS:], strict=True))
    are_values = [MOSTLY * len(cells) <= sum(map(is_value, cells)) for cells in columns]
    n_units = 0
    for row in body[:_MOST_UNITS] if columns else ():
        # A text that stands among values later on too is one of a missing value.
        said = [
            cell
            for cell, cells, is_one in zip(row, columns, are_values, strict=True)
            if cell and is_one and cell not in cells
        ]
        if not said or any(map(is_value, row)):
            break
        n_units += 1
    return n_units


def _number_names(names: Sequence[str]) -> list[str]:
    """Return the names, with a number behind each that stood before."""
    found: list[str] = []
    for name in names:
        others = (f"{name}_{i}" for i in count(2))
        is_new = not name or name not in found
        found.append(name if is_new else next(each for each in others if each not in names))
    return found


def _find_delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """Return what separates most fields of most lines, and how many fields there are."""
    body = lines[len(lines) // 3 :]
    best: tuple[float, str, int] = (0.0, ",", 1)
    for delimiter in (*_DELIMITERS, BLANKS):
        counts = Counter(
            len(row) for line in body if (row := split_line(line, delimiter)) is not None
        )
        if not counts:
            continue
        n_fields, n_lines = counts.most_common(1)[0]
        if n_fields == 1:
            continue
        cells = [cell for line in body[:50] for cell in split_line(line, delimiter) or ()]
        n_read = sum(is_value(cell.strip()) or not cell.strip() for cell in cells)
        # Blanks stand in texts and in times as well.
        weight = 0.5 if delimiter == BLANKS else 1.0
        score = weight * n_lines / len(body) * (0.1 + n_read / max(1, len(cells)))
        if score > best[0]:
            best = score, delimiter, n_fields
    return best[1], best[2]
