"""Monitoring: a log, figures for Prometheus, states for systemd; never a record's value.

The log has one event a line, ``key=value``.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

LOG = logging.getLogger("sfumato.agent")
_VALUES = logging.getLogger("sfumato.agent.values")
_PREFIX = "sfumato_agent_"


def start_log(level: str, *, value_counts: bool = False) -> None:
    """Write lines of at least this level to standard error; may be called again.

    Parameters
    ----------
    value_counts
        Whether lines that depend on values are written even without a terminal: a log may be sent
        on.
    """
    LOG.setLevel(level.upper())
    _VALUES.disabled = not (value_counts or sys.stderr.isatty())
    LOG.propagate = False
    if not LOG.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Formatter())
        LOG.addHandler(handler)


def report_event(level: int, message: str, stream: str = "") -> None:
    """Log an event of a stream, or of the agent."""
    LOG.log(level, message, extra={"stream": stream})


def warn_of_values(message: str, stream: str) -> None:
    """Log a warning that depends on the values of records, if the owner wants those."""
    _VALUES.warning(message, extra={"stream": stream})


def describe_defect(error: Exception) -> str:
    """Describe a defect by its place, not by its message, which may quote a record."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__} in {place.filename}, line {place.lineno}: a defect of this "
        "program. Please report it"
    )


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"time": time, "level": record.levelname.lower()}
        if stream := getattr(record, "stream", None):
            fields["stream"] = json.dumps(stream)
        fields["event"] = json.dumps(record.getMessage())
        return " ".join(f"{key}={value}" for key, value in fields.items())


class Metric(NamedTuple):
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


class Notifier:
    """Notifies the service manager, if there is one, by a datagram for each state; sd_notify(3).

    Parameters
    ----------
    environment
        The process's: ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` are read.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ lies in the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog = environment.get("WATCHDOG_USEC", "")
        is_watched = watchdog.isdigit() and bool(self._address)
        self.watchdog_s = int(watchdog) / 4e6 if is_watched else None
        """Seconds between signs of life, half of what the manager allows; None without a limit."""

    def notify(self, state: str) -> None:
        """Send a state such as ``READY=1``; a manager that does not listen is no error."""
        if not self._address:
            return
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.sendto(state.encode(), self._address)
