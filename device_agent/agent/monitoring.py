"""Monitoring of the daemon: figures for Prometheus, states for systemd; never a record's value."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PREFIX = "sfumato_agent_"


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
