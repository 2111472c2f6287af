"""Formats that no source reads, as files show them, and the command that makes one of each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from sfumato.shared.errors import ConfigError

_PREFIX: Final = 1 << 12
"""A format shows at the beginning."""


_POINTS = (
    ".resourceMetrics[].scopeMetrics[].metrics[] | .name as $n | "
    "(.gauge // .sum // {}).dataPoints[]? | {time: .timeUnixNano, name: $n, "
    "value: (.asDouble // .asInt)} + ([.attributes[]? | {(.key): .value[]}] | add)"
)
_RESOLVED = (
    "foreach .[] as $r ({}; {bn: ($r.bn // .bn), bt: ($r.bt // .bt)}; "
    '{n: ((.bn // "") + ($r.n // "")), t: ((.bt // 0) + ($r.t // 0)), v: $r.v})'
)
_SERIES = ".data.result[] | .metric as $m | .values[] | {time: .[0], value: .[1]} + $m"
_COLUMNS = 'range(.FIRST | length) as $i | map_values(if type == "array" then .[$i] else . end)'
_TIME_DIGITS = 9
"""Keys of so many digits are times since 1970."""
_NAMED = r'\w+=(?:"[^"]*"|[^\s,"]+)'
_SAMPLE = r"[\w:]+(?:\{[^\n}]*\})? \S+\n"
# How a file begins, what it then is, and the command for it.
_FOREIGN = (
    (
        r"PK\x03\x04.*(?:xl/|\[Content_Types\]|mimetypeapplication/vnd\.oasis)",
        "is a spreadsheet",
        "libreoffice --headless --convert-to csv FILE",
    ),
    (r"PK\x03\x04", "is a zip archive", "unzip -p FILE > STEM.csv"),
    ("BZh", "is packed by bzip2", "bunzip2 -k FILE"),
    ("\xfd7zXZ", "is packed by xz", "unxz -k FILE"),
    (
        r"(?:[^\0]\0){2}",
        "is UTF-16 without a mark of byte order",
        "iconv -f utf-16le -t utf-8 FILE > STEM.utf8.txt",
    ),
    (r"(?s:.)*<gpx", "is GPX", "gpsbabel -t -i gpx -f FILE -o unicsv -F STEM.csv"),
    (r"(?:\xef\xbb\xbf)?\s*<[?!\w]", "is XML", "yq -p xml -o json FILE > STEM.json"),
    (
        r"[$!]G[A-Z]{4},",
        "is NMEA 0183, whose degrees and minutes are no numbers",
        "gpsbabel -t -i nmea -f FILE -o unicsv -F STEM.csv",
    ),
    (
        r"(?:Struct)?\{[\w.]+=",
        "is the text of a map of Java, and no JSON",
        "value.converter=org.apache.kafka.connect.storage.StringConverter",
    ),
    (
        r'\s*\{\s*"resourceMetrics"',
        "has many points a line",
        f"jq -c '{_POINTS}' FILE > STEM.points.jsonl",
    ),
    (
        r'\s*\[\s*\{[^}]*"b[ntuv]"\s*:',
        "is SenML whose records depend on the first one",
        f"jq -c '{_RESOLVED}' FILE > STEM.jsonl",
    ),
    (
        r'(?s:.)*"resultType"\s*:\s*"matrix"',
        "holds lists of pairs",
        f"jq -c '{_SERIES}' FILE > STEM.jsonl",
    ),
    (
        rf"(?:#[^\n]*\n)*# TYPE [^\n]*\n(?:#[^\n]*\n)*{_SAMPLE}",
        "has values without times",
        "awk -v t=$(date +%s000) '!/^#/ {print $0, t}' FILE >> STEM.log",
    ),
    (
        f"{_NAMED} {_NAMED}",
        "has names in each line",
        "mlr --idkvp --ifs ' ' --ojsonl cat FILE > STEM.jsonl",
    ),
    (r"(?s:.)*\0", "is no text", "let the program that writes it export CSV"),
)


def refuse_foreign(data: bytes, path: Path) -> None:
    """Refuse the beginning of a file of a format that no source reads.

    Raises
    ------
    ConfigError
        It is one; the fix says what makes a file of it that is read.
    """
    text = data[:_PREFIX].decode("latin-1")
    for looks, what, fix in _FOREIGN:
        if re.match(looks, text):
            command = fix.replace("FILE", path.name).replace("STEM", path.stem)
            raise ConfigError(what, field=str(path), fix=f"make lines of it: {command}")


def refuse_columns(document: object, path: Path) -> ConfigError:
    """Return the refusal of a JSON document that has no list of objects."""
    return _refuse_document(
        "is a JSON document without a list of objects", find_rows(document), path
    )


def refuse_elements(name: str, records: str, path: Path) -> ConfigError:
    """Return the refusal of objects whose times are elements of lists, such as ``times.0``."""
    keys = name.split(".")
    place = next(i for i, key in enumerate(keys) if key.isdigit())
    ways = [f".{records.strip('.')}[]"] if records else []
    if place + 1 < len(keys):
        ways.append("." + ".".join(keys[:place]) + "[]")
        rows = " | ".join(ways)
    else:
        ways += ["." + ".".join(keys[: place - 1])] if place > 1 else []
        rows = _write_columns(" | ".join(ways), keys[place - 1])
    used = [*keys[: max(1, place)], *filter(None, records.split("."))]
    return _refuse_document(
        "has its times in lists, so that an object holds many records",
        rows if all(map(str.isidentifier, used)) else "",
        path,
    )


def _refuse_document(what: str, rows: str, path: Path) -> ConfigError:
    rows = rows or ".PATH.TO.LIST[]"
    return ConfigError(
        what,
        field=str(path),
        fix=f"make lines of it: jq -c '{rows}' {path.name} > {path.stem}.jsonl",
    )


def find_rows(document: object, way: str = "") -> str:
    """Return what makes records, in jq, of lists or objects that hold one column each.

    Or of times that are keys, and of a list below a key that no path of a source can name. Empty
    if there are none of these; keys with signs that a shell may read are not looked into.
    """
    before = f"{way} | " if way else ""
    if isinstance(document, list):
        is_hidden = '"' in way and len(document) > 1 and isinstance(document[0], dict)
        if is_hidden or not document:
            return f"{way}[]" if is_hidden else ""
        return find_rows(document[0], f"{way or '.'}[]")
    if not isinstance(document, dict):
        return ""
    lists = [key for key, value in document.items() if _is_column(value) and key.isidentifier()]
    if len(lists) > 1 and len({len(document[key]) for key in lists}) == 1:
        return _write_columns(way, lists[0])
    if len(document) > 1 and all(key.isdigit() and len(key) >= _TIME_DIGITS for key in document):
        return f"{before}to_entries[] | {{time: .key, value}}"
    if document and all(map(_is_numbered, document.values())):
        return f"{before}(to_entries[0].value | keys_unsorted[]) as $i | map_values(.[$i])"
    found = (
        find_rows(value, f"{way}.{key if key.isidentifier() else json.dumps(key)}")
        for key, value in document.items()
        if re.fullmatch(r"[\w .:/-]+", key)
    )
    return next(filter(None, found), "")


def _is_numbered(value: object) -> bool:
    """Return whether an object is a column of a frame, with the rows' numbers as keys."""
    return (
        isinstance(value, dict)
        and len(value) > 1
        and list(value) == list(map(str, range(len(value))))
    )


def _is_column(value: object) -> bool:
    return isinstance(value, list) and value != [] and not isinstance(value[0], dict)


def _write_columns(way: str, first: str) -> str:
    return (f"{way} | " if way else "") + _COLUMNS.replace("FIRST", first)
