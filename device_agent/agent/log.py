"""Log of the daemon: one event a line, ``key=value``, never a record's value."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

LOG = logging.getLogger("sfumato.agent")
_VALUES = logging.getLogger("sfumato.agent.values")


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
