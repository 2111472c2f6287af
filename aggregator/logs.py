"""Logs: one line per event, with fields; never a token, a key or a body."""

from __future__ import annotations

import logging
import sys
from io import StringIO
from typing import Literal, TextIO

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, ExcInfo, Processor

# The values of local variables would show keys, tokens and payloads.
_TRACEBACKS = ExceptionDictTransformer(show_locals=False)


def _create_console() -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=_write_traceback
    )


def _show_controls(text: str, kept: str = "") -> str:
    """Escape control characters: a terminal would obey those that somebody put into a path."""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


def _show_all_controls(_logger: object, _method: str, event: EventDict) -> EventDict:
    return {k: _show_controls(v) if isinstance(v, str) else v for k, v in event.items()}


def _write_traceback(stream: TextIO, error: ExcInfo) -> None:
    written = StringIO()
    structlog.dev.plain_traceback(written, error)
    stream.write(_show_controls(written.getvalue(), kept="\n\t"))


def describe_cause(error: BaseException) -> str:
    """Return the type of an error's cause, and the first line of its text.

    For logs and local commands only: the text may name hosts, databases and users. Drivers put no
    password and, unlike SQLAlchemy, no parameters into it.
    """
    cause = error.__cause__ or error
    said = getattr(cause, "orig", None) or cause
    first = str(said).strip().partition("\n")[0]
    return f"{type(said).__name__}: {first}" if first else type(said).__name__


def configure_logging(log_format: Literal["console", "json"]) -> None:
    """Send every log line of this process to standard error, in one format."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final: list[Processor] = (
        [ExceptionRenderer(_TRACEBACKS), structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [_show_all_controls, _create_console()]
    )
    structlog.configure(
        processors=[*shared, *final],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
