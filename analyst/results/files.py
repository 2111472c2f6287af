"""Files of results: one JSON object with its version, its origin and a digest of all of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.shared.durable_files import replace_file
from sfumato.shared.errors import ConfigError, UnsupportedVersionError

FORMAT = "sfumato-result"
VERSION = 1
_MOST_BYTES = 64 << 20


def compute_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its digest, in hexadecimal digits."""
    content = {name: value for name, value in document.items() if name != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with its format, version and digest."""
    document = {"format": FORMAT, "version": VERSION, **content}
    return {**document, "digest": compute_digest(document)}


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises
    ------
    ConfigError
        It cannot be written.
    """
    try:
        replace_file(path, text.encode(), part=os.urandom(8).hex())
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", field=str(path), fix="name another file"
        ) from error


def read_file(path: Path) -> dict[str, Any]:
    """Read a document, and check its format, version and digest.

    Raises
    ------
    ConfigError
        It cannot be read, or is not as it was written.
    UnsupportedVersionError
        A later release wrote it.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        document = json.loads(data)
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", field=str(path), fix="name a file of a result"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _refuse(path) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _refuse(path)
    if document.get("version") != VERSION:
        raise UnsupportedVersionError(
            f"this release reads version {VERSION}", field=str(path), fix="update this software"
        )
    if document.get("digest") != compute_digest(document):
        raise ConfigError(
            "is not as it was written: its digest is another",
            field=str(path),
            fix="copy it again; to change a result, compute another",
        )
    return document


def _refuse(path: Path) -> ConfigError:
    return ConfigError(
        "is no result", field=str(path), fix="name a file that `DecodeResult.save` wrote"
    )
