"""The study's latest published result as this device has pulled it, and the key it is trusted by.

It stands beside the device's key, apart from the database: it says nothing about records.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sfumato.device_agent.store.disk import naming_file
from sfumato.shared.durable_files import replace_file
from sfumato.shared.errors import ConfigError
from sfumato.shared.structure import structure

RESULT_NAME = "result.json"
_LOCK_NAME = f"{RESULT_NAME}.lock"


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A pinned key, and the document that was pulled last.

    Parameters
    ----------
    public_key
        The server's result key that this device trusts, 32 bytes; None before it trusts one.
    document
        The signed bytes; None before the first pull.
    signed_by
        The key that signed them, which may have been replaced since.
    pulled_at
        Seconds since 1970-01-01 UTC.
    """

    public_key: bytes | None = None
    document: bytes | None = None
    signed_by: bytes | None = None
    pulled_at: float | None = None


def load_stored(folder: Path) -> StoredResult:
    """Load what was pulled; empty if the file is missing or damaged.

    Parameters
    ----------
    folder
        The study's folder of keys.

    Raises
    ------
    StoreError
        It cannot be read.
    """
    path = folder / RESULT_NAME
    with naming_file(path):
        try:
            return structure(
                StoredResult, json.loads(path.read_bytes()), complete=True, strict=False
            )
        except (FileNotFoundError, ValueError, ConfigError):
            return StoredResult()


def save_stored(folder: Path, stored: StoredResult) -> None:
    """Replace the file; call it inside :func:`locking_result`.

    Raises
    ------
    StoreError
        It cannot be written; the old file is unchanged.
    """
    path = folder / RESULT_NAME
    document = {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in vars(stored).items()
    }
    with naming_file(path):
        replace_file(path, json.dumps(document).encode())


@contextmanager
def locking_result(folder: Path) -> Iterator[None]:
    """Keep other processes from replacing the file, so that none goes back to an older result."""
    path = folder / _LOCK_NAME
    with naming_file(path):
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
