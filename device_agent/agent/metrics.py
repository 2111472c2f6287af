"""The daemon's own figures, as a file for Prometheus's text collector. No record's value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "sfumato_agent_"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One figure; ``samples`` pair a stream, or None, with a number."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[str | None, float]]


def format_metrics(metrics: Iterable[Metric]) -> str:
    """Write metrics in Prometheus's text format, version 0.0.4."""
    lines = []
    for metric in metrics:
        name = _PREFIX + metric.name
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
        for stream, value in metric.samples:
            label = "" if stream is None else f'{{stream="{_escape(stream)}"}}'
            lines.append(f"{name}{label} {value:.17g}")
    return "\n".join(lines) + "\n"


def write_metrics(path: Path, metrics: Iterable[Metric]) -> None:
    """Replace the file as a whole, so that no reader sees half of it; may raise ``OSError``."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(format_metrics(metrics), encoding="utf-8")
    part.chmod(0o644)
    os.replace(part, path)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
