"""Formats that no source reads, as files show them, and the command that makes one of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sfumato.shared.errors import ConfigError

_PREFIX: Final = 1 << 12
"""A format shows at the beginning."""


@dataclass(frozen=True, kw_only=True)
class _Foreign:
    looks: str
    what: str
    fix: str


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
_COLUMNS = "range(WAY.FIRST | length) as $i | WAY | map_values(arrays | .[$i])"
_FOREIGN = (
    _Foreign(
        looks=r"PK\x03\x04.*(?:xl/|\[Content_Types\]|mimetypeapplication/vnd\.oasis)",
        what="is a spreadsheet",
        fix="libreoffice --headless --convert-to csv FILE",
    ),
    _Foreign(looks=r"PK\x03\x04", what="is a zip archive", fix="unzip -p FILE > STEM.csv"),
    _Foreign(looks="BZh", what="is packed by bzip2", fix="bunzip2 -k FILE"),
    _Foreign(looks="\xfd7zXZ", what="is packed by xz", fix="unxz -k FILE"),
    _Foreign(
        looks=r"(?:[^\0]\0){2}",
        what="is UTF-16 without a mark of byte order",
        fix="iconv -f utf-16le -t utf-8 FILE > STEM.utf8.txt",
    ),
    _Foreign(
        looks=r"[^<]{0,3}<(?s:.)*<gpx|[^<]{0,3}<gpx",
        what="is GPX",
        fix="gpsbabel -t -i gpx -f FILE -o unicsv -F STEM.csv",
    ),
    _Foreign(looks=r"\s*<[?!\w]", what="is XML", fix="yq -p xml -o json FILE > STEM.json"),
    _Foreign(
        looks=r"[$!]G[A-Z]{4},",
        what="is NMEA 0183, whose degrees and minutes are no numbers",
        fix="gpsbabel -t -i nmea -f FILE -o unicsv -F STEM.csv",
    ),
    _Foreign(
        looks=r"(?:Struct)?\{[\w.]+=",
        what="is the text of a map of Java, and no JSON",
        fix="value.converter=org.apache.kafka.connect.storage.StringConverter",
    ),
    _Foreign(
        looks=r'\s*\{\s*"resourceMetrics"',
        what="has many points a line",
        fix=f"jq -c '{_POINTS}' FILE > STEM.points.jsonl",
    ),
    _Foreign(
        looks=r'\s*\[\s*\{[^}]*"b[ntuv]"\s*:',
        what="is SenML whose records depend on the first one",
        fix=f"jq -c '{_RESOLVED}' FILE > STEM.jsonl",
    ),
    _Foreign(
        looks=r'(?s:.)*"resultType"\s*:\s*"matrix"',
        what="holds lists of pairs",
        fix=f"jq -c '{_SERIES}' FILE > STEM.jsonl",
    ),
    _Foreign(
        looks=r"(?:#[^\n]*\n)*# TYPE [^\n]*\n(?:#[^\n]*\n)*[\w:]+(?:\{[^\n}]*\})? \S+\n",
        what="has values without times",
        fix="awk -v t=$(date +%s000) '!/^#/ {print $0, t}' FILE >> STEM.log",
    ),
    _Foreign(
        looks=r'\w+=(?:"[^"]*"|[^\s,"]+) \w+=(?:"[^"]*"|[^\s,"]+)',
        what="has names in each line",
        fix="mlr --idkvp --ifs ' ' --ojsonl cat FILE > STEM.jsonl",
    ),
    _Foreign(
        looks=r"(?s:.)*\0",
        what="is no text",
        fix="let the program that writes it export CSV",
    ),
)


def refuse_foreign(data: bytes, path: Path) -> None:
    """Refuse the beginning of a file of a format that no source reads.

    Raises
    ------
    ConfigError
        It is one; the fix says what makes a file of it that is read.
    """
    text = data[:_PREFIX].decode("latin-1")
    for each in _FOREIGN:
        if re.match(each.looks, text):
            fix = each.fix.replace("FILE", path.name).replace("STEM", path.stem)
            raise ConfigError(each.what, field=str(path), fix=f"make lines of it: {fix}")


def refuse_columns(document: object, path: Path) -> ConfigError:
    """Return the refusal of a JSON document that has no list of objects.

    Where it holds lists of equal length beside each other, these are columns.
    """
    way, first = find_columns(document)
    rows = ".PATH.TO.LIST[]"
    if first:
        rows = _COLUMNS.replace("WAY.FIRST", f"{way}.{first}").replace("WAY", way or ".")
    return ConfigError(
        "is a JSON document without a list of objects",
        field=str(path),
        fix=f"make lines of it: jq -c '{rows}' {path.name} > {path.stem}.jsonl",
    )


def find_columns(document: object, way: str = "") -> tuple[str, str]:
    """Return the way to an object of lists of equal length, and the name of the first of them."""
    if not isinstance(document, dict):
        return "", ""
    lists = [key for key, value in document.items() if isinstance(value, list)]
    if len(lists) > 1 and len({len(document[key]) for key in lists}) == 1:
        return way, lists[0]
    found = (find_columns(value, f"{way}.{key}") for key, value in document.items())
    return next((each for each in found if each[1]), ("", ""))
