"""Parse lines of InfluxDB's line protocol, which Telegraf writes: a series, fields, and a time."""

from __future__ import annotations

import re
from typing import Any

from sfumato.shared.reading.json_lines import BrokenRecord, JsonLinesParser

# Each character is looked at once or twice, whatever a line holds: alternatives begin with other
# characters. No group that can fail half-way is possessive: until 3.11.4 Python went on behind what
# had failed.
_KEY = r"(?:[^\\,= ]|\\.)(?:[^\\,= ]++|\\.)*"
_VALUE = r'(?:"(?:[^"\\]++|\\.)*"|[^", ]++)'
_SERIES = re.compile(rf"({_KEY})((?:,{_KEY}={_KEY})*) ")
_LINE = re.compile(
    rf"({_KEY})((?:,{_KEY}={_KEY})*) ++({_KEY}={_VALUE}(?:,{_KEY}={_VALUE})*)(?: ++(-?[0-9]++))?"
)
_TAG = re.compile(rf",({_KEY})=({_KEY})")
_FIELD = re.compile(rf"({_KEY})=({_VALUE})")
_ESCAPED = re.compile(r'\\([,= "\\])')
_TRUTH = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}


class LineProtocolParser(JsonLinesParser):
    """The records of lines of line protocol; see ``LineParser``.

    The fields of a record are its ``measurement``, its tags, its fields, and its ``time``, a whole
    number. A line that has a name twice cannot be sketched. Records are chosen by measurement and
    tags, which stand in front, whatever is behind them.
    """

    @property
    def caveats(self) -> list[str]:
        """See ``LineParser``."""
        return [
            f"{name!r} stands behind the fields of a line: where they are broken, it has none"
            for name in (self._fields.time.names if self._fields.time else ())
        ]

    def _read(self, text: str) -> dict[str, Any]:
        point = read_point(text)
        if point is None:
            return BrokenRecord()
        if self._fields.keys:
            # A field of that name is a value, in a whole line too.
            series = _read_series(text)
            point.update({name: series.get(name) for name in self._fields.keys})
        return point

    def _is_plain(self, text: str, n_records: int) -> bool:
        # A name that stands twice has made the record a broken one.
        return True

    def _find_public(self, text: str, name: str) -> object:
        return _read_series(text).get(name)


def _read_series(text: str) -> dict[str, str]:
    """Return measurement and tags of a line; none where they are broken, or one stands twice."""
    match = _SERIES.match(text)
    if match is None:
        return {}
    pairs = [("measurement", _unescape(match[1]))]
    pairs += [(_unescape(key), _unescape(value)) for key, value in _TAG.findall(match[2])]
    series = dict(pairs)
    return series if len(series) == len(pairs) else {}


def read_point(text: str) -> dict[str, Any] | None:
    """Return the fields of a line, or None if it is no line protocol, or has a name twice."""
    match = _LINE.fullmatch(text.strip(" \t\r\n"))
    if match is None:
        return None
    name, tags, fields, time = match.groups()
    pairs: list[tuple[str, Any]] = [("measurement", _unescape(name))]
    pairs += [(_unescape(key), _unescape(value)) for key, value in _TAG.findall(tags)]
    pairs += [(_unescape(key), _read_value(value)) for key, value in _FIELD.findall(fields)]
    if time is not None:
        # More digits than any time has are for the reader of times to refuse.
        pairs.append(("time", int(time) if len(time) < 20 else time))
    item = dict(pairs)
    return item if len(item) == len(pairs) else None


def _unescape(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def _read_value(text: str) -> object:
    if text.startswith('"'):
        return _unescape(text[1:-1])
    if text in _TRUTH:
        return _TRUTH[text]
    return text[:-1] if text[-1:] in "iu" and text[:-1].lstrip("-").isdigit() else text
