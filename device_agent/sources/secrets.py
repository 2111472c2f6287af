"""Secrets: tokens and passwords, each in a file of its own."""

from __future__ import annotations

from pathlib import Path

from shared.errors import RecordError


def read_secret(path: Path, *, encoding: str = "ascii") -> str:
    """Return the one line of a file; messages never show it.

    Raises
    ------
    RecordError
        It cannot be read, or holds anything else.
    """
    try:
        text = path.read_bytes().decode(encoding).strip()
        reason = None if text.isprintable() else "it has more than one line"
    except OSError as error:
        reason = error.strerror
    except UnicodeDecodeError:
        reason = f"it is not {encoding.upper()}"
    if reason is not None:
        raise RecordError(
            f"cannot be used ({reason})",
            field=str(path),
            fix="name a file with the token or password of this client alone",
        )
    return text
