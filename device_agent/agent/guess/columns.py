"""A guess at which columns hold numbers, how these are spelled, and what each line measures."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, takewhile
from typing import Any

from sfumato.device_agent.agent.guess.tables import MOSTLY, Guess, Table
from sfumato.device_agent.agent.guess.texts import NUMBERS, UNIT, find_number
from sfumato.device_agent.agent.guess.times import find_first, find_times
from sfumato.shared.reading.spelling import PLAIN, Spelling

_MOST_KEYS = 50
_ID_NAME = re.compile(r"(?i)(^|[_. ])(id|index|no|nr|row|seq)$|^unnamed|^#?$")
_KEY_NAME = re.compile(
    r"(?i)topic|entity|sensor|metric|measure|quantity|variable|series|name|field|key|tag|channel"
)
_NUMBERED = re.compile(
    r"(?i)^(address|register|sensor|channel|node|device|point|item|station)(_?(id|no|nr))?$"
)
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_SENTINELS = ("-999", "-9999", "-99", "-99.9", "-999.9", "-9999.0", "999", "9999", "99999", "65535")


def examine_table(table: Table, found: Guess) -> None:
    """Find times, numbers and keys among the columns."""
    times = find_times(table, found)
    others = {name: values for name, values in table.items() if name not in times}
    spelling = _find_spelling(others, found)
    numbers = [
        name
        for name, values in others.items()
        if not (_ID_NAME.search(name) or _NUMBERED.search(name))
        and _share(values, spelling) >= MOSTLY
    ]
    texts = {name: values for name, values in others.items() if name not in numbers}
    measured = {name: others[name] for name in numbers}
    _find_sentinels(measured, spelling, found)
    _find_words(measured, spelling, found)
    key = _find_key(texts, numbers) if times else None
    if key is not None:
        _propose_join(key, texts, numbers[0], table[times[0]], found)
        return
    _name_columns(numbers, found)
    for name, kinds in _find_several(texts):
        found.doubts.append(
            f"{name} has {len(kinds)} texts: if it names sensors, let each be a stream of its own, "
            f"such as where = {{ {json.dumps(name)} = {json.dumps(kinds[0], ensure_ascii=False)} }}"
        )
    if not numbers:
        found.doubts.append("no column is mostly numbers: look at delimiter, decimal and header")
    words = [
        name
        for name, values in texts.items()
        if not _ID_NAME.search(name) and any(each is not None for each in values)
    ]
    if words:
        found.doubts.append(
            f"there is text in {', '.join(words)}: a column of text is read where the plan has "
            "levels for it"
        )


def _name_columns(columns: Iterable[str], found: Guess) -> None:
    """Name a dimension after each column, or after the key of its messages."""
    columns = list(columns)
    # Topics mostly begin alike.
    levels = zip(*(column.split("/")[:-1] for column in columns), strict=False)
    n_shared = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    for column in columns:
        own = "_".join(column.split("/")[n_shared:])
        name = re.sub(r"[^a-z0-9]+", "_", own.lower()).strip("_") or "x"
        others = (f"{name}_{i}" for i in count(2))
        while name in found.columns:
            name = next(others)
        found.columns[name] = column


def _share(values: Sequence[Any], spelling: Spelling) -> float:
    """Return the share of numbers among the values that are there."""
    there = [each for each in values if each is not None]
    n = sum(find_number(each, spelling) is not None for each in there)
    return n / len(there) if there else 0.0


def _find_spelling(table: Table, found: Guess) -> Spelling:
    """Find how most numbers are spelled."""
    texts = [each for values in table.values() for each in values if isinstance(each, str)]
    ends = Counter(match[1] for text in texts if (match := UNIT.fullmatch(text)))
    units = [end.strip() for end, n in ends.most_common(5) if 20 * n >= len(texts)]
    mixed = _find_mixed(table, units, found)
    strip = tuple(unit for unit in units if not (set(unit) & set("0123456789") or unit in mixed))
    tried = [replace(each, strip=strip) for each in NUMBERS]
    counts = [sum(find_number(text, each) is not None for text in texts) for each in tried]
    best = max(range(len(tried)), key=lambda i: (counts[i], -i))
    spelling = tried[best]
    plain = sum(find_number(text, replace(spelling, strip=())) is not None for text in texts)
    if strip and counts[best] > plain:
        found.source["strip"] = list(strip)
    else:
        spelling = replace(spelling, strip=())
    for key in ("decimal", "thousands"):
        if getattr(spelling, key) != getattr(PLAIN, key):
            found.source[key] = getattr(spelling, key)
    if spelling.decimal == "," and all(
        re.search(r",[0-9]{3}(?![0-9])", text) for text in texts if "," in text
    ):
        found.doubts.append(
            'every comma stands before three digits: if 1,234 is 1234, write thousands = "," and '
            "no decimal"
        )
    if spelling.decimal == "." and not spelling.thousands:
        _doubt_points(table, found)
    return spelling


def _find_mixed(table: Table, units: Sequence[str], found: Guess) -> set[str]:
    """Return the units of columns that have several: without them 1.2 MB would be below 900 kB."""
    mixed: set[str] = set()
    for name, values in table.items():
        matches = (UNIT.fullmatch(each) for each in values if isinstance(each, str))
        own = {end for match in matches if match and (end := match[1].strip()) in units}
        if len(own) > 1:
            mixed |= own
            found.doubts.append(
                f"{name} has numbers in {', '.join(sorted(own))}: let the program that writes "
                "them keep to one unit"
            )
    return mixed


def _doubt_points(table: Table, found: Guess) -> None:
    """Note columns whose points may stand between groups of three digits."""
    for name, values in table.items():
        texts = [each for each in values if isinstance(each, str)]
        pointed = [text for text in texts if "." in text]
        is_grouped = all(_GROUPED.fullmatch(text) for text in pointed)
        # Three decimals are written behind each number, and marks of thousands only from 1000 on.
        has_short = any(text.isdigit() for text in texts)
        if pointed and is_grouped and (has_short or found.source.get("delimiter") == ";"):
            found.doubts.append(
                f"every point in {name} stands before three digits: if 1.234 is 1234, write "
                'thousands = "." and decimal = ","'
            )


def _find_words(table: Table, spelling: Spelling, found: Guess) -> None:
    """Note what stands among numbers and is none, such as ---: it may mean a missing value."""
    words = Counter(
        each
        for values in table.values()
        for each in values
        if isinstance(each, str) and find_number(each, spelling) is None
    )
    common = [word for word, n in words.most_common(3) if n > 1]
    if common:
        found.doubts.append(
            f"{common[0]!r} stands among numbers: where no value is meant, write missing_values = "
            f"{json.dumps(common, ensure_ascii=False)}"
        )


def _find_sentinels(table: Table, spelling: Spelling, found: Guess) -> None:
    """Note numbers such as -999 that are far from all others: they may mean a missing value."""
    for name, values in table.items():
        numbers = [number for each in values if (number := find_number(each, spelling)) is not None]
        for mark in _SENTINELS:
            others = [number for number in numbers if number != float(mark)]
            if not others or len(others) == len(numbers):
                continue
            low, high = min(others), max(others)
            if not low - (high - low) <= float(mark) <= high + (high - low):
                found.doubts.append(
                    f"{mark} in {name} is far from all others: if it is no value, write "
                    f'missing_values = ["{mark}"]'
                )


def _find_several(texts: Table) -> Iterator[tuple[str, list[str]]]:
    """Yield columns that name a few devices or quantities again and again, and these."""
    for name, values in texts.items():
        kinds = list(dict.fromkeys(str(each) for each in values if each is not None))
        is_named = _KEY_NAME.search(name) or _NUMBERED.search(name) or _ID_NAME.search(name)
        if is_named and 2 <= len(kinds) <= _MOST_KEYS and 3 * len(kinds) <= len(values):
            yield name, kinds


def _find_key(texts: Table, numbers: Sequence[str]) -> str | None:
    """Return the column that says what the one column of numbers measures, if there is one."""
    if len(numbers) != 1:
        return None
    for name, values in texts.items():
        n_kinds = len(set(map(str, values)))
        # Of messages each topic may have been seen once.
        is_often = name == "topic" or 3 * n_kinds <= len(values)
        is_key = 2 <= n_kinds <= _MOST_KEYS and is_often
        is_named = _KEY_NAME.search(name) or _NUMBERED.search(name)
        if is_key and is_named and None not in values:
            return name
    return None


def _propose_join(key: str, texts: Table, value: str, times: Sequence[Any], found: Guess) -> None:
    """Propose that messages of one value each are joined to records."""
    since = find_first(found.source, times)
    found.source["join"] = {"key": key, "value": value, "every_s": 300, "since": since}
    _name_columns(dict.fromkeys(map(str, texts[key])), found)
    found.doubts.append(
        f"each line has one value, and {key} says of what: every_s must be no shorter than the "
        "sensors' own period; name groups where several rooms or machines have the same columns"
    )
