"""Chained lines: the form of every file that must show whether it has lost something.

A line is ``DIGEST JSON``; the digest is over the one before and this JSON. So a line that was torn
off, changed, or taken out ends what can be read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from sfumato.shared.durable_files import write_all

DIGEST_CHARACTERS = 32
START = "0" * DIGEST_CHARACTERS
"""The digest before the first line."""


def encode_line(before: str, entry: Mapping[str, Any]) -> bytes:
    """Return the line of an entry behind the line with a digest."""
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return f"{_chain(before, text)} {text}\n".encode()


def decode_line(before: str, line: bytes) -> tuple[str, dict[str, Any]]:
    """Return the digest and the entry of a line; raises ``ValueError`` if it does not follow."""
    digest, space, text = line.decode("ascii").partition(" ")
    if not space or not text.endswith("\n") or digest != _chain(before, text[:-1]):
        raise ValueError("is no line behind the one before")
    entry: dict[str, Any] = json.loads(text)
    return digest, entry


def write_line(file: int, offset: int, line: bytes) -> None:
    """Write a line behind the readable ones of an open file, and sync it.

    Raises
    ------
    OSError
        It cannot be written; nothing of it is left.
    """
    os.ftruncate(file, offset)
    os.lseek(file, offset, os.SEEK_SET)
    try:
        write_all(file, line)
    except OSError:
        os.ftruncate(file, offset)
        raise


def _chain(before: str, text: str) -> str:
    return hashlib.sha256(f"{before} {text}".encode()).hexdigest()[:DIGEST_CHARACTERS]
