"""`sfumato-agent pull | cluster`: the published result, and the clusters of records."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError
from sfumato.shared.reading.csv_lines import write_lines
from sfumato.shared.wire import format_time

if TYPE_CHECKING:
    from sfumato.device_agent.agent.clusters import Labels, LabelTask
    from sfumato.device_agent.agent.exchange.published_result import PullReport
    from sfumato.device_agent.agent.trusted import TrustedResult
    from sfumato.device_agent.settings.agent_settings import Settings

_ADDED = ("cluster", "distance", "doubt")
_PINNED = {
    "first": "this device trusts it from now on",
    "followed": "the key before it names it, so this device trusts it from now on",
    "told": "this device trusts it from now on, as you said",
    "": "this device trusts it already",
}


def pull(settings: Settings, options: SimpleNamespace) -> int:
    """Pull the published result."""
    from sfumato.device_agent.agent.exchange.published_result import pull_result

    trust = None if options.trust is None else _read_key(options.trust)
    report = pull_result(settings, clock=time.time, trust=trust)
    print(json.dumps(_pull_to_json(report)) if options.json else _describe_pull(report))
    _warn(report.trusted)
    return 0


def cluster(settings: Settings, options: SimpleNamespace) -> int:
    """Print the cluster of each record."""
    from sfumato.device_agent.agent.clusters import follow_stream, label_csv, open_labels

    with open_labels(settings) as task:
        _warn(task.trusted)
        stream = task.find_stream(options.follow or options.stream)
        if options.follow is None:
            path = None if options.csv == Path("-") else options.csv
            delimiter = getattr(stream.source, "delimiter", ",")
            for line in _write_lines(label_csv(task, stream, path), delimiter, options.json):
                print(line, flush=not options.csv.is_file())
            return 0
        try:
            for line in _write_records(task, follow_stream(task, stream), options.json):
                print(line, flush=True)
        except KeyboardInterrupt:
            return 0  # nothing was begun that could be lost
    return 0


def _pull_to_json(report: PullReport) -> dict[str, Any]:
    return {
        **report.trusted.to_json(),
        "is_new": report.is_new,
        "public_key": report.public_key.hex(),
        "pinned": report.pinned or None,
    }


def _describe_pull(report: PullReport) -> str:
    new = "a new result" if report.is_new else "the same result as before"
    return "\n".join(
        [
            f"pulled {new}: {report.trusted.describe(now=time.time())}",
            f"key {report.public_key.hex()}",
            f"  {_PINNED[report.pinned]}",
            "next: sfumato-agent cluster --csv FILE",
        ]
    )


def _warn(trusted: TrustedResult) -> None:
    if not trusted.result.is_usable and trusted.result.verdict is not None:
        word, sentence = trusted.result.verdict
        print(f"sfumato-agent: warning: {word}: {sentence}", file=sys.stderr)


def _write_lines(
    found: Iterator[tuple[Sequence[bytes], Labels | None]], delimiter: str, as_json: bool
) -> Iterator[str]:
    number = 0
    for lines, labels in found:
        if labels is None:
            if not as_json:
                yield f"{_show(lines[0])}{delimiter}{delimiter.join(_ADDED)}"
            continue
        for i, line in enumerate(lines):
            number += 1
            if as_json:
                yield json.dumps({"record": number, **_to_json(labels, i)})
            else:
                yield _show(line) + delimiter + _write_row(_to_cells(labels, i), delimiter)


def _write_records(
    task: LabelTask, found: Iterator[tuple[Floats, Floats, Labels]], as_json: bool
) -> Iterator[str]:
    dimensions, number = task.plan.dimensions, 0
    if not as_json:
        yield _write_row(["time", *(d.name for d in dimensions), *_ADDED])
    for timestamps, values, labels in found:
        for i in range(len(values)):
            number += 1
            moment = float(timestamps[i])
            shown = "" if math.isnan(moment) else format_time(moment)
            row = [
                _show_value(d.levels, float(v)) for d, v in zip(dimensions, values[i], strict=True)
            ]
            if as_json:
                yield json.dumps({"record": number, "time": shown or None, **_to_json(labels, i)})
            else:
                yield _write_row([shown, *row, *_to_cells(labels, i)])


def _to_json(labels: Labels, i: int) -> dict[str, Any]:
    is_usable = bool(labels.clusters[i])
    return {
        "cluster": int(labels.clusters[i]) or None,
        "distance": float(labels.distances[i]) if is_usable else None,
        "is_far": None if labels.are_far is None or not is_usable else bool(labels.are_far[i]),
        "doubt": labels.describe(i) or None,
    }


def _to_cells(labels: Labels, i: int) -> list[str]:
    if not labels.clusters[i]:
        return ["", "", labels.describe(i)]
    return [str(labels.clusters[i]), f"{labels.distances[i]:.4g}", labels.describe(i)]


def _write_row(cells: Sequence[str], delimiter: str = ",") -> str:
    return write_lines([cells], delimiter=delimiter, end="")


def _show_value(levels: Sequence[str], value: float) -> str:
    if math.isnan(value):
        return ""
    return levels[int(value)] if levels else f"{value:.10g}"


def _show(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _read_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ConfigError(
            "must be 64 hexadecimal digits",
            field="--trust",
            fix="copy the key that `sfumato identity show` shows",
        )
    return key
